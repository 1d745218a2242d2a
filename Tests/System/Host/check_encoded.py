#!/usr/bin/python3
"""Sends encoded video and audio through a session whose service returns it as it came, and compares all by hash.

Of H.264 the NAL units of the slices are compared, of VP8 the frames, of Opus the packets; over a direct connection and in
a room, side by side. Each unit that comes must be one of the input, unchanged and in the order of the input. Prints "ok
NAME: figures" or "not ok NAME: why". Figures for scripts/verify (DECART_VERIFY=1 makes the runs longer, one at a time):
units that are missing, as a busy machine may lose some; how long a keyframe request takes from downstream of the element
to upstream, by way of the service; how long after a new estimate `notify::target-bitrate` comes. Uses loopback only.
"""

import concurrent.futures
import hashlib
import os
import sys
import tempfile
import threading
import time

from checks import VERIFYING, Results, gstreamer, measured
from gst import Gst, GstVideo, factories_in, on_buffer
from standin import running_standin

RATE = 100 if VERIFYING else 30
FRAMES = 200 if VERIFYING else 60  # of each run
LIMIT = 60  # s, for every wait
REQUESTS, TARGETS = (10, 8) if VERIFYING else (2, 2)
SIZE = "width=320,height=176"
ENCODERS = {
    "H.264": "x264enc tune=zerolatency speed-preset=ultrafast bitrate=1200 key-int-max=200"
             " ! video/x-h264,profile=constrained-baseline",
    "VP8": "vp8enc deadline=1 cpu-used=12 keyframe-max-dist=200 target-bitrate=1200000",
}
# Packets of the first seconds, in which the jitter buffer learns the clock: some may be dropped.
WARM_UP = 100 if VERIFYING else 20
# Noise, so that no packet equals another one.
AUDIO = (" audiotestsrc is-live=true wave=white-noise samplesperbuffer=960 ! audio/x-raw,rate=48000,channels=2 ! opusenc"
         " ! capsfilter name=audio-in caps=audio/x-opus ! t.audio_sink"
         " t.audio_src ! capsfilter name=audio-out caps=audio/x-opus ! fakesink sync=false async=false")
CAPS = {"H.264": "video/x-h264,stream-format=byte-stream", "VP8": "video/x-vp8"}


def slices(data):
    """NAL units of slices in a byte-stream, without start codes and trailing zeros."""
    starts = []
    at = data.find(b"\0\0\1")
    while at >= 0:
        starts.append(at + 3)
        at = data.find(b"\0\0\1", at + 3)
    for begin, end in zip(starts, [start - 3 for start in starts[1:]] + [len(data)]):
        unit = data[begin:end].rstrip(b"\0")
        if unit and 1 <= unit[0] & 0x1F <= 5:
            yield unit


def record(pad, hashes, changed, is_h264=False):
    def add(buffer):
        data = buffer.extract_dup(0, buffer.get_size())
        digest = hashlib.sha256()
        for part in slices(data) if is_h264 else [data]:
            digest.update(part)
        with changed:
            hashes.append(digest.digest())
            changed.notify_all()

    on_buffer(pad, add)


def request_keyframes(pipeline):
    """Milliseconds from a force-key-unit event of downstream to the one that upstream gets."""
    arrived = threading.Event()

    def probe(_pad, info):
        structure = info.get_event().get_structure()
        if structure and structure.get_name() == "GstForceKeyUnit":
            arrived.set()
        return Gst.PadProbeReturn.OK

    pad = pipeline.get_by_name("in").get_static_pad("src")
    pad.add_probe(Gst.PadProbeType.EVENT_UPSTREAM, probe)
    times = []
    for _ in range(REQUESTS):
        # Requests that follow each other closely are one.
        time.sleep(0.5)
        arrived.clear()
        end = time.monotonic() + LIMIT
        while not arrived.is_set() and time.monotonic() < end:
            began = time.monotonic()
            event = GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0)
            pipeline.get_by_name("out").get_static_pad("src").send_event(event)
            arrived.wait(2)
        if arrived.is_set():
            times.append(1000 * (time.monotonic() - began))
    return sorted(times)


def measure_targets(url):
    """Milliseconds from a new target in the statistics, which follow the estimate at once, to its notification."""
    # The target begins near the rate of the input, and so rises in steps.
    pipeline = Gst.parse_launch(
        f"videotestsrc is-live=true pattern=snow ! video/x-raw,format=I420,{SIZE},framerate=20/1 ! x264enc"
        " tune=zerolatency speed-preset=ultrafast bitrate=1400 key-int-max=1000 ! video/x-h264,profile=constrained-baseline"
        f" ! decarttransform name=t base-url={url} api-key=x prompt=Lego transport=webrtc fallback=none width=320 height=176"
        f" framerate=20 ! capsfilter caps={CAPS['H.264']} ! fakesink sync=false")
    element, seen, times = pipeline.get_by_name("t"), {}, []

    def notified(element, _property):
        now, target = time.monotonic(), element.get_property("target-bitrate")
        # A target that the statistics have not shown yet is notified before they were read again.
        times.append(1000 * (now - seen.setdefault(target, now)))

    element.connect("notify::target-bitrate", notified)
    pipeline.set_state(Gst.State.PLAYING)
    end = time.monotonic() + LIMIT
    while len(times) < TARGETS and time.monotonic() < end:
        seen.setdefault(element.get_property("stats").get_value("target-bitrate"), time.monotonic())
        time.sleep(0.005)
    pipeline.set_state(Gst.State.NULL)
    return sorted(times)


