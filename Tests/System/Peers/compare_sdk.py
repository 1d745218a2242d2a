"""Compares what a room session costs in our element and in LiveKit's own SDK for Python, and prints Markdown.

Each row is a process with several sessions in rooms of the stand-in, which returns the packets. All sources are the same: a
VP8 clip of 1280x704 at 30 frames a second, encoded beforehand, from one thread of Python. Runs in a network namespace of its
own, because libwebrtc ignores the loopback interface.

Usage: compare_sdk.py [--sessions N] [--seconds N] [--rounds N]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import check_rooms

WIDTH, HEIGHT, RATE = 1280, 704, 30
CLIP = (f"videotestsrc num-buffers=150 ! video/x-raw,format=I420,width={WIDTH},height={HEIGHT},framerate={RATE}/1"
        " ! vp8enc deadline=1 cpu-used=8 end-usage=cbr target-bitrate=2500000 keyframe-max-dist=30 ! avmux_ivf ! filesink")
# Seconds from the first frames back to the measurement.
SETTLE = 3
# (name, what the process does, the row with its source alone)
ROWS = [
    ("source-sdk", "the source alone, asyncio", None),
    ("source-element", "the source alone, `appsrc ! fakesink`", None),
    ("element", "`decarttransform`, VP8 in and out", "source-element"),
    ("element-decoded", "`decarttransform`, VP8 in, decoded out", "source-element"),
    ("sdk-send", "SDK, `EncodedVideoSource`, subscribes to nothing", "source-sdk"),
    ("sdk", "SDK, `EncodedVideoSource`, subscribes, which decodes", "source-sdk"),
]


def read_clip(path):
    """Returns the frames of an IVF file."""
    with open(path, "rb") as file:
        content = file.read()
    frames, at = [], int.from_bytes(content[6:8], "little")
    while at + 12 <= len(content):
        size = int.from_bytes(content[at:at + 4], "little")
        frames.append(content[at + 12:at + 12 + size])
        at += 12 + size
    return frames


def figures():
    with open("/proc/self/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file)
    return {"cpu": time.process_time(), "wall": time.monotonic(), "threads": int(values["Threads"]),
            "fds": len(os.listdir("/proc/self/fd")), "rss": int(values["VmRSS"].split()[0]) / 1024}


def cost(before, after, frames, sessions):
    seconds = after["wall"] - before["wall"]
    return {"cpu": (after["cpu"] - before["cpu"]) / seconds * 60 / sessions, "rate": frames / seconds / sessions,
            **{name: after[name] / sessions for name in ("threads", "fds", "rss")}}


# --- Our element --------------------------------------------------------------------------------------------------------

def run_elements(role, url, clip, sessions, seconds):
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    element = (f"decarttransform name=t base-url={url} insecure=true api-key=x transport=livekit stun-server=\"\""
               f" fallback=none prompt=Lego max-bitrate=5000000 ! {'video/x-raw' if role == 'element-decoded' else 'video/x-vp8'} !")
    element = "" if role == "source-element" else element
    caps = f"video/x-vp8,width={WIDTH},height={HEIGHT},framerate={RATE}/1"
    pipelines = [Gst.parse_launch(f"appsrc name=s format=time is-live=true caps={caps} ! {element} fakesink sync=false async=false")
                 for _ in range(sessions)]
    sources = [pipeline.get_by_name("s") for pipeline in pipelines]
    for pipeline in pipelines:
        pipeline.set_state(Gst.State.PLAYING)

    def push():
        began = time.monotonic()
        for number in range(10**9):
            frame = clip[number % len(clip)]
            for source in sources:
                buffer = Gst.Buffer.new_wrapped(frame)
                buffer.pts = buffer.dts = number * Gst.SECOND // RATE
                buffer.duration = Gst.SECOND // RATE
                if frame[0] & 1:
                    buffer.set_flags(Gst.BufferFlags.DELTA_UNIT)
                source.emit("push-buffer", buffer)
            time.sleep(max(0, began + (number + 1) / RATE - time.monotonic()))

    def returned():
        if role == "source-element":
            return 0
        return [pipeline.get_by_name("t").get_property("stats").get_value("frames-received") for pipeline in pipelines]

    threading.Thread(target=push, daemon=True).start()
    end = time.monotonic() + 20
    while role != "source-element" and min(returned()) < 1:
        if time.monotonic() > end:
            raise RuntimeError("not all sessions have returned a frame within 20 s")
        time.sleep(0.1)
    time.sleep(SETTLE)
    before, frames = figures(), sum(returned() or [0])
    time.sleep(seconds)
    return cost(before, figures(), sum(returned() or [0]) - frames, sessions)


# --- The SDK ------------------------------------------------------------------------------------------------------------

async def run_sdk(role, url, clip, sessions, seconds):
    import websockets
    from livekit import rtc
    tracks, tasks, sockets = [], [], []

    async def feed(source):
        began = time.monotonic()
        for number in range(10**9):
            frame = clip[number % len(clip)]
            if source:
                kind = "ENCODED_FRAME_DELTA" if frame[0] & 1 else "ENCODED_FRAME_KEY"
                source.capture_frame(rtc.EncodedVideoFrame(
                    data=frame, width=WIDTH, height=HEIGHT, codec=rtc.VideoCodec.VP8,
                    frame_type=getattr(rtc.EncodedFrameType, kind), timestamp_us=number * 1_000_000 // RATE))
            await asyncio.sleep(max(0, began + (number + 1) / RATE - time.monotonic()))

    async def join():
        socket = await websockets.connect(f"{url}/v1/stream?api_key=x&model=lucy-restyle-2&livekit_early_room_info=true")
        sockets.append(socket)
        for message in ({"type": "livekit_join"}, {"type": "prompt", "prompt": "Lego", "enhance_prompt": False}):
            await socket.send(json.dumps(message))
        missing, info = {"livekit_room_info", "prompt_ack"}, None
        while missing:
            message = json.loads(await asyncio.wait_for(socket.recv(), 15))
            missing.discard(message["type"])
            info = message if message["type"] == "livekit_room_info" else info
        room = rtc.Room()
        room.on("track_subscribed", lambda track, *_: tracks.append(track))
        await room.connect(info["livekit_url"], info["token"], rtc.RoomOptions(auto_subscribe=role == "sdk"))
        source = rtc.EncodedVideoSource(WIDTH, HEIGHT)
        await room.local_participant.publish_track(
            rtc.LocalVideoTrack.create_video_track("camera", source), rtc.TrackPublishOptions(
                source=rtc.TrackSource.SOURCE_CAMERA, simulcast=False, video_codec=rtc.VideoCodec.VP8,
                video_encoder=rtc.VideoEncoderBackend.ENCODER_BACKEND_PRE_ENCODED,
                video_encoding=rtc.VideoEncoding(max_bitrate=5_000_000, max_framerate=RATE)))
        tasks.append(asyncio.ensure_future(feed(source)))
        tasks.append(asyncio.ensure_future(drain(socket)))
        return room

    async def drain(socket):
        async for _ in socket:
            pass

    async def decoded():
        count = []
        for track in tracks:
            count += [each.inbound_rtp.inbound.frames_decoded for each in await track.get_stats()
                      if each.WhichOneof("stats") == "inbound_rtp"]
        return count

    if role == "source-sdk":
        tasks += [asyncio.ensure_future(feed(None)) for _ in range(sessions)]
        rooms = []
    else:
        rooms = [await join() for _ in range(sessions)]
    end = time.monotonic() + 20
    while role == "sdk" and (len(await decoded()) < sessions or min(await decoded()) < 1):
        if time.monotonic() > end:
            raise RuntimeError("not all sessions have returned a frame within 20 s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(SETTLE)
    before, frames = figures(), sum(await decoded())
    await asyncio.sleep(seconds)
    result = cost(before, figures(), sum(await decoded()) - frames, sessions)
    for task in tasks:
        task.cancel()
    for room in rooms:
        await room.disconnect()
    return result


# --- The table ----------------------------------------------------------------------------------------------------------

def measure(role, options, clip):
    """Runs one row in a process of its own, against a stand-in of its own. Returns its figures and the frames that arrived."""
    with check_rooms.Processes("--echo-encoded") as processes:
        process = processes.start(
            [sys.executable, os.path.abspath(__file__), "--role", role, "--clip", clip, "--sessions", str(options.sessions),
             "--seconds", str(options.seconds), "--url", processes.url], processes.environment)
        line = process.communicate(timeout=60 + options.seconds)[0].strip().splitlines()
        return json.loads(line[-1]) if line else {"error": f"ended with {process.returncode}"}


def text(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--role", choices=[row[0] for row in ROWS], help=argparse.SUPPRESS)
    parser.add_argument("--clip", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        work = (options.role, options.url, read_clip(options.clip), options.sessions, options.seconds)
        print(json.dumps(run_elements(*work) if "element" in options.role else asyncio.run(run_sdk(*work))), flush=True)
        # The SDK's threads may outlive its rooms.
        os._exit(0)
    if (trouble := check_rooms.enter_namespace()):
        sys.exit(f"no network namespace: {trouble}")
    with tempfile.TemporaryDirectory() as folder:
        clip = os.path.join(folder, "clip.ivf")
        subprocess.run(["gst-launch-1.0", "-q", *CLIP.split(), f"location={clip}"], check=True, stdout=subprocess.DEVNULL)
        results = {row[0]: [] for row in ROWS}
        for _ in range(options.rounds):
            for role, *_ in ROWS:
                results[role].append(measure(role, options, clip))
    print(f"`compare_sdk.py --sessions {options.sessions} --seconds {options.seconds} --rounds {options.rounds}`\n\n"
          f"{options.sessions} room sessions in a process of Python; VP8 {WIDTH}x{HEIGHT} at {RATE} frames a second and"
          " 2.5 Mbit/s, encoded beforehand, returned by the stand-in. Seconds of CPU a minute and session, median"
          " (smallest–largest); threads, descriptors and memory are the process's, divided by its sessions.\n\n"
          "| process | CPU | without the source | frames a second back | threads | fds | RSS, MB |\n|---|---|---|---|---|---|---|")
    for role, words, source in ROWS:
        errors = [each["error"] for each in results[role] if "error" in each]
        if errors:
            print(f"| {words} | failed: {errors[0]} | | | | | |")
            continue
        values = {name: [each[name] for each in results[role]] for name in results[role][0]}
        alone = [each.get("cpu", 0) for each in results[source]] if source else []
        net = f"{statistics.median(values['cpu']) - statistics.median(alone):.2f}" if source else ""
        rate = text(values["rate"], 1) if max(values["rate"]) > 0 else "–"
        print(f"| {words} | {text(values['cpu'])} | {net} | {rate} | {statistics.median(values['threads']):.1f}"
              f" | {statistics.median(values['fds']):.1f} | {statistics.median(values['rss']):.0f} |")


if __name__ == "__main__":
    main()
