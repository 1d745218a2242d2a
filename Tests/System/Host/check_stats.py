#!/usr/bin/python3
"""Compares REFERENCE.md and MODELS.md with running sessions, the sources and gst-inspect-1.0.

Runs a session of each kind against a stand-in: on a direct connection, in a room, a viewer, with audio, with simulcast,
with timestamps=capture. Each attempt to connect has one message with its phases. The fields of `stats` and their types must be those of the section "Statistics" of
REFERENCE.md, in both directions over all kinds. A table describes the structures that its first column or its heading
names in backticks, else the flat fields. Then a session loses its connection twice and restarts through READY: no
counter may fall. The sessions run side by side.

Prints "ok NAME" or "not ok NAME: why". Uses loopback only.
"""

import concurrent.futures
import contextlib
import itertools
import os
import re
import sys
import tempfile
import time

from checks import PLUGIN, REPO, Problem, Results, gstreamer, measured, output_of, read, swift_sources, wait_until
from gst import GObject, Gst
from standin import StandIn

LIMIT = 90  # s, for every wait
SIZE = "width=320 height=176 framerate=20"
VIDEO = "videotestsrc name=source is-live=true ! video/x-raw,width=320,height=176,framerate=20/1"
AUDIO = "audiotestsrc is-live=true ! session. session.audio_src ! fakesink"
TYPES = {"guint64": "uint64", "gint64": "int64", "gdouble": "double", "gchararray": "string", "gboolean": "boolean",
         "gint": "int", "guint": "uint", "GstStructure": "structure"}
# Doubles that count.
DURATIONS = ("total-encode-time", "total-decode-time", "total-freezes-duration", "total-packet-send-delay",
             "total-generation-seconds")
# uint64 that is no counter.
VALUES = ("retries",)

report = Results("stats")


# --- The pages --------------------------------------------------------------------------------------------------------

def tables(page, section=None):
    """(heading, first column's title, cells) of each row of each table of a page, or of its section "## SECTION"."""
    heading, titles, inside = "", None, section is None
    for line in read(f"{REPO}/{page}").splitlines():
        if match := re.match(r"(#+) (.*)", line):
            heading = match[2]
            if section and match[1] == "##":
                inside = heading == section
        if not inside or not line.startswith("|"):
            titles = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if titles is None:
            titles = cells
        elif not re.fullmatch(r"[-|: ]+", line):
            yield heading, titles[0], cells


def in_backticks(text):
    return re.findall(r"`([^`]+)`", text)


def documented_fields():
    """{(structure, field): type}; the structure of a flat field is empty. A field's cell has its names, then its type."""
    fields, structures = {}, [""]
    for heading, title, cells in tables("docs/REFERENCE.md", "Statistics"):
        if title == "structure":
            # A row without a structure belongs to that of the row above; the first one is flat.
            structures = in_backticks(cells.pop(0)) or structures
        elif title == "field":
            structures = in_backticks(heading) or [""]
        else:
            continue
        for structure in structures:
            for field in in_backticks(cells[0]):
                if (structure, field) in fields:
                    raise Problem(f"REFERENCE.md has {structure}/{field} twice")
                fields[structure, field] = cells[0].rpartition("`")[2].strip()
    return fields


# --- The structure ----------------------------------------------------------------------------------------------------

def names_in(structure):
    return [structure.nth_field_name(index) for index in range(structure.n_fields())]


def flatten(structure, parent="", path=""):
    """Yields (structure, field, path, type, value) of each field."""
    for name in names_in(structure):
        value = structure.get_value(name)
        kind = structure.get_field_type(name)
        here = f"{path}/{name}" if path else name
        yield parent, name, here, TYPES.get(kind.name, kind.name), value
        if kind.is_a(GObject.type_from_name("GstStructure")):
            yield from flatten(value, name, here)


def counters(stats):
    """{path: value} of the counters that live as long as the element."""
    return {path: value for _, name, path, kind, value in flatten(stats) if not path.startswith("connections")
            and name not in VALUES and (kind == "uint64" or name in DURATIONS)}


