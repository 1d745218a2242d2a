"""What checks do with pipelines in their own process."""

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GLib, GObject, Gst, GstVideo  # noqa: E402, F401


def on_buffer(pad, handler):
    """Calls `handler` with each buffer of the pad, on its streaming thread."""
    def probe(_pad, info):
        handler(info.get_buffer())
        return Gst.PadProbeReturn.OK

    pad.add_probe(Gst.PadProbeType.BUFFER, probe)


def text_of(message):
    """The text of an ERROR or a WARNING."""
    return (message.parse_error if message.type == Gst.MessageType.ERROR else message.parse_warning)()[0].message


def factories_in(element):
    """The names of the factories of all elements in a bin."""
    names = []
    element.iterate_recurse().foreach(lambda each: names.append(each.get_factory().get_name()))
    return names
