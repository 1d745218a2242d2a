#!/usr/bin/python3
"""Situations that users of other projects have reported, tried on the elements with generated input.

    check_field.py [--list] [--at-once N] [ROW...]

A row has the public report that it comes from, and the situation in our own words; nothing else was taken over. Without
names the rows of the gate run, with DECART_VERIFY=1 all of them. The frames show a number: rows are judged by the numbers
that leave the element, by PTS that rise and by the messages on the bus, never by speed. Each row runs in a process of its
own with a stand-in of its own, over a direct connection (webrtc) and where it makes a difference in a room (livekit).

Prints "ok field: ROW, TRANSPORT: figures", "not ok field: …: why" or "skip field: …: why". Uses loopback only.
"""

import argparse
import concurrent.futures
import dataclasses
import faulthandler
import functools
import http.server
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "Host"))
from checks import NAMESPACES, VERIFYING, Results, compile_c, gstreamer, lacking  # noqa: E402
from standin import StandIn, running_standin  # noqa: E402
from cases import BOTH, CASES, DIRECT, OWN, RAW_OUT, SPEECH, TIGHT, TIGHT_SOURCE, Case, appsrc, tight  # noqa: E402
from numbered_frames import (  # noqa: E402
    APPSRC, H264, HEIGHT, LIMIT, MS, RATE, RAW, WIDTH, Bench, Problem, i420, write_file)
from gst import GObject, Gst, GstVideo, on_buffer  # noqa: E402

WATCHDOG = 240  # s, for the process of a row: a hang, on any machine
# Of random_operations.c: seconds of a seed.
SEEDS, SEED_SECONDS = (20, 180) if VERIFYING else (2, 20)
AUDIO_OUT = "t.audio_src ! audioconvert ! audio/x-raw,format=S16LE,channels=1 ! fakesink name=sink async=false"
ROWS = {}


@dataclasses.dataclass
class Row:
    name: str
    reports: str  # public reports: repository#number
    situation: str
    perform: object
    transports: tuple = BOTH
    gate: tuple = ()  # the transports that the gate runs
    criticals: bool = False  # GLib's criticals end the process
    setup: str = ""  # of a network namespace for the row, in shell


def row(name, reports, situation, **options):
    def add(perform):
        ROWS[name] = Row(name, reports, situation, perform, **options)
        return perform

    return add


@dataclasses.dataclass
class Here:
    """What a row gets."""

    url: str
    standin: StandIn
    transport: str
    folder: str

    @property
    def codec(self):
        """The service's default: VP8 over a direct connection, H.264 in a room. The other one is in the rows on codecs."""
        return "codec=vp8" if self.transport == "webrtc" else ""

    def element(self, options="", kind="decarttransform"):
        """The element `t`, whose service returns the frames as they are."""
        return (f'{kind} name=t base-url={self.url} api-key=x stun-server="" prompt="" transport={self.transport}'
                f" width={WIDTH} height={HEIGHT} framerate={RATE} {options}")

    def bench(self, source, options="", sink="fakesink", **more):
        return Bench(f"{source} ! {self.element(options)} ! {sink}", **more)


def finish(bench, content=False, **judging):
    bench.judge(**judging)
    if content:
        bench.judge_content()
    bench.stop()
    return bench.figures()


# --- Rows that are data, see cases.py ----------------------------------------------------------------------------------

def perform_case(case, here):
    file = write_file(here.folder, "file", *case.file) if case.file else ""
    options = case.options.format(codec=here.codec)
    audio = case.audio and f"  {case.audio} ! t.audio_sink  {AUDIO_OUT}"
    bench = Bench(f"{case.source.format(file=file)} ! {here.element(options)} ! {case.sink}{audio}")
    if case.change:
        index = itertools.count()
        bench.pipeline.get_by_name("at").get_static_pad("src").add_probe(
            Gst.PadProbeType.BUFFER, lambda _pad, info: Gst.PadProbeReturn.DROP
            if case.change(info.get_buffer(), next(index)) is False else Gst.PadProbeReturn.OK)
    loud = bench.listen() if audio else []
    bench.play()
    if "name=in " in case.source:
        bench.feed(rate=case.rate, caps=case.caps,
                   **{name: value for name in ("stamp", "make") if (value := getattr(case, name))})
    if case.piece:
        bench.feed_audio(case.piece)
    if case.error:
        bench.wait_message("ERROR", case.error)
        bench.stop()
        return "one error"
    if case.warning:
        bench.wait_message("WARNING", case.warning)
    if case.after is not None:
        bench.wait_numbers(10)
    bench.wait_numbers(case.count, -1 if case.after is None else max(case.after, bench.pushed))
    if audio:
        at = len(loud) if case.after is not None else 0
        bench.wait("audio comes back", lambda: len(loud) > at + 20)
    if sink := bench.pipeline.get_by_name("late"):
        dropped, rendered = (sink.get_property("stats").get_value(name) for name in ("dropped", "rendered"))
        if dropped > rendered // 4:
            raise Problem(f"the sink dropped {dropped} frames and rendered {rendered}")
    return finish(bench, case.is_readable, warnings=case.warning)


for each_case in CASES:
    ROWS[each_case.name] = Row(each_case.name, each_case.reports, each_case.situation,
                               functools.partial(perform_case, each_case), each_case.transports, each_case.gate)


# --- Time stamps -------------------------------------------------------------------------------------------------------

@row("time of day", "pravega/gstreamer-pravega#148", "The PTS of a live source are the time of day.")
def time_of_day(here):
    begun = time.time_ns()
    return perform_case(Case("", "", "", stamp=lambda n: begun + n * 40 * MS, after=75), here)


@row("one frame a second", "awslabs/amazon-kinesis-video-streams-producer-sdk-cpp#54, mazupo/pi-webrtc#87",
     "A camera gives one frame a second; the session does not reconnect.")
def slow_camera(here):
    source = APPSRC.replace(f"framerate={RATE}/1", "framerate=1/1")
    bench = here.bench(source).play().feed(lambda n: n * 1000 * MS, rate=1)
    bench.wait_numbers(10)
    if bench.stats("reconnects")["reconnects"]:
        raise Problem("the session was begun again")
    return finish(bench)


def at_running_time(here, age, options=""):
    bench = here.bench(APPSRC, options)
    bench.pipeline.set_start_time(Gst.CLOCK_TIME_NONE)
    # The monotonic clock of a machine that was started today is younger.
    clock = GObject.new(Gst.SystemClock, clock_type=Gst.ClockType.REALTIME)
    bench.pipeline.use_clock(clock)
    age = age or clock.get_time()
    bench.pipeline.set_base_time(clock.get_time() - age)
    bench.play().feed(lambda n: age + n * 40 * MS)
    bench.wait_numbers(60)
    return finish(bench)


