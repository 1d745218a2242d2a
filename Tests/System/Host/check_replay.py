#!/usr/bin/python3
"""Records a session with a fault of each kind of the control channel, replays it, and compares what the pipeline sees.

    check_replay.py [WORD...]

For each fault, a pipeline goes through `decart-check --record` to a stand-in with the fault, and then to `decart-standin
--replay` with the recording. The second one must post the same bus messages: states, places in the queue, retries, errors,
warnings, prompt results, progress. Messages of different kinds may overtake each other, and the replay may go on for longer.
A replay of a session goes through `decart-check --record` too: what the pipeline sees of a connection that ends at once is
the same then. A recording ends by an event, the later prompt is sent once the session generates, and of a fault that the
pipeline may notice in two ways only the states are compared. With words only the faults whose name contains one of them.

Prints "ok NAME: figures" or "not ok NAME: why". Uses loopback only.
"""

import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from checks import RELEASE, STANDIN, Results, end_process, gstreamer, read, write
from gst import Gst, text_of
from standin import running_standin

KEY, PROMPT, LATER_PROMPT = "canary-key-0d9c2b71", "Canary Lego", "Canary noir"
FIELDS = ("state", "service-status", "queue-position", "queue-size", "retries", "generation-seconds", "error-code",
          "error-message")
LIMIT = 90  # s, for every wait
report = Results("replay")


@dataclasses.dataclass
class Case:
    name: str
    query: str
    options: str
    # Holds for the messages when a recording may end.
    until: object
    # Sends a later prompt once the session generates.
    prompts: bool = False
    kinds: tuple = ()  # of the messages that are compared; empty: all


def generated(times=1):
    return lambda seen: seen["state"].count("generating") >= times


def billed(seen):
    """The later prompt has its result, and a second was billed."""
    return seen["results"] and any((value or 0) > 0 for value in seen["generation-seconds"])


CASES = [
    Case("no fault, in a room", "", "", billed, prompts=True),
    Case("no fault, on a direct connection", "", "transport=webrtc", billed, prompts=True),
    Case("a place in the queue", "/?fault=queue_n:interval=0.3", "transport=livekit", generated()),
    Case("a refused prompt", "/?fault=ack_fail:skip=1", "transport=livekit", lambda seen: seen["results"], prompts=True),
    Case("a permanent error", "/?fault=error_permanent:at=2", "transport=livekit", lambda seen: seen["errors"],
         kinds=("errors", "error-code", "error-message")),
    Case("a rejected key", "/?fault=http_401", "transport=livekit", lambda seen: seen["errors"]),
    Case("a close while joining", "/?fault=close_1011_at_join", "transport=livekit",
         lambda seen: any((value or 0) >= 1 for value in seen["retries"]), kinds=("state",)),
    Case("a close of a session", "/?fault=close_1012_at_T:at=4", "transport=webrtc", generated(2), kinds=("state",)),
]


class Watch:
    """A pipeline, and the messages of each kind that it has posted."""

    def __init__(self, url, key, case):
        self.case, self.prompted = case, False
        self.changed = threading.Condition()
        self.seen = {name: [] for name in (*FIELDS, "warnings", "errors", "results", "progress")}
        # A recording has no address.
        self.private = re.compile("|".join(map(re.escape, (url.split("//")[-1].split("/")[0], "127.0.0.1", "<redacted>"))))
        self.pipeline = Gst.parse_launch(
            "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=10/1 ! decarttransform name=t width=320"
            f" height=176 framerate=10 {case.options} ! fakesink sync=false async=false")
        self.element = self.pipeline.get_by_name("t")
        for name, value in (("base-url", url), ("api-key", key), ("prompt", PROMPT), ("stun-server", "")):
            self.element.set_property(name, value)
        self.pipeline.get_bus().set_sync_handler(self.on_message)
        self.later = threading.Thread(target=lambda: self.element.emit("set-prompt", LATER_PROMPT, True))

    def note(self, kind, value):
        if isinstance(value, str):
            value = re.sub(r"ADDRESS:\d+", "ADDRESS", self.private.sub("ADDRESS", value))
            # Data of the client that the service has not read when it closes may cost it the close frame.
            value = re.sub(r"closed the connection \((without a close frame|\d+)\)", "closed the connection", value)
        with self.changed:
            # A field is in each message, also if another one has changed.
            if kind not in FIELDS or self.seen[kind][-1:] != [value]:
                self.seen[kind].append(value)
                self.changed.notify_all()

    def on_message(self, _bus, message):
        structure = message.get_structure()
        if message.type in (Gst.MessageType.WARNING, Gst.MessageType.ERROR):
            self.note("warnings" if message.type == Gst.MessageType.WARNING else "errors", text_of(message))
        elif message.type == Gst.MessageType.PROGRESS:
            self.note("progress", structure.get_value("text"))
        elif structure and structure.get_name() == "decart-state":
            for field in FIELDS:
                self.note(field, structure.get_value(field))
            if self.case.prompts and not self.prompted and structure.get_value("state") == "generating":
                self.prompted = True
                # Not on this thread, which belongs to the element.
                self.later.start()
        elif structure and structure.get_name() == "decart-prompt-result":
            self.note("results", (structure.get_value("accepted"), structure.get_value("error")))
        return Gst.BusSyncReply.DROP

    def run(self, until, more=0):
        """Plays until the condition holds for the messages, and `more` seconds after that; returns the messages that the
        condition saw."""
        self.pipeline.set_state(Gst.State.PLAYING)
        until(self)
        with self.changed:
            seen = {kind: list(values) for kind, values in self.seen.items()}
        time.sleep(more)
        if self.later.ident:
            self.later.join()
        self.pipeline.set_state(Gst.State.NULL)
        return seen


