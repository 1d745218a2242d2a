"""A session that goes to standby and comes back, with the service's bill beside the frames.

Usage: standby.py BASE-URL CONTROL-URL [--show]

CONTROL-URL is the control endpoint of the stand-in, which tells how many seconds it has billed.
"""

import json
import sys
import time
import urllib.request

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402  # pylint: disable=wrong-import-position

# Standby or not, and for how many seconds.
PLAN = [(True, 3), (False, 4), (True, 6), (False, 3)]


def billed(control):
    """Seconds of generation so far; a tick of the stand-in is one second."""
    with urllib.request.urlopen(f"{control}/control/sessions", timeout=5) as answer:
        sessions = json.load(answer)["sessions"]
    return sessions[-1]["ticks"] if sessions else 0


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    url, control = sys.argv[1:3]
    Gst.init(None)
    if not Gst.ElementFactory.find("decarttransform"):
        sys.exit("no decarttransform: install gstreamer1.0-decart, or set GST_PLUGIN_PATH")
    window = "videoconvert ! autovideosink" if "--show" in sys.argv else "fakesink sync=true"
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true horizontal-speed=4 ! video/x-raw,width=640,height=352,framerate=22/1 "
        f"! decarttransform name=decart base-url={url} api-key=x width=640 height=352 prompt=\"Lego World\" standby=true "
        f"! {window}")
    decart = pipeline.get_by_name("decart")
    bus = pipeline.get_bus()
    pipeline.set_state(Gst.State.PLAYING)
    problem = None
    print(f"{'second':>6} {'standby':>8} {'state':>12} {'frames sent':>12} {'received':>9} {'billed s':>9}", flush=True)
    begun, second = time.monotonic(), 0
    for standby, seconds in PLAN:
        decart.set_property("standby", standby)
        back, first = decart.get_property("stats").get_value("frames-received"), None
        changed = time.monotonic()
        for _ in range(seconds):
            second += 1
            while time.monotonic() < begun + second:
                stats = decart.get_property("stats")
                if not standby and first is None and stats.get_value("frames-received") > back:
                    first = time.monotonic() - changed
                time.sleep(0.005)
            print(f"{second:6} {'yes' if standby else 'no':>8} {decart.get_property('connection-state').value_nick:>12} "
                  f"{stats.get_value('frames-sent'):12} {stats.get_value('frames-received'):9} {billed(control):9}",
                  flush=True)
        if first is not None:
            print(f"       first transformed frame {first * 1000:.0f} ms after standby=false", flush=True)
        message = bus.pop_filtered(Gst.MessageType.ERROR)
        problem = message and message.parse_error()[0].message
        if problem:
            break
    pipeline.set_state(Gst.State.NULL)
    if problem:
        sys.exit(problem)


if __name__ == "__main__":
    main()
