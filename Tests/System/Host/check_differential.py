#!/usr/bin/python3
"""Performs one operation of a host after the other on decarttransform and on GStreamer's own elements in its place, and compares
what comes of it: what calls return, which events pass, and whether frames go on, the stream ends or an error is posted.

    check_differential.py [WORD...]

Without words: a part of the rows, and all of them under scripts/verify. With words: the rows whose names contain one. Each
difference stands in REASONS, or it is a failure, as is a reason without a difference. The rows of `sink` and `src` need no
service: without a session, the element shows its input (fallback=passthrough). Those of `audio_src`, the preview and encoded
output compare a branch that ends in a sink of the row, with a stand-in.
"""

import concurrent.futures
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import threading

from checks import PLUGIN, STANDIN, VERIFYING, Problem, Results, gstreamer, wait_until
from standin import running_standin

ELEMENTS = {
    "ours": "decarttransform auto-connect=false fallback=passthrough width=320 height=176 framerate=25 api-key=x",
    "reference": "queue ! videoconvert ! queue",
}
CAPS = "video/x-raw,format=I420,width=320,height=176,framerate=25/1,pixel-aspect-ratio=1/1,interlace-mode=progressive"
DIGITS = 48
LIMIT = 40  # s for a row, on any machine; half of it for a wait
KEPT = "it concerns the input's timeline, and the output has one of its own"
LIVE = "a live stream cannot seek"
AGAIN = "a branch that was flushed or restarted gets frames again"
NO_SESSION = "no encoder would make the keyframe, as there is no session"
# Where the element differs: what comes of the row, and why.
REASONS = {
    "event stream start": ([True, False, "frames"], KEPT),
    "event segment": ([True, False, "frames"], KEPT),
    "event gap": ([True, False, "frames"], KEPT),
    "event instant rate change": ([True, False, "frames"], KEPT),
    "event keyframe request": ([True, False, "frames"], NO_SESSION),
    "event keyframe request upstream": ([False, False, "frames"], NO_SESSION),
    "event qos": ([True, False, "frames"], KEPT),
    "event latency": ([True, False, "frames"], KEPT),
    "event reconfigure": ([True, False, "frames"], "the element negotiates with downstream itself"),
    **{f"event seek {flags}": ([False, False, "frames"], LIVE)
       for flags in ("NONE", "FLUSH", "SEGMENT", "SKIP", "KEY_UNIT", "ACCURATE", "TRICKMODE")},
    "query seeking of downstream": ([True, False, "frames"], LIVE),
    "query latency of upstream": ([False, "frames"], "downstream has no part in the input's latency"),
    "query scheduling of downstream": ([False, "frames"], "the pad cannot be pulled from, which is the default"),
    "query allocation of upstream": ([True, "frames"], "the element takes frames of any strides, whatever downstream takes"),
    "flow FLUSHING of downstream": (["frames"], AGAIN),
    "audio: flow FLUSHING of downstream": (["frames", "main"], AGAIN),
    **{f"audio: event {name}": ([True, "frames", "main"], "audiotestsrc takes no events, and here the input of `sink` may")
       for name in ("navigation", "custom upstream")},
    "audio: event seek FLUSH": ([False, "frames", "main"], LIVE),
    "audio: query seeking of downstream": ([True, False, "frames", "main"], LIVE),
    "audio: query duration of downstream": ([False, "frames", "main"], LIVE),
    **{f"preview: flow {flow} of downstream": (["frames", "main"], "a consumer of the preview can neither stop nor end the camera")
       for flow in ("EOS", "FLUSHING", "NOT_NEGOTIATED", "ERROR")},
}
# Rows in which GStreamer's own elements stand still.
STANDS = {name for name in REASONS if "flow FLUSHING" in name}
ROWS = {}


def row(name, *arguments):
    """Registers a function of a `Stage` as a row, with the further arguments that it gets."""
    def add(function):
        ROWS[name] = (function, arguments)
        return function
    return add


