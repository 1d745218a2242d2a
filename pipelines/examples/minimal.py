#!/usr/bin/python3
"""Shows a pipeline's video; each line of the input is the next prompt, Ctrl-D ends it: minimal.py [PIPELINE]"""
import sys
import threading

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

PIPELINE = "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink"


def on_message(_bus, message):
    fields = message.get_structure()
    if message.type == Gst.MessageType.WARNING:
        print(message.parse_warning()[0].message, flush=True)
    elif fields and fields.get_name() == "decart-prompt-result":
        print(fields.get_value("error") or "accepted", flush=True)
    elif message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
        end.append(message.type == Gst.MessageType.ERROR and message.parse_error()[0].message)
        loop.quit()


def read_prompts():
    for line in sys.stdin:
        decart.set_property("prompt", line.strip())
    pipeline.send_event(Gst.Event.new_eos())


if "--help" in sys.argv:
    sys.exit(print(__doc__))
Gst.init(None)
loop, end = GLib.MainLoop(), []
try:
    pipeline = Gst.parse_launch(" ".join(sys.argv[1:]) or PIPELINE)
except GLib.Error as error:
    sys.exit(error.message.replace('no element "decart', 'install gstreamer1.0-decart, or set GST_PLUGIN_PATH: no element "decart'))
decart = isinstance(pipeline, Gst.Bin) and pipeline.get_by_name("decart")
if not decart or not decart.find_property("prompt"):
    sys.exit("no decarttransform or decartsrc of the pipeline is named decart: write name=decart")
pipeline.get_bus().add_signal_watch()
pipeline.get_bus().connect("message", on_message)
pipeline.set_state(Gst.State.PLAYING)
threading.Thread(target=read_prompts, daemon=True).start()
loop.run()
pipeline.set_state(Gst.State.NULL)
sys.exit(end and end[0] or 0)
