"""A WebRTC peer on GStreamer's webrtcbin, driven by JSON lines (peer_common.py lists them).

It uses no STUN or TURN server. Three facts determine its structure:
- webrtcbin's sink pads block until DTLS is connected, so a leaky queue precedes each of them;
- reply["offer"] reads the description from a promise's reply (get_value() returns an empty message). It is freed with
  the reply, so its text is copied at once;
- everything except the counters runs on the main loop's thread; webrtcbin's threads only schedule work on it.
"""

import ctypes
import ctypes.util
import json
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstVideo", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstVideo, GstWebRTC  # noqa: E402

import peer_common as common  # noqa: E402
from peer_common import emit  # noqa: E402

ENCODERS = {
    "vp8": ["vp8enc deadline=1 cpu-used=8 threads=1 lag-in-frames=0 end-usage=cbr keyframe-max-dist=2000"
            " error-resilient=default target-bitrate={bitrate}"],
    "vp9": ["vp9enc deadline=1 cpu-used=8 threads=1 lag-in-frames=0 end-usage=cbr keyframe-max-dist=2000"
            " target-bitrate={bitrate}"],
    "h264": ["openh264enc bitrate={bitrate} gop-size=2000 complexity=low ! video/x-h264,profile=constrained-baseline",
             "x264enc bitrate={kilobitrate} tune=zerolatency speed-preset=ultrafast key-int-max=2000"
             " ! video/x-h264,profile=constrained-baseline"],
}
PAYLOADERS = {
    "vp8": "rtpvp8pay picture-id-mode=15-bit mtu=1200",
    "vp9": "rtpvp9pay picture-id-mode=15-bit mtu=1200",
    "h264": "h264parse ! rtph264pay config-interval=-1 aggregate-mode=zero-latency mtu=1200",
}
DECODERS = {
    "VP8": ["rtpvp8depay wait-for-keyframe=true request-keyframe=true ! vp8dec"],
    "VP9": ["rtpvp9depay wait-for-keyframe=true request-keyframe=true ! vp9dec"],
    "H264": ["rtph264depay wait-for-keyframe=true request-keyframe=true ! h264parse ! avdec_h264",
             "rtph264depay wait-for-keyframe=true request-keyframe=true ! h264parse ! openh264dec"],
}
# Without it an offer implies packetization-mode 0 (RFC 6184 8.1), which the payloader violates.
FORMATS = {"h264": ",packetization-mode=(string)1"}
FEEDBACK = "rtcp-fb-nack=true,rtcp-fb-nack-pli=true,rtcp-fb-ccm-fir=true,rtcp-fb-transport-cc=true"


def usable(descriptions):
    """Returns the first description whose elements are all installed."""
    for description in descriptions:
        names = [part.strip().split(" ")[0] for part in description.split("!") if "/" not in part.split(",")[0]]
        if all(Gst.ElementFactory.find(name) for name in names):
            return description
    raise RuntimeError(f"none of these is installed: {descriptions}")


def description(kind, sdp):
    result, message = GstSdp.SDPMessage.new_from_text(sdp)
    if result != GstSdp.SDPResult.OK:
        raise ValueError(f"the {kind} is no SDP")
    sdp_type = GstWebRTC.WebRTCSDPType.OFFER if kind == "offer" else GstWebRTC.WebRTCSDPType.ANSWER
    return GstWebRTC.WebRTCSessionDescription.new(sdp_type, message)