class Stage:
    """A pipeline with an element between a source and a sink that returns what a row wants."""
    latest = None

    def __init__(self, middle, caps=CAPS, feeds=True):
        self.pipeline, self.feeder, self.catcher = Gst.Pipeline(), Feeder(caps, feeds), Catcher()
        self.middle = (Gst.parse_launch if "!" not in middle else lambda text: Gst.parse_bin_from_description(text, True))(middle)
        for element in (self.feeder, self.middle, self.catcher):
            self.pipeline.add(element)
        self.sink, self.source = self.middle.get_static_pad("sink"), self.middle.get_static_pad("src")
        self.before, self.behind = self.feeder.pad, self.catcher.pad
        self.errors = 0
        Stage.latest = self

    def play(self):
        """Returns once a frame has gone through."""
        self.feeder.link(self.middle)
        self.middle.link(self.catcher)
        self.pipeline.set_state(Gst.State.PLAYING)
        if (what := self.outcome()) != "frames":
            raise Problem(f"it begins with {what}")
        return self

    def look(self):
        while message := self.pipeline.get_bus().pop():
            self.errors += message.type == Gst.MessageType.ERROR

    def outcome(self):
        """What comes first: a frame that is made after this call, EOS, or an ERROR."""
        first = self.feeder.count

        def found():
            self.look()
            if self.errors:
                return "error"
            if self.catcher.ended:
                return "eos"
            return "frames" if self.catcher.newest > first else ""
        return wait_until("a frame, EOS or an ERROR", found, LIMIT / 2)

    def passes(self, event, push, pad):
        """What a push of the event returns, and whether it arrives at the pad in front of a marker that follows it."""
        number, seen = event.get_seqnum(), set()
        done = threading.Event()

        def probe(_pad, info):
            passing = info.get_event()
            seen.add(passing.get_seqnum())
            structure = passing.get_structure()
            if structure and structure.get_name() == "marker":
                done.set()
            return Gst.PadProbeReturn.OK
        kinds = Gst.PadProbeType.EVENT_DOWNSTREAM | Gst.PadProbeType.EVENT_UPSTREAM | Gst.PadProbeType.EVENT_FLUSH
        identity = pad.add_probe(kinds, probe)
        taken = push(event)
        if pad is self.behind:
            self.before.push_event(Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM, Gst.Structure.new_empty("marker")))
            if not done.wait(LIMIT / 2):
                raise Problem("no event passes any more")
        pad.remove_probe(identity)
        return bool(taken), number in seen

    def end(self):
        self.feeder.stop()
        self.pipeline.set_state(Gst.State.NULL)


def stage(element, **more):
    return Stage(ELEMENTS[element], **more).play()


# --- Events -------------------------------------------------------------------------------------------------------------

def custom(kind):
    return lambda: Gst.Event.new_custom(getattr(Gst.EventType, kind), Gst.Structure.new_empty("application/x-row"))


def segment(**fields):
    made = Gst.Segment()
    made.init(Gst.Format.TIME)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def tags():
    made = Gst.TagList.new_empty()
    made.add_value(Gst.TagMergeMode.REPLACE, "title", "row")
    return made


DOWN = {
    "stream start": lambda: Gst.Event.new_stream_start("row"),
    "caps": lambda: Gst.Event.new_caps(Gst.Caps.from_string(CAPS)),
    "segment": lambda: Gst.Event.new_segment(segment()),
    "tag": lambda: Gst.Event.new_tag(tags()),
    "toc": lambda: Gst.Event.new_toc(Gst.Toc.new(Gst.TocScope.GLOBAL), False),
    "stream collection": lambda: Gst.Event.new_stream_collection(Gst.StreamCollection.new("row")),
    "stream group done": lambda: Gst.Event.new_stream_group_done(1),
    "segment done": lambda: Gst.Event.new_segment_done(Gst.Format.TIME, 0),
    "sink message": lambda: Gst.Event.new_sink_message("row", Gst.Message.new_application(None, Gst.Structure.new_empty("row"))),
    "gap": lambda: Gst.Event.new_gap(0, Gst.SECOND // 25),
    "keyframe request": lambda: GstVideo.video_event_new_downstream_force_key_unit(0, 0, 0, True, 1),
    "instant rate change": lambda: Gst.Event.new_instant_rate_change(1, Gst.SegmentFlags.NONE),
    **{f"custom {kind.lower()}": custom(f"CUSTOM_{kind}") for kind in (
        "DOWNSTREAM", "DOWNSTREAM_STICKY", "DOWNSTREAM_OOB", "BOTH", "BOTH_OOB")},
}
UP = {
    "navigation": lambda: Gst.Event.new_navigation(Gst.Structure.new_empty("row")),
    "custom upstream": custom("CUSTOM_UPSTREAM"),
    "custom both upstream": custom("CUSTOM_BOTH"),
    "custom both oob upstream": custom("CUSTOM_BOTH_OOB"),
    "toc select": lambda: Gst.Event.new_toc_select("row"),
    "qos": lambda: Gst.Event.new_qos(Gst.QOSType.UNDERFLOW, 0.5, 0, 0),
    "latency": lambda: Gst.Event.new_latency(0),
    "reconfigure": lambda: Gst.Event.new_reconfigure(),
    "keyframe request upstream": lambda: GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 1),
    **{f"seek {flags}": lambda flags=flags: Gst.Event.new_seek(
        1, Gst.Format.TIME, getattr(Gst.SeekFlags, flags), Gst.SeekType.SET, 0, Gst.SeekType.NONE, 0)
       for flags in ("NONE", "FLUSH", "SEGMENT", "SKIP", "KEY_UNIT", "ACCURATE", "TRICKMODE")},
}


