#!/usr/bin/python3
"""A decarttransform behind an HTTP proxy that refuses it, for check_secrets.py.

Usage: proxy_probe.py, with the proxy's URL in the environment's PROBE_PROXY, because command lines are no secret. Prints
messages and changed properties, writes dot files, and exits with 0 if the session failed because of the proxy.
"""

import os
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402


def main():
    proxy = os.environ.pop("PROBE_PROXY")
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=10/1 ! decarttransform name=session"
        " base-url=wss://service.example api-key=x prompt=lego max-retries=0 ! fakesink")
    session = pipeline.get_by_name("session")
    session.set_property("http-proxy", proxy)
    pipeline.connect("deep-notify", lambda _bin, source, spec: print(source.get_path_string(), spec.name))
    pipeline.set_state(Gst.State.PLAYING)
    text = ""
    while not text and (message := pipeline.get_bus().timed_pop(60 * Gst.SECOND)):
        structure = message.get_structure()
        print(message.type, structure.to_string() if structure else "", flush=True)
        if message.type == Gst.MessageType.ERROR:
            text = str(message.parse_error())
    print(session.get_property("http-proxy"), session.get_property("stats").to_string())
    Gst.debug_bin_to_dot_file(pipeline, Gst.DebugGraphDetails.ALL, "refused")
    pipeline.set_state(Gst.State.NULL)
    sys.exit("HTTP proxy" not in text)


if __name__ == "__main__":
    main()
