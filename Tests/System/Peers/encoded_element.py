#!/usr/bin/python3
"""A session in a room that sends H.264, or the viewer of one that returns H.264, for `check_rooms.py`.

Usage: encoded_element.py BASE-URL         sends red frames; prints the subscribe token once frames come back. Each line on
                                           standard input changes `standby`; the answer is a line, "standby" or "frames", the
                                           latter once frames came back. Prints a report at the end of its standard input
       encoded_element.py BASE-URL TOKEN   watches the session and prints a report after forty frames
The report is a JSON line: frames that left the element, their mean colour, and the element's encoders and decoders.
"""

import json
import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

COMMON = "insecure=true api-key=x transport=livekit width=640 height=352 stun-server=\"\" fallback=none"
SENT = ("videotestsrc is-live=true pattern=solid-color foreground-color=0xffc04030"
        " ! video/x-raw,format=I420,width=640,height=352,framerate=20/1,colorimetry=bt601"
        " ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=600 key-int-max=1000"
        " ! video/x-h264,profile=constrained-baseline")
SHOWN = ("capsfilter caps=video/x-h264 ! avdec_h264 name=eye ! videoconvert ! videoscale add-borders=false"
         " ! video/x-raw,format=RGB,width=16,height=16,pixel-aspect-ratio=1/1 ! fakesink name=seen sync=false")


def main():
    Gst.init(None)
    url, token = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    element = (f"decartsrc name=t base-url={url} {COMMON} subscribe-token={token}" if token else
               f"{SENT} ! decarttransform name=t base-url={url} {COMMON} framerate=20 prompt=Lego")
    pipeline = Gst.parse_launch(f"{element} ! {SHOWN}")
    report = {"frames": 0, "colour": None}

    def seen(_pad, info):
        buffer = info.get_buffer()
        content = buffer.extract_dup(0, buffer.get_size())
        report["frames"] += 1
        # The upper half.
        report["colour"] = [round(sum(content[channel:384:3]) / 128) for channel in range(3)]
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("seen").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, seen)

    def wait_for_frames(count):
        target, end = report["frames"] + count, time.monotonic() + 90
        while report["frames"] < target and time.monotonic() < end:
            time.sleep(0.05)
        return report["frames"] >= target

    pipeline.set_state(Gst.State.PLAYING)
    wait_for_frames(40 if token else 10)
    element = pipeline.get_by_name("t")
    if not token:
        print(element.get_property("subscribe-token"), flush=True)
        while sys.stdin.readline():
            standby = not element.get_property("standby")
            element.set_property("standby", standby)
            print("standby" if standby else "frames" if wait_for_frames(10) else "no frames", flush=True)
    names = []
    element.iterate_recurse().foreach(lambda each: names.append(each.get_factory().get_name()))
    report["coders"] = [name for name in names if name.endswith(("enc", "dec")) or name.startswith("avdec")]
    print(json.dumps(report), flush=True)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