@row("an old pipeline", "WebRTSP/ReStreamer#27", "The running time is 13.25 h: the RTP time wraps around.")
def old_pipeline(here):
    return at_running_time(here, int(13.25 * 3600) * Gst.SECOND)


@row("network clock", "WebKit/WebKit#37301", "Several machines share a clock: the running time is the time of day.")
def network_clock(here):
    return at_running_time(here, 0, "timestamps=capture")


# --- Buffers and caps --------------------------------------------------------------------------------------------------

@row("tight rows", "openframeworks/openFrameworks#2920, basler/gst-plugin-pylon#34",
     "RGB frames as numpy has them, without padding at the end of rows: one warning, and nothing wrong is sent.",
     gate=("webrtc",))
def tight_rows(here):
    bench = here.bench(TIGHT_SOURCE).play().feed(lambda n: n * 1000 * MS // 15, tight, 15)
    bench.wait_message("WARNING", f"has {3 * TIGHT[0] * TIGHT[1]} bytes, but its caps need {2560 * TIGHT[1]}")
    bench.wait_message("WARNING", "All buffers of the input have been smaller")
    bench.wait("60 frames were taken", lambda: bench.stats("frames-in")["frames-in"] >= 60)
    if len(bench.messages) != 2:
        raise Problem(f"more messages: {bench.messages}")
    return finish(bench, warnings="A buffer of the input|All buffers")


@row("tight rows with GstVideoMeta", "openframeworks/openFrameworks#2920",
     "The same frames, with a description of their rows.")
def tight_rows_described(here):
    def make(number):
        buffer = Gst.Buffer.new_wrapped(tight(number))
        GstVideo.buffer_add_video_meta_full(buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.RGB, *TIGHT, 1,
                                            [0, 0, 0, 0], [3 * TIGHT[0], 0, 0, 0])
        return buffer

    bench = here.bench(TIGHT_SOURCE).play().feed(lambda n: n * 1000 * MS // 15, make, 15)
    bench.wait_numbers(40)
    return finish(bench, content=True)


@row("buffer lists", OWN, "Frames come in lists of five; framerate=10 holds.", gate=("webrtc",))
def buffer_lists(here):
    bench, waiting = here.bench(APPSRC, "framerate=10"), []

    def push(buffer):
        waiting.append(buffer)
        if len(waiting) < 5:
            return Gst.FlowReturn.OK
        whole = Gst.BufferList.new()
        for each in waiting:
            whole.insert(-1, each)
        waiting.clear()
        return bench.pipeline.get_by_name("in").emit("push-buffer-list", whole)

    bench.play().feed(push=push)
    bench.wait_numbers(30)
    numbers = sorted({each.number for each in bench.left} - {None})
    for first in numbers:
        # A second of the input.
        sent = sum(first <= number < first + RATE for number in numbers)
        if sent > 12:
            raise Problem(f"{sent} of the 25 frames from number {first} on were sent: {numbers}")
    return finish(bench)


@row("interlaced, extreme aspect", "Eyevinn/strom#606, datarhei/restreamer#465",
     "Interlaced frames of 116x122 whose pixels are extremely wide, then high; ordinary frames follow.", criticals=True,
     gate=("webrtc",))
def extreme_aspect(here):
    caps = "video/x-raw,format=I420,width=116,height=122,framerate=25/1,interlace-mode=interleaved,pixel-aspect-ratio={}"
    bench = here.bench("appsrc name=in is-live=true format=time", "fallback=passthrough")
    sizes = [("2147483647/1", 116, 122), ("1/2147483647", 116, 122), ("1/1", WIDTH, HEIGHT)]
    now = [sizes[0]]

    def caps_for(size):
        ratio, width, height = size
        text = caps.format(ratio) if width == 116 else RAW
        bench.pipeline.get_by_name("in").set_property("caps", Gst.Caps.from_string(text))

    caps_for(now[0])

    def make(number):
        size = sizes[min(number // 40, 2)]
        if size is not now[0]:
            now[0] = size
            caps_for(size)
        return i420(number, *size[1:], interlaced=size[1] == 116)

    bench.play().feed(make=make)
    bench.wait("80 frames were taken", lambda: bench.pushed > 90)
    bench.wait_numbers(30, above=80)
    # A frame that one column of cells fills may be taken for another number.
    return finish(bench, order=False)


@row("odd sizes", "openframeworks/openFrameworks#2920, opencv/opencv#19630", "Frames of sizes that no codec has.",
     transports=DIRECT)
def odd_sizes(here):
    shapes = ((853, 480), (1366, 768), (641, 361), (177, 319), (4096, 16), (16, 2000), (1, 1), (2, 2))
    for width, height in shapes:
        bench = here.bench(appsrc(width, height), "fit=stretch").play().feed(make=lambda n: i420(n, width, height))
        if width >= 100 and height >= 100:
            bench.wait_numbers(15)
        else:
            bench.wait("30 frames come back", lambda: bench.stats("frames-received")["frames-received"] >= 30)
        finish(bench, order=width >= 100 and height >= 100)
    return f"{len(shapes)} sizes"


@row("interlaced, few rows", "Eyevinn/strom#606", "Interlaced frames of two rows: they are shown, or one error says why not.",
     transports=DIRECT, criticals=True)
def few_rows(here):
    bench = here.bench(appsrc(64, 2, fields=",interlace-mode=interleaved"))
    bench.play().feed(make=lambda n: i420(n, 64, 2, interlaced=True))
    bench.wait("30 frames come back, or an error", lambda: bench.stats("frames-received")["frames-received"] >= 30
               or bench.found("ERROR", "interlaced|rows"), errors_end=False)
    return finish(bench, order=False, errors="interlaced|rows")


@row("colours", "pikvm/pikvm#724, jetkvm/kvm#1460", "The colour that comes back is the one that went in.")
def colours(here):
    forms = (("NV12", "bt709"), ("I420", "1:3:5:1"), ("I420", "1:4:0:0"), ("YUY2", "bt601"), ("P010_10LE", "bt709"),
             ("RGBA", "sRGB"), ("AYUV", "bt601"), ("GBR", "sRGB"))
    # A wrong matrix or range changes a channel of it by 12 and more.
    color = (30, 200, 60)
    for form, colorimetry in forms:
        bench = here.bench(
            "videotestsrc is-live=true pattern=solid-color foreground-color=0xff1ec83c"
            f" ! {RAW.replace('I420', 'ARGB')} ! videoconvert ! video/x-raw,format={form},colorimetry={colorimetry}",
            sink="videoconvert ! video/x-raw,format=RGB ! fakesink name=last")
        found = []
        on_buffer(bench.pipeline.get_by_name("last").get_static_pad("sink"), lambda buffer, found=found: found.append(
            tuple(buffer.extract_dup(3 * (WIDTH * HEIGHT // 2 + WIDTH // 2), 3))))
        bench.play()
        try:
            # The encoder's first frames are coarse.
            bench.wait(f"60 frames of {form} {colorimetry}", lambda: len(found) > 60)
            if max(abs(value - wanted) for value, wanted in zip(found[-1], color)) > 8:
                raise Problem("another colour comes back")
        except Problem as problem:
            raise Problem(f"{form} {colorimetry}: {found[-1:]} instead of {color}: {problem}") from None
        bench.stop()
    return f"{len(forms)} formats"


def luma(bench, condition, what):
    """Waits until this is true of a frame: a function that returns its luma at x and y, which are parts of its size."""
    def at(buffer):
        meta = GstVideo.buffer_get_video_meta(buffer)
        stride = meta.stride[0] if meta else WIDTH
        return lambda x, y: buffer.extract_dup(int(y * HEIGHT) * stride + int(x * WIDTH), 1)[0]

    fits = []

    def look(_pad, info):
        fits.append(condition(at(info.get_buffer())))
        return Gst.PadProbeReturn.OK

    probe = bench.element.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, look)
    bench.wait(what, lambda: any(fits))
    bench.element.get_static_pad("src").remove_probe(probe)


@row("pixels that are not square", "open-nvr/open-nvr#356, fredrikburmester/streamyfin#1785",
     "A square stays one, whatever the pixel aspect ratio of the input is.", transports=DIRECT)
def aspects(here):
    for ratio, width, height in (("64/45", 720, 576), ("16/15", 720, 576), ("2/1", 960, 1080), ("1/1", 640, 360)):
        n, d = map(int, ratio.split("/"))
        side = height // 2
        tall, wide = side, side * d // n
        top, left = (height - tall) // 2, (width - wide) // 2
        line = bytes([40]) * left + bytes([210]) * wide + bytes([40]) * (width - left - wide)
        plane = bytes([40]) * width * top + line * tall + bytes([40]) * width * (height - top - tall)
        frame = plane + bytes([128]) * (width * height // 2)
        bench = here.bench(appsrc(width, height, fields=f",pixel-aspect-ratio={ratio}"), "fit=letterbox")
        bench.play().feed(make=lambda _n, frame=frame: frame)
        # The square is half as high as the frame, so it reaches from 0.25 of the height to 0.75.
        edge = HEIGHT / WIDTH / 4

        def is_square(at, edge=edge):
            inside = [(0.5 - 0.85 * edge, 0.5), (0.5 + 0.85 * edge, 0.5), (0.5, 0.3), (0.5, 0.7)]
            outside = [(0.5 - 1.15 * edge, 0.5), (0.5 + 1.15 * edge, 0.5), (0.5, 0.2), (0.5, 0.8)]
            return all(at(*point) > 150 for point in inside) and all(at(*point) < 100 for point in outside)

        luma(bench, is_square, f"a square of {ratio}")
        finish(bench, order=False)
    return "four aspect ratios"


@row("orientation tags", "pedroSG94/RootEncoder#2182", "The tag image-orientation changes while frames flow.")
def orientation_tags(here):
    corners = {"rotate-0": (0.25, 0.25), "rotate-90": (0.75, 0.25), "rotate-180": (0.75, 0.75), "rotate-270": (0.25, 0.75)}
    plane = b"".join(bytes([210 if 2 * y < HEIGHT and 2 * x < WIDTH else 40 for x in range(WIDTH)]) for y in range(HEIGHT))
    frame = plane + bytes([128]) * (WIDTH * HEIGHT // 2)
    bench = here.bench(APPSRC, "fit=stretch orientation=landscape").play().feed(make=lambda _n: frame)
    for name in (*corners, *reversed(corners)):
        tags = Gst.TagList.new_empty()
        tags.add_value(Gst.TagMergeMode.REPLACE, Gst.TAG_IMAGE_ORIENTATION, name)
        bench.pipeline.get_by_name("in").send_event(Gst.Event.new_tag(tags))
        luma(bench, lambda at, name=name: all((at(*point) > 150) == (other == name) for other, point in corners.items()),
             f"the corner of {name}")
    return finish(bench, order=False)


@row("switched sources", "sdroege/gstreamer-rs#197, timvideos/gst-switch#220, AlexxIT/go2rtc#1563",
     "An application switches between two live sources of different sizes, twice; then the other one ends.")
def switched(here):
    bench = here.bench(f"{APPSRC} ! selector.  videotestsrc name=other is-live=true"
                       " ! video/x-raw,width=640,height=360,framerate=25/1 ! selector.  input-selector name=selector",
                       "fit=stretch").play().feed()
    selector = bench.pipeline.get_by_name("selector")
    numbered, other = (selector.get_static_pad(f"sink_{index}") for index in (0, 1))
    selector.set_property("active-pad", numbered)
    for _ in range(2):
        bench.wait_numbers(20)
        selector.set_property("active-pad", other)
        bench.mark()
        bench.wait("frames of the other source leave", lambda: sum(
            each.number is None for each in bench.left[bench.mark_at:]) > 20)
        selector.set_property("active-pad", numbered)
        bench.mark()
    bench.pipeline.get_by_name("other").send_event(Gst.Event.new_eos())
    bench.wait_numbers(40, above=bench.pushed)
    return finish(bench)


@row("outage, appsrc with its defaults",
     "fzwoch/obs-gstreamer#88, awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#637, streamplace/streamplace#70",
     "An application stamps frames by do-timestamp and leaves is-live false: after an outage no frame is late.")
def default_appsrc(here):
    bench = here.bench(f'appsrc name=in format=time do-timestamp=true caps="{RAW}"', "max-retries=-1")
    bench.play().feed(lambda n: None)
    bench.wait_numbers(20)
    here.standin.faults("refuse:for=5")
    here.standin.request("POST", "/control/drop")
    bench.wait("the connection is lost", lambda: bench.stats("reconnects")["reconnects"])
    bench.mark()
    bench.wait_numbers(40, above=bench.pushed)
    waiting = bench.pipeline.get_by_name("in").get_property("current-level-bytes") // len(i420(0))
    if waiting > RATE:
        raise Problem(f"{waiting} frames wait in appsrc")
    return finish(bench, warnings=".")


# --- Sources of decartsrc ----------------------------------------------------------------------------------------------

def camera(here, source):
    element = here.element(f'source="{source}"', "decartsrc")
    bench = Bench(f"{element} ! fakesink").play()
    bench.wait_numbers(40)
    return finish(bench)


def movie(here, frames=1500):
    return write_file(here.folder, "movie.mp4", f"{H264.replace('100000', '50')} ! h264parse ! mp4mux", frames)


@row("source with decodebin", "GeekAlexis/FastMOT#167, google-coral/examples-camera#58",
     "The source pad of a description comes late: filesrc ! decodebin.", gate=("webrtc",))
def decodebin(here):
    return camera(here, f"filesrc location={movie(here)} ! decodebin ! videoconvert")


@row("source with uridecodebin", "GeekAlexis/FastMOT#167", "The same without another element behind it.")
def uridecodebin(here):
    return camera(here, f"uridecodebin uri=file://{movie(here)}")


@row("source with a demuxer", "centricular/gstwebrtc-demos#151",
     "A link in the middle of a description is made late: qtdemux.")
def qtdemux(here):
    return camera(here, f"filesrc location={movie(here)} ! qtdemux ! h264parse ! avdec_h264")


@row("source of MJPEG over HTTP", "agarciadom/ipwebcam-gst#124",
     "A camera in a phone sends JPEG images over HTTP: multipartdemux, framerate=0/1.", gate=("livekit",))
def mjpeg(here):
    path = write_file(here.folder, "images", "jpegenc ! multipartmux boundary=next", 1500)
    with open(path, "rb") as file:
        parts = [b"--next" + part for part in file.read().split(b"--next") if part]

    class Camera(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=next")
            self.end_headers()
            try:
                for part in parts:
                    self.wfile.write(part)
                    time.sleep(1 / RATE)
            except OSError:
                pass

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return camera(here, f"souphttpsrc location=http://127.0.0.1:{server.server_port}/ is-live=true do-timestamp=true"
                                " ! multipartdemux ! image/jpeg ! jpegdec ! videoconvert")
        finally:
            server.shutdown()


# --- Ends, loops and seeks ---------------------------------------------------------------------------------------------

def running_time(pipeline):
    return pipeline.get_clock().get_time() - pipeline.get_base_time()


@row("looped file", "RidgeRun/gst-interpipe#138, nick-redwill/LiveLockScreen#23, WebKit/WebKit#20157",
     "At the end of a file the program seeks back to its begin, twice.", gate=("webrtc",))
def looped_file(here):
    bench = here.bench(f"filesrc location={movie(here, 75)} ! decodebin name=decoder").play()
    for loop in (1, 2, 3):
        bench.wait(f"EOS of round {loop}", lambda: bench.eos >= loop)
        bench.wait_numbers(20, what=f"frames of round {loop}")
        if loop < 3:
            bench.mark()
            if not bench.pipeline.get_by_name("decoder").seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 0):
                raise Problem("the decoder refuses to seek")
    return finish(bench, order=False, rises=False)


@row("source loops by a flushing seek", "RidgeRun/gst-interpipe#138",
     "A source that is not live seeks to 0 before its end.")
def looped_source(here):
    bench = here.bench(f"filesrc location={movie(here, 750)} ! decodebin name=decoder", "codec=vp8").play()
    bench.wait_numbers(60)
    for _ in range(2):
        bench.mark()
        bench.pipeline.get_by_name("decoder").seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 0)
        bench.wait_numbers(40)
    return finish(bench, order=False, rises=False)


@row("flushing seek by another branch", OWN,
     "A preview beside the element makes the pipeline seek: its running time begins at 0 again, and frames go on.",
     gate=("webrtc",))
def seek_elsewhere(here):
    bench = Bench(f"filesrc location={movie(here, 750)} ! decodebin ! tee name=tee  tee. ! queue ! fakesink sync=true"
                  f"  tee. ! queue ! {here.element()} ! fakesink sync=true").play()
    bench.wait_numbers(150)
    bench.mark()
    before = running_time(bench.pipeline)
    # The element refuses to seek, the other branch does it: the result is false, as not all sinks did.
    bench.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, 0)
    bench.wait("the running time goes back", lambda: running_time(bench.pipeline) < before)
    bench.mark()
    bench.wait_numbers(40)
    return finish(bench, order=False, rises=False)


@row("EOS in standby", OWN, "An input that is not live ends while the element is in standby.",
     gate=("webrtc",))
def eos_in_standby(here):
    bench = Bench(f"videotestsrc ! {RAW} ! {here.element('standby=true')} ! fakesink").play()
    bench.wait("frames leave", lambda: len(bench.left) > 20)
    sender = threading.Thread(target=bench.pipeline.send_event, args=(Gst.Event.new_eos(),), daemon=True)
    sender.start()
    bench.wait("EOS comes", lambda: bench.eos)
    sender.join(LIMIT)
    return finish(bench)


@row("Ctrl-C without a service", OWN,
     "gst-launch-1.0 -e without a service gets SIGINT: it ends, and says that nothing was transformed.", transports=DIRECT,
     gate=("webrtc",))
def interrupted(here):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        here.url = f"ws://127.0.0.1:{free.getsockname()[1]}"
        path = os.path.join(here.folder, "written.mkv")
        # gst-launch-1.0 reads no empty values.
        element = here.element("max-retries=-1").replace('stun-server="" prompt=""', "prompt=x")
        pipeline = (f"videotestsrc ! video/x-raw,width=160,height=96,framerate=10/1 ! {element}"
                    f" ! x264enc tune=zerolatency ! matroskamux ! filesink location={path}")
        process = subprocess.Popen(["gst-launch-1.0", "-e", *pipeline.split()], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + LIMIT
        while not (os.path.exists(path) and os.path.getsize(path) > 2000):
            if time.monotonic() > end or process.poll() is not None:
                process.kill()
                raise Problem(f"nothing is written: {process.communicate()[0][-300:]}")
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Problem(f"it runs {LIMIT} s after SIGINT: {process.communicate()[0][-300:]}") from None
    # What was written has no transformed frame, which must not look like success.
    if process.returncode != 1 or "The input ended before a transformed frame came" not in output:
        raise Problem(f"status {process.returncode}: {output[-300:]}")
    return "an error and status 1"


# --- Encoded input -----------------------------------------------------------------------------------------------------

@row("late branch, encoded", "AlexxIT/WebRTC#92, bluenviron/mediamtx#1763, deepch/RTSPtoWeb#148",
     "The element joins an encoder that runs, answers force-key-unit events and makes no keyframe by itself.",
     gate=("livekit",))
def late_branch(here):
    bench = Bench(f"{APPSRC} ! {H264} ! h264parse ! tee name=tee allow-not-linked=true ! queue ! fakesink async=false"
                  f"  identity name=joint ! queue ! {here.element()} ! capsfilter caps=video/x-raw ! fakesink async=false")
    pipeline = bench.pipeline
    late = [pipeline.get_by_name("joint")]
    while len(late) < 5:
        late.append(late[-1].get_static_pad("src").get_peer().get_parent_element())
    for each in late:
        each.set_locked_state(True)
    bench.play().feed()
    bench.wait("the encoder runs", lambda: bench.pushed > 50)
    for each in reversed(late):
        each.set_locked_state(False)
        each.sync_state_with_parent()
    pipeline.get_by_name("tee").request_pad_simple("src_%u").link(late[0].get_static_pad("sink"))
    bench.wait_numbers(40)
    return finish(bench)


@row("no keyframe", "google/ExoPlayer#1654, intel/gstreamer-media-SDK#67, centricular/gstwebrtc-demos#61",
     "The element gets H.264 from its middle on, and requests for keyframes are ignored: a warning says so.",
     gate=("webrtc",))
def no_keyframe(here):
    bench = here.bench(f"{APPSRC} ! {H264} ! h264parse ! identity name=middle", sink=RAW_OUT)
    pad = bench.pipeline.get_by_name("middle").get_static_pad("sink")

    def filter_keyframes(_pad, info):
        if info.type & Gst.PadProbeType.EVENT_UPSTREAM:
            structure = info.get_event().get_structure()
            is_request = structure and structure.get_name() == "GstForceKeyUnit"
            return Gst.PadProbeReturn.DROP if is_request else Gst.PadProbeReturn.OK
        is_delta = info.get_buffer().has_flags(Gst.BufferFlags.DELTA_UNIT)
        return Gst.PadProbeReturn.OK if is_delta else Gst.PadProbeReturn.DROP

    pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_UPSTREAM, filter_keyframes)
    bench.play().feed()
    bench.wait_message("WARNING", "The input has sent no keyframe")
    return finish(bench, warnings="The input has sent no keyframe")


@row("B-frames", "scottlamb/moonfire-nvr#36, mpromonet/webrtc-streamer#595", "H.264 with B-frames: one error that says so.")
def b_frames(here):
    bench = Bench(f"{APPSRC} ! x264enc bframes=2 b-adapt=false key-int-max=25 rc-lookahead=5 ! video/x-h264,profile=main"
                  f" ! h264parse ! {here.element()} ! {RAW_OUT}").play().feed()
    bench.wait_message("ERROR", "B-frames")
    bench.stop()
    return "one error"


@row("encoded outliers", "bluenviron/mediamtx#6255, gtxaspec/raptor#43",
     "H.264 whose time stamps jump hours ahead and back.")
def encoded_outliers(here):
    bench = here.bench(f"{APPSRC} ! {H264} ! h264parse ! identity name=stamps", sink=RAW_OUT)
    pad, count = bench.pipeline.get_by_name("stamps").get_static_pad("sink"), [0]

    def stamp(_pad, info):
        count[0] += 1
        if count[0] % 50 == 0:
            info.get_buffer().pts += (1 if count[0] % 100 else -1) * 3600 * Gst.SECOND
        return Gst.PadProbeReturn.OK

    pad.add_probe(Gst.PadProbeType.BUFFER, stamp)
    bench.play().feed(lambda n: 36000 * Gst.SECOND + n * 40 * MS)
    bench.wait_numbers(60, above=110)
    return finish(bench)


@row("parameter sets once", "meetecho/janus-gateway#3149, bluenviron/mediamtx#1238",
     "SPS and PPS stand in the first frame only; the service closes the connection, and the next one has frames too.")
def parameter_sets_once(here):
    bench = here.bench(f"{APPSRC} ! {H264},stream-format=byte-stream ! identity name=middle", "max-retries=-1", RAW_OUT)
    pad, first = bench.pipeline.get_by_name("middle").get_static_pad("sink"), [True]

    def strip(pad, info):
        buffer = info.get_buffer()
        if first[0] or buffer.has_flags(Gst.BufferFlags.DELTA_UNIT):
            first[0] = False
            return Gst.PadProbeReturn.OK
        units = re.split(rb"\x00\x00\x00?\x01", buffer.extract_dup(0, buffer.get_size()))[1:]
        bare = Gst.Buffer.new_wrapped(b"".join(b"\0\0\0\1" + unit for unit in units if unit[0] & 31 not in (7, 8)))
        bare.pts, bare.dts, bare.duration = buffer.pts, buffer.dts, buffer.duration
        bench.pipeline.get_by_name("middle").get_static_pad("src").push(bare)
        return Gst.PadProbeReturn.DROP

    pad.add_probe(Gst.PadProbeType.BUFFER, strip)
    bench.play().feed()
    bench.wait_numbers(30)
    here.standin.request("POST", "/control/close", code=1011)
    bench.wait("the connection is lost", lambda: bench.stats("reconnects")["reconnects"])
    bench.wait_numbers(30, above=bench.pushed)
    return finish(bench, warnings="closed the connection")


@row("segments of encoded output", "livekit/egress#649, savonet/liquidsoap#5266",
     "splitmuxsink asks for a keyframe every 2 s and begins a file with it.")
def segments(here):
    bench = here.bench(APPSRC, "codec=h264", f"h264parse ! splitmuxsink location={here.folder}/%02d.mp4 max-size-time=2000000000"
                       " send-keyframe-requests=true", is_raw=False).play().feed()
    bench.wait("four files are closed", lambda: bench.structures.count("splitmuxsink-fragment-closed") >= 4)
    return finish(bench)


# --- States, pads and threads ------------------------------------------------------------------------------------------

@row("preview released in PAUSED", OWN, "A preview that has prerolled is released while the pipeline is paused.",
     gate=("webrtc",))
def preview_paused(here):
    bench = Bench(f"{here.element('source=test', 'decartsrc')} ! fakesink  fakesink name=preview sync=true")
    preview = bench.element.request_pad_simple("preview")
    preview.link(bench.pipeline.get_by_name("preview").get_static_pad("sink"))
    shown = threading.Event()
    on_buffer(preview, lambda _: shown.set())
    bench.play()
    bench.wait("the preview shows frames", shown.is_set)
    bench.pipeline.set_state(Gst.State.PAUSED)
    bench.pipeline.get_state(5 * Gst.SECOND)
    # For the frame that the sink then holds.
    time.sleep(1)
    released = threading.Event()
    threading.Thread(target=lambda: (bench.element.release_request_pad(preview), released.set()), daemon=True).start()
    bench.wait("the pad is released", released.is_set)
    bench.mark()
    bench.pipeline.get_by_name("preview").set_state(Gst.State.NULL)
    bench.pipeline.remove(bench.pipeline.get_by_name("preview"))
    bench.play()
    bench.wait("frames go on", lambda: len(bench.left) > bench.mark_at + 20)
    return finish(bench)


@row("fallback set at the start", OWN,
     "One thread starts and stops the pipeline, another one sets fallback.",
     transports=DIRECT, criticals=True, gate=("webrtc",))
def fallback_race(here):
    bench = here.bench(f"videotestsrc is-live=true ! {RAW}", "auto-connect=false fallback=passthrough",
                       "fakesink sync=false")
    ended, seconds = threading.Event(), 60 if VERIFYING else 4

    def switch():
        count = 0
        while not ended.wait(0.0007):
            count += 1
            Gst.util_set_object_arg(bench.element, "fallback", "passthrough" if count % 3 else "freeze")

    other = threading.Thread(target=switch)
    other.start()
    end, starts = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        bench.pipeline.set_state(Gst.State.PLAYING)
        time.sleep(starts % 20 / 1000)
        bench.pipeline.set_state(Gst.State.READY)
        starts += 1
    ended.set()
    other.join()
    Gst.util_set_object_arg(bench.element, "fallback", "passthrough")
    bench.play()
    bench.mark()
    bench.wait("frames leave", lambda: len(bench.left) > bench.mark_at + 10)
    bench.stop()
    return f"{starts} starts"


@row("position in bytes", OWN, "An application asks for the position in bytes, frames, buffers and percent.",
     transports=DIRECT, criticals=True, gate=("webrtc",))
def position(here):
    bench = here.bench(APPSRC).play().feed()
    bench.wait_numbers(10)
    pad = bench.element.get_static_pad("src")
    for form in (Gst.Format.DEFAULT, Gst.Format.BYTES, Gst.Format.BUFFERS, Gst.Format.PERCENT):
        pad.query_position(form)
        bench.element.query_position(form)
        bench.pipeline.query_position(form)
    known, at = pad.query_position(Gst.Format.TIME)
    if not known or at <= 0:
        raise Problem("the position in time is not known")
    return finish(bench)


@row("audio released, latency=2000", OWN,
     "audio_sink is released while two seconds of audio wait: the running time of the pipeline does not go back.",
     gate=("webrtc",))
def audio_released(here):
    bench = Bench(f"{APPSRC} ! {here.element('latency=2000')} ! fakesink sync=true"
                  "  audiotestsrc is-live=true ! identity name=audio ! t.audio_sink"
                  "  fakesink name=sink sync=true async=false")
    returned = threading.Event()

    def added(_element, pad):
        if pad.get_name() == "audio_src":
            on_buffer(pad, lambda _: returned.set())
            pad.link(bench.pipeline.get_by_name("sink").get_static_pad("sink"))

    bench.element.connect("pad-added", added)
    audio_sink = bench.element.get_static_pad("audio_sink")
    existing = bench.element.get_static_pad("audio_src")
    if existing and not existing.is_linked():
        added(bench.element, existing)
    bench.play().feed()
    bench.wait_numbers(20)
    bench.wait("audio comes back", returned.is_set)
    source = bench.pipeline.get_by_name("audio")
    before = running_time(bench.pipeline)
    source.get_static_pad("src").unlink(audio_sink)
    source.set_state(Gst.State.NULL)
    bench.element.release_request_pad(audio_sink)
    bench.mark()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        now = running_time(bench.pipeline)
        if now < before:
            raise Problem(f"the running time went from {before / MS:.0f} to {now / MS:.0f} ms")
        before = now
        time.sleep(0.1)
    bench.wait_numbers(40, above=bench.pushed)
    return finish(bench)


@row("branches behind a tee", "prominenceai/deepstream-services-library#666, Eyevinn/strom#763, dusty-nv/jetson-utils#220",
     "A branch with the element is added to a running pipeline and removed, six times.", gate=("webrtc",))
def branches(here):
    bench = Bench(f"{APPSRC} ! tee name=tee ! queue ! identity name=t ! fakesink sync=false")
    bench.play().feed()
    tee = bench.pipeline.get_by_name("tee")
    for _ in range(6 if VERIFYING else 3):
        late = here.element().replace("name=t ", "name=late ")
        branch = Gst.parse_bin_from_description(f"queue ! {late} ! fakesink async=false", True)
        bench.pipeline.add(branch)
        branch.sync_state_with_parent()
        pad = tee.request_pad_simple("src_%u")
        pad.link(branch.get_static_pad("sink"))
        late = branch.get_by_name("late")
        bench.wait("the branch gets frames", lambda: late.get_property("stats").get_value("frames-received") > 10)
        pad.add_probe(Gst.PadProbeType.IDLE, lambda pad, _: (pad.unlink(pad.get_peer()), Gst.PadProbeReturn.REMOVE)[1]
                      if pad.is_linked() else Gst.PadProbeReturn.REMOVE)
        bench.wait("the branch is unlinked", lambda: not pad.is_linked())
        branch.set_locked_state(True)
        branch.set_state(Gst.State.NULL)
        bench.pipeline.remove(branch)
        tee.release_request_pad(pad)
        bench.mark()
        bench.wait_numbers(10)
    bench.judge()
    numbers = [each.number for each in bench.left]
    if None in numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise Problem(f"the main branch misses frames: {numbers}")
    bench.pipeline.set_state(Gst.State.NULL)
    bench.stopped.set()
    return f"{len(numbers)} frames in the main branch, none is missing"


@row("fork", OWN, "The host forks three times while a session runs.")
def fork(here):
    bench = here.bench(APPSRC).play().feed()
    bench.wait_numbers(20)
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        bench.mark()
        bench.wait_numbers(15)
    return finish(bench)


@row("plugin srtp first", OWN, "GStreamer's plugin srtp, which uses libsrtp too, was loaded before the first session.",
     transports=DIRECT, gate=("webrtc",))
def srtp_first(here):
    if not Gst.Plugin.load_by_name("srtp"):
        raise Problem("there is no plugin srtp")
    bench = here.bench(APPSRC).play().feed()
    bench.wait_numbers(20)
    return finish(bench)


@row("producer restarts", "RidgeRun/gst-interpipe#138", "The pipeline in front of a proxysrc is stopped and started again.",
     transports=DIRECT)
def producer_restarts(here):
    producer = Gst.parse_launch(f"{APPSRC} ! proxysink name=out")
    bench = here.bench("proxysrc name=proxy")
    bench.pipeline.get_by_name("proxy").set_property("proxysink", producer.get_by_name("out"))
    clock = Gst.SystemClock.obtain()
    for each in (producer, bench.pipeline):
        each.use_clock(clock)
    source = producer.get_by_name("in")
    bench.play()
    producer.set_state(Gst.State.PLAYING)
    began = [0]
    # The producer's clock begins again at each of its starts.

    def push(buffer):
        # In READY the appsrc refuses it.
        source.emit("push-buffer", buffer)
        return Gst.FlowReturn.OK

    bench.feed(lambda n: (n - began[0]) * 40 * MS, push=push)
    bench.wait_numbers(60)
    for _ in range(2):
        producer.set_state(Gst.State.READY)
        began[0] = bench.pushed
        producer.set_state(Gst.State.PLAYING)
        bench.wait_numbers(40, above=bench.pushed)
    figures = finish(bench)
    producer.set_state(Gst.State.NULL)
    return figures


@row("intervideosrc", "RidgeRun/gst-interpipe#135", "The input comes from another pipeline by way of intervideosink.",
     transports=DIRECT)
def intervideo(here):
    producer = Gst.parse_launch(f"{APPSRC} ! intervideosink channel=field")
    bench = here.bench(f"intervideosrc channel=field ! {RAW}").play()
    producer.set_state(Gst.State.PLAYING)
    source = producer.get_by_name("in")
    bench.feed(push=lambda buffer: source.emit("push-buffer", buffer))
    bench.wait_numbers(60)
    figures = finish(bench)
    producer.set_state(Gst.State.NULL)
    return figures


NETWORKS = """
ip link set lo up
for i in $(seq 24); do
    ip link add bridge$i type veth peer name container$i
    ip link set bridge$i up
    ip link set container$i up
    ip address add 172.$((16 + i)).0.1/16 dev bridge$i
done
# An address is of no use before the kernel has looked for duplicates of it.
for _ in $(seq 100); do ip address show tentative | grep -q . || break; sleep 0.1; done
"""


@row("many networks", "Kurento/bugtracker#278, Eyevinn/whip-mpegts#3, mudler/LocalAI#11466",
     "A container host has 24 bridges: more addresses than libnice can rank.", setup=NETWORKS, gate=("webrtc",))
def many_networks(here):
    bench = here.bench(APPSRC).play().feed()
    bench.wait_numbers(40)
    return finish(bench)


@row("paused and resumed", OWN, "PAUSED for 3 s, then PLAYING; an appsrc with do-timestamp=true.")
def paused(here):
    bench = here.bench(APPSRC + " do-timestamp=true", here.codec).play().feed(lambda n: None)
    bench.wait_numbers(30)
    bench.pipeline.set_state(Gst.State.PAUSED)
    time.sleep(3)
    at = bench.pushed
    bench.pipeline.set_state(Gst.State.PLAYING)
    bench.wait_numbers(40, above=at)
    return finish(bench)


@row("caps change downstream", OWN, "Downstream's size changes eight times while frames flow.")
def caps_downstream(here):
    bench = here.bench(APPSRC, "fit=stretch", sink="videoscale ! capsfilter name=size caps-change-mode=delayed ! fakesink").play().feed()
    bench.wait_numbers(20)
    for width, height in ((640, 352), (321, 177), (160, 88), (854, 470)) * 2:
        caps = Gst.Caps.from_string(f"video/x-raw,width={width},height={height}")
        bench.pipeline.get_by_name("size").set_property("caps", caps)
        bench.mark()
        bench.wait_numbers(10)
    return finish(bench)


@row("audio formats", "xiph/opus#357, games-on-whales/wolf#199",
     "Audio of unusual formats, channels and rates is returned.")
def audio_formats(here):
    forms = ("format=S32LE,channels=1,rate=44100", "format=F32LE,channels=2,rate=96000", "format=U8,channels=1,rate=8000",
             "format=S16LE,channels=6,channel-mask=(bitmask)0x3f,rate=48000",
             "format=S16LE,channels=1,channel-mask=(bitmask)0x2,rate=48000")
    for form in forms:
        bench = Bench(f"{APPSRC} ! {here.element()} ! fakesink"
                      f"  audiotestsrc is-live=true freq=440 volume=0.4 ! audio/x-raw,{form} ! t.audio_sink  {AUDIO_OUT}")
        loud = bench.listen()
        bench.play().feed()
        bench.wait(f"audio of {form} comes back", lambda: len(loud) > 40)
        finish(bench)
    return f"{len(forms)} formats"


def offset(here, options=""):
    """A flash and a beep begin together each two seconds. Returns how much later the beep leaves, in ms."""
    bench = Bench(f"{APPSRC} ! {here.element(options)} ! fakesink  {SPEECH} ! t.audio_sink  {AUDIO_OUT}")
    loud = bench.listen()
    bench.play().feed()
    bench.feed_audio(lambda k: k * 20 * MS, lambda k: k % 100 < 10)
    bench.wait_numbers(280)
    flashes = [each.pts for each in bench.left if each.number is not None and each.number % 50 == 0 and each.number]
    beeps = [pts for before, pts in zip([0, *loud], loud) if pts - before > 500 * MS]
    offsets = sorted(min((beep - flash for flash in flashes), key=abs) / MS for beep in beeps)
    finish(bench)
    if len(offsets) < 3 or abs(offsets[len(offsets) // 2]) > 100:
        raise Problem(f"the beeps leave {[round(each) for each in offsets]} ms after the flashes")
    return offsets[len(offsets) // 2]


@row("flash and beep", "WebKit/WebKit#37303, awslabs/amazon-kinesis-video-streams-webrtc-sdk-c#1372,"
     " node-webrtc/node-webrtc#503",
     "Audio and video of a source leave together, by arrival and by capture time.")
def flash_and_beep(here):
    return ", ".join(f"{name}: {offset(here, f'timestamps={name}'):.0f} ms" for name in ("arrival", "capture"))


@row("audio clock", "AlexxIT/go2rtc#2308, OvenMediaLabs/OvenMediaEngine#1492",
     "The clock of the microphone is 0.5 % slow: after 40 s the audio is still there.", transports=DIRECT)
def audio_clock(here):
    return perform_case(Case("", "", "", count=1000, audio=SPEECH, piece=lambda k: k * 20100000), here)


@row("a stopped host", "cockpit-project/cockpit#2851, nextcloud/spreed#9382", "The host is stopped by SIGSTOP for 4 s.")
def stopped_host(here):
    bench = here.bench(APPSRC, "max-retries=-1").play().feed()
    bench.wait_numbers(20)
    stop = f"kill -STOP {os.getpid()}; sleep 4; kill -CONT {os.getpid()}"
    with subprocess.Popen(["sh", "-c", stop]):
        bench.mark()
        bench.wait_numbers(60, above=bench.pushed + 100)
    return finish(bench, warnings=".")


# --- The process of a row, and the parent ------------------------------------------------------------------------------

def run_child(name, transport, folder):
    faulthandler.enable()
    faulthandler.dump_traceback_later(WATCHDOG - 20, exit=True)
    Gst.init(None)
    try:
        # The parent ends it with the process group.
        standin = StandIn()
        figures = ROWS[name].perform(Here(standin.url, standin, transport, folder))
    except Problem as problem:
        end_child("why", *str(problem).split())
    except Exception:
        end_child("why", *traceback.format_exc().split())
    end_child("figures", figures)


def end_child(*words):
    """Ends the process at once. What a failed row has left running must not hold it, and an interpreter that is ended ends
    each thread that still calls it, which libdispatch does not permit on its own threads."""
    print(*words, flush=True)
    os._exit(words[0] != "figures")


def run_row(each, transport, environment):
    """Returns why the row failed, and its figures."""
    with tempfile.TemporaryDirectory() as folder:
        own = dict(environment)
        if each.criticals:
            own["G_DEBUG"] = "fatal-criticals"
        log = os.path.join(folder, "log")
        with open(log, "wb") as output:
            command = [sys.executable, os.path.abspath(__file__), "--child", each.name, transport, folder]
            if each.setup:
                command = [*NAMESPACES, "bash", "-c", f'{each.setup}\nexec "$@"', "bash", *command]
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, env=own, start_new_session=True)
            end, ended = time.monotonic() + WATCHDOG, None
            # It stays a zombie until its group is killed: its id must not go to another process meanwhile.
            while not ended and time.monotonic() < end:
                time.sleep(0.1)
                ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = child.returncode if ended else None
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file if line.strip()]
    last = lines[-1] if lines else "no output"
    if status == 0 and last.startswith("figures "):
        return "", last.removeprefix("figures ")
    if status == 1 and last.startswith("why "):
        return last.removeprefix("why "), ""
    show(lines)
    if any(line.startswith("Timeout (") for line in lines):
        # The main thread is the last one of the stacks.
        stack = lines[max(index for index, line in enumerate(lines) if "most recent call first" in line) + 1:]
        return f"the host hung for {WATCHDOG - 20} s in {' < '.join(' '.join(line.split()) for line in stack[:3])}", ""
    tail = " | ".join(line for line in lines if "CRITICAL" in line or "Error" in line or line == last)
    return f"{ending(status)}: {tail[-400:]}", ""


def show(lines):
    """The stacks and all the rest, for the log."""
    print(*(f"    {line}" for line in lines[-500:]), sep="\n", flush=True)


def ending(status):
    if status is None:
        return f"the host hung for {WATCHDOG} s"
    return f"the host ended by {signal.Signals(-status).name}" if status < 0 else f"the host ended with status {status}"


# --- Random operations -------------------------------------------------------------------------------------------------

def run_operations(program, seed, environment, own=False):
    """Returns why the seed failed, and its figures."""
    with running_standin("--transport", "both") as url:
        try:
            done = subprocess.run([program, str(SEED_SECONDS), str(seed), "own" if own else url], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                                  timeout=SEED_SECONDS + WATCHDOG, env=dict(environment, G_DEBUG="fatal-criticals"))
        except subprocess.TimeoutExpired:
            return "a hang that its watchdog did not see", ""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode == 0:
        return "", lines[-1]
    # The last operations, and what the failure has printed.
    hang = next((index for index, line in enumerate(lines) if line.startswith("hang in")), len(lines))
    show(lines[max(0, hang - 100):hang + 400])
    # GStreamer begins some of its messages with a line break.
    notable = [f"{line} {after}" if line.endswith(":") else line for line, after in zip(lines, [*lines[1:], ""])
               if "CRITICAL" in line or "hang in" in line or "ERROR" in line] or lines[-1:]
    return f"{ending(done.returncode)}: {' | '.join(notable[:3])[:400]}", ""


# --- The checks --------------------------------------------------------------------------------------------------------

report = Results("field")


def jobs_for(names, environment, folder):
    """(name, function that returns why and figures) of each check."""
    for each in ROWS.values():
        is_named = any(word.lower() in each.name.lower() for word in names)
        chosen = [transport for transport in each.transports
                  if is_named or not names and (VERIFYING or transport in each.gate)]
        if chosen and each.setup and lacking():
            report.skip(f"{each.name}: no permission to create namespaces")
            continue
        for transport in chosen:
            yield f"{each.name}, {transport}", functools.partial(run_row, each, transport, environment)
    if not names or any(word.lower() in "random operations" for word in names):
        program = compile_c(os.path.join(HERE, "random_operations.c"), os.path.join(folder, "random_operations"),
                            "-g", "-O1", "-Wall", "-Wextra", "-pthread", packages=("gstreamer-1.0", "gstreamer-video-1.0"))
        for seed in range(1, SEEDS + 1):
            yield f"random operations, seed {seed}", functools.partial(run_operations, program, seed, environment)
            # The judge of the program: what fails here too is no fault of the elements.
            if VERIFYING:
                yield (f"random operations, GStreamer's own elements, seed {seed}",
                       functools.partial(run_operations, program, seed, environment, own=True))


def main():
    parser = argparse.ArgumentParser(description="Tries situations that users of other projects have reported.")
    parser.add_argument("--list", action="store_true", help="print the rows and their sources")
    parser.add_argument("--at-once", type=int, default=2, metavar="N")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a part of the name; without: those of the gate")
    options = parser.parse_args()
    if options.list:
        for each in ROWS.values():
            where = f"{', '.join(each.transports)}; gate: {', '.join(each.gate) or '-'}"
            print(f"{each.name} ({where}): {each.situation} [{each.reports}]")
        return 0
    os.environ.pop("DECART_API_KEY", None)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        environment = gstreamer(folder, os.environ)
        # One process fills the registry: the rows would each scan all plugins.
        if subprocess.run(["gst-inspect-1.0", "--exists", "x264enc"], env=environment, check=False).returncode:
            report.skip("no x264enc")
            return 0
        jobs = list(jobs_for(options.rows, environment, folder))
        if not jobs:
            sys.exit(f"no such row: {', '.join(options.rows)}")
        # The longest ones are the last in the table.
        running = {pool.submit(perform): name for name, perform in reversed(jobs)}
        for each in concurrent.futures.as_completed(running):
            report(running[each], *each.result())
    return report.failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(*sys.argv[2:])
    sys.exit(main())
