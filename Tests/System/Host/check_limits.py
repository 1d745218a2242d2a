#!/usr/bin/python3
"""Checks a host process that has few descriptors left when its first session begins.

A session needs some twenty. With fewer, the element posts an error or shows frames; the process never ends by a signal, as it
would if GLib got no descriptor for a main context. GStreamer's own parts of the pipeline have theirs before.

    check_limits.py                 what scripts/test checks
    check_limits.py --host URL N    the host process, with N descriptors left

Prints "ok NAME", "not ok NAME: why" or "skip NAME: why".
"""

import os
import resource
import subprocess
import sys
import tempfile

from checks import VERIFYING, Results, clean_environment
from standin import running_standin

LIMIT = 60  # s
COUNTS = range(0, 31) if VERIFYING else (0, 4, 9, 16, 21)


def host(url, left):
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    # Loads the plugins, whose files a process without descriptors could not open.
    for name in ("x264enc", "rtph264pay", "rtph264depay", "avdec_h264", "vp8dec", "rtpvp8depay", "videoconvert", "videoscale"):
        Gst.ElementFactory.make(name, None)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=15/1 ! "
        f'decarttransform base-url={url} api-key=x stun-server="" prompt=Noir fallback=none max-retries=0 ! '
        "fakesink name=sink sync=false signal-handoffs=true")
    pipeline.get_by_name("sink").connect("handoff", lambda *_: pipeline.get_bus().post(
        Gst.Message.new_application(None, Gst.Structure.new_empty("frame"))))
    limit = len(os.listdir("/proc/self/fd")) - 1 + left
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
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
    if sys.argv[1:2] == ["--host"]:
        return host(sys.argv[2], int(sys.argv[3]))
    report = Results("limits")
    with tempfile.TemporaryDirectory() as folder, running_standin("--quiet") as url:
        environment = clean_environment(folder)
        for count in COUNTS:
            run = subprocess.run(["/usr/bin/python3", __file__, "--host", url, str(count)], env=environment, capture_output=True,
                                 text=True, timeout=2 * LIMIT, stdin=subprocess.DEVNULL, check=False)
            ends_well = run.returncode == 0 and run.stdout.startswith(("error: ", "frame\n"))
            report(f"{count} descriptors left", "" if ends_well else f"{run.returncode}: {run.stdout[-200:]}{run.stderr[-300:]}")
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
