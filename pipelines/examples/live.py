#!/usr/bin/python3
"""A live view that takes commands while it runs, with recordings that follow each other without a lost frame.

    source pipelines/env.sh
    pipelines/examples/live.py [--sink DESCRIPTION] SOURCE-DESCRIPTION

    live.py 'v4l2src ! decarttransform name=decart prompt="Lego World"'

One element of the source must be named decart. Commands, one a line on standard input:

    prompt TEXT    send a prompt, and print whether the service accepted it
    camera         switch to the other camera (decartsrc)
    record FILE    record to a WebM file from the next frame on; a recording that runs ends with the frame before
    stop           end the recording
    query          print the state, the position, the number of frames and the current recording
    quit           end the stream and with it the recording (so do Ctrl-C and the end of the input)
"""

import argparse
import signal
import sys
import threading

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject, Gst  # noqa: E402

from recorder import Recorder  # noqa: E402

# The view may be late, but must not block the recording: its queue drops frames, the recording's queue drops none.
VIEW = "queue leaky=downstream max-size-buffers=0 max-size-bytes=0 max-size-time=1000000000"


def say(text):
    print(text, flush=True)


class Live:
    def __init__(self, source, sink):
        self.pipeline = Gst.parse_launch(f"{source} ! tee name=outputs outputs. ! {VIEW} ! {sink}")
        self.decart = self.pipeline.get_by_name("decart")
        if not self.decart or not self.decart.find_property("prompt"):
            sys.exit("live: no decarttransform or decartsrc is named decart: write name=decart")
        self.recorder = Recorder(self.pipeline.get_by_name("outputs"))
        self.recordings = []  # branches whose files are not complete
        self.loop = GLib.MainLoop()
        self.failed = False
        self.state = None
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.on_message)

    def record(self, path):
        if any(branch.path == path for branch in self.recordings):
            return say(f"record: {path} is being written")
        try:
            self.recordings.append(self.recorder.start(path))
        except OSError as error:
            say(f"record: cannot write {path}: {error.strerror}")

    def finished(self, branch):
        self.recordings.remove(branch)
        branch.set_locked_state(True)  # or a change of the pipeline's state could start it again
        branch.set_state(Gst.State.NULL)
        self.pipeline.remove(branch)
        say(f"recorded {branch.path}: frames {branch.first} to {branch.last}, {branch.last - branch.first + 1} in all")

    def prompt(self, text):
        # The element posts the result as the message decart-prompt-result with the same id.
        if not self.decart.emit("set-prompt", text, False):
            say("prompt: not sent")

    def camera(self):
        if not GObject.signal_lookup("switch-camera", self.decart):
            return say("camera: this element has none to switch")
        device = self.decart.emit("switch-camera")
        say(f"camera: {device}" if device else "camera: there is no other")

    def query(self):
        known, position = self.pipeline.query_position(Gst.Format.TIME)
        state = self.decart.get_property("connection-state").value_nick
        recording = self.recorder.current
        seconds = position / Gst.SECOND if known else 0
        say(f"query: {state}, position {seconds:.2f} s, {self.recorder.frames} frames,"
            f" recording {recording.path if recording else 'off'}")

    def quit(self):
        # EOS, not a change of state: it follows the last frame through the pipeline, and files are completed.
        self.pipeline.send_event(Gst.Event.new_eos())
        GLib.timeout_add_seconds(10, self.loop.quit)
        return GLib.SOURCE_REMOVE

    def command(self, line):
        word, _, rest = line.strip().partition(" ")
        if word == "record" and rest:
            self.record(rest)
        elif word == "stop":
            self.recorder.stop()
        elif word == "prompt":
            self.prompt(rest)
        elif word in ("camera", "query", "quit"):
            getattr(self, word)()
        elif word:
            say("commands: prompt TEXT, camera, record FILE, stop, query, quit")
        return GLib.SOURCE_REMOVE

    def on_message(self, _bus, message):
        if message.type == Gst.MessageType.EOS:
            self.loop.quit()
        elif message.type == Gst.MessageType.ERROR:
            self.failed = True
            say(f"error: {message.parse_error()[0].message}")
            self.loop.quit()
        elif message.type == Gst.MessageType.WARNING:
            say(f"warning: {message.parse_warning()[0].message}")
        elif message.type == Gst.MessageType.ELEMENT:
            self.on_element_message(message.src, message.get_structure())

    def on_element_message(self, source, structure):
        if structure.has_name("decart-state"):
            # The message has more fields than the state, and is posted whenever any of them changes.
            if structure.get_string("state") != self.state:
                self.state = structure.get_string("state")
                say(f"state: {self.state}")
        elif structure.has_name("decart-prompt-result"):
            if structure.get_boolean("accepted")[1]:
                milliseconds = structure.get_uint("milliseconds")[1]
                say(f"prompt: accepted after {milliseconds} ms: {structure.get_string('text')}")
            else:
                say(f"prompt: refused: {structure.get_string('error')}")
        elif structure.has_name("GstBinForwarded") and structure.get_value("message").type == Gst.MessageType.EOS:
            if source in self.recordings:
                self.finished(source)

    def read_commands(self):
        for line in sys.stdin:
            GLib.idle_add(self.command, line)
        GLib.idle_add(self.quit)

    def run(self):
        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, signal.SIGINT, self.quit)
        threading.Thread(target=self.read_commands, daemon=True).start()
        self.pipeline.set_state(Gst.State.PLAYING)
        self.loop.run()
        self.pipeline.set_state(Gst.State.NULL)
        return 1 if self.failed else 0


def main():
    parser = argparse.ArgumentParser(description="A live view that takes commands while it runs.")
    parser.add_argument("--sink", default="videoconvert ! autovideosink", help="elements that show it; a window by default")
    parser.add_argument("source", help="a pipeline in gst-launch's language, with one element named decart")
    arguments = parser.parse_args()
    Gst.init(None)
    try:
        live = Live(arguments.source, arguments.sink)
    except GLib.Error as error:
        hint = " (package gstreamer1.0-decart)" if 'no element "decart' in error.message else ""
        sys.exit(f"live: {error.message}{hint}")
    sys.exit(live.run())


main()