def event_downstream(element, make):
    host = stage(element)
    found = host.passes(make(), host.before.push_event, host.behind)
    return [*found, host.outcome()]


def event_upstream(element, make):
    host = stage(element)
    found = host.passes(make(), host.behind.push_event, host.before)
    return [*found, host.outcome()]


for name, make in DOWN.items():
    row(f"event {name}", make)(event_downstream)
for name, make in UP.items():
    row(f"event {name}", make)(event_upstream)


@row("EOS")
def end_of_stream(element):
    host = stage(element)
    taken = host.feeder.push_eos()
    return [taken, host.outcome()]


@row("another stream behind EOS")
def stream_behind_end(element):
    host = stage(element)
    host.feeder.push_eos()
    host.outcome()
    host.catcher.ended = False
    host.feeder.begin("another")
    return [host.outcome()]


for name, resets in (("flush", True), ("flush that keeps the time", False)):
    @row(name, resets)
    def flush(element, resets):
        host = stage(element)
        started = host.before.push_event(Gst.Event.new_flush_start())
        stopped = host.before.push_event(Gst.Event.new_flush_stop(resets))
        host.feeder.segment(segment())
        return [started, stopped, host.outcome()]

for name, fields in (("rate 2", {"rate": 2.0}), ("base", {"base": 3 * 10 ** 9}),
                     ("start", {"start": 10 ** 10, "position": 10 ** 10}), ("offset", {"offset": 10 ** 9})):
    @row(f"segment with {name}", fields)
    def other_segment(element, fields):
        host = stage(element)
        host.feeder.segment(segment(**fields), fields.get("start", 0))
        return [host.outcome()]


# --- Queries ------------------------------------------------------------------------------------------------------------

QUERIES = {
    "position": lambda: Gst.Query.new_position(Gst.Format.TIME),
    "position in bytes": lambda: Gst.Query.new_position(Gst.Format.BYTES),
    "duration": lambda: Gst.Query.new_duration(Gst.Format.TIME),
    "seeking": lambda: Gst.Query.new_seeking(Gst.Format.TIME),
    "latency": lambda: Gst.Query.new_latency(),
    "formats": lambda: Gst.Query.new_formats(),
    "uri": lambda: Gst.Query.new_uri(),
    "segment": lambda: Gst.Query.new_segment(Gst.Format.TIME),
    "convert": lambda: Gst.Query.new_convert(Gst.Format.TIME, 0, Gst.Format.BYTES),
    "scheduling": lambda: Gst.Query.new_scheduling(),
    "context": lambda: Gst.Query.new_context("row"),
    "caps": lambda: Gst.Query.new_caps(None),
    "accept caps": lambda: Gst.Query.new_accept_caps(Gst.Caps.from_string(CAPS)),
    "accept audio": lambda: Gst.Query.new_accept_caps(Gst.Caps.from_string("audio/x-raw")),
    "custom": lambda: Gst.Query.new_custom(Gst.QueryType.CUSTOM, Gst.Structure.new_empty("row")),
}


def answer(query, answered):
    if not answered:
        return [False]
    if query.type == Gst.QueryType.ACCEPT_CAPS:
        return [True, query.parse_accept_caps_result()]
    if query.type == Gst.QueryType.CAPS:
        return [True, query.parse_caps_result().can_intersect(Gst.Caps.from_string(CAPS))]
    if query.type == Gst.QueryType.SEEKING:
        return [True, query.parse_seeking()[1]]
    return [True]


