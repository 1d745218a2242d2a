#!/usr/bin/python3
"""Sessions for check_secrets.py, with the output of gst-launch-1.0 -m -v and dot files.

    secrets_probe.py watch BASE-URL TRANSPORT TOKEN-FILE    a session and its viewer; 0 if the viewer received frames
    secrets_probe.py proxy                                  a session behind an HTTP proxy; 0 if that refused it

The key, and the proxy's URL as PROBE_PROXY, are in the environment, because command lines are no secret.
"""

import os
import sys
import time

from gst import Gst

LIMIT = 120
CONNECTED = ("connected", "generating")
SESSION = ("videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=10/1 ! decarttransform name=element"
           " prompt=lego {} ! fakesink")


class Pipeline:
    def __init__(self, text, name):
        self.pipeline = Gst.parse_launch(text)
        self.pipeline.set_name(name)
        self.element = self.pipeline.get_by_name("element")
        self.pipeline.connect("deep-notify", self.notified)

    def notified(self, _pipeline, source, spec):
        if spec.flags & 1:
            print(f"{source.get_path_string()}: {spec.name} = {source.get_property(spec.name)}")

    def play(self):
        self.pipeline.set_state(Gst.State.PLAYING)

    def message(self, wait=20 * Gst.MSECOND):
        """Prints and returns the next message, or None."""
        if message := self.pipeline.get_bus().timed_pop(wait):
            structure = message.get_structure()
            print(message.type, structure.to_string() if structure else "", flush=True)
        return message

    def end(self):
        print(self.element.get_property("stats").to_string())
        Gst.debug_bin_to_dot_file(self.pipeline, Gst.DebugGraphDetails.ALL, self.pipeline.get_name())
        self.pipeline.set_state(Gst.State.NULL)


def watch(url, transport, token_file):
    publisher = Pipeline(SESSION.format(f"base-url={url} transport={transport}"), "publisher")
    viewer = Pipeline(f"decartsrc name=element base-url={url} fallback=none ! fakesink name=out signal-handoffs=true", "viewer")
    frames = []
    viewer.pipeline.get_by_name("out").connect("handoff", lambda *_: frames.append(1))
    publisher.play()
    end = enough = time.monotonic() + LIMIT
    token = None
    while time.monotonic() < min(end, enough):
        for each in (publisher, viewer):
            each.message()
        if not token and publisher.element.get_property("connection-state").value_nick in CONNECTED:
            token = publisher.element.get_property("subscribe-token")
            if token:
                with open(token_file, "w", encoding="ascii") as file:
                    file.write(token)
                viewer.element.set_property("subscribe-token", token)
                viewer.play()
        if len(frames) > 5 and enough == end:
            enough = time.monotonic() + 1.5
    for each in (viewer, publisher):
        each.end()
    return len(frames) > 5


def proxy():
    session = Pipeline(SESSION.format("base-url=wss://service.example api-key=x max-retries=0"), "refused")
    session.element.set_property("http-proxy", os.environ.pop("PROBE_PROXY"))
    session.play()
    text = ""
    while not text and (message := session.message(60 * Gst.SECOND)):
        if message.type == Gst.MessageType.ERROR:
            text = str(message.parse_error())
    print(session.element.get_property("http-proxy"))
    session.end()
    return "HTTP proxy" in text


def main():
    Gst.init(None)
    sys.exit(not {"watch": watch, "proxy": proxy}[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
