#!/usr/bin/python3
"""An example of a test with faults of the stand-in: a queue while connecting, then a service that restarts.

    source pipelines/env.sh
    pipelines/examples/faults.py

Starts a stand-in on free ports of the loopback interface, and a pipeline whose frames it counts. Exits with 0 if frames
arrived before and after the fault and no error was posted.
"""

import json
import subprocess
import sys
import threading
import urllib.request

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

TIMEOUT = 30  # s, for each wait


class Pipeline:
    """`source ! decarttransform ! sink`, with its frames counted. A reconnect repeats the last frame (fallback=freeze)."""

    def __init__(self, base_url):
        self.frames = 0
        self.changed = threading.Condition()
        self.pipeline = Gst.parse_launch(
            "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=20/1"
            f" ! decarttransform name=decart base-url={base_url} api-key=x prompt=lego model=any width=320 height=176"
            " framerate=20 ! fakesink name=sink signal-handoffs=true sync=true")
        self.decart = self.pipeline.get_by_name("decart")
        self.pipeline.get_by_name("sink").connect("handoff", self.count)
        self.decart.connect("notify::connection-state", self.note)
        self.pipeline.set_state(Gst.State.PLAYING)

    def count(self, _sink, _buffer, _pad):
        with self.changed:
            self.frames += 1
            self.changed.notify_all()

    def note(self, _decart, _property):
        with self.changed:
            self.changed.notify_all()

    @property
    def state(self):
        return self.decart.get_property("connection-state").value_nick

    def wait_for(self, what, condition):
        with self.changed:
            if not self.changed.wait_for(condition, TIMEOUT):
                sys.exit(f"waited {TIMEOUT} s for {what}: state {self.state}, {self.frames} frames")

    def wait_for_frames(self, count):
        target = self.frames + count
        self.wait_for(f"{count} frames", lambda: self.frames >= target)

    def stop(self):
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        self.pipeline.set_state(Gst.State.NULL)
        if message:
            sys.exit(f"the pipeline failed: {message.parse_error()[0].message}")


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    Gst.init(None)
    standin = subprocess.Popen(
        ["decart-standin", "--quiet", "--port", "0", "--control", "0"], stdout=subprocess.PIPE, text=True)
    try:
        service = standin.stdout.readline().split()[-1]  # ws://127.0.0.1:PORT
        control = standin.stdout.readline().split()[-1]  # http://127.0.0.1:PORT

        # The URL selects the faults of one client: here a queue of two places, half a second each.
        pipeline = Pipeline(f"{service}/?fault=queue_n:n=2,interval=0.5")
        pipeline.wait_for("the session", lambda: pipeline.state == "generating")
        pipeline.wait_for_frames(20)

        # The control endpoint starts a fault now: here a restart of the service.
        urllib.request.urlopen(control + "/control/inject", data=b"close_1012_at_T", timeout=TIMEOUT)
        pipeline.wait_for("the loss of the session", lambda: pipeline.state == "reconnecting")
        pipeline.wait_for_frames(10)
        pipeline.wait_for("the next session", lambda: pipeline.state == "generating")
        pipeline.wait_for_frames(20)
        pipeline.stop()

        with urllib.request.urlopen(control + "/control/sessions", timeout=TIMEOUT) as response:
            sessions = json.load(response)["sessions"]
        if len(sessions) < 2:
            sys.exit(f"the service had {len(sessions)} sessions, not two or more")
        print(f"{pipeline.frames} frames through {len(sessions)} sessions")
    finally:
        standin.terminate()
        standin.wait()


main()
