#!/usr/bin/python3
"""A client of bench_network.py: sends numbered frames through one session and notes when each is displayed.

    contestants.py ours|libwebrtc|webrtcbin URL SECONDS [--deadline NS] [PROPERTY=VALUE...]

`ours` is decarttransform in a room, with these properties, into an appsink with this processing-deadline; `libwebrtc` is
LiveKit's SDK in a room; `webrtcbin` has a direct connection. All get the same frames, at most 2.5 Mbit/s of VP8.

Writes JSON lines with times on CLOCK_MONOTONIC: {"began": TIME} WARM seconds after the first frame came back, and in the end
{"taken": {NUMBER: TIME}, "shown": {NUMBER: TIME}, "cpu": seconds of CPU in SECONDS, "stats": the client's own statistics},
or {"error": TEXT}.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import threading
import time
import types

import gi
import numpy

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GLib, Gst, GstVideo  # noqa: E402

WIDTH, HEIGHT, RATE, BITRATE = 640, 360, 30, 2_500_000
RAW = f"video/x-raw,format=I420,width={WIDTH},height={HEIGHT},framerate={RATE}/1"
APPSINK = 'appsink name=out sync=true emit-signals=true processing-deadline={} caps="video/x-raw,format=I420"'
WARM = 3  # s, for the encoder's bitrate to follow the network
DRAIN = 3  # s, in which the last frames may come back
LIMIT = 40  # s, until the first frame is back
DARK, BRIGHT, CELLS, BAND = 40, 210, 32, HEIGHT // 18


def make_textures():
    """Half a second of luma: a texture that moves in a circle, for which an encoder needs a bit more than 1 Mbit/s."""
    rng, count = numpy.random.default_rng(1), RATE // 2
    texture = numpy.full((HEIGHT + 40, WIDTH + 40), 128.0)
    for size, contrast in ((40, 60), (20, 40), (8, 30)):
        texture += numpy.kron(rng.uniform(-contrast, contrast, (HEIGHT // size + 6, WIDTH // size + 6)),
                              numpy.ones((size, size)))[:HEIGHT + 40, :WIDTH + 40]
    texture = numpy.clip(texture, 16, 235).astype(numpy.uint8)
    places = [(int(20 + 8 * numpy.cos(angle)), int(20 + 8 * numpy.sin(angle)))
              for angle in numpy.arange(count) * 2 * numpy.pi / count]
    return [texture[y:y + HEIGHT, x:x + WIDTH] for x, y in places]


class Tally:
    """The numbered frames that were taken and displayed."""

    def __init__(self):
        self.taken, self.shown, self.error = {}, {}, None
        self.textures = make_textures()

    def frame(self, number):
        """An I420 frame with the number in a row of cells at its top: 16 bits and their complement."""
        luma = self.textures[number % len(self.textures)].copy()
        bits = numpy.unpackbits(numpy.array([number << 16 | ~number & 0xFFFF], ">u4").view(numpy.uint8))
        luma[:BAND] = numpy.repeat(numpy.where(bits, BRIGHT, DARK), WIDTH // CELLS)
        return luma.tobytes() + bytes([128]) * (WIDTH * HEIGHT // 2)

    def show(self, now, width, height, stride, read):
        """Notes the time at which a number is displayed first. `read` returns that many bytes of the luma."""
        rows = height * BAND // HEIGHT
        luma = numpy.frombuffer(read(rows * stride), numpy.uint8).reshape(rows, stride)
        middles = ((numpy.arange(CELLS) + 0.5) * width / CELLS).astype(int)
        levels = luma[rows // 4:rows * 3 // 4, middles].mean(axis=0)
        both = int.from_bytes(numpy.packbits(levels > (DARK + BRIGHT) / 2).tobytes(), "big")
        if both >> 16 ^ both & 0xFFFF == 0xFFFF:
            self.shown.setdefault(both >> 16, now)

    def feed(self, push):
        begun = time.monotonic()
        for number in itertools.count():
            content = self.frame(number)
            time.sleep(max(0, begun + number / RATE - time.monotonic()))
            self.taken[number] = time.monotonic()
            push(content)

    def measure(self, seconds):
        """Waits for the first frame and through the measurement, whose CPU time it returns."""
        end = time.monotonic() + LIMIT
        while not self.shown:
            if self.error or time.monotonic() > end:
                raise RuntimeError(self.error or f"no frame came back within {LIMIT} s")
            time.sleep(0.02)
        time.sleep(WARM)
        print(json.dumps({"began": time.monotonic()}), flush=True)
        before = time.process_time()
        time.sleep(seconds)
        used = time.process_time() - before
        time.sleep(DRAIN)
        if self.error:
            raise RuntimeError(self.error)
        return used


# --- GStreamer -----------------------------------------------------------------------------------------------------------

def display(sink, tally):
    """Handles new-sample, which a synchronous appsink emits at the frame's display time."""
    now = time.monotonic()
    sample = sink.emit("pull-sample")
    buffer, video = sample.get_buffer(), GstVideo.VideoInfo.new_from_caps(sample.get_caps())
    meta = GstVideo.buffer_get_video_meta(buffer)
    tally.show(now, video.width, video.height, meta.stride[0] if meta else video.stride[0],
               lambda size: buffer.extract_dup(0, size))
    return Gst.FlowReturn.OK


