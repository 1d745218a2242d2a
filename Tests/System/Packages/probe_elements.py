#!/usr/bin/python3
"""Check the installed plugin against the installed stand-in: frames, reconnecting, a room, audio.

Runs in an installed system, without the repository: check_packages.py --elements copies it there. Prints "ok NAME: what
was measured" or "not ok NAME: why".
"""

import subprocess
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

WIDTH, HEIGHT = 640, 360
PLANE = WIDTH * HEIGHT
failed = False


class StandIn:
    def __init__(self, *options):
        self.process = subprocess.Popen(["decart-standin", "--port", "0", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


class Session:
    """A pipeline with colour bars and a tone. Counts the frames and samples that the service returned transformed."""

    def __init__(self, standin, transport, audio=False):
        tone = "audiotestsrc is-live=true freq=440 ! audio/x-raw,rate=48000,channels=2 ! decart.audio_sink " if audio else ""
        self.pipeline = Gst.parse_launch(
            f"videotestsrc is-live=true horizontal-speed=4 ! video/x-raw,width={WIDTH},height={HEIGHT},framerate=30/1 "
            f"! decarttransform name=decart base-url={standin.url} api-key=x prompt=Noir transport={transport} "
            f"width={WIDTH} height={HEIGHT} framerate=30 {tone} "
            "decart.src ! video/x-raw,format=I420 ! fakesink name=video sync=false"
            + (" decart.audio_src ! fakesink name=audio sync=false" if audio else ""))
        self.decart = self.pipeline.get_by_name("decart")
        self.lock = threading.Lock()
        self.noir, self.loud, self.last, self.warnings = 0, 0, None, []
        self.watch("video", self.frame)
        if audio:
            self.watch("audio", self.samples)
        self.begun = time.monotonic()

    def watch(self, sink, handler):
        def probe(_pad, info):
            handler(info.get_buffer())
            return Gst.PadProbeReturn.OK
        self.pipeline.get_by_name(sink).get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, probe)

    def frame(self, buffer):
        """Counts new frames without colour that are not black: neither the input nor a fallback frame is one."""
        luma = buffer.extract_dup(WIDTH * 100, WIDTH * 8)
        chroma = buffer.extract_dup(PLANE, PLANE // 2)
        is_grey = not chroma.translate(None, bytes(range(122, 135)))
        with self.lock:
            if is_grey and max(luma) > 60 and luma != self.last:
                self.noir += 1
            self.last = luma

    def samples(self, buffer):
        data = memoryview(buffer.extract_dup(0, buffer.get_size())).cast("h")
        with self.lock:
            if len(data) and max(data) > 3000:
                self.loud += 1

    def __enter__(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        return self

    def __exit__(self, *_):
        self.pipeline.set_state(Gst.State.NULL)

    def wait(self, condition, what, seconds=20):
        """Waits until the condition is true; the pipeline must not post an error meanwhile."""
        bus, end = self.pipeline.get_bus(), time.monotonic() + seconds
        while not condition():
            message = bus.timed_pop_filtered(20 * Gst.MSECOND, Gst.MessageType.ERROR | Gst.MessageType.WARNING)
            if message and message.type == Gst.MessageType.ERROR:
                raise AssertionError(f"{what}: {message.parse_error()[0].message}")
            if message:
                self.warnings.append(message.parse_warning()[0].message)
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {seconds} s; {self.noir} transformed frames, "
                                     f"{self.loud} loud audio buffers, warnings {self.warnings}")
        return time.monotonic() - self.begun

    def stat(self, name):
        return self.decart.get_property("stats").get_value(name)

    def state(self):
        return self.decart.get_property("connection-state").value_nick


def frames(transport):
    with StandIn("--transport", transport) as standin, Session(standin, transport) as session:
        first = session.wait(lambda: session.noir > 0, "first frame")
        hundred = session.wait(lambda: session.noir >= 100, "100 frames")
        return f"first transformed frame after {first:.2f} s, 100 after {hundred:.2f} s"


def reconnect():
    with StandIn("--transport", "webrtc", "--fault", "drop_tcp_at_T:at=3,count=1") as standin, \
            Session(standin, "webrtc") as session:
        session.wait(lambda: session.noir >= 30, "frames of the first connection")
        session.wait(lambda: session.warnings, "warning of the lost connection")
        lost = time.monotonic()
        session.wait(lambda: session.state() in ("connected", "generating") and session.stat("retries") >= 1, "next connection")
        seconds = time.monotonic() - lost
        before = session.noir
        session.wait(lambda: session.noir >= before + 60, "frames of the next connection")
        return f"connected again after {seconds:.2f} s, 60 more transformed frames"


def audio(transport):
    with StandIn("--transport", transport) as standin, Session(standin, transport, audio=True) as session:
        session.wait(lambda: session.loud >= 50 and session.noir >= 30, "returned tone and frames")
        return f"{session.loud} buffers of the returned tone beside {session.noir} transformed frames"


def main():
    global failed
    Gst.init(None)
    for name, run in [
        ("frames on a direct connection", lambda: frames("webrtc")), ("reconnect", reconnect),
        ("frames in a room", lambda: frames("livekit")), ("audio on a direct connection", lambda: audio("webrtc")),
        ("audio in a room", lambda: audio("livekit")),
    ]:
        try:
            print(f"ok {name}: {run()}", flush=True)
        except Exception as error:  # Any failure is the check's result.
            failed = True
            print(f"not ok {name}: {error}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
