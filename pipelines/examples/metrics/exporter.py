#!/usr/bin/python3
"""Runs sessions and exports the `stats` of their elements to Prometheus.

    source pipelines/env.sh
    pipelines/examples/metrics/exporter.py --base-url ws://127.0.0.1:9001 --sessions 2

http://127.0.0.1:9464/metrics has the metrics. /health responds 200 while every graph delivers frames and has a session that
lives or is retried, else 503 with the sessions that fail. The key
comes from DECART_API_KEY or --api-key-file; --help has all options. A test pattern goes to a service on this machine only.

To export from a program of your own, copy Collector: it needs a dictionary of elements by name, and no thread.
"""

import argparse
import http.server
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.parse

import gi
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

SECOND = 1e-9  # a nanosecond in seconds
BYTE = 1 / 8  # a bit in bytes

# metric, field of `stats` or PART/FIELD of a connection, unit of the field, help
COUNTERS = [
    ("frames_in", "frames-in", 1, "Frames that arrived at the element."),
    ("frames_skipped", "frames-skipped", 1, "Frames that the rate limit dropped."),
    ("frames_sent", "frames-sent", 1, "Frames handed to the encoder."),
    ("frames_encoded", "frames-encoded", 1, "Frames that left the encoder."),
    ("frames_received", "frames-received", 1, "Decoded frames from the service."),
    ("frames_decoded", "frames-decoded", 1, "Frames that left the decoder."),
    ("frames_out", "frames-out", 1, "Frames pushed downstream."),
    ("frames_fallback", "frames-fallback", 1, "Pushed frames that stood in for missing ones."),
    ("frames_late", "frames-late", 1, "Decoded frames dropped because downstream was busy."),
    ("encode_seconds", "total-encode-time", 1, "Time that frames spent in the encoder."),
    ("decode_seconds", "total-decode-time", 1, "Time that frames spent in the decoder."),
    ("generation_seconds", "total-generation-seconds", 1, "Generation that the service has billed."),
    ("freezes", "freeze-count", 1, "Freezes of the received video."),
    ("freeze_seconds", "total-freezes-duration", 1, "Duration of the freezes."),
    ("packets_sent", "packets-sent", 1, "Video packets sent."),
    ("packets_received", "packets-received", 1, "Video packets received."),
    ("packets_refused", "packets-refused", 1, "Inbound packets dropped as malformed, not authentic or replayed."),
    ("sent_bytes", "bytes-sent", 1, "Size of the sent video packets."),
    ("received_bytes", "bytes-received", 1, "Size of the received video packets."),
    ("nacks_sent", "nacks-sent", 1, "Packets that NACK feedback requested again."),
    ("nacks_received", "nacks-received", 1, "NACK feedback messages received."),
    ("plis_sent", "plis-sent", 1, "Keyframe requests sent."),
    ("plis_received", "plis-received", 1, "Keyframe requests received."),
    ("reconnects", "reconnects", 1, "Connections that were lost."),
    ("resumes", "resumes", 1, "Stays in a room that continued after a loss."),
    ("ice_restarts", "ice-restarts", 1, "ICE restarts that have succeeded."),
    ("renewals", "renewals", 1, "Sessions that another one replaced before their end."),
    ("audio_sent", "audio-buffers-sent", 1, "Buffers of audio handed to the encoder."),
    ("audio_received", "audio-buffers-received", 1, "Buffers of audio from the service."),
    ("audio_silence", "audio-buffers-silence", 1, "Buffers of silence that stood in for missing audio."),
]
# A negative or absent value is unknown, and left out.
GAUGES = [
    ("round_trip_seconds", "remote-inbound-rtp/round-trip-time", 1, "Round-trip time of the last receiver report."),
    ("jitter_seconds", "inbound-rtp/jitter", 1, "Interarrival jitter of the received video."),
    ("fraction_lost_ratio", "remote-inbound-rtp/fraction-lost", 1, "Fraction of the sent packets that the last receiver report counts as lost."),
    ("target_bytes_per_second", "outbound-rtp/target-bitrate", BYTE, "Bitrate that the encoder may send now."),
    ("estimated_bytes_per_second", "estimated-bitrate", BYTE, "Estimated capacity of the network."),
    ("sent_frames_per_second", "frames-per-second-sent", 1, "Frames handed to the encoder in the last second."),
    ("received_frames_per_second", "frames-per-second-received", 1, "Frames decoded in the last second."),
    ("connect_seconds", "connect-time", SECOND, "Time until the media connection of the latest attempt was up."),
    ("first_frame_seconds", "time-to-first-frame", SECOND, "Time until the first decoded frame of the latest attempt."),
    ("retries", "retries", 1, "Retries since the last connection that lasted."),
]
# metric, its label, help; the value of the field or property is the label, and the metric is 1.
FACTS = [
    ("connection_quality", "quality", "Verdict on the session."),
    ("limiting_factor", "factor", "What keeps the quality from being excellent."),
    ("bitrate_reason", "reason", "What the target bitrate follows."),
    ("last_reconnect_reason", "reason", "Error code of the latest loss of a connection."),
    ("last_error_code", "code", "Code of the latest ERROR message."),
    ("last_warning_code", "code", "Code of the latest WARNING message."),
]
PERCENTILES = [("50", "glass-to-glass-p50"), ("90", "glass-to-glass-p90")]


