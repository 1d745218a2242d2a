#!/usr/bin/python3
"""A session in a room that goes to standby and comes back, for `check_rooms.py`.

Usage: standby_element.py BASE-URL. Prints the subscribe token once frames come back. Each line on standard input changes
`standby`; the answer is a line, "standby" or "frames", the latter once frames came back. Ends with its standard input.
"""

import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

LIMIT = 90  # s, for every wait


def main():
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=640,height=352,framerate=20/1 "
        f"! decarttransform name=decart base-url={sys.argv[1]} insecure=true api-key=x transport=livekit width=640 "
        "height=352 prompt=noir stun-server=\"\" ! fakesink sync=true")
    decart = pipeline.get_by_name("decart")

    def received():
        return decart.get_property("stats").get_value("frames-received")

    def wait_for_frames(target):
        end = time.monotonic() + LIMIT
        while received() < target:
            if time.monotonic() > end:
                sys.exit(f"{received()} frames, not {target}")
            time.sleep(0.05)

    pipeline.set_state(Gst.State.PLAYING)
    wait_for_frames(10)
    print(decart.get_property("subscribe-token"), flush=True)
    while sys.stdin.readline():
        standby = not decart.get_property("standby")
        before = received()
        decart.set_property("standby", standby)
        if not standby:
            wait_for_frames(before + 10)
        print("standby" if standby else "frames", flush=True)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
