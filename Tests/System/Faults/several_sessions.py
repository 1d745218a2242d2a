#!/usr/bin/python3
"""A host program with several small sessions.

    several_sessions.py SECONDS PROPERTIES...

Each PROPERTIES, in gst-launch syntax, makes one decarttransform. After SECONDS, prints one JSON list: for each session the
number of its frames, and the texts of its errors and warnings.
"""

import json
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402


def main():
    Gst.init(None)
    sessions = [{"frames": 0, "problems": []} for _ in sys.argv[2:]]
    pipeline = Gst.parse_launch(" ".join(
        "videotestsrc is-live=true ! video/x-raw,width=160,height=96,framerate=10/1 "
        f"! decarttransform name=session{number} width=160 height=96 framerate=10 fallback=none stun-server=\"\" "
        f"prompt=noir {properties} ! fakesink name=sink{number} sync=false"
        for number, properties in enumerate(sys.argv[2:])))

    def count(_pad, _info, session):
        session["frames"] += 1
        return Gst.PadProbeReturn.OK

    for number, session in enumerate(sessions):
        pad = pipeline.get_by_name(f"sink{number}").get_static_pad("sink")
        pad.add_probe(Gst.PadProbeType.BUFFER, count, session)
    pipeline.set_state(Gst.State.PLAYING)
    end = time.monotonic() + float(sys.argv[1])
    kinds = Gst.MessageType.ERROR | Gst.MessageType.WARNING
    while (left := end - time.monotonic()) > 0:
        message = pipeline.get_bus().timed_pop_filtered(int(left * Gst.SECOND), kinds)
        if message:
            parse = message.parse_error if message.type == Gst.MessageType.ERROR else message.parse_warning
            sessions[int(message.src.get_name().removeprefix("session"))]["problems"].append(parse()[0].message)
    print(json.dumps(sessions), flush=True)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