def watch(pipeline, tally):
    """Does what an application does with messages of the bus."""
    while tally.error is None:
        message = pipeline.get_bus().timed_pop_filtered(Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.LATENCY)
        if message and message.type == Gst.MessageType.LATENCY:
            pipeline.recalculate_latency()
        elif message:
            tally.error = str(message.parse_error())


def plain(value):
    """A GstStructure as a dictionary; values without a JSON type become strings."""
    if isinstance(value, Gst.Structure):
        names = [value.nth_field_name(at) for at in range(value.n_fields())]
        return {name: plain(value.get_value(name)) for name in names}
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def run_ours(tally, options):
    pipeline = Gst.parse_launch(
        f'appsrc name=in is-live=true format=time do-timestamp=true caps="{RAW}" ! decarttransform name=t'
        f' base-url={options.url} insecure=true api-key=x stun-server="" transport=livekit prompt=Lego codec=vp8'
        f' width={WIDTH} height={HEIGHT} framerate={RATE} max-bitrate={BITRATE} {" ".join(options.properties)}'
        f' ! {APPSINK.format(options.deadline)}')
    pipeline.get_by_name("out").connect("new-sample", display, tally)
    source = pipeline.get_by_name("in")
    pipeline.set_state(Gst.State.PLAYING)
    threading.Thread(target=watch, args=(pipeline, tally), daemon=True).start()
    threading.Thread(target=tally.feed, daemon=True, args=(
        lambda content: source.emit("push-buffer", Gst.Buffer.new_wrapped(content)),)).start()
    return tally.measure(options.seconds), plain(pipeline.get_by_name("t").get_property("stats"))


# --- LiveKit's SDK, which contains libwebrtc -----------------------------------------------------------------------------

async def run_libwebrtc(tally, options):
    import websockets
    from google.protobuf.json_format import MessageToDict
    from livekit import rtc
    socket = await websockets.connect(f"{options.url}/v1/stream?api_key=x&model=lucy-restyle-2&livekit_early_room_info=true")
    for message in ({"type": "livekit_join"}, {"type": "prompt", "prompt": "Lego", "enhance_prompt": False}):
        await socket.send(json.dumps(message))
    info, missing = None, {"livekit_room_info", "prompt_ack"}
    while missing:
        message = json.loads(await asyncio.wait_for(socket.recv(), LIMIT))
        missing.discard(message["type"])
        info = message if message["type"] == "livekit_room_info" else info
    room, tasks, tracks = rtc.Room(), [], []

    async def receive(track):
        async for event in rtc.VideoStream(track, format=rtc.VideoBufferType.I420):
            now, frame = time.monotonic(), event.frame
            tally.show(now, frame.width, frame.height, frame.width, lambda size, data=frame.data: data[:size])

    def subscribed(track, *_):
        tracks.append(track)
        tasks.append(asyncio.ensure_future(receive(track)))

    async def drain():
        async for _ in socket:
            pass

    room.on("track_subscribed", subscribed)
    tasks.append(asyncio.ensure_future(drain()))
    await room.connect(info["livekit_url"], info["token"])
    source = rtc.VideoSource(WIDTH, HEIGHT)
    tracks.append(rtc.LocalVideoTrack.create_video_track("camera", source))
    await room.local_participant.publish_track(tracks[0], rtc.TrackPublishOptions(
        source=rtc.TrackSource.SOURCE_CAMERA, simulcast=False, video_codec=rtc.VideoCodec.VP8,
        video_encoding=rtc.VideoEncoding(max_bitrate=BITRATE, max_framerate=RATE)))

    def push(content):
        source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.I420, content))
    threading.Thread(target=tally.feed, args=(push,), daemon=True).start()
    used = await asyncio.to_thread(tally.measure, options.seconds)
    return used, [MessageToDict(entry) for track in tracks for entry in await track.get_stats()]