class Peer:
    BITRATE = 800_000  # bit/s

    def __init__(self, options):
        self.options = options
        self.started = time.monotonic()
        self.loop = GLib.MainLoop()
        self.pipeline = Gst.Pipeline.new("peer")
        self.webrtc = Gst.ElementFactory.make("webrtcbin", "webrtc")
        if self.webrtc is None:
            raise RuntimeError("webrtcbin is not installed (gstreamer1.0-plugins-bad, gstreamer1.0-nice)")
        self.webrtc.set_property("bundle-policy", GstWebRTC.WebRTCBundlePolicy.MAX_BUNDLE)
        self.webrtc.set_property("latency", 100)
        self.pipeline.add(self.webrtc)
        self.use_addresses()
        self.early_candidates = []
        self.described = False
        self.mid = None
        self.appsrc = None
        self.decoder_pads = []
        # Counters; each is written by a single streaming thread.
        self.frames_decoded = 0
        self.bytes_received = 0
        self.packets_received = 0
        self.keyframe_requests = 0
        self.size = (0, 0)
        self.last_frame = None
        self.webrtc.connect("pad-added", self.on_pad_added)
        self.webrtc.connect("on-ice-candidate", self.on_candidate)
        for name in ("connection-state", "ice-connection-state", "ice-gathering-state"):
            self.webrtc.connect(f"notify::{name}", lambda *_: GLib.idle_add(self.on_state))
        self.gathered = False
        self.last_state = None
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::error", self.on_error)

    # Network

    def use_addresses(self):
        """Adds local addresses to the libnice agent: webrtcbin 1.22 has no API for it; libnice ignores loopback."""
        if not self.options.address:
            return
        # Keep the wrapper: PyGObject 3.42 drops one reference too many of this object when it frees the wrapper.
        self.ice = self.webrtc.get_property("ice-agent")
        self.agent = self.ice.get_property("agent")
        nice = ctypes.CDLL(ctypes.util.find_library("nice") or "libnice.so.10")
        nice.nice_address_new.restype = ctypes.c_void_p
        nice.nice_address_set_from_string.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        nice.nice_agent_add_local_address.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        nice.nice_address_free.argtypes = [ctypes.c_void_p]
        for text in self.options.address:
            address = nice.nice_address_new()
            if nice.nice_address_set_from_string(address, text.encode()):
                nice.nice_agent_add_local_address(hash(self.agent), address)
            nice.nice_address_free(address)

    def on_candidate(self, _webrtc, line, candidate):
        if candidate and not self.options.no_trickle:
            emit("candidate", candidate=candidate, sdpMid=self.mid, sdpMLineIndex=line)

    def add_candidate(self, message):
        if self.early_candidates is not None:
            self.early_candidates.append(message)
            return
        text = message.get("candidate")
        if text:
            self.webrtc.emit("add-ice-candidate", message.get("sdpMLineIndex") or 0, text.removeprefix("a="))
        # webrtcbin 1.22 does not accept end-of-candidates.

    def add_early_candidates(self):
        waiting, self.early_candidates = self.early_candidates, None
        for message in waiting or []:
            self.add_candidate(message)

    def on_state(self):
        gathered = self.webrtc.get_property("ice-gathering-state") == GstWebRTC.WebRTCICEGatheringState.COMPLETE
        if gathered and not self.gathered:
            self.gathered = True
            if not self.options.no_trickle:
                emit("candidate", candidate=None)
            elif self.described:
                self.send_description()
        state = self.states()
        if state != self.last_state:
            self.last_state = state
            emit("state", **state)
        return False

    def states(self):
        return {
            "connectionState": self.webrtc.get_property("connection-state").value_nick,
            "iceConnectionState": self.webrtc.get_property("ice-connection-state").value_nick,
        }

    def on_error(self, _bus, message):
        error, detail = message.parse_error()
        emit("error", message=f"{message.src.get_path_string()}: {error.message} ({detail})")

    # Offer and answer

    def offer(self):
        self.add_source(payload_type=96)
        self.pipeline.set_state(Gst.State.PLAYING)
        self.webrtc.emit("create-offer", None, self.promise(self.use_local, "offer"))

    def answer(self, sdp):
        types = common.payload_types(sdp, self.options.codec)
        if not types:
            emit("error", message=f"the offer has no {self.options.codec}")
            return
        self.add_source(types[0])
        self.pipeline.set_state(Gst.State.PLAYING)
        self.set_remote("offer", sdp, then=lambda: self.webrtc.emit(
            "create-answer", None, self.promise(self.use_local, "answer")))

    def set_remote(self, kind, sdp, then=None):
        def done(_sdp):
            self.add_early_candidates()
            if then:
                then()
        self.webrtc.emit("set-remote-description", description(kind, sdp), self.promise(done))

    def promise(self, then, field=None):
        """Returns a promise that calls `then` on the main loop with the reply's `field`, or reports its error."""
        def changed(promise):
            reply = promise.get_reply()
            if promise.wait() != Gst.PromiseResult.REPLIED:
                return
            if reply is not None and reply.has_field("error"):
                emit("error", message=str(reply["error"]))
                return
            sdp = reply[field].sdp.as_text() if field else None
            GLib.idle_add(lambda: then(sdp) and False)
        return Gst.Promise.new_with_change_func(changed)

    def use_local(self, sdp):
        self.mid = common.first_mid(sdp)
        self.described = True
        # Sent before it is set, because setting starts gathering, and the description must precede the candidates.
        if not self.options.no_trickle:
            self.emit_sdp(sdp)
        self.webrtc.emit("set-local-description", description(self.options.role, sdp), self.promise(lambda _: None))
        if self.options.no_trickle and self.gathered:
            self.send_description()

    def send_description(self):
        self.emit_sdp(self.webrtc.get_property("local-description").sdp.as_text())

    def emit_sdp(self, sdp):
        emit(self.options.role, sdp=common.with_wrong_fingerprint(sdp) if self.options.wrong_fingerprint else sdp)

    # Sending

    def source(self):
        """Describes the source of the frames, which may be an appsrc `frames`."""
        background = 0xFF000000 | int.from_bytes(common.BACKGROUND, "big")
        return (f"videotestsrc is-live=true pattern=ball background-color={background}"
                f" ! video/x-raw,format=I420,width={self.options.width},height={self.options.height},"
                f"framerate={self.options.fps}/1,colorimetry=bt601")

    def add_source(self, payload_type):
        options = self.options
        encoder = usable(ENCODERS[options.codec]).format(bitrate=self.BITRATE, kilobitrate=self.BITRATE // 1000)
        caps = (f"application/x-rtp,media=video,encoding-name={options.codec.upper()},"
                f"payload={payload_type},clock-rate=90000,{FEEDBACK}{FORMATS.get(options.codec, '')}")
        branch = Gst.parse_bin_from_description(
            f"{self.source()} ! queue name=leaky max-size-buffers=2 max-size-bytes=0 max-size-time=0 leaky=downstream"
            f" ! videoconvert ! {encoder} ! {PAYLOADERS[options.codec]} pt={payload_type} name=payloader"
            f" ! queue max-size-time=0 max-size-bytes=0 max-size-buffers=500 leaky=downstream"
            f" ! capsfilter name=out caps={caps.replace(' ', '')}", False)
        out = branch.get_by_name("out").get_static_pad("src")
        branch.add_pad(Gst.GhostPad.new("src", out))
        self.appsrc = branch.get_by_name("frames")
        into = branch.get_by_name("payloader").get_static_pad("sink")
        into.add_probe(Gst.PadProbeType.EVENT_UPSTREAM, self.on_upstream_event)
        self.pipeline.add(branch)
        sink = self.webrtc.request_pad_simple("sink_%u")
        transceiver = sink.get_property("transceiver")
        transceiver.set_property("codec-preferences", Gst.Caps.from_string(caps))
        transceiver.set_property("do-nack", True)
        direction = getattr(GstWebRTC.WebRTCRTPTransceiverDirection, options.direction.upper())
        transceiver.set_property("direction", direction)
        branch.get_static_pad("src").link(sink)
        branch.sync_state_with_parent()

    def on_upstream_event(self, _pad, info):
        if GstVideo.video_event_is_force_key_unit(info.get_event()):
            self.keyframe_requests += 1
        return Gst.PadProbeReturn.OK

    # Receiving

    def on_pad_added(self, _webrtc, pad):
        if pad.get_direction() != Gst.PadDirection.SRC:
            return
        received = pad.get_current_caps().get_structure(0)
        name = received.get_string("encoding-name")
        if name not in DECODERS:
            emit("error", message=f"received {name}")
            return
        pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.BUFFER_LIST, self.on_packets)
        # The frames are scaled down for the mean colour.
        # webrtcbin may copy its own sender's sprop-parameter-sets into the received stream's caps: remove them.
        caps = (f"application/x-rtp,media=video,clock-rate=90000,encoding-name={name},"
                f"payload={received.get_int('payload')[1]}")
        branch = Gst.parse_bin_from_description(
            f"capssetter name=in join=false replace=true caps={caps} ! {usable(DECODERS[name])} ! queue name=decoded"
            " max-size-buffers=2 leaky=downstream ! videoconvert ! videoscale add-borders=false"
            " ! video/x-raw,format=RGB,width=16,height=16,pixel-aspect-ratio=1/1"
            " ! appsink name=small emit-signals=true sync=false max-buffers=1 drop=true", False)
        into = branch.get_by_name("in").get_static_pad("sink")
        branch.add_pad(Gst.GhostPad.new("sink", into))
        decoded = branch.get_by_name("decoded").get_static_pad("sink")
        decoded.add_probe(Gst.PadProbeType.BUFFER, self.on_decoded)
        branch.get_by_name("small").connect("new-sample", self.on_small)
        self.pipeline.add(branch)
        branch.sync_state_with_parent()
        pad.link(branch.get_static_pad("sink"))
        self.decoder_pads.append(decoded)

    def on_packets(self, _pad, info):
        if info.type & Gst.PadProbeType.BUFFER_LIST:
            packets = info.get_buffer_list()
            self.packets_received += packets.length()
            self.bytes_received += packets.calculate_size()
        else:
            self.packets_received += 1
            self.bytes_received += info.get_buffer().get_size()
        return Gst.PadProbeReturn.OK

    def on_decoded(self, pad, _info):
        self.frames_decoded += 1
        structure = pad.get_current_caps().get_structure(0)
        self.size = (structure.get_int("width")[1], structure.get_int("height")[1])
        if self.frames_decoded == 1:
            emit("first-frame", milliseconds=round((time.monotonic() - self.started) * 1000),
                 width=self.size[0], height=self.size[1])
        return Gst.PadProbeReturn.OK

    def on_small(self, sink):
        buffer = sink.emit("pull-sample").get_buffer()
        self.last_frame = buffer.extract_dup(0, buffer.get_size())
        return Gst.FlowReturn.OK

    def request_keyframe(self):
        for pad in self.decoder_pads:
            pad.push_event(GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0))

    # Statistics

    def stats(self):
        frame = self.last_frame
        mean = None
        if frame and len(frame) == 768:
            mean = [round(sum(frame[channel::3]) / 256, 1) for channel in range(3)]
        emit("stats", **self.states(), framesDecoded=self.frames_decoded, width=self.size[0], height=self.size[1],
             meanRGB=mean, bytesReceived=self.bytes_received, packetsReceived=self.packets_received,
             pli=self.keyframe_requests)

    # Life

    def read_lines(self):
        for line in sys.stdin:
            GLib.idle_add(self.handle_line, line)
        GLib.idle_add(self.loop.quit)

    def handle_line(self, line):
        try:
            message = json.loads(line)
            kind = message.get("type")
            if kind == "quit":
                self.loop.quit()
            elif kind == "offer":
                self.answer(message["sdp"])
            elif kind == "answer":
                self.set_remote("answer", message["sdp"])
            elif kind == "candidate":
                self.add_candidate(message)
            elif kind == "stats":
                self.stats()
            elif kind == "request-keyframe":
                self.request_keyframe()
            else:
                emit("warning", message=f"unknown line: {kind}")
        except Exception as problem:  # Reports every error of either peer and continues.
            emit("error", message=f"{type(problem).__name__}: {problem}")
        return False

    def run(self):
        threading.Thread(target=self.read_lines, daemon=True).start()
        if self.options.role == "offer":
            self.offer()
        self.loop.run()
        self.pipeline.set_state(Gst.State.NULL)


def main():
    options = common.parse_arguments(__doc__.splitlines()[0], codecs=["vp8", "h264", "vp9"])
    Gst.init(None)
    # webrtcbin's wrappers form reference cycles, which Python would free in an unsafe order.
    common.run(lambda: Peer(options).run())


if __name__ == "__main__":
    main()