def until_event(case):
    def wait(watch):
        with watch.changed:
            if not watch.changed.wait_for(lambda: case.until(watch.seen), LIMIT):
                raise RuntimeError(f"the recording does not get so far: {watch.seen}")
    return wait


def until_as_many(recorded):
    def wait(watch):
        with watch.changed:
            watch.changed.wait_for(lambda: all(len(watch.seen[kind]) >= len(values) for kind, values in recorded.items()),
                                   LIMIT)
    return wait


def record(path, url, case, until, more=0):
    environment = dict(os.environ, DECART_API_KEY=KEY)
    check = subprocess.Popen([f"{RELEASE}/decart-check", "--record", path, "--base-url", url], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        line = check.stdout.readline()
        match = re.match(r"recording: base-url=(\S+) api-key=(\S+)", line)
        if not match:
            raise RuntimeError(f"decart-check says: {line}")
        return Watch(match[1], match[2], case).run(until, more), match[2]
    finally:
        if end_process(check):
            raise RuntimeError(f"decart-check ends with status {check.returncode}: {check.stdout.read()}")


def difference(case, url, work):
    """Why the replay is not as the recording, and figures."""
    path = os.path.join(work, re.sub(r"\W", "-", case.name) + ".jsonl")
    try:
        # The pipeline may notice by the media what the control channel says a moment later: the recording is longer.
        recorded, key = record(path, url + case.query, case, until_event(case), more=1)
        recorded = {kind: values for kind, values in recorded.items() if kind in (case.kinds or recorded)}
        text = read(path)
        if '"event":"opened"' not in text and '"event":"failed"' not in text:
            return f"no session was recorded: {recorded}", ""
        secrets = [secret for secret in (KEY, key, PROMPT, LATER_PROMPT, "candidate:", "a=ice", "ws://") if secret in text]
        if secrets:
            return f"the recording contains {secrets}", ""
        with running_standin("--replay", path) as url:
            until = until_as_many(recorded)
            # The relay puts the words of a refusal into words of its own.
            replayed = (record(f"{path}.again", url, case, until)[0] if '"event":"opened"' in text
                        else Watch(url, "x", case).run(until))
        for kind, values in recorded.items():
            if replayed[kind][:len(values)] != values:
                return f"{kind}: recorded {values}, replayed {replayed[kind]}", ""
        return "", f"{sum(map(len, recorded.values()))} messages, {text.count(chr(10))} lines"
    except Exception as error:  # A thread's own fault is a failure of its case.
        return f"{type(error).__name__}: {error}", ""


def refused(work):
    """A bad file ends the stand-in with one line that names the file's line."""
    good = '{"recording":"decart-control","format":1}\n{"attempt":1,"ms":0,"event":"opened"}\n'
    for name, text, line in (
            ("no recording", "hello\n", 1), ("a bad entry", good + '{"attempt":1,"ms":1,"event":"jumped"}\n', 3),
            ("a truncated entry", good + '{"attempt":1,"ms":1,"eve', 3), ("an empty file", "", 1),
            ("deep nesting", good + "[" * 500_000, 3), ("control characters", good + "\0\1\2", 3)):
        path = os.path.join(work, "bad.jsonl")
        write(path, text)
        result = subprocess.run([STANDIN, "--port", "0", "--replay", path], capture_output=True, text=True,
                                timeout=LIMIT)
        errors = [each for each in result.stderr.splitlines() if each.startswith("Error:")]
        is_good = result.returncode == 64 and len(errors) == 1 and f"line {line}:" in errors[0]
        report(f"{name} is refused", "" if is_good else f"status {result.returncode}: {result.stderr}", "".join(errors)[-90:])
    result = subprocess.run([STANDIN, "--port", "0", "--replay", os.path.join(work, "none")],
                            capture_output=True, text=True, timeout=LIMIT)
    report("a missing file is refused", "" if result.returncode == 64 and "cannot be read" in result.stderr else result.stderr,
           "")


def main():
    words = sys.argv[1:]
    os.environ.pop("DECART_API_KEY", None)
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    with tempfile.TemporaryDirectory() as work:
        os.environ.update(gstreamer(work))
        Gst.init(None)
        if not words:
            refused(work)
        with running_standin() as url, concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda case: report(case.name, *difference(case, url, work)), cases))
    sys.exit(report.failed)


main()