# --- Sessions ---------------------------------------------------------------------------------------------------------

def alternate(source):
    """Lets frames that are small once encoded follow large ones, five of each."""
    count = itertools.count()

    def next_frame(_pad, _info):
        source.set_property("pattern", ("black", "snow")[next(count) // 5 % 2])
        return Gst.PadProbeReturn.OK
    source.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, next_frame)


class Session:
    def __init__(self, url, options="", more="", element=f"{VIDEO} ! decarttransform prompt=lego"):
        self.pipeline = Gst.parse_launch(
            f"{element} name=session base-url={url} api-key=x model=any {SIZE} {options} ! fakesink {more}")
        self.element = self.pipeline.get_by_name("session")

    def play(self):
        self.pipeline.set_state(Gst.State.PLAYING)

    def attempts(self):
        """What the messages `decart-attempt` that have not been read yet have in them."""
        found, bus = [], self.pipeline.get_bus()
        while message := bus.pop_filtered(Gst.MessageType.ELEMENT):
            structure = message.get_structure()
            if structure.get_name() == "decart-attempt":
                found.append({name: structure.get_value(name) for name in names_in(structure)})
        return found

    @property
    def stats(self):
        return self.element.get_property("stats")

    @property
    def state(self):
        return self.element.get_property("connection-state").value_nick

    def get(self, name):
        return self.stats.get_value(name)

    def wait(self, what, condition):
        wait_until(what, lambda: condition(self.stats), LIMIT)

    def close(self):
        self.pipeline.set_state(Gst.State.NULL)


def receives(stats):
    """Frames flow, and the first receiver reports have arrived, where there are any."""
    connections = stats.get_value("connections")
    reported = [connections.get_value(name).has_field("remote-inbound-rtp")
                and not connections.get_value(name).get_value("remote-inbound-rtp").has_field("round-trip-time")
                for name in names_in(connections)]
    return (stats.get_value("frames-received") >= 20 and names_in(connections) and not any(reported)
            and stats.get_value("time-in-state").get_value("generating") > 0)


OLDER = "a room of an older server"
# As Decart's SDK for JavaScript sends them. A frame's size is known by its time then.
TIMES = "timestamps=capture, trailers with the time alone"

KINDS = {
    # kind: options, further elements, connections, condition for a complete structure
    "direct": ("transport=webrtc", "", {"direct"}, lambda stats: True),
    "room": ("transport=livekit", "", {"room"}, lambda stats: True),
    "audio": ("transport=webrtc", AUDIO, {"direct"}, lambda stats: stats.get_value("audio-buffers-received") > 20),
    "audio in a room": ("transport=livekit", AUDIO, {"room"},
                        lambda stats: stats.get_value("audio-buffers-received") > 20),
    "simulcast": ("transport=livekit simulcast=true width=640 height=352", "", {"room"},
                  lambda stats: " " in stats.get_value("track-layers")),
    "timestamps=capture": ("timestamps=capture", "", {"room"},
                           lambda stats: stats.get_value("glass-to-glass-p90") > 0),
    TIMES: ("timestamps=capture", "", {"room"},
            lambda stats: stats.get_value("glass-to-glass-p90") > 0 and stats.get_value("ingest-hold") >= 0),
    OLDER: ("transport=livekit", AUDIO, {"publisher", "subscriber"},
            lambda stats: stats.get_value("audio-buffers-received") > 20),
}


class Comparison:
    """The fields that the sessions had, beside those of REFERENCE.md."""

    def __init__(self):
        self.manual = documented_fields()
        self.flat = {field for structure, field in self.manual if not structure}
        self.seen = set()

    def add(self, kind, stats, connections):
        problems = []
        for structure, field, path, type_name, _ in flatten(stats):
            self.seen.add((structure, field))
            documented = self.manual.get((structure, field))
            if documented is None:
                problems.append(f"{path} is not in REFERENCE.md")
            elif documented != type_name:
                problems.append(f"{path} is {type_name}, {documented} in REFERENCE.md")
        problems += [f"{field} is absent" for field in sorted(self.flat - set(names_in(stats)))]
        if (names := set(names_in(stats.get_value("connections")))) != connections:
            problems.append(f"connections {sorted(names)}, not {sorted(connections)}")
        causes = stats.get_value("frames-dropped-by-cause")
        if stats.get_value("frames-dropped") != sum(causes.get_value(name) for name in names_in(causes)):
            problems.append("frames-dropped is not the sum of its causes")
        report(f"{kind}: fields and types", problems)

    def finish(self):
        report("no field of REFERENCE.md is missing in all sessions",
               [f"{structure}/{field}" for structure, field in sorted(self.manual.keys() - self.seen)])


def compare_kinds(standin, others):
    comparison = Comparison()
    # Four at a time: they wait for real time more than they compute.
    kinds = list(KINDS.items())
    for index in range(0, len(kinds), 4):
        group = [(kind, Session(others.get(kind, standin).url, options, more), connections, condition)
                for kind, (options, more, connections, condition) in kinds[index:index + 4]]
        try:
            if index == 0:
                comparison.add("before the start", group[0][1].stats, set())
            for kind, session, _, _ in group:
                if kind == TIMES:
                    alternate(session.pipeline.get_by_name("source"))
                session.play()
            for kind, session, connections, condition in group:
                try:
                    session.wait("a complete structure", lambda stats, done=condition: receives(stats) and done(stats))
                except Problem as problem:
                    report(f"{kind}: runs", problem)
                comparison.add(kind, session.stats, connections)
                if kind == "room":
                    watch(standin, session, comparison)
        finally:
            for _, session, _, _ in group:
                session.close()
    comparison.finish()


def watch(standin, publisher, comparison):
    viewer = Session(standin.url, "fallback=none", element="decartsrc")
    viewer.element.set_property("subscribe-token", publisher.element.get_property("subscribe-token"))
    try:
        viewer.play()
        viewer.wait("a viewer's frames", lambda stats: stats.get_value("frames-received") >= 20)
        comparison.add("viewer", viewer.stats, {"room"})
        stats = viewer.stats
        known = [field for field in ("encoder", "track-sid", "last-reconnect-reason") if stats.get_value(field) is not None]
        known += [field for field in ("fraction-lost", "remote-packets-lost", "round-trip-time", "connect-ack-time",
                                      "connect-open-time") if stats.get_value(field) != -1]
        report("viewer: the values that a viewer has not are unknown", known)
    except Problem as problem:
        report("viewer: runs", problem)
    finally:
        viewer.close()


# --- A long life ------------------------------------------------------------------------------------------------------

class Life:
    """Readings of one session, none of whose counters may fall."""

    def __init__(self, session):
        self.session = session
        self.last = {}
        self.problems = []
        self.read()

    def read(self):
        now = time.monotonic_ns()
        stats = self.session.stats
        current = counters(stats)
        for path, value in current.items():
            if value < self.last.get(path, 0):
                self.problems.append(f"{path} falls from {self.last[path]} to {value}")
        if missing := self.last.keys() - current.keys():
            self.problems.append(f"{sorted(missing)} disappear")
        causes = sum(value for path, value in current.items() if path.startswith("frames-dropped-by-cause/"))
        if causes != current["frames-dropped"]:
            self.problems.append(f"frames-dropped={current['frames-dropped']}, its causes {causes}")
        self.last = current
        return now, sum(value for path, value in current.items() if path.startswith("time-in-state/")), stats

    def follow(self, what, condition):
        wait_until(what, lambda: condition(self.read()[2]), LIMIT)


def live_long(standin, transport):
    with contextlib.closing(Session(standin.url, f"transport={transport}")) as session:
        life = Life(session)
        begun, first, _ = life.read()
        session.play()
        counts = []
        for reconnects in range(3):
            before = life.last["frames-received"]
            life.follow("a session", lambda stats: stats.get_value("frames-received") > before + 10
                        and session.state == "generating")
            counts.append(session.get("reconnects"))
            if reconnects < 2:
                standin.request("POST", "/control/drop")
                life.follow("the loss", lambda stats: stats.get_value("reconnects") > reconnects)
        report(f"{transport}: reconnects counts them", "" if counts == [0, 1, 2] else counts)
        # The stand-in resets the control channel's connection.
        reason, state = session.get("last-reconnect-reason"), session.element.get_property("connection-state").value_nick
        report(f"{transport}: last-reconnect-reason is the error's code",
               "" if (reason, state) == ("NETWORK_ERROR", "generating") else f"{reason} in state {state}")
        codes = [session.get(f"last-{kind}-code") for kind in ("warning", "error")]
        report(f"{transport}: the loss was a warning with this code, and no error", "" if codes == [reason, None] else codes)
        before = dict(life.last)
        session.pipeline.set_state(Gst.State.READY)
        life.read()
        session.play()
        life.follow("a session after READY", lambda stats: stats.get_value("frames-received")
                    > before["frames-received"] + 10 and session.state == "generating")

        def stuck():
            return [name for name in ("frames-in", "frames-sent", "frames-out", "frames-encoded", "frames-decoded", "packets-sent",
                                      "bytes-sent", "packets-received", "bytes-received") if life.last[name] <= before[name]]
        try:
            life.follow("a rise of all counters", lambda stats: not stuck())
        except Problem:
            pass
        report(f"{transport}: counters continue after a restart", stuck())
        kept = (session.get("reconnects"), session.get("last-reconnect-reason"))
        report(f"{transport}: a restart is no reconnect", "" if kept == (2, "NETWORK_ERROR") else kept)
        ended, last, _ = life.read()
        drift = abs((last - first) - (ended - begun)) / 1e6
        measured(f"stats: {transport}: the sum of time-in-state beside the clock", drift, "ms", at_most=100)
        report(f"{transport}: no counter falls over 2 reconnects and a restart", life.problems[:5])
        compare_attempts(transport, session.attempts())


def compare_attempts(transport, attempts):
    """Two reconnects and a restart are four attempts, each of which connects."""
    documented = {name for heading, _, cells in tables("docs/REFERENCE.md") if heading == "decart-attempt"
                  for name in in_backticks(cells[0])}
    problems = [] if len(attempts) == 4 else [f"{len(attempts)} messages"]
    for attempt in attempts:
        differing = documented ^ set(attempt)
        total, *parts = (attempt[f"{name}-time"] for name in ("total", "channel", "media", "open", "upgrade", "ack", "ice", "dtls"))
        if differing or not attempt["success"] or attempt["error-code"] or attempt["transport"] != transport or not all(
                0 < part <= total for part in parts) or (attempt["room-time"] > 0) != (transport == "livekit"):
            problems.append(f"{sorted(differing)} {attempt}")
    report(f"{transport}: each attempt has its phases in one message", problems)


# --- The other pages --------------------------------------------------------------------------------------------------

def compare(name, documented, actual):
    report(name, [f"{each} is not in the page" for each in sorted(actual - documented)]
           + [f"{each} does not exist" for each in sorted(documented - actual)]
           + ([] if len(actual) > 5 else ["nothing found in the sources"]))


def check_errors():
    codes = set(re.findall(r'^    case \w+ = "([A-Z_]{4,})"', read(f"{REPO}/Sources/DecartProtocol/Text/ProtocolError.swift"), re.M))
    source = read(f"{REPO}/Sources/DecartSession/Interfaces/SessionError.swift")
    cases = re.search(r"enum Stage\b.*?\n((?:\s*case .*\n)+)", source)[1]
    stages = set(re.findall(r"\w+", cases)) - {"case"}
    rows = list(tables("docs/REFERENCE.md", "Errors"))
    code_rows = [cells for heading, title, cells in rows if heading == "Codes" and title == "code"]
    compare("REFERENCE.md has every code", {code for cells in code_rows for code in in_backticks(cells[0])}, codes)
    compare("REFERENCE.md has every stage", {stage for _, title, cells in rows if title == "stage"
                                          for stage in in_backticks(cells[0])}, stages)
    used = {stage for cells in code_rows for stage in in_backticks(cells[1])}
    report("REFERENCE.md has codes for every stage, and no other stages", sorted(used ^ stages))
    report("REFERENCE.md says for every row whether it is retried, and a message and a remedy",
           [f"row {cells}" for cells in code_rows
            if len(cells) != 5 or cells[2] not in ("yes", "no", "–") or not all(cells[3:])])
    report("REFERENCE.md quotes the messages of the sources", list(unknown_messages(code_rows)))


def without_interpolations(text):
    """The text with "…" for each interpolation of Swift."""
    parts = text.split("\\(")
    result = parts[0]
    depth = 0
    for part in parts[1:]:
        depth += 1
        for index, letter in enumerate(part):
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if depth == 0:
                result += "…" + part[index + 1:]
                break
    return result


def literals():
    """The string literals of the sources. Those that "+" joins are one."""
    text = "".join(swift_sources("Sources", "Tools"))
    text = re.sub(r'"\s*\+ "', "", re.sub(r"^\s*//.*$", "", text, flags=re.M))
    # The two ways in which a generation ends.
    deeds = [line for line in text.splitlines() if r"\(deed)" in line]
    for deed in ("ended the generation", "ended the generation and closed the session"):
        text += "\n".join(deeds).replace(r"\(deed)", deed)
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', without_interpolations(text))


# The sources put these in front of a text.
PREFIXES = ("base-url ", "No API key from api-key-url: ", "api-key-headers ", "ca-file ", "The HTTP proxy … ")


def unknown_messages(rows):
    """The quoted messages that are no beginning of a literal in the sources."""
    known = [literal[:1].upper() + literal[1:] for literal in literals()]
    for cells in rows:
        for message in re.findall(r'"([^"]+)"', cells[3]):
            rest = next((message.removeprefix(prefix) for prefix in PREFIXES if message.startswith(prefix)), message)
            wanted = [message, rest[:1].upper() + rest[1:], f"… {rest}"]
            patterns = [".*".join(map(re.escape, text.rstrip(".").split("…"))) for text in wanted]
            if not any(re.match("|".join(patterns), literal) for literal in known):
                yield f"'{message}'"


def check_models():
    source = read(f"{REPO}/Sources/DecartProtocol/Models/DecartModel.swift")
    table = source[source.index("private static let table"):]
    coded = set(re.findall(r'^            "([^"]+)":', table, re.M))
    blurb = re.search(r"^  model +: (.*), or a custom", output_of("gst-inspect-1.0", "--no-colors", "decarttransform"), re.M)[1]
    rows = [cells for _, title, cells in tables("docs/MODELS.md") if title == "model"]
    # The rows of retired models have fewer columns.
    current, retired = ({model for cells in rows if len(cells) == columns for model in in_backticks(cells[0])}
                        for columns in (5, 4))
    compare("MODELS.md has every model of the sources", current | retired, coded)
    compare("MODELS.md has every model of gst-inspect-1.0", current, set(blurb.split(", ")))


def main():
    report.require(PLUGIN)
    with tempfile.TemporaryDirectory(prefix="decart-stats-") as folder:
        os.environ.update(gstreamer(folder))
        Gst.init(None)
        check_errors()
        check_models()
        # `drop` ends all sessions of a stand-in.
        with (StandIn() as kinds, StandIn("--no-single-connection") as older, StandIn("--time-trailers") as times,
              StandIn() as direct, StandIn() as room, concurrent.futures.ThreadPoolExecutor() as pool):
            list(pool.map(lambda part: report.perform(*part), [
                ("the kinds of sessions", compare_kinds, kinds, {OLDER: older, TIMES: times}), ("webrtc: reconnects", live_long, direct, "webrtc"),
                ("livekit: reconnects", live_long, room, "livekit")]))
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
