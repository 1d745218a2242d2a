#!/usr/bin/python3
"""A client of bench_network.py: sends numbered frames through one session and notes when each is displayed.

    contestants.py '{"who": "ours", "url": "ws://...", "seconds": 19, "deadline": 0, "properties": ["latency=50"],
                     "size": [1280, 704], "rate": 22, "bitrate": 3500000, "codec": "h264", "noise": false}'

`ours` is decarttransform in a room, with these properties, into an appsink with this processing-deadline in ns;
`libwebrtc` is LiveKit's SDK in a room; `webrtcbin` has a direct connection. All get the same frames: a moving mixture of
sines and squares with fine grain, or with the noise of a dark camera.

Writes JSON lines, with times on CLOCK_MONOTONIC: {"began": TIME} WARM seconds after the first frame came back; after
the measurement {"taken": {NUMBER: TIME}, "shown": {NUMBER: TIME}, "psnr": {NUMBER: dB}, "cpu": seconds, "stats": statistics
of the client}. PSNR is that of the luma of each third frame, at the size of the frame that was taken.
{"error": TEXT} takes the place of either.
"""

import asyncio
import itertools
import json
import os
import queue
import sys
import threading
import time
import types

import gi
import numpy

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import GLib, Gst, GstVideo  # noqa: E402

# The reader of our lines must not get the output of libraries.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
APPSINK = 'appsink name=out sync=true emit-signals=true processing-deadline={} caps="video/x-raw,format=I420"'
WARM = 3  # s, for the encoder's bitrate to follow the network
DRAIN = 3  # s, in which the last frames may come back
LIMIT = 40  # s, until the first frame is back
DARK, BRIGHT, CELLS, FRAMES = 40, 210, 32, 60


def make_textures(width, height, noise):
    """The luma of frames that repeat after 60: an encoder of H.264 needs some 3 Mbit/s for them at 1280x704."""
    rng = numpy.random.default_rng(1)
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    textures = []
    for number in range(FRAMES):
        turn = 2 * numpy.pi * number / FRAMES
        luma = 128 + (40 * numpy.sin(x / 37 + 6 * turn) + 30 * numpy.sin(y / 23 - 4 * turn)
                      + 20 * numpy.sin((x + y) / 11 + 8 * turn)) * (0.3 if noise else 1)
        for square in range(12):
            left = int(width / 2 * (1 + 0.8 * numpy.cos(turn + square)))
            top = int(height / 2 * (1 + 0.8 * numpy.sin(2 * turn + square * 1.7)))
            luma[max(0, top - 30):top + 30, max(0, left - 30):left + 30] = 40 + 15 * square
        luma += rng.normal(0, 12 if noise else 4, luma.shape)
        textures.append(numpy.clip(luma, 16, 235).astype(numpy.uint8))
    return textures


def enlarged(luma, width, height):
    """A picture at another size, by bilinear interpolation, as a sink shows it."""
    rows, columns = luma.shape
    if (columns, rows) == (width, height):
        return luma.astype(numpy.float32)

    def places(count, length):
        at = numpy.clip((numpy.arange(count) + 0.5) * length / count - 0.5, 0, length - 1)
        first = numpy.minimum(at.astype(int), max(0, length - 2))
        return first, numpy.minimum(first + 1, length - 1), (at - first).astype(numpy.float32)

    top, bottom, down = places(height, rows)
    left, right, across = places(width, columns)
    wide = luma[:, left] * (1 - across) + luma[:, right] * across
    return wide[top] * (1 - down[:, None]) + wide[bottom] * down[:, None]


