#!/usr/bin/python3
"""Sends frames in GLMemory through a session, under Xvfb with Mesa's software renderer, and measures the fetch.

    check_gl.py [--size WIDTHxHEIGHT] [--frames N]

Prints "ok NAME", "not ok NAME: why" or, without gstreamer1.0-gl or Xvfb, "skip NAME: why". Uses loopback only.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time

from checks import Results, end_process, gstreamer, start_xvfb
from standin import running_standin

FOLDER = tempfile.mkdtemp(prefix="decart-gl-")
os.environ.update(gstreamer(FOLDER), LIBGL_ALWAYS_SOFTWARE="1", GST_GL_WINDOW="x11", XDG_RUNTIME_DIR=FOLDER)

import gi  # noqa: E402

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

LIMIT = 60  # s, for every wait
TOO_SLOW = "A lot of buffers are being dropped"  # by a sink, on a busy machine
report = Results("gl")


def run(url, source, width, height, frames):
    """Returns (names of the fetching elements, times of the fetch in ms, the first error)."""
    pipeline = Gst.parse_launch(
        f"{source} ! decarttransform name=t base-url={url} api-key=x model=test-model width={width} height={height}"
        " framerate=25 prompt=Cyberpunk fallback=none ! fakesink name=out sync=false")
    transform, times, seen, entered = pipeline.get_by_name("t"), [], [0], {}

    def count(pad, info):
        seen[0] += 1
        return Gst.PadProbeReturn.OK

    def enters(pad, info):
        entered[info.get_buffer().pts] = time.monotonic()
        return Gst.PadProbeReturn.OK

    def leaves(pad, info):
        if (begin := entered.pop(info.get_buffer().pts, None)) is not None:
            times.append((time.monotonic() - begin) * 1000)
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("out").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, count)
    names, error = [], None
    try:
        pipeline.set_state(Gst.State.PLAYING)
        end = time.monotonic() + LIMIT

        def received():
            return transform.get_property("stats").get_value("frames-received")

        # The element may repeat frames.
        while (seen[0] < frames or received() < frames or (names and not times)) and time.monotonic() < end:
            message = pipeline.get_bus().timed_pop_filtered(
                100 * Gst.MSECOND, Gst.MessageType.ERROR | Gst.MessageType.WARNING)
            if message:
                error = (message.parse_error() if message.type == Gst.MessageType.ERROR else message.parse_warning())[0]
                if TOO_SLOW not in error.message:
                    return names, times, error.message
            if not names:
                elements = transform.iterate_elements()
                while True:
                    result, element = elements.next()
                    if result != Gst.IteratorResult.OK:
                        break
                    factory = element.get_factory()
                    if factory and factory.get_name() == "gldownload":
                        names.append(factory.get_name())
                        element.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, enters)
                        element.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, leaves)
        if seen[0] < frames or received() < frames:
            return names, times, f"{seen[0]} of {frames} frames came back, {received()} of the service"
        return names, times, None
    finally:
        pipeline.set_state(Gst.State.NULL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="320x176")
    parser.add_argument("--frames", type=int, default=20)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    if not shutil.which("Xvfb"):
        return report.skip("Xvfb is not installed")
    xvfb, display = start_xvfb("640x480")
    os.environ["DISPLAY"] = f":{display}"
    try:
        Gst.init(None)
        if not Gst.ElementFactory.find("gldownload") or not Gst.ElementFactory.find("gltestsrc"):
            return report.skip("gstreamer1.0-gl is not installed")
        with running_standin() as url:
            caps = f"width={width},height={height},framerate=25/1"
            names, times, error = run(
                url, f"gltestsrc is-live=true ! video/x-raw(memory:GLMemory),{caps}", width, height, options.frames)
            report("frames in GLMemory go through a session", error)
            report("gldownload fetches them", "" if names == ["gldownload"] and times else f"{names}, {len(times)} frames")
            if times:
                ordered = sorted(times)
                print(f"# {width}x{height}, {len(times)} frames: gldownload takes {statistics.median(times):.2f} ms "
                      f"(median), {ordered[int(len(ordered) * 0.95)]:.2f} ms (p95)", flush=True)
            names, _, error = run(
                url, f"videotestsrc is-live=true ! video/x-raw,{caps} ! glupload ! glcolorconvert", width, height,
                options.frames)
            report("uploaded frames go through a session", error)
            names, _, error = run(
                url, f"videotestsrc is-live=true ! video/x-raw,{caps}", width, height, options.frames)
            report("frames in the system's memory need no element", error or ("" if not names else names))
    finally:
        end_process(xvfb)
        shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main()
    sys.exit(report.failed)