def items(structure):
    for index in range(structure.n_fields()):
        name = structure.nth_field_name(index)
        yield name, structure.get_value(name)


def value_of(stats, field):
    """A flat field, or PART/FIELD of the first connection that has it, the sending one before the receiving one; else None."""
    part, _, name = field.rpartition("/")
    if not part:
        return stats.get_value(field)
    for _, connection in items(stats.get_value("connections")):
        if connection.has_field(part) and (values := connection.get_value(part)).has_field(name):
            return values.get_value(name)
    return None


def codec_of(stats):
    return (value_of(stats, "codec/mime-type") or "").removeprefix("video/")


class Collector:
    """Reads `stats` of each element whenever Prometheus scrapes.

    Register it with a registry of prometheus_client. Each metric has the labels `session`, the name of the element in the
    dictionary, and `codec`, the negotiated video codec or "none". A reconnect keeps the last codec, so that the
    counters stay in their series.
    """

    def __init__(self, elements):
        self.elements = elements
        self.codecs = {}

    def collect(self):
        readings = []
        for session, element in self.elements.items():
            stats = element.get_property("stats")
            codec = self.codecs[session] = codec_of(stats) or self.codecs.get(session, "none")
            readings.append(([session, codec], stats, element.get_property("connection-state").value_nick))
        yield from self.plain(readings)
        yield from self.labelled(readings)
        yield from self.facts()

    def facts(self):
        queue = GaugeMetricFamily("decart_queue_position", "Position in the service's queue.", labels=["session"])
        for session, element in self.elements.items():
            if (position := element.get_property("queue-position")) >= 0:
                queue.add_metric([session], position)
        yield queue
        for name, label, text in FACTS:
            metric = GaugeMetricFamily(f"decart_{name}", text, labels=["session", label])
            for session, element in self.elements.items():
                field = name.replace("_", "-")
                known = element.find_property(field)
                value = element.get_property(field).value_nick if known else element.get_property("stats").get_value(field)
                if value:
                    metric.add_metric([session, value], 1)
            yield metric

    def plain(self, readings):
        for family, table in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, field, unit, text in table:
                metric = family(f"decart_{name}", text, labels=["session", "codec"])
                for labels, stats, _ in readings:
                    if (value := value_of(stats, field)) is not None and value >= 0:
                        metric.add_metric(labels, value * unit)
                yield metric

    def labelled(self, readings):
        dropped = CounterMetricFamily("decart_frames_dropped", "Frames lost before the encoder.",
                                      labels=["session", "codec", "cause"])
        delay = GaugeMetricFamily("decart_glass_to_glass_seconds", "Time from a frame's input until it is decoded.",
                                  labels=["session", "codec", "percentile"])
        state = GaugeMetricFamily("decart_state", "1 for the state of the session, else 0.", labels=["session", "state"])
        times = CounterMetricFamily("decart_state_seconds", "Time that the session spent in the state.",
                                    labels=["session", "state"])
        info = InfoMetricFamily("decart_session", "Codecs and transport of the session.", labels=["session"])
        for labels, stats, current in readings:
            for cause, count in items(stats.get_value("frames-dropped-by-cause")):
                dropped.add_metric([*labels, cause], count)
            for percentile, field in PERCENTILES:
                if (value := stats.get_value(field)) >= 0:
                    delay.add_metric([*labels, percentile], value * SECOND)
            for name, duration in items(stats.get_value("time-in-state")):
                state.add_metric([labels[0], name], name == current)
                times.add_metric([labels[0], name], duration * SECOND)
            facts = {"codec": codec_of(stats) or "none"}
            facts |= {name: stats.get_value(name) or "none" for name in ("encoder", "decoder", "transport")}
            info.add_metric(labels[:1], facts)
        yield from (dropped, delay, state, times, info)


# --- The program ------------------------------------------------------------------------------------------------------

