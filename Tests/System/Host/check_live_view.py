#!/usr/bin/python3
"""Runs decartsrc with cameras on the network: live views of an application, WHEP servers, and RTSP cameras.

    check_live_view.py [WORD...]

The cameras are aiortc, webrtcbin and gst-rtsp-server, each in a process of its own. The sessions are passthrough, so the output shows the
camera's colour. Some cases run side by side; with words only those whose name contains one of them. Prints "ok NAME", "not
ok NAME: why" or "skip NAME: why", and times as figures for scripts/verify (DECART_VERIFY=1 extends a view more often).
Uses loopback only.
"""

import base64
import concurrent.futures
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from certificates import Certificates
from checks import REPO, VERIFYING, Results, gstreamer, measured, read
from gst import GObject, Gst, GstVideo, text_of
from offered_camera import COLOUR, Camera, WHEPServer, codecs, directions, peer_python
from standin import running_standin
import rtsp_server

TOKEN = "canary-token-5d1f"
LIMIT = 60  # s, for every wait
EXTENSIONS = 5 if VERIFYING else 2
report = Results("live view")


class Element:
    """A pipeline with decartsrc that records frames, messages and warnings.

    It counts what is sent at `preview`, or with `preview=False` behind the selector of cameras inside."""

    def __init__(self, url, properties, audio=False, more="", decoder="", preview=True):
        self.changed = threading.Condition()
        self.frames, self.sent, self.tones = [], [], []  # (time, colour), times, frequencies
        self.states, self.warnings, self.errors, self.leaks = [], [], [], []
        self.pipeline = Gst.parse_launch(
            f"decartsrc name=camera base-url={url} api-key=x width=320 height=176 framerate=15 {properties}"
            f" camera.src ! {decoder} videoconvert ! video/x-raw,width=320,height=176 ! videoscale add-borders=false ! video/x-raw,format=RGB,width=16,height=16"
            " ! fakesink name=out signal-handoffs=true sync=false"
            + (" camera.preview ! fakesink name=sent signal-handoffs=true sync=false" if preview else "") + f" {more}")
        self.camera = self.pipeline.get_by_name("camera")
        self.camera.set_property("stun-server", "")
        self.pipeline.get_by_name("out").connect("handoff", self.on_frame)
        self.inputs = []  # (media type, is a keyframe) of the camera's frames
        if preview:
            self.pipeline.get_by_name("sent").connect("handoff", self.on_sent)
        else:
            self.camera.get_by_name("camera-selector").get_static_pad("src").add_probe(
                Gst.PadProbeType.BUFFER, self.on_input)
        if audio:
            self.camera.connect("pad-added", self.on_pad)
        self.pipeline.get_bus().set_sync_handler(self.on_message)

    def note(self, items, item):
        with self.changed:
            items.append(item)
            self.changed.notify_all()

    def on_frame(self, _sink, buffer, _pad):
        data = buffer.extract_dup(0, buffer.get_size())
        stride = len(data) // 16
        pixels = [data[row * stride + at:row * stride + at + 3] for row in range(16) for at in range(0, 48, 3)]
        self.note(self.frames, (time.monotonic(), tuple(sum(part) // 256 for part in zip(*pixels))))

    def on_sent(self, _sink, _buffer, _pad):
        self.note(self.sent, time.monotonic())

    def on_input(self, pad, info):
        is_keyframe = not info.get_buffer().has_flags(Gst.BufferFlags.DELTA_UNIT)
        self.note(self.inputs, (pad.get_current_caps().get_structure(0).get_name(), is_keyframe))
        self.note(self.sent, time.monotonic())
        return Gst.PadProbeReturn.OK

    def coders(self):
        """"encoder" and "decoder", if the element has one for video; names may vary, classes do not."""
        found, factories = set(), []
        self.camera.iterate_recurse().foreach(lambda each: factories.append(each.get_factory()))
        for factory in factories:
            words = factory.get_metadata("klass").split("/") if factory else []
            if not {"Audio", "Network"} & set(words):
                found |= {word.lower() for word in words if word in ("Encoder", "Decoder")}
        return found

    def on_pad(self, _element, pad):
        if pad.get_name() != "audio_src":
            return
        branch = Gst.parse_bin_from_description(
            "audioconvert ! audio/x-raw,format=S16LE,rate=48000,channels=1 ! fakesink name=audio signal-handoffs=true"
            " sync=false", True)
        branch.get_by_name("audio").connect("handoff", self.on_audio)
        self.pipeline.add(branch)
        branch.sync_state_with_parent()
        pad.link(branch.get_static_pad("sink"))

    def on_audio(self, _sink, buffer, _pad):
        data = memoryview(buffer.extract_dup(0, buffer.get_size())).cast("h")
        loud = max(data, default=0) > 4000
        crossings = sum(one < 0 <= other for one, other in zip(data, data[1:]))
        self.note(self.tones, crossings * 48000 / max(1, len(data)) if loud else 0)

    def on_message(self, _bus, message):
        structure = message.get_structure()
        if structure and "canary" in structure.to_string():
            self.note(self.leaks, structure.to_string())
        if message.type in (Gst.MessageType.WARNING, Gst.MessageType.ERROR):
            self.note(self.warnings if message.type == Gst.MessageType.WARNING else self.errors, text_of(message))
        elif structure and structure.get_name() == "decart-live-view":
            self.note(self.states, (structure.get_value("state"), structure.get_value("reason")))
        return Gst.BusSyncReply.DROP

    def wait(self, condition, seconds=LIMIT):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), seconds)

    def shows_camera(self, after=0.0, seconds=LIMIT):
        """Waits for an output frame with the camera's colour and its white square."""
        def fits(colour):
            return all(abs(part - wanted) < 40 for part, wanted in zip(colour, COLOUR))
        return self.wait(lambda own: any(at > after and fits(colour) for at, colour in own.frames[-5:]), seconds)

    def longest_gap(self):
        """Seconds between two frames that went to the service."""
        return max((later - earlier for earlier, later in zip(self.sent, self.sent[1:])), default=99)

    def has_state(self, name, count=1):
        return lambda own: sum(state == name for state, _ in own.states) >= count

    def play(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        return self

    def stop(self, name=None, bound=2):
        began = time.monotonic()
        self.pipeline.set_state(Gst.State.NULL)
        if name:
            measured(f"live view: {name}", time.monotonic() - began, "s", at_most=bound)

    def session(self):
        return self.camera.get_property("session-id")

    def summary(self):
        return (f"{len(self.frames)} frames, the last {self.frames[-1][1] if self.frames else None}, {len(self.sent)} sent, "
                f"states {self.states[-6:]}, warnings {self.warnings[-3:]}, errors {self.errors}")


class Application:
    """Carries the offers of source=live-view to cameras, on a thread of its own, and answers by the action signal."""

    def __init__(self, element, cameras, durations=(), extensions=(), trickles=False):
        self.element, self.cameras = element, list(cameras)
        self.durations, self.extensions, self.trickles = list(durations), list(extensions), trickles
        self.offers, self.answered, self.asked, self.ended, self.refused = [], [], [], [], []
        camera = element.camera
        camera.connect("request-live-view", self.on_request)
        camera.connect("request-live-view-extension", self.on_extension)
        camera.connect("live-view-ended", lambda _element, view: self.ended.append((time.monotonic(), view)))

    def on_request(self, _element, number, offer):
        self.element.note(self.offers, (time.monotonic(), offer))
        threading.Thread(target=self.answer, args=(number, offer), daemon=True).start()

    def on_extension(self, _element, number, view):
        self.element.note(self.asked, (time.monotonic(), view))
        reply = Gst.Structure.new_empty("extension")
        extension = self.extensions.pop(0) if self.extensions else None
        if extension is None:
            reply.set_value("error", "the camera's owner wants it back")
        else:
            reply.set_value("duration", extension)
        if len(self.asked) % 2:  # in the handler and by the action signal, in turn
            return reply
        self.element.camera.emit("answer-live-view", number, reply)
        return None

    def answer(self, number, offer):
        if not self.cameras:
            return
        camera = self.cameras.pop(0)
        reply = Gst.Structure.new_empty("view")
        reply.set_value("answer-sdp", camera.answer(offer))
        reply.set_value("media-session-id", f"view-{len(self.offers)}")
        if self.durations:
            reply.set_value("duration", self.durations.pop(0))
        self.answered.append(time.monotonic())
        if not self.element.camera.emit("answer-live-view", number, reply):
            self.refused.append(number)
        for candidate in camera.candidates() if self.trickles else ():
            self.element.camera.emit("add-live-view-candidate", candidate)


class Case:
    """The elements, cameras and WHEP servers of a case, which end with the block."""

    def __init__(self, url):
        self.url, self.ends = url, contextlib.ExitStack()
        self.folder = self.ends.enter_context(tempfile.TemporaryDirectory())

    def element(self, properties, **more):
        element = Element(self.url, properties, **more)
        self.ends.callback(element.stop)
        return element

    def camera(self, *options, **more):
        camera = Camera(*options, **more)
        self.ends.callback(camera.kill)
        # It answers now, so an offer does not wait for the start of the process.
        camera.request_stats()
        return camera

    def server(self, on_offer):
        server = WHEPServer(on_offer)
        self.ends.callback(server.close)
        return server

    def rtsp(self, port, *options):
        server = rtsp_server.Server(port, *options)
        self.ends.callback(server.kill)
        return server

    def rtsp_answers(self, answer):
        server = rtsp_server.Answers(answer)
        self.ends.callback(server.end)
        return server

    def server_of(self, *cameras):
        """A server with a view of each of these cameras, one after the other."""
        return self.server(lambda number, offer: cameras[number - 1].answer(offer) if number <= len(cameras) else 404)


# --- Cases -------------------------------------------------------------------------------------------------------------

def check_whep(case):
    """Redirect, token, audio, an end by the camera, DELETE."""
    first = case.camera("--no-trickle", "--tone", "440")
    second = case.camera("--no-trickle", codec="vp8")
    server = case.server_of(first, second)
    element = case.element(f"source=whep:{server.base}/moved?key=canary-query audio-source=camera", audio=True)
    element.camera.set_property("whep-token", TOKEN)
    shown = element.camera.get_property("source")
    readable = element.camera.find_property("whep-token").flags & GObject.ParamFlags.READABLE
    report("whep-token cannot be read", "it can" if readable else "")
    report("a WHEP URL is shown without its query", "" if "canary" not in shown and "/moved" in shown else shown)
    why = "" if element.play().shows_camera() else element.summary()
    report("WHEP: the camera's frames are transformed", why)
    coders = element.coders()
    report("a camera's video is decoded and encoded by default", "" if coders == {"encoder", "decoder"} else coders)
    offer = server.offers()[0]
    headers = offer[2]
    report("WHEP: the offer follows a redirect, with the token, and is complete", "" if (
        headers.get("Authorization") == f"Bearer {TOKEN}" and headers.get("Content-Type") == "application/sdp"
        and offer[1].startswith("/cameras/front/whep") and "a=candidate:" in offer[3]
        and directions(offer[3]) == [("video", "recvonly"), ("audio", "recvonly")] and not server.named("PATCH"))
        else [request[:3] for request in server.requests])
    heard = element.wait(lambda own: sum(abs(tone - 440) < 60 for tone in own.tones[-50:]) > 20)
    report("WHEP: the camera's audio comes beside", "" if heard else element.tones[-20:])
    session, ended = element.session(), time.monotonic()
    element.camera.set_property("whep-token", f"{TOKEN}-2")
    first.end()
    lost = element.wait(element.has_state("waiting"))
    frames = len(element.frames)
    fell_back = element.wait(lambda own: len(own.frames) > frames + 2)
    back = element.wait(element.has_state("live", 2)) and element.shows_camera(after=time.monotonic())
    report("a camera that ends is fallback, and a new view begins by back-off",
           "" if lost and fell_back and back else element.summary(), f"{time.monotonic() - ended:.1f} s")
    report("the session with the service stays",
           "" if session and element.session() == session else f"{session} -> {element.session()}")
    element.stop("NULL with a WHEP server", 3)
    removed = server.wait(lambda own: len(own.named("DELETE")) == 2)
    paths = [path for _, path, _, _ in server.named("DELETE")]
    tokens = [headers.get("Authorization") for _, _, headers, _ in server.named("DELETE")]
    report("WHEP: each view is deleted at its Location, with the token of its time", "" if removed
           and tokens == [f"Bearer {TOKEN}", f"Bearer {TOKEN}-2"]
           and paths == ["/cameras/resources/1?secret=1", "/cameras/resources/2?secret=1"] else (paths, tokens))
    text = " ".join(element.warnings + [str(state) for state in element.states])
    report("no secret is in a message", "canary" in text and text)


def check_g711(case):
    """Audio of IP cameras, and a server that has no codec for the camera's audio."""
    for codec in ("PCMU", "PCMA"):
        camera = case.camera("--no-trickle", "--tone", "440", "--audio-codec", codec)
        server = case.server_of(camera)
        element = case.element(f"source=whep:{server.base}/camera audio-source=camera", audio=True)
        shown = element.play().shows_camera()
        heard = element.wait(lambda own: sum(abs(tone - 440) < 60 for tone in own.tones[-50:]) > 20)
        report(f"WHEP: a camera's {codec} is heard", "" if shown and heard else (element.summary(), element.tones[-20:]))
        element.stop()
    camera = case.camera("--no-trickle")
    refusal = (400, '{"error":"codecs not supported by client"}', {"Content_Type": "application/json"})
    server = case.server(lambda number, offer: refusal if "m=audio" in offer else camera.answer(offer))
    element = case.element(f"source=whep:{server.base}/camera audio-source=camera", audio=True).play()
    shown = element.shows_camera()
    told = [text for text in element.warnings if "audio" in text and "codecs not supported by client" in text]
    offers = [directions(offer[3]) for offer in server.offers()]
    report("WHEP: after a refusal of its audio, the camera's video comes alone", "" if shown and len(told) == 1 and offers == [
        [("video", "recvonly"), ("audio", "recvonly")], [("video", "recvonly")]] else (offers, element.summary()))


def check_refusals(case):
    """The answers of media servers to an offer, as MediaMTX 1.20 and go2rtc write them."""
    for status, body, wanted in ((400, '{"error":"codecs not supported by client"}', "codecs not supported by client"),
                                 (500, "codecs not matched: H265 => H264, VP8, VP9", "codecs not matched: H265"),
                                 (404, "no stream is available on path 'cam'", "no such stream")):
        kind = "application/json; charset=utf-8" if body.startswith("{") else "text/plain; charset=utf-8"
        server = case.server(lambda number, offer, answer=(status, body, {"Content_Type": kind}): answer)
        element = case.element(f"source=whep:{server.base}/camera").play()
        told = element.wait(lambda own: own.warnings)
        report(f"WHEP: the cause of HTTP {status} is told", "" if told and wanted in element.warnings[0] and not element.errors
               else element.summary())
        element.stop()


def check_basic(case):
    """User name and password in the URL."""
    camera = case.camera("--no-trickle")
    server = case.server(lambda number, offer: camera.answer(offer))
    server.authorization = "Basic " + base64.b64encode(b"us@er:canary:word").decode()
    bare = case.element(f"source=whep:{server.base}/camera").play()
    told = bare.wait(lambda own: any("Basic" in text and "source=whep:" in text for text in own.warnings))
    report("WHEP: a server that wants Basic authentication is told of", "" if told else bare.summary())
    bare.stop()
    base = server.base.replace("://", "://us%40er:canary%3Aword@")
    element = case.element(f"source=whep:{base}/camera")
    source = element.camera.get_property("source")
    dot = Gst.debug_bin_to_dot_data(element.pipeline, Gst.DebugGraphDetails.ALL)
    shown = element.play().shows_camera()
    report("WHEP: the URL's user name and password open a view", "" if shown else element.summary())
    element.stop()
    removed = server.wait(lambda own: own.named("DELETE"))
    allowed = [headers.get("Authorization") == server.authorization for _, _, headers, _ in server.named("DELETE")]
    report("WHEP: they go with its DELETE", "" if removed and all(allowed) else allowed)
    text = " ".join([source, dot, *element.warnings, *element.errors, str(element.states)])
    report("WHEP: they are in no message, property and dot file", "canary" in text and text)


NGINX = """
user root;
daemon off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location /moved {{
            return 308 /camera;
        }}
        location / {{
            auth_basic "cameras";
            auth_basic_user_file {folder}/users;
            proxy_pass {upstream};
        }}
    }}
}}
"""


def check_nginx(case):
    """nginx as reverse proxy with Basic authentication, in front of a WHEP camera that knows nothing of it."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if not nginx:
        report.skip("nginx: not installed")
        return
    camera = case.camera("--no-trickle")
    server = case.server(lambda number, offer: camera.answer(offer))
    folder, port = case.ends.enter_context(tempfile.TemporaryDirectory()), rtsp_server.free_port()
    digest = subprocess.run(["openssl", "passwd", "-apr1", "canary:word"], capture_output=True, text=True, check=True).stdout
    for name, text in (("users", f"us@er:{digest}"), ("conf", NGINX.format(folder=folder, port=port, upstream=server.base))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    proxy = subprocess.Popen([nginx, "-c", f"{folder}/conf"], stderr=subprocess.DEVNULL)
    case.ends.callback(proxy.wait)
    case.ends.callback(proxy.terminate)
    # The first view may come before nginx listens, and is repeated.
    bare = case.element(f"source=whep:http://127.0.0.1:{port}/camera").play()
    told = bare.wait(lambda own: any("Basic" in text and "source=whep:" in text for text in own.warnings))
    report("WHEP behind nginx: its authentication is told of", "" if told and not server.offers() else bare.summary())
    bare.stop()
    element = case.element(f"source=whep:http://us%40er:canary%3Aword@127.0.0.1:{port}/moved").play()
    shown = element.shows_camera()
    element.stop()
    removed = server.wait(lambda own: own.named("DELETE"))
    report("WHEP behind nginx: user name and password follow a redirect, open a view, and end it",
           "" if shown and removed and "canary" not in str(element.warnings) else (element.summary(), server.requests))


def check_extensions(case):
    """A duration of 6 s, extended."""
    element = case.element("source=live-view", more="audiotestsrc is-live=true freq=880 ! camera.talkback")
    camera = case.camera("--no-trickle", "--tone", "440", "--direction", "sendrecv")
    application = Application(element, [camera], durations=[6], extensions=[6, 6.0] * 20)
    shown = element.play().shows_camera()
    offer = application.offers[0][1] if application.offers else ""
    report("a live view's offer has audio, video and data channels", "" if shown and directions(offer) == [
        ("audio", "sendrecv"), ("video", "recvonly"), ("application", "")] else directions(offer) or element.summary())
    heard = camera.hears(lambda stats: abs((stats["audioPitch"] or 0) - 880) < 90)
    report("talkback arrives at the camera", "" if heard else f"heard {heard}")
    extended = element.wait(lambda own: len(application.asked) >= EXTENSIONS)
    # Beyond the end of the extension before.
    last = application.asked[-1][0] if application.asked else 0
    element.wait(lambda own: own.sent and own.sent[-1] > last + 3)
    why = "" if extended and len(application.offers) == 1 and not application.ended else (
        f"asked {len(application.asked)} times, {len(application.offers)} offers; {element.summary()}")
    report("a duration of 6 s is extended, and the view goes on", why)
    measured("live view: longest gap while a view is extended", element.longest_gap(), "s", at_most=2)
    element.stop("NULL with a live view", 3)
    report("NULL ends the live view at its service",
           "" if [view for _, view in application.ended] == ["view-1"] else application.ended)


def check_refused_extension(case):
    element = case.element("source=live-view")
    # The second camera is webrtcbin.
    application = Application(
        element, [case.camera("--no-trickle"), case.camera("--no-trickle", kind="webrtcbin")], durations=[6, 0],
        extensions=[None])
    element.play().shows_camera()
    again = element.wait(lambda own: len(application.offers) == 2)
    back = again and element.wait(element.has_state("live", 2)) and element.shows_camera(after=application.offers[1][0])
    lived = application.ended[0][0] - application.answered[0] if again else 0
    told = any("wants it back" in text for text in element.warnings)
    report("after a refused extension a new live view begins at the end", "" if (
        back and told and lived > 5.9 and [view for _, view in application.ended] == ["view-1"]) else (
            f"{lived:.1f} s, {application.ended}, {element.summary()}"),
           f"after {lived:.1f} s, and {element.longest_gap():.2f} s without a frame")
    measured("live view: end of a view of 6 s after its answer", lived, "s", at_most=8)


def check_wrong_fingerprint(case):
    server = case.server_of(case.camera("--no-trickle", "--wrong-fingerprint"), case.camera("--no-trickle"))
    element = case.element(f"source=whep:{server.base}/camera")
    element.play()
    refused = element.wait(element.has_state("waiting"))
    shown = len(element.sent)
    told = any("fingerprint" in (reason or "") for _, reason in element.states)
    report("a wrong fingerprint shows nothing", "" if refused and told and not shown else element.summary())
    report("the next live view comes by back-off", "" if element.shows_camera() else element.summary())


def check_restarts(case):
    """A camera that comes back with B-frames, which its server refuses after it has connected, and then as VP9."""
    cameras = (case.camera("--no-trickle"), case.camera("--no-trickle", "--closes"),
               case.camera("--no-trickle", kind="webrtcbin", codec="vp9"))
    element = case.element(f"source=whep:{case.server_of(*cameras).base}/camera").play()
    shown, session = element.shows_camera(), element.session()
    cameras[0].end()
    told = element.wait(lambda own: any("before its first frame" in text and "B-frames" in text for text in own.warnings))
    report("WHEP: a close before the first frame names B-frames", "" if shown and told and not any(
        "B-frames" in text for text in element.warnings[:1]) else element.summary())
    back = element.wait(element.has_state("live", 2)) and element.shows_camera(after=time.monotonic())
    report("WHEP: a camera that comes back as VP9 is shown, and the session stays", "" if (
        back and session and element.session() == session and not element.errors) else (session, element.session(), element.summary()))


def guide_lines():
    """GUIDE's pipelines for network cameras, as they are written there."""
    return [line.partition("  #")[0] for line in read(os.path.join(REPO, "docs", "GUIDE.md")).splitlines()
            if re.match(r"gst-launch-1.0 decartsrc source=(rtsp|whep):", line)]


def check_guide(case):
    """GUIDE's lines, with another address, token and window."""
    port = rtsp_server.free_port()
    case.rtsp(port, "--user", "user", "--password", "password")
    camera = case.camera("--no-trickle", "--tone", "440")
    server = case.server(lambda number, offer: camera.answer(offer))
    server.authorization = f"Bearer {TOKEN}"
    changes = (("camera.example/stream", f"127.0.0.1:{port}/camera"), ("https://media.example/front/whep", f"{server.base}/camera"),
               ("whep-token=…", f"whep-token={TOKEN}"), ("autovideosink", "fakesink"), ("gst-launch-1.0", "gst-launch-1.0 -m"))
    lines = guide_lines()
    if len(lines) != 2:
        report("GUIDE has a line for each kind of network camera", lines)
    for line in lines:
        for before, after in changes:
            line = line.replace(before, after)
        process = subprocess.Popen(shlex.split(line), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
            **os.environ, "DECART_BASE_URL": case.url, "DECART_API_KEY": "x"})
        watchdog = threading.Timer(LIMIT, process.kill)
        watchdog.start()
        wanted, seen = {"decart-live-view, state=(string)live", "decart-state, state=(string)generating"}, []
        for text in process.stdout:
            seen.append(text.strip())
            wanted = {each for each in wanted if each not in text}
            if not wanted:
                break
        watchdog.cancel()
        process.kill()
        process.wait()
        report(f"GUIDE: {line.split('=')[1].partition(':')[0]} as written", (wanted, seen[-8:]) if wanted else "")


def check_trickle(case):
    """Candidates of either side after the descriptions."""
    element = case.element("source=live-view")
    application = Application(element, [case.camera(), case.camera()], trickles=True)
    blackhole = case.ends.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    blackhole.bind(("127.0.0.1", 0))
    server = case.server_of(case.camera("--no-trickle"))
    slow = case.element(f"source=whep:{server.base}/camera")
    # A STUN server that does not answer keeps gathering from ending.
    slow.camera.set_property("stun-server", f"stun:127.0.0.1:{blackhole.getsockname()[1]}")
    element.play()
    slow.play()
    report("a trickled answer", "" if element.shows_camera() and not application.refused else element.summary())
    element.camera.emit("stop-capture")
    ended = element.wait(element.has_state("ended")) and [view for _, view in application.ended]
    element.camera.emit("start-capture")
    again = element.wait(element.has_state("live", 2))
    report("stop-capture ends the live view, and start-capture begins another one",
           "" if ended == ["view-1"] and again else (ended, element.summary()))
    # Candidates may come in several requests.
    patched = slow.shows_camera() and server.wait(lambda own: "a=end-of-candidates" in str(own.named("PATCH")[-1:]))
    _, path, headers, body = (server.named("PATCH") or [("", "", {}, "")])[-1]
    report("late candidates of an offer go by PATCH", "" if (
        patched and path == "/resources/1?secret=1" and headers.get("If-Match") == '"tag-1"'
        and headers.get("Content-Type") == "application/trickle-ice-sdpfrag" and "a=end-of-candidates" in body
        and re.match(r"a=ice-ufrag:\S+\r\na=ice-pwd:\S+\r\nm=video 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n", body)) else (
            path, headers, re.sub(r"ice-pwd:\S+", "", body), slow.summary()))


def leaks(element):
    """What shows a password of the source."""
    dot = Gst.debug_bin_to_dot_data(element.pipeline, Gst.DebugGraphDetails.ALL)
    shown = [line for line in dot.splitlines() if "canary" in line] + [element.camera.get_property("source")]
    return [text for text in shown + element.leaks if "canary" in text]


def check_rtsp(case):
    """A camera that is not there yet, falls silent and is killed, each time to come back with another codec; digest, H.264 whose
    parameter sets are in the SDP, AAC."""
    port = rtsp_server.free_port()
    options = ("--audio", "aac", "--user", "us@er", "--password", "canary:p", "--digest")
    element = case.element(f"source=rtsp://us%40er:canary%3Ap@127.0.0.1:{port}/camera audio-source=camera", audio=True).play()
    waits = element.wait(lambda own: own.warnings)
    report("RTSP: a camera that is not there yet is named",
           "" if waits and "it cannot be reached" in element.warnings[0] and not element.errors else element.summary())
    server = case.rtsp(port, *options)
    report("RTSP: its frames are transformed", "" if element.shows_camera() else element.summary())
    heard = element.wait(lambda own: sum(abs(tone - 440) < 60 for tone in own.tones[-50:]) > 20)
    report("RTSP: its AAC comes beside", "" if heard else element.tones[-20:])
    session = element.session()
    for what, number, reason, codec in (("falls silent", signal.SIGSTOP, "no frame within 5 s", "vp9"),
                                        ("is killed", signal.SIGKILL, "the camera ended its stream", "h264-b")):
        waited, live = (sum(state == name for state, _ in element.states) for name in ("waiting", "live"))
        server.send(number)
        lost = element.wait(element.has_state("waiting", waited + 1))
        told = [text for state, text in element.states if state == "waiting"][waited:][:1]
        server.kill()
        server = case.rtsp(port, "--codec", codec, *options)
        back = element.wait(element.has_state("live", live + 1)) and element.shows_camera(after=time.monotonic())
        # However short a view was, the first wait behind it is a second, less a fifth at most.
        is_soon = any(re.search(rf"{reason}\. A new one begins in (0\.[89]|1\.0) s", text) for text in element.warnings)
        report(f"RTSP: a camera that {what} comes back as {codec}, and the session stays", "" if (
            lost and told == [reason] and is_soon and back and session and element.session() == session
            and not element.errors) else (told, session, element.session(), element.warnings, element.summary()))
    report("RTSP: nothing shows the password", leaks(element))
    element.stop("NULL with an RTSP camera")


def check_rtsp_streams(case):
    """What cameras send, and what they refuse."""
    for options, properties, wanted in ((("--codec", "h265-b"), "", []), (("--codec", "h264-b", "--audio", "pcma"), "", []), (
            ("--codec", "vp8", "--audio", "l16"), "audio-source=camera", ["stays without audio: it is L16"])):
        port = rtsp_server.free_port()
        case.rtsp(port, *options)
        element = case.element(f"source=rtsp://127.0.0.1:{port}/camera {properties}").play()
        shown = element.shows_camera()
        told = len(element.warnings) == len(wanted) and all(words in text for words, text in zip(wanted, element.warnings))
        report(f"RTSP: {' '.join(options)} is shown", "" if shown and told else element.summary())
        element.stop()
    user = ("--user", "user", "--password", "canary")
    for what, options, name, wanted in (
            ("a wrong password", user, "user:canary-wrong@", "refuses the user name or the password (401)"),
            ("a missing password", user, "", "wants a user name and a password (401)"),
            ("JPEG", ("--codec", "jpeg"), "", "its video is JPEG, which is not received"),
            ("a wrong path", (), "", "no stream at this path (404)")):
        port = rtsp_server.free_port()
        case.rtsp(port, *options)
        element = case.element(f"source=rtsp://{name}127.0.0.1:{port}/{'cam' if 'path' in what else 'camera'}").play()
        waits = element.wait(lambda own: own.warnings)
        report(f"RTSP: {what} is named", "" if waits and wanted in element.warnings[0] and not element.errors and not leaks(element)
               else (leaks(element), element.summary()))
        element.stop()
    port = rtsp_server.free_port()
    case.rtsp(port, *user)
    element = case.element(f'source="rtspsrc location=rtsp://user:canary@127.0.0.1:{port}/camera latency=0 protocols=tcp'
                           ' ! application/x-rtp,media=video ! decodebin"').play()
    shown = element.shows_camera()
    source = element.camera.get_property("source")
    report("a described rtspsrc names its password in no message", "" if shown and "canary" not in source and not element.leaks
           else (source, element.leaks, element.summary()))
    element.stop()
    port = rtsp_server.free_port()
    case.rtsp(port)
    element = case.element(f"source=\"uridecodebin uri=rtsp://127.0.0.1:{port}/camera\"").play()
    report("a described uridecodebin shows an RTSP camera", "" if element.shows_camera() else element.summary())


def check_rtsp_redirects(case):
    """The URL's user name and password follow a redirect to the same server, and go to no other one."""
    port = rtsp_server.free_port()
    case.rtsp(port)
    word = "Basic " + base64.b64encode(b"us@er:canary:p").decode()
    wants = ["401 Unauthorized", 'WWW-Authenticate: Basic realm="camera"']
    other = case.rtsp_answers(lambda path, authorization: wants)

    def answer(path, authorization):
        if path == "/new" and authorization != word:
            return wants
        target = {"/old": server.url("/new"), "/new": f"rtsp://127.0.0.1:{port}/camera", "/away": other.url("/camera"),
                  "/circle": server.url("/circle")}.get(path)
        if target:
            return ["302 Moved Temporarily", f"Location: {target}"]
        return ["403 Forbidden"]

    server = case.rtsp_answers(answer)
    wanted = {"/old": "", "/away": "it redirects to 127.0.0.1, which wants a user name and a password (401)",
              "/circle": "it redirects too often", "/closed": "it refuses a request: Forbidden (403)"}
    urls = {path: server.url(path, "us%40er:canary%3Ap@") for path in wanted}
    elements = {path: case.element(f"source={url}").play() for path, url in urls.items()}
    described = case.element(f'source="rtspsrc location={urls["/away"]} protocols=tcp ! decodebin"').play()
    shown = elements["/old"].shows_camera()
    report("RTSP: two redirects are followed, with the password to the same server", "" if shown and not elements["/old"].warnings
           and ("DESCRIBE", "/new", word) in server.requests else (server.requests, elements["/old"].summary()))
    for path, words in list(wanted.items())[1:]:
        told = elements[path].wait(lambda own: own.warnings) and words in elements[path].warnings[0]
        report(f"RTSP: {path} is named", "" if told and not elements[path].errors else elements[path].summary())
    ended = described.wait(lambda own: own.errors)
    asked = [authorization for method, _, authorization in other.requests if method == "DESCRIBE"]
    report("RTSP: a redirect leads the password to no other server", "" if ended and asked == [None, None] else other.requests)
    report("RTSP: redirects show no password", [text for each in (described, *elements.values()) for text in leaks(each)])


def check_rtsps(case):
    """An authority of one's own."""
    certificates = Certificates(case.folder, "camera.test", "127.0.0.1")
    port = rtsp_server.free_port()
    case.rtsp(port, "--certificate", certificates.path("good"), "--key", certificates.path("good", "key"))
    source = f"source=rtsps://127.0.0.1:{port}/camera"
    unknown = case.element(source).play()
    told = unknown.wait(lambda own: own.warnings) and "certificate is not trusted (ca-file)" in unknown.warnings[0]
    report("RTSPS: an unknown authority is named", "" if told and not unknown.frames else unknown.summary())
    unknown.stop()
    element = case.element(f"{source} ca-file={certificates.path('ca')}").play()
    report("RTSPS: with ca-file the camera is shown", "" if element.shows_camera() else element.summary())


    told = subprocess.run(["gst-launch-1.0", "decartsrc", source, "api-key=x", "base-url=ws://127.0.0.1:9", "!", "fakesink"],
                          env={**os.environ, "GIO_USE_TLS": "dummy"}, capture_output=True, text=True, check=False, timeout=LIMIT)
    report("RTSPS: without TLS in GLib, the error names the package", "" if "glib-networking" in told.stderr else told.stderr)


def check_links(case):
    """A WHEP server that names its TURN server: the offer is made again with it."""
    camera = case.camera("--no-trickle")
    link = '<turn:127.0.0.1:9>; rel="ice-server"; username="user"; credential="canary-pass"'
    server = case.server(lambda number, offer: (201, "v=0" if number == 1 else camera.answer(offer), {
        "Content_Type": "application/sdp", "Location": f"/resources/{number}", "Link": link}))
    element = case.element(f"source=whep:{server.base}/camera").play()
    shown = element.shows_camera()
    deleted = server.wait(lambda own: [path for _, path, _, _ in own.named("DELETE")] == ["/resources/1"])
    report("WHEP: a view begins again with the TURN servers of the answer", "" if shown and deleted and len(
        server.offers()) == 2 and not element.warnings and not leaks(element) else (server.requests, leaks(element), element.summary()))


def check_encoded_late(case):
    """A reader of a server that comes when the only keyframe of the input is long gone, and the times in front of a muxer."""
    port, other, changed, times = rtsp_server.free_port(), rtsp_server.free_port(), threading.Condition(), []
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true ! video/x-raw,width=320,height=176,framerate=15/1 ! x264enc tune=zerolatency key-int-max=100000"
        f" ! video/x-h264,profile=constrained-baseline ! decarttransform base-url={case.url} api-key=x stun-server=\"\""
        " width=320 height=176 framerate=15 ! tee name=tee ! queue ! h264parse ! flvmux name=mux streamable=true"
        f" ! tcpserversink host=127.0.0.1 port={port} sync=false"
        f" tee. ! queue ! h264parse config-interval=-1 ! mpegtsmux ! udpsink host=127.0.0.1 port={other} sync=false")
    case.ends.callback(pipeline.set_state, Gst.State.NULL)

    def on_frame(_pad, info):
        with changed:
            times.append(info.get_buffer().dts // Gst.MSECOND)
            changed.notify_all()
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("mux").sinkpads[0].add_probe(Gst.PadProbeType.BUFFER, on_frame)
    pipeline.set_state(Gst.State.PLAYING)
    with changed:
        flows = changed.wait_for(lambda: len(times) >= 20, LIMIT)
    reader = Gst.parse_launch(f"tcpclientsrc host=127.0.0.1 port={port} ! flvdemux ! identity drop-buffer-flags=delta-unit"
                              " ! fakesink num-buffers=2 sync=false")
    case.ends.callback(reader.set_state, Gst.State.NULL)
    reader.set_state(Gst.State.PLAYING)
    end = reader.get_bus().timed_pop_filtered(LIMIT * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    report("keyframe-interval: a late reader begins", "" if flows and end and end.type == Gst.MessageType.EOS else (flows, end))
    reader = Gst.parse_launch(f"uridecodebin uri=udp://127.0.0.1:{other} ! fakesink num-buffers=10 sync=false")
    case.ends.callback(reader.set_state, Gst.State.NULL)
    reader.set_state(Gst.State.PLAYING)
    end = reader.get_bus().timed_pop_filtered(LIMIT * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    report("uridecodebin decodes the encoded output", "" if end and end.type == Gst.MessageType.EOS else text_of(end) if end else "no frames")
    with changed:
        wrong = [pair for pair in zip(times, times[1:]) if pair[0] >= pair[1]]
    report("no two encoded frames have one time for FLV", wrong)


def check_encoded(case):
    """The camera's H.264 through the session, neither decoded nor encoded in the element, and a second view of it."""
    first, second = case.camera("--no-trickle"), case.camera("--no-trickle", kind="webrtcbin")
    element = case.element("source=live-view camera-encoded=true mirror=auto", decoder="h264parse ! avdec_h264 !",
                           preview=False)
    application = Application(element, [first, second])
    shown = element.play().shows_camera()
    coders = element.coders()
    report("camera-encoded: H.264 goes in and comes out without encoder and decoder", "" if (
        shown and not coders and {kind for kind, _ in element.inputs} == {"video/x-h264"}) else (coders, element.summary()))
    offered = codecs(application.offers[0][1])
    report("camera-encoded: the offer has the codec of downstream only", "" if offered == {"H264"} else offered)
    before, keyframes = first.hears(lambda _: True)["pli"], sum(flag for _, flag in element.inputs)
    # The service asks for the keyframe in turn, because it encodes nothing. A request is merged with one of the start that
    # is not answered yet.
    counted, tries = None, 0
    while not counted and (tries := tries + 1) <= 6:
        element.camera.get_static_pad("src").send_event(
            GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0))
        counted = first.hears(lambda stats: stats["pli"] > before, 10)
    came = element.wait(lambda own: sum(flag for _, flag in own.inputs) > keyframes)
    report("camera-encoded: a keyframe request goes by way of the service to the camera",
           "" if counted and came else (before, bool(counted), came))
    element.camera.set_property("mirror", "on")
    report("camera-encoded: mirror=on is a warning while the element runs",
           "" if any("mirror=on" in text for text in element.warnings) else element.warnings)
    check_next_view(element, first, "H.264 after H.264", stays=True)
    report("camera-encoded: no encoder and decoder for the next view", element.coders() or element.errors)


def check_encoded_in(case):
    """VP8 that only the output decodes; the next camera sends H.264."""
    first, second = case.camera("--no-trickle", codec="vp8"), case.camera("--no-trickle")
    server = case.server_of(first, second)
    element = case.element(f"source=whep:{server.base}/camera camera-encoded=true", preview=False)
    shown = element.play().shows_camera()
    report("camera-encoded: VP8 goes in without encoder", "" if (
        shown and element.coders() == {"decoder"} and {kind for kind, _ in element.inputs} == {"video/x-vp8"}) else (
            element.coders(), element.summary()))
    offered = codecs(server.offers()[0][3])
    report("camera-encoded: the offer has the codecs that the session takes", "" if offered == {"H264", "VP8"} else offered)
    check_next_view(element, first, "H.264 after VP8", stays=False)


def check_next_view(element, camera, codecs_of_both, stays):
    """Ends the camera of the first view; the second one sends H.264."""
    session = element.session()
    camera.end()
    lost = element.wait(element.has_state("waiting"))
    sent, frames = len(element.inputs), len(element.frames)
    # GAP events stand in for frames at an encoded output.
    fell_back = stays or element.wait(lambda own: len(own.frames) > frames + 2)
    back = element.wait(element.has_state("live", 2)) and element.shows_camera(after=time.monotonic())
    begins = element.inputs[sent:sent + 1] == [("video/x-h264", True)]
    report(f"camera-encoded: the next live view begins with a keyframe, {codecs_of_both}", "" if lost and fell_back and back and begins
           else (lost, fell_back, back, element.inputs[sent:sent + 1], element.summary()))
    # A session that begins again has an id once the service has accepted it; frames of the last one may still come.
    good = session and (element.session() == session if stays else
                        element.wait(lambda own: own.session() not in (None, "", session)))
    report(f"camera-encoded: the session {'stays' if stays else 'begins again'}, {codecs_of_both}",
           "" if good else f"{session} -> {element.session()}")


def check_encoded_rtsp(case):
    """An RTSP camera, whose parameter sets are in the SDP alone and which takes no keyframe requests."""
    port, other = rtsp_server.free_port(), rtsp_server.free_port()
    server = case.rtsp(port)
    element = case.element(f"source=rtsp://127.0.0.1:{port}/camera camera-encoded=true", decoder="h264parse ! avdec_h264 !",
                           preview=False)
    shown = element.play().shows_camera()
    report("camera-encoded: the H.264 of an RTSP camera begins with a keyframe, without encoder and decoder", "" if (
        shown and not element.coders() and element.inputs[0] == ("video/x-h264", True)) else (
            element.coders(), element.inputs[:3], element.summary()))
    server.kill()
    lost = element.wait(element.has_state("waiting"))
    sent = len(element.inputs)
    case.rtsp(port)
    back = element.wait(element.has_state("live", 2)) and element.shows_camera(after=time.monotonic())
    report("camera-encoded: the next view of an RTSP camera begins with a keyframe", "" if (
        lost and back and element.inputs[sent:sent + 1] == [("video/x-h264", True)]) else (
            lost, back, element.inputs[sent:sent + 1], element.summary()))
    element.stop()
    case.rtsp(other, "--codec", "h265-b")
    element = case.element(f"source=rtsp://127.0.0.1:{other}/camera camera-encoded=true", preview=False).play()
    told = element.wait(lambda own: own.warnings) and "camera-encoded sends H264 or VP8 alone" in element.warnings[0]
    report("camera-encoded: H.265 of an RTSP camera is named", "" if told else element.summary())


def check_null(case):
    """NULL in each phase; a view that the service makes too late is ended too."""
    hold, answering = threading.Event(), threading.Event()
    late = case.camera("--no-trickle")

    def on_offer(_number, offer):
        answering.set()
        hold.wait(LIMIT)
        return late.answer(offer)

    # While the offer waits for its answer. The answer comes after NULL, and its view is deleted.
    server = case.server(on_offer)
    element = case.element(f"source=whep:{server.base}/camera").play()
    answering.wait(LIMIT)
    element.stop("NULL while a POST waits", 3)
    hold.set()
    report("NULL while a POST waits: the view is deleted later",
           "" if server.wait(lambda own: own.named("DELETE")) else server.requests)

    # While the application has not answered.
    element = case.element("source=live-view")
    application = Application(element, [])
    element.play().wait(lambda own: application.offers)
    element.stop("NULL before the application answers")
    reply = Gst.Structure.new_empty("view")
    reply.set_value("answer-sdp", "v=0")
    refused = not element.camera.emit("answer-live-view", 1, reply)
    report("NULL before the application answers: its answer is refused",
           "" if refused and not application.ended else (refused, application.ended))

    # While it connects: a candidate where nobody listens.
    dead = case.camera("--no-trickle")
    server = case.server(lambda number, offer: re.sub(r"(a=candidate:\S+ 1 udp \d+ \S+) \d+", r"\1 9", dead.answer(
        re.sub(r"a=candidate.*\r\n", "", offer))))
    element = case.element(f"source=whep:{server.base}/camera").play()
    element.wait(element.has_state("connecting"))
    element.stop("NULL while it connects", 3)
    report("NULL while it connects: the view is deleted", "" if server.wait(lambda own: own.named("DELETE")) else element.summary())

    # While it waits for the next view: a server without the camera.
    server = case.server(lambda number, offer: 404)
    element = case.element(f"source=whep:{server.base}/camera").play()
    waits = element.wait(element.has_state("waiting"))
    element.stop("NULL while it waits for the next view")
    offers = len(server.offers())
    told = any("404" in text for text in element.warnings)
    report("NULL while it waits for the next view",
           "" if waits and told and not element.errors else element.summary())
    # From NULL, the element starts again.
    element.play()
    again = server.wait(lambda own: len(own.offers()) > offers)
    report("it starts again after NULL", "" if again else element.summary())


def check_mistakes(case):
    encoded = "source=whep:http://127.0.0.1:9/ camera-encoded=true"
    for properties, wanted in (("source=whep:ftp://x/", "https"), ("source=whep:http://user:secret@x/", "clear"),
                               ("source=live-view", "request-live-view"), ("source=rtsp://user:%zzcanary@x/", "Percent-encode"),
                               ("source=test audio-source=camera", "live-view"),
                               ("source=whep:http://camera.invalid/ whep-token=canary", "clear"),
                               ("source=test camera-encoded=true", "camera-encoded needs a network camera"),
                               (f"{encoded} mirror=on", "mirror=on needs raw"),
                               (f"{encoded} crop=1:1", "crop needs raw"),
                               (f"{encoded} processor=identity", "processor needs"),
                               (f"{encoded} codec=vp9", "Unset codec"),
                               (encoded, "preview needs raw")):
        element = case.element(properties, preview="camera-encoded" not in properties or properties == encoded).play()
        told = element.wait(lambda own: own.errors) and wanted in element.errors[0]
        text = " ".join(element.errors)
        element.stop()
        report(f"refused: {properties.replace('canary', '…')}",
               "" if told and "secret" not in text and "canary" not in text else text)


# The longest ones begin first.
CASES = {"extensions": check_extensions, "rtsp": check_rtsp, "refused extension": check_refused_extension,
         "encoded late": check_encoded_late, "whep": check_whep, "g711": check_g711, "encoded": check_encoded,
         "rtsp streams": check_rtsp_streams, "trickle": check_trickle, "restarts": check_restarts, "basic": check_basic,
         "refusals": check_refusals, "rtsp redirects": check_rtsp_redirects,
         "nginx": check_nginx, "null": check_null, "encoded in": check_encoded_in, "encoded rtsp": check_encoded_rtsp,
         "fingerprint": check_wrong_fingerprint, "rtsps": check_rtsps, "guide": check_guide, "links": check_links,
         "mistakes": check_mistakes}


def run(name, url, echoing):
    case = Case(echoing if name.startswith("encoded") else url)
    with case.ends:
        report.perform(name, CASES[name], case)


def main():
    if not peer_python():
        report.skip("no virtual environment for Python with aiortc")
        return
    os.environ.pop("DECART_API_KEY", None)
    with tempfile.TemporaryDirectory() as work, running_standin() as url, running_standin("--echo-encoded") as echoing:
        os.environ.update(gstreamer(work))
        Gst.init(None)
        names = [name for name in CASES if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
        # A WHEP server has five seconds to answer, and the cameras' peers take a second of CPU each to start.
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda name: run(name, url, echoing), names))
    sys.exit(report.failed)


main()
