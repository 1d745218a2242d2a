"""An RTSP camera for a check: gst-rtsp-server in a process of its own, of one colour and with a tone of 440 Hz.

    rtsp_server.py --port PORT [--codec NAME] [--audio NAME] [--user USER --password PASSWORD [--digest]]
        [--certificate FILE --key FILE]

Prints "ready" when it listens.
"""

import argparse
import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading

import gi

COLOUR = 0xff2878c8
VIDEO = {
    "h264": "x264enc tune=zerolatency key-int-max=15 ! rtph264pay config-interval=0",
    "h264-b": "x264enc speed-preset=veryfast bframes=2 b-adapt=false rc-lookahead=0 key-int-max=15 ! rtph264pay config-interval=0",
    "h265-b": "x265enc speed-preset=ultrafast key-int-max=15 option-string=bframes=2:b-adapt=0:rc-lookahead=4 ! h265parse ! rtph265pay",
    "vp8": "vp8enc deadline=1 cpu-used=8 keyframe-max-dist=15 ! rtpvp8pay",
    "vp9": "vp9enc deadline=1 cpu-used=8 keyframe-max-dist=15 ! rtpvp9pay",
    "jpeg": "jpegenc ! rtpjpegpay",
}
AUDIO = {
    "aac": "audio/x-raw,rate=48000,channels=1 ! avenc_aac ! aacparse ! rtpmp4gpay",
    "l16": "audio/x-raw,rate=44100,channels=1 ! rtpL16pay",
    "pcma": "audio/x-raw,rate=8000,channels=1 ! alawenc ! rtppcmapay",
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """Starts the server and returns when it listens."""

    def __init__(self, port, *options):
        self.process = subprocess.Popen(["/usr/bin/python3", os.path.abspath(__file__), "--port", str(port), *options],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if line != "ready\n":
            raise RuntimeError(f"the RTSP server printed {line!r}")

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Answers(socketserver.ThreadingTCPServer):
    """An RTSP server of this process that has no streams: it answers OPTIONS, and other requests with the lines that
    `answer(path, authorization)` returns, the status first."""
    daemon_threads = True

    def __init__(self, answer):
        self.answer, self.requests = answer, []  # (method, path, authorization)
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path, user=""):
        return f"rtsp://{user}127.0.0.1:{self.server_address[1]}{path}"

    def end(self):
        self.shutdown()
        self.server_close()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            while (line := self.rfile.readline().decode().split()):
                fields = {}
                while (field := self.rfile.readline().decode().strip()):
                    name, _, fields[name.lower()] = (part.strip() for part in field.partition(":"))
                request = (line[0], "/" + line[1].partition("://")[2].partition("/")[2], fields.get("authorization"))
                self.server.requests.append(request)
                lines = (["200 OK", "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN"] if line[0] == "OPTIONS"
                         else self.server.answer(*request[1:]))
                head = [f"RTSP/1.0 {lines[0]}", f"CSeq: {fields['cseq']}", *lines[1:], "", ""]
                self.wfile.write("\r\n".join(head).encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", required=True)
    parser.add_argument("--codec", default="h264", choices=VIDEO)
    parser.add_argument("--audio", choices=AUDIO)
    parser.add_argument("--user")
    parser.add_argument("--password", default="")
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    options = parser.parse_args()
    for name in ("Gst", "GstRtsp", "GstRtspServer"):
        gi.require_version(name, "1.0")
    from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer  # pylint: disable=import-outside-toplevel,no-name-in-module
    Gst.init(None)
    server = GstRtspServer.RTSPServer(address="127.0.0.1", service=options.port)
    factory = GstRtspServer.RTSPMediaFactory(shared=True)
    audio = (f"audiotestsrc is-live=true freq=440 ! audioconvert ! audioresample ! {AUDIO[options.audio]} name=pay1 pt=97"
             if options.audio else "")
    factory.set_launch(
        f"( videotestsrc is-live=true pattern=solid-color foreground-color={COLOUR} !"
        f" video/x-raw,format=I420,width=320,height=176,framerate=15/1 ! {VIDEO[options.codec]} name=pay0 pt=96 {audio} )")
    server.get_mount_points().add_factory("/camera", factory)
    if options.user or options.certificate:
        auth = GstRtspServer.RTSPAuth()
        token = GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", "viewer")
        if options.certificate:
            auth.set_tls_certificate(Gio.TlsCertificate.new_from_files(options.certificate, options.key))
            auth.set_default_token(token)
        elif options.digest:
            auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
            auth.add_digest(options.user, options.password, token)
        else:
            auth.add_basic(GstRtspServer.RTSPAuth.make_basic(options.user, options.password), token)
        server.set_auth(auth)
        role = Gst.Structure.new_empty("viewer")
        for permission in ("media.factory.access", "media.factory.construct"):
            role.set_value(permission, True)
        factory.add_role_from_structure(role)
    if not server.attach(None):
        sys.exit("the port is in use")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