def query_from(side):
    def ask(element, make):
        host = stage(element)
        query = make()
        pad = host.behind if side == "downstream" else host.before
        return [*answer(query, pad.peer_query(query)), host.outcome()]
    return ask


for name, make in QUERIES.items():
    row(f"query {name} of downstream", make)(query_from("downstream"))
    if name not in ("uri", "scheduling"):
        row(f"query {name} of upstream", make)(query_from("upstream"))
row("query allocation of upstream", lambda: Gst.Query.new_allocation(Gst.Caps.from_string(CAPS), True))(query_from("upstream"))


# --- Flow returns, links and states -------------------------------------------------------------------------------------

for flow in ("OK", "EOS", "FLUSHING", "NOT_LINKED", "NOT_NEGOTIATED", "ERROR"):
    @row(f"flow {flow} of downstream", flow)
    def flow_return(element, flow):
        host = stage(element)
        host.catcher.give(getattr(Gst.FlowReturn, flow), 3)
        return [host.outcome()]


@row("downstream is unlinked and linked again under a block")
def relinked(element):
    host = stage(element)
    blocked, found = threading.Event(), []

    def on_block(_pad, _info):
        if not blocked.is_set():
            host.source.unlink(host.behind)
            found.append(host.source.link(host.behind) == Gst.PadLinkReturn.OK)
            blocked.set()
        return Gst.PadProbeReturn.REMOVE
    host.source.add_probe(Gst.PadProbeType.BLOCK_DOWNSTREAM, on_block)
    if not blocked.wait(LIMIT / 2):
        raise Problem("the pad does not block")
    return [*found, host.outcome()]


@row("upstream is unlinked and linked again")
def upstream_relinked(element):
    host = stage(element)
    host.feeder.hold()
    host.before.unlink(host.sink)
    linked = host.before.link(host.sink) == Gst.PadLinkReturn.OK
    host.feeder.begin("another")
    return [linked, host.outcome()]


@row("linked while it plays")
def linked_late(element):
    host = Stage(ELEMENTS[element], feeds=False)
    host.pipeline.set_state(Gst.State.PLAYING)
    found = [host.middle.link(host.catcher), host.feeder.link(host.middle)]
    host.feeder.begin("row")
    return [*found, host.outcome()]


@row("linked from the sink to the source")
def linked_backwards(element):
    host = Stage(ELEMENTS[element])
    found = [host.middle.link(host.catcher), host.feeder.link(host.middle)]
    host.pipeline.set_state(Gst.State.PLAYING)
    return [*found, host.outcome()]


@row("added to a pipeline that plays")
def added_late(element):
    host = Stage(ELEMENTS[element], feeds=False)
    host.pipeline.remove(host.middle)
    host.pipeline.set_state(Gst.State.PLAYING)
    host.pipeline.add(host.middle)
    found = [host.middle.link(host.catcher), host.middle.sync_state_with_parent(), host.feeder.link(host.middle)]
    host.feeder.begin("row")
    return [*found, host.outcome()]


STATES = ("NULL", "READY", "PAUSED", "PLAYING")


def change_states(element, of, states):
    host = stage(element)
    target = host.pipeline if of == "pipeline" else host.middle
    changed = [target.set_state(getattr(Gst.State, name)) != Gst.StateChangeReturn.FAILURE for name in states]
    changed.append(target.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE)
    host.feeder.begin("row")
    return [*changed, host.outcome()]


for subject in ("pipeline", "element"):
    for first in STATES[:3]:
        row(f"{subject} {first}, PLAYING", subject, (first,))(change_states)
        for second in STATES:
            if second not in (first, "PLAYING"):
                row(f"{subject} {first}, {second}, PLAYING", subject, (first, second))(change_states)


@row("another clock")
def other_clock(element):
    host = stage(element)
    host.pipeline.set_state(Gst.State.PAUSED)
    host.pipeline.use_clock(Gst.SystemClock(name="row", clock_type=Gst.ClockType.REALTIME))
    host.pipeline.set_state(Gst.State.PLAYING)
    return [host.outcome()]


