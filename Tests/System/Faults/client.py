#!/usr/bin/python3
"""A host program with one decarttransform, which the fault suite observes.

    client.py [pattern=PATTERN] [PROPERTY=VALUE...]

PATTERN is a videotestsrc pattern. PROPERTY=VALUE sets properties of the element, in gst-launch syntax.

Writes one line per event, with times on CLOCK_MONOTONIC:

    f TIME PTS DISCONT KIND                 a buffer that left the element. KIND: b black, r repeated frame, n new frame
                                            without colour (prompt "noir"), c any other new frame
    {"t": TIME, "m": NAME, ...}             a bus message, or the reply to a command

Executes JSON lines from standard input: {"do": "prompt" | "stats" | "memory" | "clock" | "set" | "restart" | "stop"}.
Ends when its standard input ends.
"""

import ctypes
import json
import os
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

# Smaller and fewer frames in scripts/test, which has many rows at once and compares no rates.
WIDTH, HEIGHT, RATE = (640, 360, 30) if os.environ.get("DECART_VERIFY") else (320, 180, 15)
LIBC = ctypes.CDLL(None)

out = os.fdopen(os.dup(1), "wb", buffering=0)
os.dup2(2, 1)  # library output must not reach the reader of our lines


def report(name, **fields):
    """Writes each line with a single call, because several threads write."""
    out.write((json.dumps({"t": round(time.monotonic(), 4), "m": name, **fields}) + "\n").encode())


def plain(structure):
    """Returns a GstStructure as a dictionary; values without a JSON type become strings."""
    fields = {}
    for at in range(structure.n_fields()):
        name = structure.nth_field_name(at)
        value = structure.get_value(name)
        if isinstance(value, Gst.Structure):
            value = plain(value)
        fields[name] = value if isinstance(value, (bool, int, float, str, dict, type(None))) else str(value)
    return fields


class FrameClassifier:
    """Classifies frames by some of their pixels: the moving bars differ in every new frame."""

    def __init__(self):
        self.last = None

    def kind(self, buffer):
        luma = buffer.extract_dup(WIDTH * (HEIGHT // 4), WIDTH * 8)
        chroma = b"".join(
            buffer.extract_dup(WIDTH * HEIGHT + plane * WIDTH * HEIGHT // 4 + WIDTH // 2 * (HEIGHT // 8), WIDTH * 2)
            for plane in (0, 1))
        if max(luma) <= 20 and 124 <= min(chroma) and max(chroma) <= 132:
            self.last = None
            return "b"
        if (luma, chroma) == self.last:
            return "r"
        self.last = (luma, chroma)
        return "n" if sum(abs(value - 128) for value in chroma[::7]) < 4 * len(chroma[::7]) else "c"


class Client:
    def __init__(self, properties, pattern):
        self.pipeline = Gst.parse_launch(
            f"videotestsrc name=source is-live=true pattern={pattern} horizontal-speed=4 "
            f"! video/x-raw,format=I420,width={WIDTH},height={HEIGHT},framerate={RATE}/1 "
            f"! decarttransform name=decart width={WIDTH} height={HEIGHT} framerate={RATE} "
            # The rows and their bounds assume direct connections.
            "stun-server=\"\" transport=webrtc "
            + " ".join(properties) + " ! fakesink name=sink sync=false")
        self.decart = self.pipeline.get_by_name("decart")
        self.loop = GLib.MainLoop()
        self.classifier = FrameClassifier()
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.message)
        self.pipeline.get_by_name("sink").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.buffer)

    def run(self):
        GLib.io_add_watch(0, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, self.commands)
        self.unread = b""
        self.pipeline.set_state(Gst.State.PLAYING)
        report("started", pid=os.getpid())
        self.loop.run()
        begun = time.monotonic()
        self.pipeline.set_state(Gst.State.NULL)
        report("stopped", seconds=round(time.monotonic() - begun, 3))

    def buffer(self, _pad, info):
        now = time.monotonic()
        buffer = info.get_buffer()
        discontinuous = int(bool(buffer.get_flags() & Gst.BufferFlags.DISCONT))
        out.write(b"f %.4f %d %d %s\n" % (now, buffer.pts, discontinuous, self.classifier.kind(buffer).encode()))
        return Gst.PadProbeReturn.OK

    def message(self, _bus, message):
        if message.type == Gst.MessageType.ELEMENT:
            structure = message.get_structure()
            if structure.get_name() in ("decart-state", "decart-prompt-result", "decart-quality",
                                        "decart-session-renewed"):
                report(structure.get_name(), **plain(structure))
        elif message.type in (Gst.MessageType.ERROR, Gst.MessageType.WARNING):
            is_error = message.type == Gst.MessageType.ERROR
            error, _debug = message.parse_error() if is_error else message.parse_warning()
            details = message.parse_error_details() if is_error else message.parse_warning_details()
            report("error" if is_error else "warning", domain=error.domain, code=error.code, text=error.message,
                   source=message.src.get_name(), details=plain(details) if details else {})

    # Commands

    def commands(self, descriptor, _condition):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            self.loop.quit()
            return False
        *lines, self.unread = (self.unread + chunk).split(b"\n")
        for line in lines:
            self.execute(json.loads(line))
        return True

    def execute(self, command):
        action = command["do"]
        if action == "prompt":
            self.prompt(command["text"])
        elif action == "stats":
            report("stats", **plain(self.decart.get_property("stats")))
        elif action == "memory":
            report("memory", **memory())
        elif action == "clock":
            report("clock", wall=time.time())
        elif action == "set":
            self.decart.set_property(command["name"], command["value"])
            report("set")
        elif action == "restart":
            self.pipeline.set_state(Gst.State.NULL)
            report("restart")
            self.pipeline.set_state(Gst.State.PLAYING)
        elif action == "stop":
            self.loop.quit()

    def prompt(self, text):
        report("request", id=self.decart.emit("set-prompt", text, False), text=text)


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def thread_names():
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
                names.append(file.read().strip())
        except OSError:
            continue  # It has just ended.
    return sorted(names)


def memory():
    """Returns memory, threads and descriptors of the process, after the allocator has returned free memory. `used`
    counts allocated bytes: how well the arenas of a dozen threads fill up is random, and RSS varies with it."""
    LIBC.malloc_trim(0)
    LIBC.mallinfo2.restype = Mallinfo2
    info = LIBC.mallinfo2()
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {"used": info.uordblks + info.hblkhd, "rss": int(status["VmRSS"].split()[0]) * 1024,
            "threads": int(status["Threads"]), "thread-names": thread_names(), "fds": len(os.listdir("/proc/self/fd"))}


def main():
    Gst.init(None)
    words = sys.argv[1:]
    pattern = next((word[len("pattern="):] for word in words if word.startswith("pattern=")), "smpte")
    Client([word for word in words if not word.startswith("pattern=")], pattern).run()


if __name__ == "__main__":
    main()