class Graph:
    """The sessions. Each is healthy while it delivers frames, those of the fallback too, and is not at an end: after an
    ERROR, only a new start begins another session."""

    STALL = 10  # s without a frame
    DEAD = 5  # s in the state `error`

    def __init__(self, options):
        self.pipelines, self.elements = [], {}
        for number in range(options.sessions):
            # max-retries=-1: an outage of the service ends no session.
            pipeline = Gst.parse_launch(
                f"{options.source} ! decarttransform name=session max-retries=-1 {options.options} ! {options.sink}")
            self.pipelines.append(pipeline)
            session = self.elements[str(number)] = pipeline.get_by_name("session")
            # Not in the description: a path or a prompt may have spaces, quotes and exclamation marks.
            for name, value in (("base-url", options.base_url), ("api-key-file", options.api_key_file),
                                ("prompt", options.prompt), ("model", options.model)):
                if value and not re.search(rf"(?<!\S){name}\s*=", options.options):
                    session.set_property(name, value)
        # (frames-out, time of its last change) by session
        self.progress = {session: (0, time.monotonic()) for session in self.elements}
        self.alive = {session: time.monotonic() for session in self.elements}  # last time without the state `error`

    def play(self):
        for pipeline in self.pipelines:
            pipeline.set_state(Gst.State.PLAYING)

    def stop(self):
        for pipeline in self.pipelines:
            pipeline.set_state(Gst.State.NULL)

    def check(self):
        """Called once a second. Reports to systemd's watchdog while the graph is healthy."""
        for session, element in self.elements.items():
            frames = element.get_property("stats").get_value("frames-out")
            if frames > self.progress[session][0]:
                self.progress[session] = (frames, time.monotonic())
            if element.get_property("connection-state").value_nick != "error":
                self.alive[session] = time.monotonic()
        for pipeline in self.pipelines:
            while message := pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR | Gst.MessageType.WARNING):
                parse = message.parse_error if message.type == Gst.MessageType.ERROR else message.parse_warning
                print(f"{message.src.get_path_string()}: {parse()[0].message}", file=sys.stderr, flush=True)
        if not self.problems():
            notify("WATCHDOG=1")
        return True

    def problems(self):
        """A line for each session that is not healthy."""
        now = time.monotonic()
        stalled = [f"session {name} delivers no frames" for name, (_, since) in self.progress.items() if now - since >= self.STALL]
        return stalled + [f"session {name} has ended with an error" for name, since in self.alive.items() if now - since >= self.DEAD]


def notify(text):
    """Sends a message to systemd, if it waits for one (Type=notify)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
            # A queue that nothing reads must not stop the main loop.
            stream.setblocking(False)
            try:
                stream.connect("\0" + address[1:] if address.startswith("@") else address)
                stream.send(text.encode())
            except OSError as error:
                print(f"systemd does not take {text}: {error}", file=sys.stderr, flush=True)


def make_handler(graph, registry):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/metrics":
                self.respond(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif self.path in ("/health", "/-/healthy"):
                problems = graph.problems()
                self.respond(503 if problems else 200, "text/plain", ("\n".join(problems or ["healthy"]) + "\n").encode())
            else:
                self.respond(404, "text/plain", b"/metrics or /health\n")

        def respond(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS", help="IPv4 address of the metrics")
    parser.add_argument("--port", type=int, default=9464, help="port of the metrics; 0 takes a free one")
    parser.add_argument("--base-url", default=os.environ.get("DECART_BASE_URL") or "wss://api.decart.ai")
    parser.add_argument("--api-key-file", help="file with the key; without it, DECART_API_KEY")
    parser.add_argument("--source", help="elements in front of decarttransform, as for gst-launch-1.0")
    parser.add_argument("--sink", default="fakesink sync=true", help="elements behind it")
    parser.add_argument("--prompt", default="Lego World", help="prompt of all sessions")
    parser.add_argument("--model", default="", help="model of all sessions; empty: the element's default")
    parser.add_argument("--options", default="", help="further properties of decarttransform, as width=640 height=352")
    options = parser.parse_args()
    if not options.source:
        if urllib.parse.urlsplit(options.base_url).hostname not in ("127.0.0.1", "localhost", "::1"):
            parser.error("--source: name what to send, because the service bills it")
        options.source = "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=10/1"

    Gst.init(None)
    try:
        graph = Graph(options)
    except GLib.Error as error:
        parser.error(f"--source, --options or --sink: {error.message}")
    registry = CollectorRegistry()
    registry.register(Collector(graph.elements))
    try:
        server = http.server.ThreadingHTTPServer((options.listen, options.port), make_handler(graph, registry))
    except (OSError, OverflowError) as error:
        parser.error(f"--listen or --port: {options.listen}:{options.port}: {getattr(error, 'strerror', None) or error}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    graph.play()
    print("http://{}:{}".format(*server.server_address), flush=True)
    notify("READY=1")

    loop = GLib.MainLoop()
    GLib.timeout_add(1000, graph.check)
    for number in (signal.SIGINT, signal.SIGTERM):
        GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, number, loop.quit)
    loop.run()
    notify("STOPPING=1")
    server.shutdown()
    graph.stop()


if __name__ == "__main__":
    main()