def run(codec, transport, url):
    pipeline = Gst.parse_launch(
        f"videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,{SIZE},framerate={RATE}/1 ! {ENCODERS[codec]}"
        f" ! capsfilter name=in caps={CAPS[codec]}"
        f" ! decarttransform name=t base-url={url} api-key=x prompt=Lego transport={transport} fallback=none"
        f" width=320 height=176 framerate={RATE * 2}"
        f" ! capsfilter name=out caps={CAPS[codec]} ! fakesink sync=false{AUDIO}")
    sent, came, packets_sent, packets_came, changed = [], [], [], [], threading.Condition()
    record(pipeline.get_by_name("in").get_static_pad("src"), sent, changed, codec == "H.264")
    record(pipeline.get_by_name("out").get_static_pad("src"), came, changed, codec == "H.264")
    record(pipeline.get_by_name("audio-in").get_static_pad("src"), packets_sent, changed)
    record(pipeline.get_by_name("audio-out").get_static_pad("src"), packets_came, changed)
    began = time.monotonic()
    pipeline.set_state(Gst.State.PLAYING)
    with changed:
        packets = WARM_UP + FRAMES * 50 // RATE // 2
        complete = changed.wait_for(lambda: len(came) >= FRAMES and len(packets_came) >= packets,
                                    timeout=LIMIT + 5 * FRAMES / RATE)
    seconds = time.monotonic() - began
    requests = request_keyframes(pipeline) if complete else []
    error = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    stats = pipeline.get_by_name("t").get_property("stats")
    counts = {name: stats.get_value(name) for name in ("frames-late", "frames-dropped", "packets-lost", "plis-sent",
                                                     "audio-buffers-late", "audio-buffers-silence")}
    elements = factories_in(pipeline.get_by_name("t"))
    pipeline.set_state(Gst.State.NULL)
    coders = [name for name in elements if name in ("opusenc", "opusdec", "x264enc", "openh264enc", "vp8enc", "vp9enc",
                                                    "vp8dec", "vp9dec", "avdec_h264", "openh264dec")]
    if not complete:
        return f"{len(came)} frames and {len(packets_came)} packets came: {error and error.parse_error()}", ""
    if coders:
        return f"the element has {coders}", ""
    came = came[:FRAMES]
    why, lost_frames = compare(sent, came, "frame")
    if not why:
        why, lost_packets = compare(packets_sent, packets_came[WARM_UP:], "packet")
    if why:
        return f"{why}: {counts}", ""
    if len(requests) < REQUESTS:
        return f"{REQUESTS - len(requests)} keyframe requests did not arrive", ""
    name = f"encoded: {codec}, {transport}"
    measured(f"{name}: missing frames", lost_frames, "frames", at_most=0)
    measured(f"{name}: missing packets of Opus", lost_packets, "packets", at_most=0)
    measured(f"{name}: keyframe request, median", requests[len(requests) // 2], "ms", at_most=100)
    return "", (f"{FRAMES} frames equal, {len(set(came))} different ones, in {seconds:.0f} s, and "
                f"{len(packets_came) - WARM_UP} packets of Opus; {lost_frames} and {lost_packets} are missing; a keyframe "
                f"request takes {requests[len(requests) // 2]:.0f} ms, {requests[-1]:.0f} at most")


def compare(sent, came, what):
    """Why what came is not a part of what was sent in the same order, and how many are missing between its ends."""
    at, missing = -1, 0
    for index, digest in enumerate(came):
        try:
            found = sent.index(digest, at + 1)
        except ValueError:
            where = sent.index(digest) if digest in sent else "nowhere"
            return f"{what} {index} of {len(came)} is the input's {where}, after its {at}", 0
        missing += found - at - 1 if index else 0
        at = found
    return "", missing


def main():
    report = Results("encoded")
    os.environ.pop("DECART_API_KEY", None)
    with tempfile.TemporaryDirectory() as work:
        os.environ.update(gstreamer(work))
        Gst.init(None)
        if not Gst.ElementFactory.find("x264enc"):
            report.skip("no x264enc")
            return
        cases = [(codec, transport, name) for codec in ENCODERS
                 for transport, name in (("webrtc", "a direct connection"), ("livekit", "a room"))]
        with (running_standin("--echo-encoded") as url,
              concurrent.futures.ThreadPoolExecutor(max_workers=1 if VERIFYING else 6) as pool):
            runs = [pool.submit(run, codec, transport, url) for codec, transport, _ in cases]
            targets = pool.submit(measure_targets, url)
            for (codec, _, name), each in zip(cases, runs):
                report(f"{codec} over {name}", *each.result())
            times = targets.result()
        is_good = len(times) >= TARGETS
        report("target-bitrate", "" if is_good else f"notified {len(times)} times", f"notified {len(times)} times")
        if is_good:
            measured("encoded: target-bitrate: notified after the estimate, longest", times[-1], "ms", at_most=200)
    sys.exit(report.failed)


main()
