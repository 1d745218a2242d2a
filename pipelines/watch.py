"""Two pipelines of one application: one has a session with the service, the other one watches it with its token.

Usage: watch.py BASE-URL PNG [--show]
"""

import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402  # pylint: disable=wrong-import-position

FRAMES = 100


def main():
    if "--help" in sys.argv:
        return print(__doc__)
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    url, png = sys.argv[1:3]
    Gst.init(None)
    window = "videoconvert ! autovideosink" if "--show" in sys.argv else "fakesink sync=true"
    publisher = Gst.parse_launch(
        f"videotestsrc is-live=true horizontal-speed=4 ! video/x-raw,width=640,height=352,framerate=22/1 ! timeoverlay "
        f"! decarttransform name=session base-url={url} api-key=x width=640 height=352 prompt=\"Lego World\" ! fakesink sync=true")
    viewer = Gst.parse_launch(
        f"decartsrc name=viewer base-url={url} api-key=x model=lucy-restyle-2 width=640 height=352 fallback=none "
        # The frame rate is fixed: the PNG branch would otherwise negotiate one frame a second for all.
        f"! video/x-raw,framerate=22/1 ! identity name=count signal-handoffs=true ! tee name=outputs outputs. ! queue ! {window} "
        f"outputs. ! queue ! videorate ! video/x-raw,framerate=1/1 ! videoconvert ! pngenc "
        f"! multifilesink location={png} async=false")
    loop = GLib.MainLoop()
    failures = []
    frames = []

    def on_frame(*_):
        frames.append(1)
        if len(frames) == FRAMES:
            GLib.idle_add(loop.quit)

    viewer.get_by_name("count").connect("handoff", on_frame)

    def on_message(bus, message, name):
        if message.type == Gst.MessageType.ERROR:
            failures.append(f"{name}: {message.parse_error()[0].message}")
            loop.quit()
        elif message.type == Gst.MessageType.EOS:
            loop.quit()
        elif message.type == Gst.MessageType.ELEMENT and name == "publisher":
            structure = message.get_structure()
            # The viewer starts once the session generates. The token is in the property, and nowhere else.
            if structure.get_name() == "decart-state" and structure.get_string("state") == "generating":
                token = publisher.get_by_name("session").get_property("subscribe-token")
                if viewer.get_state(0)[1] == Gst.State.NULL:
                    viewer.get_by_name("viewer").set_property("subscribe-token", token)
                    viewer.set_state(Gst.State.PLAYING)

    for pipeline, name in ((publisher, "publisher"), (viewer, "viewer")):
        bus = pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", on_message, name)
    publisher.set_state(Gst.State.PLAYING)
    GLib.timeout_add_seconds(50, lambda: (failures.append("the viewer did not get its frames within 50 s"), loop.quit()))
    loop.run()
    viewer.set_state(Gst.State.NULL)
    publisher.set_state(Gst.State.NULL)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
