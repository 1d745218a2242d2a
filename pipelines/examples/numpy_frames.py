#!/usr/bin/python3
"""Gets each frame as a numpy array, and sends a prompt when 60 frames have come: numpy_frames.py [PIPELINE]

Debian: python3-numpy. For OpenCV, write BGR in place of RGB.
"""
import sys

import gi
import numpy

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

PIPELINE = "videotestsrc is-live=true num-buffers=300 ! decarttransform name=decart prompt=Lego"

if "--help" in sys.argv:
    sys.exit(print(__doc__))
Gst.init(None)
try:
    pipeline = Gst.parse_launch(f"{' '.join(sys.argv[1:]) or PIPELINE} ! videoconvert ! video/x-raw,format=RGB"
                                " ! appsink name=frames max-buffers=4")
except GLib.Error as failure:
    sys.exit(failure.message.replace('no element "decart', 'install gstreamer1.0-decart, or set GST_PLUGIN_PATH: no element "decart'))
decart, frames, bus = pipeline.get_by_name("decart"), pipeline.get_by_name("frames"), pipeline.get_bus()
if not decart or not decart.find_property("prompt"):
    sys.exit("no decarttransform or decartsrc of the pipeline is named decart: write name=decart")
decart.connect("prompt-result", lambda _decart, _id, text, accepted, error, milliseconds: print(error or f"accepted: {text}"))
pipeline.set_state(Gst.State.PLAYING)
number, error = 0, None
while not error:
    # Not pull-sample: it waits for ever if the pipeline fails before its first frame.
    sample = frames.emit("try-pull-sample", Gst.SECOND // 10)
    while message := bus.pop_filtered(Gst.MessageType.ERROR | Gst.MessageType.WARNING):
        if message.type == Gst.MessageType.ERROR:
            error = message.parse_error()[0].message
            break
        print(message.parse_warning()[0].message, file=sys.stderr, flush=True)
    if not sample:
        if frames.get_property("eos"):
            break
        continue
    number += 1
    caps, buffer = sample.get_caps().get_structure(0), sample.get_buffer()
    width, height = caps.get_value("width"), caps.get_value("height")
    rows = numpy.frombuffer(buffer.extract_dup(0, buffer.get_size()), numpy.uint8).reshape(height, -1)
    frame = rows[:, :width * 3].reshape(height, width, 3)  # a row is padded to a multiple of four bytes
    if number % 30 == 0:
        print(number, frame.shape, *frame.mean(axis=(0, 1)).round().astype(int), flush=True)
    if number == 60:
        decart.set_property("prompt", "Film noir")
pipeline.set_state(Gst.State.NULL)
sys.exit(error)