# --- webrtcbin -----------------------------------------------------------------------------------------------------------

def run_webrtcbin(tally, options):
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Peers"))
    import webrtcbin_peer
    from websockets.sync.client import connect
    socket = connect(f"{options.url}/v1/stream?api_key=x&model=lucy-2.1", proxy=None)
    socket.send(json.dumps({"type": "prompt", "prompt": "Lego", "enhance_prompt": False}))
    while json.loads(socket.recv(LIMIT))["type"] != "prompt_ack":
        pass

    def send(kind, **fields):
        if kind == "error":
            tally.error = fields["message"]
        elif kind == "offer":
            socket.send(json.dumps({"type": kind, **fields}))
        elif kind == "candidate":
            socket.send(json.dumps({"type": "ice-candidate", "candidate": fields if fields["candidate"] else None}))

    class Peer(webrtcbin_peer.Peer):
        def on_pad_added(self, _webrtc, pad):
            if pad.get_direction() == Gst.PadDirection.SRC:
                branch = Gst.parse_bin_from_description(
                    "rtpvp8depay wait-for-keyframe=true request-keyframe=true ! vp8dec ! " + APPSINK.format(0), True)
                branch.get_by_name("out").connect("new-sample", display, tally)
                self.pipeline.add(branch)
                branch.sync_state_with_parent()
                pad.link(branch.get_static_pad("sink"))

    def push(content):
        peer.appsrc.emit("push-sample", Gst.Sample.new(Gst.Buffer.new_wrapped(content), Gst.Caps.from_string(RAW), None, None))

    def read():
        for text in socket:
            message = json.loads(text)
            if message["type"] == "ice-candidate" and message["candidate"]:
                message = {"type": "candidate", **message["candidate"]}
            if message["type"] in ("answer", "candidate"):
                GLib.idle_add(peer.handle_line, json.dumps(message))

    webrtcbin_peer.emit = send
    # An echo's source is an appsrc, which gets the frames.
    peer = Peer(types.SimpleNamespace(
        role="offer", codec="vp8", echo=True, bitrate=BITRATE, direction="sendrecv", relay_only=False, ice_servers=[], address=[],
        no_trickle=False, wrong_fingerprint=False))
    peer.pipeline.get_bus().connect("message::latency", lambda *_: peer.pipeline.recalculate_latency())
    for work in (read, peer.loop.run):
        threading.Thread(target=work, daemon=True).start()
    GLib.idle_add(peer.offer)
    while peer.appsrc is None:
        time.sleep(0.01)
    threading.Thread(target=tally.feed, args=(push,), daemon=True).start()
    return tally.measure(options.seconds), {"frames-sent": peer.frames_sent, "keyframe-requests": peer.keyframe_requests}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=["ours", "libwebrtc", "webrtcbin"])
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--deadline", type=int, default=0)
    parser.add_argument("properties", nargs="*")
    options, tally = parser.parse_args(), Tally()
    Gst.init(None)
    try:
        if options.who == "libwebrtc":
            used, stats = asyncio.run(run_libwebrtc(tally, options))
        else:
            used, stats = {"ours": run_ours, "webrtcbin": run_webrtcbin}[options.who](tally, options)
        print(json.dumps({"taken": tally.taken.copy(), "shown": tally.shown.copy(), "cpu": used, "stats": stats}), flush=True)
    except Exception as error:  # The bench prints it and continues with the next cell.
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    # Without the interpreter's teardown: threads of the libraries still run.
    os._exit(0)


if __name__ == "__main__":
    main()