@row("another base time")
def other_base_time(element):
    host = stage(element)
    host.pipeline.set_state(Gst.State.PAUSED)
    host.pipeline.set_start_time(Gst.CLOCK_TIME_NONE)
    host.pipeline.set_base_time(host.pipeline.get_pipeline_clock().get_time() - 3600 * Gst.SECOND)
    host.pipeline.set_state(Gst.State.PLAYING)
    return [host.outcome()]


# --- Caps, buffers and metas --------------------------------------------------------------------------------------------

@row("a buffer without caps")
def no_caps(element):
    host = Stage(ELEMENTS[element], caps=None)
    host.feeder.link(host.middle)
    host.middle.link(host.catcher)
    host.pipeline.set_state(Gst.State.PLAYING)
    return [host.outcome()]


for name, more in (
        ("no framerate", "video/x-raw,format=I420,width=320,height=176"), ("framerate 0/1", CAPS.replace("25/1", "0/1")),
        ("pixel aspect ratio", CAPS.replace("ratio=1/1", "ratio=1/1,multiview-mode=mono")),
        ("colorimetry", f"{CAPS},colorimetry=bt601"), ("chroma-site", f"{CAPS},chroma-site=mpeg2"),
        ("unknown field", f"{CAPS},row=1"), ("max-framerate", CAPS.replace("25/1", "0/1,max-framerate=25/1")),
        ("interlace-mode mixed", CAPS.replace("progressive", "mixed"))):
    @row(f"caps with {name}", more)
    def caps_field(element, more):
        host = stage(element, caps=more)
        return [host.outcome()]


