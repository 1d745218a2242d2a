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
    if message.type == Gst.MessageType.ERROR:
        print(message.parse_error()[0].message)
    elif fields and fields.get_name() == "decart-prompt-result":
        print(fields.get_value("error") or "accepted", flush=True)
    if message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
        loop.quit()


def read_prompts():
    for line in sys.stdin:
        decart.set_property("prompt", line.strip())
    pipeline.send_event(Gst.Event.new_eos())


Gst.init(None)
loop = GLib.MainLoop()
pipeline = Gst.parse_launch(" ".join(sys.argv[1:]) or PIPELINE)
decart = pipeline.get_by_name("decart")
pipeline.get_bus().add_signal_watch()
pipeline.get_bus().connect("message", on_message)
pipeline.set_state(Gst.State.PLAYING)
threading.Thread(target=read_prompts, daemon=True).start()
loop.run()
pipeline.set_state(Gst.State.NULL)
