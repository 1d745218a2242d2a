"""Sends encoded video and audio from decarttransform to independent peers, and takes what they send as it comes.

The peers (aiortc, webrtcbin) take the place of the service behind a control channel of this script. Each decodes the
element's video and sends its own pattern, which leaves the element encoded and is decoded here: thirty frames of the right
colour and size in each direction, and with aiortc an Opus tone each way. The cases run side by side. Uses loopback only.
Prints "ok NAME: figures" or "not ok NAME: why".
"""

import concurrent.futures
import json
import os
import queue
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "Host"))
from checks import Results, gstreamer  # noqa: E402
from gst import Gst, factories_in, on_buffer  # noqa: E402
from peer_process import LIMIT, PeerProcess, near  # noqa: E402

RED, BLUE = (0xC0, 0x40, 0x30), (0x28, 0x78, 0xC8)
FRAMES = 30
ENCODERS = {
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast bitrate=800 key-int-max=1000"
            " ! video/x-h264,profile=constrained-baseline",
    "vp8": "vp8enc deadline=1 cpu-used=8 keyframe-max-dist=1000 target-bitrate=800000",
}
DECODERS = {"h264": "avdec_h264", "vp8": "vp8dec"}


class Peer(PeerProcess):
    """Answers the offer of one client."""

    def __init__(self, script, codec, options, environment):
        super().__init__(script, "answer", codec, "--address", "127.0.0.1", "--size", "320x240", *options,
                         environment=environment)
        self.to_client = None
        self.start(self.say)

    def say(self, message):
        if message["type"] == "answer":
            self.to_client({"type": "answer", "sdp": message["sdp"]})
        elif message["type"] == "candidate":
            fields = ("candidate", "sdpMid", "sdpMLineIndex")
            self.to_client({"type": "ice-candidate", "candidate": message["candidate"] and {
                name: message.get(name) for name in fields}})
        elif message["type"] == "first-frame":
            self.to_client({"type": "generation_started"})

    def take(self, message):
        if message["type"] == "offer":
            self.send(message)
        elif message["type"] == "ice-candidate":
            candidate = message["candidate"]
            # The peers' agents bind to 127.0.0.1 only.
            if candidate is None or " 127.0.0.1 " in candidate["candidate"]:
                self.send({"type": "candidate", **(candidate or {"candidate": None})})


