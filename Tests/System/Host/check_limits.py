#!/usr/bin/python3
"""Checks a host process that has few descriptors or threads left when its first session begins.

A session needs some twenty descriptors and six threads. With fewer, the element posts an error or shows frames; the process
never ends by a signal, as it would if GLib got no descriptor for a main context, or no thread. GStreamer's own parts of the
pipeline have their descriptors before.

    check_limits.py                         what scripts/test checks
    check_limits.py --descriptors URL N     the host process, with N descriptors left
    check_limits.py --threads URL N         the same with threads, by a library that counts them: GStreamer's have begun
    check_limits.py --start URL N           the same before any of them has

Serial queues that get no thread at first get one later. Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile

from checks import RELEASE, VERIFYING, Results, clean_environment, compile_c
from standin import running_standin

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60  # s
# What is left, and the counts of it in the gate and under scripts/verify.
# GStreamer waits for ever for the end of a streaming thread of its own elements that has not started: with more than three
# threads at the start, one of those has none.
KINDS = {"descriptors": ((0, 4, 9, 16, 21), range(0, 31)), "threads": ((0, 1, 2), range(0, 9)), "start": ((0, 2), range(0, 4))}


def host(kind, url, left):
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    # Loads the plugins, whose files a process without descriptors could not open.
    for name in ("x264enc", "rtph264pay", "rtph264depay", "avdec_h264", "vp8dec", "rtpvp8depay", "videoconvert", "videoscale"):
        Gst.ElementFactory.make(name, None)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=15/1 ! "
        f'decarttransform name=element base-url={url} api-key=x stun-server="" prompt=Noir fallback=none max-retries=0 '
        f"auto-connect={str(kind != 'threads').lower()} ! fakesink name=sink sync=false signal-handoffs=true")
    pipeline.get_by_name("sink").connect("handoff", lambda *_: pipeline.get_bus().post(
        Gst.Message.new_application(None, Gst.Structure.new_empty("frame"))))
    if kind == "descriptors":
        limit = len(os.listdir("/proc/self/fd")) - 1 + left
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    else:
        pipeline.set_state(Gst.State.PLAYING if kind == "threads" else Gst.State.READY)
        ctypes.CDLL(os.environ["LD_PRELOAD"]).limit_threads(left)
    if kind == "threads":
        pipeline.get_by_name("element").emit("connect")
    else:
        pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(
        LIMIT * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.APPLICATION)
    if not message:
        print("neither a frame nor an error")
    elif message.type == Gst.MessageType.ERROR:
        print("error:", message.parse_error()[0].message)
    else:
        print("frame")
    sys.stdout.flush()
    pipeline.set_state(Gst.State.NULL)
    os._exit(0)


def main():
    if sys.argv[1:]:
        return host(sys.argv[1].removeprefix("--"), sys.argv[2], int(sys.argv[3]))
    report = Results("limits")
    with tempfile.TemporaryDirectory() as folder, running_standin("--quiet") as url:
        library = compile_c(f"{HERE}/thread_limit.c", f"{folder}/thread_limit.so", "-shared", "-fPIC")
        for kind, counts in KINDS.items():
            environment = clean_environment(folder)
            if kind != "descriptors":
                environment["LD_PRELOAD"] = library
            for count in counts[VERIFYING]:
                run = subprocess.run(
                    ["/usr/bin/python3", __file__, f"--{kind}", url, str(count)], env=environment, capture_output=True, text=True,
                    timeout=2 * LIMIT, stdin=subprocess.DEVNULL, check=False)
                ends_well = run.returncode == 0 and run.stdout.startswith(("error: ", "frame\n"))
                what = "threads left at the start" if kind == "start" else f"{kind} left"
                report(f"{count} {what}", "" if ends_well else f"{run.returncode}: {run.stdout[-200:]}{run.stderr[-300:]}")
        environment = {**clean_environment(folder), "LD_PRELOAD": library, "SECOND_THREAD_FAILS": "1"}
        run = subprocess.run(
            [f"{RELEASE}/gst-decartPackageTests.xctest", "--testing-library", "swift-testing", "--filter",
             r"^DecartSessionTests\.SerialQueueTests/"],
            env=environment, capture_output=True, text=True, timeout=2 * LIMIT, stdin=subprocess.DEVNULL, check=False)
        report("serial queues while each second thread does not start", run.returncode and run.stdout[-400:])
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
