#!/usr/bin/python3
"""A media server: one session with the service, any number of viewers over RTSP.

    source pipelines/env.sh
    pipelines/rtsp.py [--port PORT] [--record] [LAUNCH]
    gst-play-1.0 rtsp://127.0.0.1:8554/live

LAUNCH is what gst-rtsp-server serves: a pipeline in parentheses whose payloader is named pay0. Without it, a test
pattern goes to the stand-in on its default port. With --record it is what takes a stream that a client pushes (RECORD):
its depayloader is named depay0. Only this machine can connect. Needs gir1.2-gst-rtsp-server-1.0.
"""

import argparse
import signal

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

# One keyframe a second: a viewer that joins later can decode soon.
LAUNCH = """( videotestsrc is-live=true
    ! decarttransform base-url=ws://127.0.0.1:9001 api-key=x prompt="Lego World"
    ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max=25
    ! rtph264pay name=pay0 config-interval=-1 )"""


def main():
    parser = argparse.ArgumentParser(description="One session with the service, any number of viewers over RTSP.")
    parser.add_argument("--port", default="8554", help="to listen on; 0 takes any free one")
    parser.add_argument("--record", action="store_true", help="take a stream that a client pushes, with a depayloader depay0")
    parser.add_argument("launch", nargs="?", default=LAUNCH, help="a pipeline in parentheses with a payloader pay0")
    arguments = parser.parse_args()
    Gst.init(None)

    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(arguments.launch)
    if arguments.record:
        factory.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
    # All viewers share one pipeline. It starts with the first and ends with the last of them: without viewers there is
    # no session with the service, and no cost.
    factory.set_shared(True)

    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(arguments.port)
    server.get_mount_points().add_factory("/live", factory)
    server.connect("client-connected", on_client)
    loop = GLib.MainLoop()
    if not server.attach(None):
        raise SystemExit(f"rtsp: cannot listen on port {arguments.port}: another program has it")
    print(f"rtsp://127.0.0.1:{server.get_bound_port()}/live", flush=True)
    # Removes viewers that vanished without TEARDOWN; the session with the service ends with the last viewer.
    GLib.timeout_add_seconds(5, lambda: server.get_session_pool().cleanup() >= 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, number, loop.quit)
    loop.run()


def on_client(_server, client):
    print("a viewer came", flush=True)
    client.connect("closed", lambda _client: print("a viewer left", flush=True))


main()
