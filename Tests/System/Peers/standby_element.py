#!/usr/bin/python3
"""A session in a room that goes to standby and comes back twice, for `check_rooms.py`.

Usage: standby_element.py BASE-URL. Prints the subscribe token once frames come back. After a line on standard input it
changes `standby` every two seconds, and prints "good" if frames came back after each standby.
"""

import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402


def main():
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=640,height=352,framerate=20/1 "
        f"! decarttransform name=decart base-url={sys.argv[1]} insecure=true api-key=x transport=livekit width=640 "
        "height=352 prompt=noir stun-server=\"\" ! fakesink sync=true")
    decart = pipeline.get_by_name("decart")

    def received():
        return decart.get_property("stats").get_value("frames-received")

    pipeline.set_state(Gst.State.PLAYING)
    while received() < 10:
        time.sleep(0.05)
    print(decart.get_property("subscribe-token"), flush=True)
    sys.stdin.readline()
    is_good = True
    for _ in range(2):
        decart.set_property("standby", True)
        time.sleep(2)
        before = received()
        decart.set_property("standby", False)
        time.sleep(2)
        is_good = is_good and received() > before + 20
    print("good" if is_good else "no frames after a standby", flush=True)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