class Tally:
    """The numbered frames that were taken and displayed."""

    def __init__(self, options):
        (self.width, self.height), self.rate = options.size, options.rate
        self.band = self.height // 18
        self.taken, self.shown, self.psnr, self.error = {}, {}, {}, None
        self.textures = make_textures(self.width, self.height, options.noise)
        self.chroma = bytes([128]) * (self.width * self.height // 2)
        self.waiting = queue.Queue(20)
        threading.Thread(target=self.compare, daemon=True).start()

    def frame(self, number):
        """An I420 frame with the number in a row of cells at its top: 16 bits and their complement."""
        luma = self.textures[number % FRAMES].copy()
        bits = numpy.unpackbits(numpy.array([number << 16 | ~number & 0xFFFF], ">u4").view(numpy.uint8))
        luma[:self.band] = numpy.repeat(numpy.where(bits, BRIGHT, DARK), self.width // CELLS)
        return luma.tobytes() + self.chroma

    def show(self, now, width, height, stride, read):
        """Notes the time at which a number is displayed first. `read` returns that many bytes of the luma."""
        rows = height * self.band // self.height
        luma = numpy.frombuffer(read(rows * stride), numpy.uint8).reshape(rows, stride)
        middles = ((numpy.arange(CELLS) + 0.5) * width / CELLS).astype(int)
        levels = luma[rows // 4:rows * 3 // 4, middles].mean(axis=0)
        both = int.from_bytes(numpy.packbits(levels > (DARK + BRIGHT) / 2).tobytes(), "big")
        number = both >> 16
        if number ^ both & 0xFFFF == 0xFFFF and number not in self.shown:
            self.shown[number] = now
            if number % 3 == 0 and not self.waiting.full():
                whole = numpy.frombuffer(read(height * stride), numpy.uint8).reshape(height, stride)[:, :width]
                self.waiting.put((number, whole.copy()))

    def compare(self):
        """Compares frames with those that were taken, beside the display."""
        os.nice(5)
        while True:
            number, luma = self.waiting.get()
            shown = enlarged(luma, self.width, self.height)[2 * self.band:]
            error = numpy.mean((shown - self.textures[number % FRAMES][2 * self.band:]) ** 2)
            self.psnr[number] = float(10 * numpy.log10(255 ** 2 / max(error, 1e-3)))

    def start(self, push):
        """Passes frames to `push` from a thread."""
        def feed():
            begun = time.monotonic()
            for number in itertools.count():
                content = self.frame(number)
                time.sleep(max(0, begun + number / self.rate - time.monotonic()))
                self.taken[number] = time.monotonic()
                push(content)
        threading.Thread(target=feed, daemon=True).start()

    def measure(self, seconds):
        """Waits for the first frame and through the measurement, whose CPU time it returns."""
        end = time.monotonic() + LIMIT
        while not self.shown:
            if self.error or time.monotonic() > end:
                raise RuntimeError(self.error or f"no frame came back within {LIMIT} s")
            time.sleep(0.02)
        time.sleep(WARM)
        print(json.dumps({"began": time.monotonic()}), file=OUT, flush=True)
        before = time.process_time()
        time.sleep(seconds)
        used = time.process_time() - before
        time.sleep(DRAIN)
        if self.error:
            raise RuntimeError(self.error)
        return used


# --- GStreamer --------------------------------------------------------------------------------------------------------

def raw(options):
    return f"video/x-raw,format=I420,width={options.size[0]},height={options.size[1]},framerate={options.rate}/1"


def push_into(source):
    return lambda content: source.emit("push-buffer", Gst.Buffer.new_wrapped(content))


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
    """A GstStructure as a dictionary. Structures in it belong to it and do not outlive it."""
    if isinstance(value, Gst.Structure):
        return {name: plain(value.get_value(name)) for name in map(value.nth_field_name, range(value.n_fields()))}
    return value


def run_ours(tally, options):
    (width, height), codec = options.size, "" if options.codec == "h264" else f"codec={options.codec}"
    pipeline = Gst.parse_launch(
        f'appsrc name=in is-live=true format=time do-timestamp=true caps="{raw(options)}" ! decarttransform name=t'
        f' base-url={options.url} insecure=true api-key=x stun-server="" transport=livekit prompt=Lego {codec}'
        f' width={width} height={height} framerate={options.framerate} max-bitrate={options.bitrate}'
        f' {" ".join(options.properties)}'
        f' ! {APPSINK.format(options.deadline)}')
    pipeline.get_by_name("out").connect("new-sample", display, tally)
    pipeline.set_state(Gst.State.PLAYING)
    threading.Thread(target=watch, args=(pipeline, tally), daemon=True).start()
    tally.start(push_into(pipeline.get_by_name("in")))
    return tally.measure(options.seconds), plain(pipeline.get_by_name("t").get_property("stats"))


# --- LiveKit's SDK, which contains libwebrtc, and webrtcbin -----------------------------------------------------------

def open_session(url, query, *messages):
    """Opens a control channel, sends these messages and a prompt. Returns the channel, and the answers by type."""
    from websockets.sync.client import connect
    socket, answers = connect(f"{url}/v1/stream?api_key=x&{query}", proxy=None, max_queue=None), {}
    for message in (*messages, {"type": "prompt", "prompt": "Lego", "enhance_prompt": False}):
        socket.send(json.dumps(message))
    while "prompt_ack" not in answers or (messages and "livekit_room_info" not in answers):
        answer = json.loads(socket.recv(LIMIT))
        answers[answer["type"]] = answer
    return socket, answers


async def run_libwebrtc(tally, options):
    from google.protobuf.json_format import MessageToDict
    from livekit import rtc
    _socket, answers = open_session(
        options.url, "model=lucy-restyle-2&livekit_early_room_info=true", {"type": "livekit_join"})
    room, tasks, tracks, source = rtc.Room(), [], [], rtc.VideoSource(*options.size)

    async def receive(track):
        async for event in rtc.VideoStream(track, format=rtc.VideoBufferType.I420):
            now, frame = time.monotonic(), event.frame
            tally.show(now, frame.width, frame.height, frame.width, lambda size, data=frame.data: data[:size])

    def subscribed(track, *_):
        tracks.append(track)
        tasks.append(asyncio.ensure_future(receive(track)))

    room.on("track_subscribed", subscribed)
    await room.connect(answers["livekit_room_info"]["livekit_url"], answers["livekit_room_info"]["token"])
    tracks.append(rtc.LocalVideoTrack.create_video_track("camera", source))
    await room.local_participant.publish_track(tracks[0], rtc.TrackPublishOptions(
        source=rtc.TrackSource.SOURCE_CAMERA, simulcast=False, video_codec=rtc.VideoCodec.Value(options.codec.upper()),
        video_encoding=rtc.VideoEncoding(max_bitrate=options.bitrate, max_framerate=options.framerate)))
    tally.start(lambda content: source.capture_frame(
        rtc.VideoFrame(*options.size, rtc.VideoBufferType.I420, content)))
    used = await asyncio.to_thread(tally.measure, options.seconds)
    return used, [MessageToDict(entry) for track in tracks for entry in await track.get_stats()]


def run_webrtcbin(tally, options):
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Peers"))
    import webrtcbin_peer
    socket, _ = open_session(options.url, "model=lucy-2.1")

    def send(kind, **fields):
        if kind == "error":
            tally.error = fields["message"]
        elif kind == "offer":
            socket.send(json.dumps({"type": kind, **fields}))

    class Peer(webrtcbin_peer.Peer):
        BITRATE = options.bitrate

        def source(self):
            return "appsrc name=frames is-live=true format=time do-timestamp=true"

        def on_pad_added(self, _webrtc, pad):
            if pad.get_direction() == Gst.PadDirection.SRC:
                branch = Gst.parse_bin_from_description("rtpvp8depay wait-for-keyframe=true request-keyframe=true"
                                                        " ! vp8dec ! " + APPSINK.format(0), True)
                branch.get_by_name("out").connect("new-sample", display, tally)
                self.pipeline.add(branch)
                branch.sync_state_with_parent()
                pad.link(branch.get_static_pad("sink"))

    def read():
        for text in socket:
            if json.loads(text)["type"] == "answer":
                GLib.idle_add(peer.handle_line, text)

    webrtcbin_peer.emit = send
    # Both descriptions have all candidates.
    peer = Peer(types.SimpleNamespace(role="offer", codec="vp8", direction="sendrecv", address=[], no_trickle=True,
                                      wrong_fingerprint=False))
    peer.pipeline.get_bus().connect("message::latency", lambda *_: peer.pipeline.recalculate_latency())
    for work in (read, peer.loop.run):
        threading.Thread(target=work, daemon=True).start()
    GLib.idle_add(peer.offer)
    while peer.appsrc is None:
        time.sleep(0.01)
    peer.appsrc.set_property("caps", Gst.Caps.from_string(raw(options)))
    tally.start(push_into(peer.appsrc))
    return tally.measure(options.seconds), {"keyframe-requests": peer.keyframe_requests}


def main():
    options = types.SimpleNamespace(**json.loads(sys.argv[1]))
    Gst.init(None)
    tally = Tally(options)
    try:
        used, stats = (asyncio.run(run_libwebrtc(tally, options)) if options.who == "libwebrtc" else
                       {"ours": run_ours, "webrtcbin": run_webrtcbin}[options.who](tally, options))
        result = {"taken": dict(tally.taken), "shown": dict(tally.shown), "psnr": dict(tally.psnr),
                  "cpu": used, "stats": stats}
    except Exception as error:  # The bench prints it and continues with the next cell.
        result = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result, default=str), file=OUT, flush=True)
    # Without the interpreter's teardown: threads of the libraries still run.
    os._exit(0)


if __name__ == "__main__":
    main()