def add_meta(kind):
    def add(buffer):
        if kind == "video":
            GstVideo.buffer_add_video_meta_full(
                buffer, 0, GstVideo.VideoFormat.I420, 320, 176, 3, [0, 320 * 176, 320 * 176 * 5 // 4, 0], [320, 160, 160, 0])
        elif kind == "region":
            GstVideo.buffer_add_video_region_of_interest_meta(buffer, "row", 0, 0, 10, 10)
        elif kind == "reference time":
            buffer.add_reference_timestamp_meta(Gst.Caps.from_string("timestamp/x-unix"), 0, Gst.CLOCK_TIME_NONE)
        elif kind == "bars":
            GstVideo.buffer_add_video_bar_meta(buffer, 0, True, 0, 0)
        else:
            for flag in (Gst.BufferFlags.DISCONT, Gst.BufferFlags.HEADER, Gst.BufferFlags.CORRUPTED, Gst.BufferFlags.MARKER):
                buffer.set_flags(flag)
    return add


for name in ("video", "region", "reference time", "bars", "flags of all kinds"):
    @row(f"buffers with {name}", name)
    def with_meta(element, name):
        host = stage(element)
        host.feeder.change(add_meta(name))
        return [host.outcome()]

for name in ("no PTS", "a PTS that stands", "a PTS that goes back"):
    @row(f"buffers with {name}", name)
    def odd_stamps(element, name):
        host = stage(element)
        times = {"no PTS": lambda time, _: Gst.CLOCK_TIME_NONE, "a PTS that stands": lambda _, first: first,
                 "a PTS that goes back": lambda time, first: max(0, 2 * first - time)}[name]
        host.feeder.stamp(times)
        return [host.outcome()]


# --- audio_src and the preview ------------------------------------------------------------------------------------------

VIDEO = "videotestsrc is-live=true ! video/x-raw,format=I420,width=320,height=176,framerate=25/1"
SESSION = "api-key=x prompt=lego width=320 height=176 framerate=25"
BRANCHES = {
    ("audio", "ours"): f"{VIDEO} ! decarttransform name=e {SESSION} ! fakesink name=main "
                       "audiotestsrc name=a is-live=true ! e.audio_sink",
    ("audio", "reference"): f"{VIDEO} ! fakesink name=main "
                            "audiotestsrc name=a is-live=true ! queue ! audioconvert ! queue name=e",
    ("preview", "ours"): f"decartsrc name=e source=test auto-connect=false {SESSION} ! fakesink name=main",
    ("preview", "reference"): f"{VIDEO} ! tee name=t ! queue ! fakesink name=main t. ! queue name=e leaky=downstream",
}


class Branch:
    """A pipeline of which one branch ends in a sink that returns what a row wants, and another one in `main`."""
    passes = Stage.passes

    def __init__(self, kind, element):
        Stage.latest = self
        self.pipeline, self.counter, self.passed, self.errors = Gst.parse_launch(BRANCHES[kind, element]), Counter(), 0, 0
        self.pipeline.add(self.counter)
        self.behind, middle = self.counter.pad, self.pipeline.get_by_name("e")
        if kind == "audio":
            self.before = self.pipeline.get_by_name("a").get_static_pad("src")
        self.source = None
        if (kind, element) == ("audio", "ours"):
            middle.connect("pad-added", lambda _, pad: self.link(pad))
        else:
            self.link(middle.request_pad_simple("preview") if element == "ours" else middle.get_static_pad("src"))

        def count(_buffer):
            self.passed += 1
        on_buffer(self.pipeline.get_by_name("main").get_static_pad("sink"), count)
        self.pipeline.set_state(Gst.State.PLAYING)
        if (what := self.outcome()) != ["frames", "main"]:
            raise Problem(f"it begins with {what}")

    def link(self, pad):
        self.source = pad
        pad.link(self.behind)

    def outcome(self):
        """What comes first in the branch, and whether the main one goes on."""
        first, passed = self.counter.count, self.passed

        def found():
            while message := self.pipeline.get_bus().pop():
                self.errors += message.type == Gst.MessageType.ERROR
            if self.errors:
                return ["error"]
            branch = "eos" if self.counter.ended else "frames" if self.counter.count > first + 1 else ""
            return branch and self.passed > passed + 1 and [branch, "main"]
        return wait_until("buffers, EOS or an ERROR", found, LIMIT / 2)

    def end(self):
        self.pipeline.set_state(Gst.State.NULL)


def branch_flow(element, kind, flow):
    host = Branch(kind, element)
    host.counter.give(getattr(Gst.FlowReturn, flow), 3)
    return host.outcome()


def branch_event(element, kind, make):
    host = Branch(kind, element)
    return [host.behind.push_event(make()), *host.outcome()]


def branch_input_event(element, kind, make):
    host = Branch(kind, element)
    return [*host.passes(make(), host.before.push_event, host.behind), *host.outcome()]


def branch_query(element, kind, make):
    host = Branch(kind, element)
    query = make()
    return [*answer(query, host.behind.peer_query(query)), *host.outcome()]


def branch_relinked(element, kind):
    host = Branch(kind, element)
    host.source.unlink(host.behind)
    return [host.source.link(host.behind) == Gst.PadLinkReturn.OK, *host.outcome()]


for kind in ("audio", "preview"):
    for flow in ("OK", "EOS", "FLUSHING", "NOT_NEGOTIATED", "ERROR"):
        row(f"{kind}: flow {flow} of downstream", kind, flow)(branch_flow)
    for name in ("navigation", "custom upstream", "qos", "latency", "reconfigure", "seek FLUSH"):
        row(f"{kind}: event {name}", kind, UP[name])(branch_event)
    for name in ("latency", "seeking", "position", "duration", "caps"):
        row(f"{kind}: query {name} of downstream", kind, QUERIES[name])(branch_query)
    row(f"{kind}: downstream is unlinked and linked again", kind)(branch_relinked)
for name, make in DOWN.items():
    if name.split()[-1] not in ("start", "caps", "segment", "gap", "request", "change"):
        row(f"audio: input event {name}", "audio", make)(branch_input_event)


# --- Encoded output in containers ---------------------------------------------------------------------------------------

class Film:
    """A recording of H.264 that ends by EOS."""

    def __init__(self, element, muxer, path):
        Stage.latest = self
        middle = f"decarttransform {SESSION} codec=h264" if element == "ours" else "x264enc tune=zerolatency key-int-max=25"
        self.pipeline = Gst.parse_launch(
            f"{VIDEO} ! {middle} ! video/x-h264 ! h264parse name=p ! {muxer} ! filesink location={path}")
        self.count = 0

        def count(_buffer):
            self.count += 1
        on_buffer(self.pipeline.get_by_name("p").get_static_pad("src"), count)
        self.pipeline.set_state(Gst.State.PLAYING)

    def more(self):
        target = self.count + 30
        wait_until("encoded frames", lambda: self.count >= target, LIMIT / 2)

    def finish(self):
        self.pipeline.send_event(Gst.Event.new_eos())
        return ending_of(self.pipeline)

    def end(self):
        self.pipeline.set_state(Gst.State.NULL)


def ending_of(pipeline):
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR
    message = pipeline.get_bus().timed_pop_filtered(LIMIT // 2 * Gst.SECOND, kinds)
    return message.type.value_nicks[0] if message else "nothing"


def container(element, muxer, is_paused):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "film")
        film = Film(element, muxer, path)
        film.more()
        if is_paused:
            film.pipeline.set_state(Gst.State.PAUSED)
            film.pipeline.set_state(Gst.State.PLAYING)
            film.more()
        found = [film.finish()]
        film.end()
        times = []
        player = Gst.parse_launch(f"filesrc location={path} ! parsebin ! fakesink name=out")
        on_buffer(player.get_by_name("out").get_static_pad("sink"), lambda buffer: times.append(buffer.pts))
        player.set_state(Gst.State.PLAYING)
        found.append(ending_of(player))
        player.set_state(Gst.State.NULL)
    return [*found, len(times) >= 30, all(before < after for before, after in zip(times, times[1:]))]


for muxer in ("mp4mux", "mp4mux fragment-duration=500", "qtmux", "matroskamux", "flvmux", "mpegtsmux"):
    row(f"{muxer} of encoded frames", muxer, False)(container)
    row(f"{muxer} of encoded frames, PAUSED between", muxer, True)(container)


# --- The program --------------------------------------------------------------------------------------------------------

def make_elements():
    """The source and the sink, which need PyGObject."""
    class Source(Gst.Element):
        """Pushes a frame each 40 ms, whose luma tells its number."""
        __gtype_name__ = "DifferentialSource"

        def __init__(self, caps, feeds):
            super().__init__()
            self.pad = Gst.Pad.new("src", Gst.PadDirection.SRC)
            self.add_pad(self.pad)
            self.caps, self.feeds, self.count, self.origin = caps, feeds, 0, 0
            self.alter, self.times, self.first = lambda _: None, lambda time, _: time, 0
            self.work, self.mutex, self.held = threading.Event(), threading.Lock(), True
            threading.Thread(target=self.run, daemon=True).start()

        def do_change_state(self, change):
            result = Gst.Element.do_change_state(self, change)
            if change == Gst.StateChange.READY_TO_PAUSED:
                self.announce("row")
            return result

        def begin(self, name):
            self.announce(name)
            self.feeds = True

        def announce(self, name):
            with self.mutex:
                self.pad.push_event(Gst.Event.new_stream_start(name))
                if self.caps:
                    self.pad.push_event(Gst.Event.new_caps(Gst.Caps.from_string(self.caps)))
                self.pad.push_event(Gst.Event.new_segment(segment()))
                self.origin, self.held = 0, False

        def segment(self, made, origin=0):
            with self.mutex:
                self.pad.push_event(Gst.Event.new_segment(made))
                self.origin = origin

        def hold(self):
            with self.mutex:
                self.held = True

        def change(self, alter):
            with self.mutex:
                self.alter = alter

        def stamp(self, times):
            with self.mutex:
                self.times, self.first = times, self.get_current_running_time()

        def push_eos(self):
            with self.mutex:
                self.held = True
                return self.pad.push_event(Gst.Event.new_eos())

        def frame(self):
            number = self.count + 1
            # Two digits, in steps of 4, which no conversion joins, within the range of video.
            digits = [bytes([32 + digit * 4]) for digit in (number % DIGITS, number // DIGITS % DIGITS)]
            buffer = Gst.Buffer.new_wrapped(b"".join(digit * (320 * 88) for digit in digits) + bytes([128]) * (320 * 88))
            time = self.get_current_running_time()
            if time != Gst.CLOCK_TIME_NONE:
                buffer.pts = self.times(time, self.first)
                if buffer.pts != Gst.CLOCK_TIME_NONE:
                    buffer.pts += self.origin
            buffer.duration = Gst.SECOND // 25
            self.alter(buffer)
            return buffer

        def run(self):
            while not self.work.wait(0.04):
                with self.mutex:
                    if self.held or not self.feeds or self.current_state != Gst.State.PLAYING:
                        continue
                    frame = self.frame()
                    self.count += 1
                    self.heed(self.pad.push(frame))

        def heed(self, flow):
            """Does as a source of GStreamer, but goes on after FLUSHING."""
            if flow in (Gst.FlowReturn.OK, Gst.FlowReturn.FLUSHING):
                return
            if flow != Gst.FlowReturn.EOS:
                reason = GLib.Error.new_literal(Gst.stream_error_quark(), "flow", 1)
                self.post_message(Gst.Message.new_error(self, reason, flow.value_nick))
            self.held = True
            self.pad.push_event(Gst.Event.new_eos())

        def stop(self):
            self.work.set()

    class Counting(Gst.Element):
        """Counts buffers, and notes EOS."""
        __gtype_name__ = "DifferentialCounter"

        def __init__(self):
            super().__init__()
            self.pad = Gst.Pad.new("sink", Gst.PadDirection.SINK)
            self.pad.set_chain_function_full(self.chain)
            self.pad.set_event_function_full(self.event)
            self.add_pad(self.pad)
            self.count, self.ended, self.flows = 0, False, []

        def give(self, flow, count):
            self.flows = [flow] * count

        def chain(self, _pad, _parent, buffer):
            if self.flows:
                return self.flows.pop()
            self.take(buffer)
            return Gst.FlowReturn.OK

        def take(self, _buffer):
            self.count += 1

        def event(self, _pad, _parent, event):
            if event.type == Gst.EventType.EOS:
                self.ended = True
            elif event.type in (Gst.EventType.FLUSH_STOP, Gst.EventType.STREAM_START):
                self.ended = False
            return True

    class Sink(Counting):
        """Notes which of the source's frames came last, and EOS."""
        __gtype_name__ = "DifferentialSink"

        def __init__(self):
            super().__init__()
            self.newest = 0

        def take(self, buffer):
            # Black frames have no digits.
            digits = [buffer.extract_dup(320 * row, 1)[0] for row in (44, 132)]
            low, high = ((digit - 32 + 2) // 4 for digit in digits)
            if min(digits) >= 30:
                self.newest = max(self.newest, low + DIGITS * high)
    return Source, Sink, Counting


def perform(element, names):
    """Prints the outcome of each row as a line of JSON."""
    for name in names:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        function, arguments = ROWS[name]
        print(json.dumps({"begin": name}), flush=True)
        try:
            found = function(element, *arguments)
        except Problem as problem:
            found = [str(problem)]
        Stage.latest.end()
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"row": name, "found": found}), flush=True)


def outcomes(url, element, names, folder):
    """The outcome of each row; None for one that ended its process, with the rows behind it."""
    environment = {**gstreamer(folder, os.environ), "DIFFERENTIAL": element, "DECART_BASE_URL": url, "G_DEBUG": "fatal-criticals"}
    found, left = {}, list(names)
    while left:
        ended = subprocess.run([sys.executable, os.path.abspath(__file__), *left], env=environment, capture_output=True, text=True,
                               check=False)
        lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        found.update({line["row"]: line["found"] for line in lines if "row" in line})
        if not ended.returncode:
            break
        begun = next((line["begin"] for line in reversed(lines) if "begin" in line), left[0])
        found[begun] = [f"status {ended.returncode}", " ".join(ended.stderr[-300:].split())]
        left = left[left.index(begun) + 1:]
    return found


def is_of_session(name):
    return ":" in name or "encoded frames" in name


def main():
    report = Results("differential")
    report.require(PLUGIN, STANDIN)
    words = sys.argv[1:]
    names = [name for index, name in enumerate(ROWS) if (
        any(word in name for word in words) if words else VERIFYING or index % (9 if is_of_session(name) else 3) == 0)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool, running_standin() as url:
        ours, reference = pool.map(lambda element: outcomes(
            url, element, [name for name in names if element == "ours" or name not in STANDS], folder), ELEMENTS)
    for name in names:
        mine, other = ours.get(name), reference.get(name)
        if mine != (REASONS[name][0] if name in REASONS else other):
            report(name, f"{mine}, GStreamer's own {other}")
        elif name in REASONS and mine == other:
            report(name, "REASONS explains no difference")
    report("operations", figures=f"{len(names)} rows, {len(REASONS.keys() & set(names))} of them different with a reason")
    return report.failed


if __name__ == "__main__":
    if chosen := os.environ.get("DIFFERENTIAL"):
        from gst import GLib, Gst, GstVideo, on_buffer
        Gst.init(None)
        Feeder, Catcher, Counter = make_elements()
        perform(chosen, sys.argv[1:])
        sys.stdout.flush()
        os._exit(0)
    sys.exit(main())
