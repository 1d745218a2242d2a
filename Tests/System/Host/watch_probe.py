"""Runs a session and its viewer in one process, with the output of gst-launch-1.0 -m -v, for check_secrets.py.

Usage: watch_probe.py BASE-URL TRANSPORT TOKEN-FILE. The key is in the environment. Exits with 0 if the viewer received
frames.
"""

import sys
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402  # pylint: disable=wrong-import-position

LIMIT = 120
CONNECTED = ("connected", "generating")


def notified(pipeline, source, spec):
    if spec.flags & 1:
        print(f"{source.get_path_string()}: {spec.name} = {source.get_property(spec.name)}")


def main():
    url, transport, token_file = sys.argv[1:4]
    Gst.init(None)
    publisher = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=10/1 ! decarttransform name=session"
        f" base-url={url} transport={transport} prompt=lego ! fakesink")
    viewer = Gst.parse_launch(
        f"decartsrc name=viewer base-url={url} fallback=none ! fakesink name=out signal-handoffs=true")
    frames = []
    viewer.get_by_name("out").connect("handoff", lambda *_: frames.append(1))
    for pipeline in (publisher, viewer):
        pipeline.connect("deep-notify", notified)
    publisher.set_state(Gst.State.PLAYING)
    end = time.monotonic() + LIMIT
    enough = time.monotonic() + LIMIT
    token = None
    while time.monotonic() < min(end, enough):
        for pipeline in (publisher, viewer):
            message = pipeline.get_bus().timed_pop(20 * Gst.MSECOND)
            if message is not None:
                structure = message.get_structure()
                print(message.type, structure.to_string() if structure else "", flush=True)
        if not token and publisher.get_by_name("session").get_property("connection-state").value_nick in CONNECTED:
            token = publisher.get_by_name("session").get_property("subscribe-token")
            if token:
                with open(token_file, "w", encoding="ascii") as file:
                    file.write(token)
                viewer.get_by_name("viewer").set_property("subscribe-token", token)
                viewer.set_state(Gst.State.PLAYING)
        if len(frames) > 5 and enough > end - 1:
            enough = time.monotonic() + 1.5
    for element in (publisher.get_by_name("session"), viewer.get_by_name("viewer")):
        print(element.get_property("stats").to_string())
    for pipeline in (publisher, viewer):
        Gst.debug_bin_to_dot_file(pipeline, Gst.DebugGraphDetails.ALL, pipeline.get_name())
    for pipeline in (viewer, publisher):
        pipeline.set_state(Gst.State.NULL)
    return 0 if len(frames) > 5 else 1


if __name__ == "__main__":
    sys.exit(main())