class Service:
    """A control channel for one client at a time, with a peer for its media."""

    def __init__(self, make_peer):
        from websockets.sync.server import serve
        self.make_peer = make_peer
        self.peers = [make_peer()]
        # A client's attempt must not wait for the start of the process.
        self.peer.request_stats()
        self.server = serve(self.talk, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self.server.socket.getsockname()[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def peer(self):
        return self.peers[-1]

    def talk(self, socket):
        from websockets.exceptions import ConnectionClosed
        peer = None

        def send(message):
            try:
                socket.send(json.dumps(message))
            except ConnectionClosed:
                pass
        send({"type": "status", "status": "ready"})
        send({"type": "session_id", "session_id": "peer"})
        try:
            for text in socket:
                message = json.loads(text)
                if message["type"] == "prompt":
                    send({"type": "prompt_ack", "prompt": message["prompt"], "success": True, "error": None})
                    continue
                if message["type"] == "offer" and not peer:
                    # For the peer, a client that dials again is another one.
                    if self.peer.to_client:
                        self.peers.append(self.make_peer())
                    peer = self.peer
                    peer.to_client = send
                if peer:
                    peer.take(message)
        except ConnectionClosed:
            pass

    def end(self):
        self.server.shutdown()
        for peer in self.peers:
            peer.quit()


class Element:
    """decarttransform between an encoder and a decoder of this script."""

    def __init__(self, codec, url, has_audio):
        caps = f"video/x-{codec}"
        audio = (" audiotestsrc is-live=true freq=440 volume=0.4 ! audio/x-raw,rate=48000,channels=1"
                 " ! opusenc name=voice ! t.audio_sink t.audio_src ! capsfilter caps=audio/x-opus ! opusdec name=ear"
                 " ! audioconvert ! audio/x-raw,format=S16LE,channels=1 ! fakesink name=heard sync=false async=false")
        self.pipeline = Gst.parse_launch(
            f"videotestsrc is-live=true pattern=ball background-color={0xFF000000 | 0xC04030}"
            f" ! video/x-raw,format=I420,width=640,height=352,framerate=20/1,colorimetry=bt601 ! {ENCODERS[codec]}"
            f" ! capsfilter caps={caps} ! decarttransform name=t base-url={url} api-key=x prompt=Lego transport=webrtc"
            f" stun-server=\"\" fallback=none width=640 height=352 framerate=20"
            f" ! capsfilter name=out caps={caps} ! {DECODERS[codec]} name=eye ! videoconvert ! videoscale add-borders=false"
            " ! video/x-raw,format=RGB,width=16,height=16,pixel-aspect-ratio=1/1 ! fakesink name=seen sync=false"
            + (audio if has_audio else ""))
        self.frames, self.colour, self.pitch = 0, None, None
        self.watch("seen", self.on_frame)
        if has_audio:
            self.watch("heard", self.on_sound)

    def watch(self, name, handler):
        on_buffer(self.pipeline.get_by_name(name).get_static_pad("sink"),
                  lambda buffer: handler(buffer.extract_dup(0, buffer.get_size())))

    def on_frame(self, content):
        self.frames += 1
        if len(content) == 768:
            self.colour = [round(sum(content[channel::3]) / 256) for channel in range(3)]

    def on_sound(self, content):
        samples = memoryview(content).cast("h")
        if len(samples) > 400 and max(samples) > 2000:
            rising = sum(one < 0 <= other for one, other in zip(samples, samples[1:]))
            self.pitch = rising * 48000 / len(samples)

    def coders(self):
        return [name for name in factories_in(self.pipeline.get_by_name("t")) if name.endswith(("enc", "dec"))]

    def size(self):
        caps = self.pipeline.get_by_name("out").get_static_pad("src").get_current_caps()
        structure = caps and caps.get_structure(0)
        return structure and (structure.get_int("width")[1], structure.get_int("height")[1])

    def error(self):
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        return message and message.parse_error()


def run(script, codec, has_audio, environment):
    """Returns the reason of the failure or None, and figures."""
    options = ["--tone", "1000"] if has_audio else []
    service = Service(lambda: Peer(script, codec, options, environment))
    element = Element(codec, service.url, has_audio)
    try:
        element.pipeline.set_state(Gst.State.PLAYING)
        end = time.monotonic() + LIMIT
        there = {}
        while time.monotonic() < end:
            there = service.peer.request_stats()
            heard = not has_audio or (abs((there.get("audioPitch") or 0) - 440) < 60 and abs((element.pitch or 0) - 1000) < 60)
            if there.get("framesDecoded", 0) >= FRAMES and element.frames >= FRAMES and heard:
                break
            time.sleep(0.1)
        else:
            return (f"{there.get('framesDecoded')} frames and {there.get('audioPitch')} Hz there, {element.frames} and "
                    f"{element.pitch} Hz here: {element.error()} {service.peer.errors}"), ""
        if not near(there["meanRGB"], RED) or (there["width"], there["height"]) != (640, 352):
            return f"the peer decoded {there['width']}x{there['height']}, {there['meanRGB']}", ""
        if not near(element.colour, BLUE) or element.size() != (320, 240):
            return f"the output is {element.size()}, {element.colour}", ""
        if element.coders():
            return f"the element has {element.coders()}", ""
        if service.peer.errors:
            return f"the peer reports {service.peer.errors}", ""
        return None, f"{there['framesDecoded']} frames there, {element.frames} here" + (
            f", {there['audioPitch']:.0f} Hz there, {element.pitch:.0f} Hz here" if has_audio else "")
    except queue.Empty:
        return "the peer does not answer", ""
    finally:
        element.pipeline.set_state(Gst.State.NULL)
        service.end()


def main():
    report = Results("encoded peers")
    try:
        import aiortc  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        import websockets  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        report.skip(error)
        return 0
    environment = dict(os.environ)
    os.environ.pop("DECART_API_KEY", None)
    with tempfile.TemporaryDirectory() as work:
        os.environ.update(gstreamer(work))
        Gst.init(None)
        cases = [(f"{script.removesuffix('_peer.py')} {codec}", script, codec)
                 for script in ("aiortc_peer.py", "webrtcbin_peer.py") for codec in ("h264", "vp8")]

        def perform(case):
            name, script, codec = case
            report(name, *run(script, codec, script.startswith("aiortc") and codec == "h264", environment))

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda case: report.perform(case[0], perform, case),
                          [case for case in cases if not sys.argv[1:] or sys.argv[1] in case[0]]))
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
