"""A WebRTC peer on aiortc, driven by JSON lines (peer_common.py lists them).

The generation-1 service is an aiortc peer too. This one uses no STUN server: aiortc's own default is a public one.
"""

import asyncio
import contextlib
import fractions
import json
import math
import struct
import sys
import time

import aioice.ice
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
    VideoStreamTrack,
)
from aiortc.mediastreams import MediaStreamError
from aiortc.rtcconfiguration import RTCBundlePolicy
from aiortc.rtp import RTCP_PSFB_APP, RTCP_PSFB_PLI, RtcpPsfbPacket, unpack_remb_fci
from aiortc.sdp import candidate_from_sdp
from av import AudioFrame, VideoFrame

import peer_common as common
from peer_common import emit

SQUARE = 64
CLOCK = fractions.Fraction(1, 90000)


class Clock:
    """Starts with the first frame of its track."""

    def __init__(self):
        self.started = None

    def elapsed(self):
        self.started = self.started or time.monotonic()
        return time.monotonic() - self.started

    async def wait(self, seconds):
        await asyncio.sleep(max(0, seconds - self.elapsed()))


class Pattern(VideoStreamTrack):
    """A white square that moves over a solid colour, so that loss, freezing and wrong colours are easy to detect."""

    def __init__(self, options):
        super().__init__()
        self.width, self.height, self.fps, self.is_silent = options.width, options.height, options.fps, options.closes
        self.index, self.clock = 0, Clock()
        red, green, blue = common.BACKGROUND
        # BT.601, limited range: VP8's colour space 0 (RFC 6386 9.2).
        self.luma = round(16 + 0.257 * red + 0.504 * green + 0.098 * blue)
        self.chroma = (round(128 - 0.148 * red - 0.291 * green + 0.439 * blue),
                       round(128 + 0.439 * red - 0.368 * green - 0.071 * blue))

    async def recv(self):
        if self.is_silent:
            await asyncio.Event().wait()
        frame = VideoFrame(self.width, self.height, "yuv420p")
        left = self.index * 8 % max(1, self.width - SQUARE) & ~1
        top = self.index * 2 % max(1, self.height - SQUARE) & ~1
        planes = [(self.luma, 235, 1), (self.chroma[0], 128, 2), (self.chroma[1], 128, 2)]
        for plane, (value, square, shrink) in zip(frame.planes, planes):
            stride = plane.line_size
            content = bytearray([value]) * (stride * plane.height)
            for row in range(top // shrink, min(plane.height, (top + SQUARE) // shrink)):
                start = row * stride + left // shrink
                content[start:start + SQUARE // shrink] = bytes([square]) * (SQUARE // shrink)
            plane.update(content)
        await self.clock.wait(self.index / self.fps)
        frame.pts, frame.time_base = self.index * 90000 // self.fps, CLOCK
        self.index += 1
        return frame


class Tone(MediaStreamTrack):
    """A sine in frames of 20 ms."""

    kind = "audio"
    RATE, SAMPLES = 48000, 960

    def __init__(self, frequency):
        super().__init__()
        self.frequency = frequency
        self.index, self.clock = 0, Clock()

    async def recv(self):
        first = self.index * self.SAMPLES
        await self.clock.wait(first / self.RATE)
        frame = AudioFrame(format="s16", layout="mono", samples=self.SAMPLES)
        turn = 2 * math.pi * self.frequency / self.RATE
        frame.planes[0].update(struct.pack(
            f"<{self.SAMPLES}h", *(int(12000 * math.sin(turn * (first + at))) for at in range(self.SAMPLES))))
        frame.sample_rate = self.RATE
        frame.pts = first
        frame.time_base = fractions.Fraction(1, self.RATE)
        self.index += 1
        return frame


class Peer:
    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.frames_decoded = 0
        self.audio_pitch = None
        self.last_frame = None
        self.plis = 0
        self.rembs = 0
        self.last_remb = None
        self.rtp_bytes = 0
        self.rtp_packets = 0
        self.early_candidates = []
        self.tasks = []
        self.connection = RTCPeerConnection(RTCConfiguration(
            iceServers=[], bundlePolicy=RTCBundlePolicy.BALANCED if options.balanced else RTCBundlePolicy.MAX_BUNDLE))
        self.connection.on("connectionstatechange", self.report_state)
        self.connection.on("iceconnectionstatechange", self.report_state)
        self.connection.on("track", self.consume)
        self.source = Pattern(options)

    def report_state(self):
        emit("state", connectionState=self.connection.connectionState,
             iceConnectionState=self.connection.iceConnectionState)
        if self.options.closes and self.connection.connectionState == "connected":
            self.tasks.append(asyncio.ensure_future(self.connection.close()))

    # Description and candidates

    def add_transceivers(self, has_audio):
        """Adds each transceiver once; later offers only change directions. aiortc cannot answer with extra ones."""
        kinds = {transceiver.kind for transceiver in self.connection.getTransceivers()}
        if "video" not in kinds:
            transceiver = self.connection.addTransceiver(self.source, direction=self.options.direction)
            self.prefer(transceiver)
        if self.options.tone and has_audio and "audio" not in kinds:
            transceiver = self.connection.addTransceiver(Tone(self.options.tone), direction=self.options.direction)
            if self.options.audio_codec:
                self.prefer(transceiver, self.options.audio_codec)

    def prefer(self, transceiver, codec=None):
        kind = transceiver.kind
        wanted = f"{kind}/{codec or self.options.codec}".lower()
        transceiver.setCodecPreferences([
            each for each in RTCRtpSender.getCapabilities(kind).codecs
            if each.mimeType.lower() in (wanted, f"{kind}/rtx")])

    async def offer(self):
        self.add_transceivers(has_audio=True)
        await self.connection.setLocalDescription(await self.connection.createOffer())
        self.watch()
        self.send_description()

    async def answer(self, sdp):
        self.add_transceivers("m=audio" in sdp)
        await self.connection.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="offer"))
        await self.add_early_candidates()
        if self.options.dtls_role:
            for transceiver in self.connection.getTransceivers():
                role = "client" if self.options.dtls_role == "active" else "server"
                transceiver.receiver.transport._set_role(role)
        await self.connection.setLocalDescription(await self.connection.createAnswer())
        self.watch()
        self.send_description()

    def send_description(self):
        description = self.connection.localDescription
        sdp = description.sdp
        candidates = common.candidate_lines(sdp)
        if self.options.wrong_fingerprint:
            sdp = common.with_wrong_fingerprint(sdp)
        if not self.options.no_trickle:
            sdp = common.without_candidates(sdp)
        emit(description.type, sdp=sdp)
        if not self.options.no_trickle:
            for line in candidates:
                emit("candidate", candidate=line, sdpMid=common.first_mid(sdp), sdpMLineIndex=0)
            emit("candidate", candidate=None)

    async def add_early_candidates(self):
        waiting, self.early_candidates = self.early_candidates, None
        for message in waiting or []:
            await self.add_candidate(message)

    async def add_candidate(self, message):
        if self.early_candidates is not None:
            self.early_candidates.append(message)
            return
        text = message.get("candidate")
        try:
            if not text:
                await self.connection.addIceCandidate(None)
                return
            candidate = candidate_from_sdp(text.removeprefix("a=").removeprefix("candidate:"))
            candidate.sdpMid = message.get("sdpMid")
            candidate.sdpMLineIndex = message.get("sdpMLineIndex")
            await self.connection.addIceCandidate(candidate)
        except (ValueError, AssertionError) as problem:
            emit("warning", message=f"candidate ignored: {problem}")

    # Media

    def watch(self):
        """Wraps sender and receiver to count RTCP feedback and RTP packets, which aiortc's statistics lack."""
        for transceiver in self.connection.getTransceivers():
            sender, receiver = transceiver.sender, transceiver.receiver
            if transceiver.kind != "video":
                continue
            if getattr(sender, "is_watched", False):
                continue
            sender.is_watched = True
            sender._handle_rtcp_packet = self.counting_feedback(sender._handle_rtcp_packet)
            receiver._handle_rtp_packet = self.counting_rtp(receiver._handle_rtp_packet)

    def counting_feedback(self, inner):
        async def counted(packet):
            kind = packet.fmt if isinstance(packet, RtcpPsfbPacket) else None
            self.plis += kind == RTCP_PSFB_PLI
            self.rembs += kind == RTCP_PSFB_APP
            if kind == RTCP_PSFB_APP:
                with contextlib.suppress(ValueError):
                    self.last_remb = unpack_remb_fci(packet.fci)[0]
            return await inner(packet)
        return counted

    def counting_rtp(self, inner):
        async def counted(packet, arrival_time_ms):
            self.rtp_packets += 1
            self.rtp_bytes += len(packet.payload)
            return await inner(packet, arrival_time_ms)
        return counted

    def consume(self, track):
        consume = self.consume_audio if track.kind == "audio" else self.consume_frames
        self.tasks.append(asyncio.ensure_future(consume(track)))

    async def consume_audio(self, track):
        async for frame in frames_of(track):
            samples = frame.to_ndarray()[0][::len(frame.layout.channels)].astype(int)
            if abs(samples).max() > 2000:
                rising = ((samples[:-1] < 0) & (samples[1:] >= 0)).sum()
                self.audio_pitch = float(rising) * frame.sample_rate / len(samples)

    async def consume_frames(self, track):
        async for frame in frames_of(track):
            self.frames_decoded += 1
            self.last_frame = frame
            if self.frames_decoded == 1:
                emit("first-frame", milliseconds=round((time.monotonic() - self.started) * 1000),
                     width=frame.width, height=frame.height)

    async def request_keyframe(self):
        for transceiver in self.connection.getTransceivers():
            if transceiver.kind != "video":
                continue
            receiver = transceiver.receiver
            retransmissions = set(getattr(receiver, "_RTCRtpReceiver__rtx_ssrc", {}))
            for source in receiver.getSynchronizationSources():
                if source.source not in retransmissions:
                    await receiver._send_rtcp_pli(source.source)

    def stats(self):
        frame = self.last_frame
        encoders = [getattr(transceiver.sender, "_RTCRtpSender__encoder", None)
                    for transceiver in self.connection.getTransceivers() if transceiver.kind == "video"]
        emit("stats",
             connectionState=self.connection.connectionState,
             iceConnectionState=self.connection.iceConnectionState,
             framesDecoded=self.frames_decoded,
             audioPitch=self.audio_pitch,
             width=frame.width if frame else 0,
             height=frame.height if frame else 0,
             meanRGB=mean_colour(frame) if frame else None,
             bytesReceived=self.rtp_bytes,
             packetsReceived=self.rtp_packets,
             pli=self.plis,
             rembReceived=self.rembs,
             rembBitrate=self.last_remb,
             targetBitrate=next((encoder.target_bitrate for encoder in encoders if encoder), None))

    # Life

    async def run(self):
        reader = asyncio.StreamReader(limit=1 << 22)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        if self.options.role == "offer":
            await self.offer()
        while line := await reader.readline():
            try:
                message = json.loads(line)
                if message.get("type") == "quit":
                    break
                await self.handle(message)
            except Exception as problem:  # Reports every error of either peer and continues.
                emit("error", message=f"{type(problem).__name__}: {problem}")
        await asyncio.wait_for(self.connection.close(), timeout=3)

    async def handle(self, message):
        kind = message.get("type")
        if kind == "offer":
            await self.answer(message["sdp"])
        elif kind == "answer":
            await self.connection.setRemoteDescription(RTCSessionDescription(sdp=message["sdp"], type="answer"))
            await self.add_early_candidates()
        elif kind == "candidate":
            await self.add_candidate(message)
        elif kind == "stats":
            self.stats()
        elif kind == "request-keyframe":
            await self.request_keyframe()
        else:
            emit("warning", message=f"unknown line: {kind}")


async def frames_of(track):
    """Yields the frames of a track until its end."""
    with contextlib.suppress(MediaStreamError):
        while True:
            yield await track.recv()


def mean_colour(frame):
    small = frame.reformat(width=16, height=16, format="rgb24", interpolation="AREA")
    plane = small.planes[0]
    content = bytes(plane)
    rows = [content[row * plane.line_size:row * plane.line_size + 48] for row in range(16)]
    return [round(sum(sum(row[channel::3]) for row in rows) / 256, 1) for channel in range(3)]


def main():
    options = common.parse_arguments(__doc__.splitlines()[0], codecs=["vp8", "h264"])
    if options.address:
        # aioice ignores loopback, and a test's namespace may have no other interface.
        aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: [
            address for address in options.address if use_ipv6 if ":" in address] + [
            address for address in options.address if use_ipv4 if ":" not in address]
    # Decoder threads may still hold a frame.
    common.run(lambda: asyncio.run(Peer(options).run()))


if __name__ == "__main__":
    main()
