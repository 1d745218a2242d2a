#!/usr/bin/python3
"""Changes the prompt of a pipeline by a timeline, by HTTP and by OSC, for a performance.

    perform.py --timeline show.txt --http 8080 --osc 9000 'v4l2src ! decarttransform name=decart ! videoconvert ! autovideosink'
    curl -d 'Film noir' http://127.0.0.1:8080/prompt
    oscsend 127.0.0.1 9000 /prompt s 'Film noir'

A line of the timeline is a time, in seconds or as minutes:seconds after the first transformed frame, and a prompt:

    0:00  Lego World
    0:12.5  Film noir

Each change is a cut: the service takes one prompt at a time. Commands are /prompt TEXT, /standby 0 or 1, and /quit.
HTTP and OSC are for this machine, without a password.
"""
import argparse
import http.server
import re
import socketserver
import struct
import sys
import threading

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402


def timeline(path):
    """(seconds, prompt) of each line; empty lines and those with # do not count."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    entries = []
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            match = re.fullmatch(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s+(.+)", line)
            if not match:
                sys.exit(f"{path}, line {number}: expected a time and a prompt, as 0:12.5 Film noir")
            entries.append((int(match[1] or 0) * 60 + float(match[2]), match[3]))
    return sorted(entries)


def command(path, text):
    """Carries a command out on the main thread; returns false for an unknown one."""
    if path == "/prompt":
        GLib.idle_add(decart.set_property, "prompt", text)
    elif path == "/standby":
        GLib.idle_add(decart.set_property, "standby", text.strip() in ("1", "true"))
    elif path == "/quit":
        GLib.idle_add(pipeline.send_event, Gst.Event.new_eos())
    return path in ("/prompt", "/standby", "/quit")


class Web(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        # A page of another site could post here too.
        length = self.headers.get("Content-Length") or "0"
        size = int(length) if length.isdecimal() else 65536
        foreign = self.headers.get("Origin") or not re.match(r"(127\.0\.0\.1|localhost)(:|$)", self.headers.get("Host", ""))
        known = not foreign and size < 65536 and command(self.path, self.rfile.read(size).decode(errors="replace"))
        self.send_response(403 if foreign else 200 if known else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class OSC(socketserver.BaseRequestHandler):
    def handle(self):
        # An OSC message: address, type tags, arguments. Each text ends with a zero and fills four bytes.
        def text(data):
            value = data.partition(b"\0")[0]
            return value.decode(errors="replace"), data[len(value) // 4 * 4 + 4:]

        address, rest = text(self.request[0])
        tags, rest = text(rest)
        # Buttons of control surfaces send numbers of either kind, or truth values.
        number = rest[:4].ljust(4, b"\0")
        values = {"s": text(rest)[0], "i": str(int.from_bytes(number, "big")), "f": f"{struct.unpack('>f', number)[0]:g}", "T": "1"}
        command(address, values.get(tags[1:2], "0"))


def on_message(_bus, message):
    fields = message.get_structure()
    if message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
        end.append(message.type == Gst.MessageType.ERROR and message.parse_error()[0].message)
        loop.quit()
    elif message.type == Gst.MessageType.WARNING:
        print(message.parse_warning()[0].message, file=sys.stderr, flush=True)
    elif fields and fields.get_name() == "decart-prompt-result":
        print(fields.get_value("error") or f"accepted: {fields.get_value('text')}", flush=True)
    elif fields and fields.get_name() == "decart-state" and fields.get_value("state") == "generating" and cues:
        for seconds, prompt in cues:
            GLib.timeout_add(int(seconds * 1000), lambda text=prompt: decart.set_property("prompt", text) or False)
        cues.clear()


parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
parser.add_argument("--timeline", help="file with a time and a prompt in each line")
parser.add_argument("--http", type=int, help="port for HTTP")
parser.add_argument("--osc", type=int, help="port for OSC over UDP")
parser.add_argument("pipeline", help="in gst-launch's language, with a decarttransform named decart")
options = parser.parse_args()
Gst.init(None)
loop, end = GLib.MainLoop(), []
try:
    cues = timeline(options.timeline) if options.timeline else []
    pipeline = Gst.parse_launch(options.pipeline)
except (OSError, GLib.Error) as error:
    hint = " (package gstreamer1.0-decart)" if 'no element "decart' in str(error) else ""
    sys.exit(f"{getattr(error, 'message', error)}{hint}")
decart = isinstance(pipeline, Gst.Bin) and pipeline.get_by_name("decart")
if not decart or not decart.find_property("prompt"):
    sys.exit("no decarttransform or decartsrc of the pipeline is named decart: write name=decart")
for port, kind, handler in ((options.http, http.server.ThreadingHTTPServer, Web), (options.osc, socketserver.UDPServer, OSC)):
    if port is not None:
        try:
            server = kind(("127.0.0.1", port), handler)
        except OSError as error:
            sys.exit(f"port {port}: {error.strerror}")
        print(f"{handler.__name__}: 127.0.0.1:{server.server_address[1]}", flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
pipeline.get_bus().add_signal_watch()
pipeline.get_bus().connect("message", on_message)
pipeline.set_state(Gst.State.PLAYING)
loop.run()
pipeline.set_state(Gst.State.NULL)
sys.exit(end and end[0] or 0)
