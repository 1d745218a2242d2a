#!/usr/bin/python3
"""Sends frames in GLMemory through a session, under Xvfb with Mesa's software renderer.

Prints "ok NAME", "not ok NAME: why" or, without gstreamer1.0-gl or Xvfb, "skip NAME: why". Uses loopback only.
"""

import os
import shutil
import sys
import tempfile
import time

from checks import Results, end_process, gstreamer, start_xvfb
from gst import Gst, on_buffer, text_of
from standin import running_standin

LIMIT = 60  # s, for every wait
WIDTH, HEIGHT, FRAMES = 320, 176, 20
TOO_SLOW = "A lot of buffers are being dropped"  # by a sink, on a busy machine
report = Results("gl")


def run(url, source):
    """Returns (the times of the frames of each fetching element, the first error)."""
    pipeline = Gst.parse_launch(
        f"{source} ! decarttransform name=t base-url={url} api-key=x model=test-model width={WIDTH} height={HEIGHT}"
        " framerate=25 prompt=Cyberpunk fallback=none ! fakesink name=out sync=false")
    transform, bus = pipeline.get_by_name("t"), pipeline.get_bus()
    fetched, shown = {}, []

    def find(element):
        factory = element.get_factory()
        if factory and factory.get_name() == "gldownload" and element.get_name() not in fetched:
            fetched[element.get_name()] = times = []
            on_buffer(element.get_static_pad("src"), lambda buffer: times.append(buffer.pts))

    def received():
        return transform.get_property("stats").get_value("frames-received")

    on_buffer(pipeline.get_by_name("out").get_static_pad("sink"), lambda buffer: shown.append(buffer.pts))
    try:
        pipeline.set_state(Gst.State.PLAYING)
        end = time.monotonic() + LIMIT
        # The element may repeat frames.
        while (len(shown) < FRAMES or received() < FRAMES or (fetched and not any(fetched.values()))) and time.monotonic() < end:
            message = bus.timed_pop_filtered(100 * Gst.MSECOND, Gst.MessageType.ERROR | Gst.MessageType.WARNING)
            if message and TOO_SLOW not in text_of(message):
                return fetched, text_of(message)
            transform.iterate_elements().foreach(find)
        if len(shown) < FRAMES or received() < FRAMES:
            return fetched, f"{len(shown)} of {FRAMES} frames came back, {received()} of the service"
        return fetched, None
    finally:
        pipeline.set_state(Gst.State.NULL)


def main(folder):
    if not shutil.which("Xvfb"):
        return report.skip("Xvfb is not installed")
    xvfb, display = start_xvfb("640x480")
    try:
        os.environ.update(gstreamer(folder), LIBGL_ALWAYS_SOFTWARE="1", GST_GL_WINDOW="x11", XDG_RUNTIME_DIR=folder,
                          DISPLAY=f":{display}")
        Gst.init(None)
        if not Gst.ElementFactory.find("gldownload") or not Gst.ElementFactory.find("gltestsrc"):
            return report.skip("gstreamer1.0-gl is not installed")
        with running_standin() as url:
            caps = f"width={WIDTH},height={HEIGHT},framerate=25/1"
            fetched, error = run(url, f"gltestsrc is-live=true ! video/x-raw(memory:GLMemory),{caps}")
            report("frames in GLMemory go through a session", error)
            report("one gldownload fetches them", "" if len(fetched) == 1 and all(fetched.values()) else fetched)
            _, error = run(url, f"videotestsrc is-live=true ! video/x-raw,{caps} ! glupload ! glcolorconvert")
            report("uploaded frames go through a session", error)
            fetched, error = run(url, f"videotestsrc is-live=true ! video/x-raw,{caps}")
            report("frames in the system's memory need no element", error or fetched or "")
    finally:
        end_process(xvfb)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="decart-gl-", ignore_cleanup_errors=True) as work:
        main(work)
    sys.exit(report.failed)
