#!/usr/bin/python3
"""Compares how fast a room session is set up in our element and in LiveKit's own SDK for Python, and prints Markdown.

Client and stand-in are in namespaces that a link with a delay joins. A row is a process with two sessions, one after the
other. "Connected" is the element's `connect-time`, and until `room.connect` and `publish_track` of the SDK return; the
first frame is one that came back.

Usage: compare_connect.py [--rounds N] [--round-trips MS...]        (needs root)
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "Faults"), os.path.join(HERE, "..", "Host")]
import netlab  # noqa: E402
from checks import STANDIN, gstreamer  # noqa: E402

WIDTH, HEIGHT, RATE = 640, 352, 30
URL = f"ws://{netlab.SERVER}:{netlab.PORT}"
# (name, what the process does, options of the stand-in)
ROWS = [
    ("element", "`decarttransform`", ()),
    ("two", "`decarttransform`, two connections", ("--no-single-connection",)),
    ("tls", "`decarttransform`, `wss://`", ("--tls-cert", "CERTIFICATE", "--tls-key", "KEY")),
    ("sdk", "SDK", ()),
]


# --- Our element --------------------------------------------------------------------------------------------------------

def run_element(url, *properties):
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    found = []
    for _ in range(2):
        pipeline = Gst.parse_launch(
            f"videotestsrc is-live=true ! video/x-raw,width={WIDTH},height={HEIGHT},framerate={RATE}/1 ! decarttransform name=t"
            f" base-url={url} {' '.join(properties)} insecure=true api-key=x transport=livekit codec=vp8 stun-server=\"\" fallback=none prompt=Lego"
            " max-retries=0 ! fakesink sync=false async=false")
        element = pipeline.get_by_name("t")
        pipeline.set_state(Gst.State.PLAYING)
        until = time.monotonic() + 30
        while element.get_property("stats").get_value("frames-received") < RATE and time.monotonic() < until:
            time.sleep(0.05)
        stats = element.get_property("stats")
        found.append([stats.get_value(name) / 1e6 for name in ("connect-time", "time-to-first-frame")]
                     + [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))])
        pipeline.set_state(Gst.State.NULL)
    return found


# --- The SDK ------------------------------------------------------------------------------------------------------------

async def run_sdk():
    import websockets
    from livekit import rtc
    found = []
    for _ in range(2):
        began, first = time.monotonic(), asyncio.get_running_loop().create_future()
        socket = await websockets.connect(f"{URL}/v1/stream?api_key=x&model=lucy-restyle-2&livekit_early_room_info=true"
                                          "&livekit_server_codec=vp8")
        for message in ({"type": "livekit_join"}, {"type": "prompt", "prompt": "Lego", "enhance_prompt": False}):
            await socket.send(json.dumps(message))
        info = None
        while not info:
            message = json.loads(await asyncio.wait_for(socket.recv(), 15))
            info = message if message["type"] == "livekit_room_info" else None
        drain = asyncio.ensure_future(read(socket))
        room = rtc.Room()

        async def watch(track):
            async for _ in rtc.VideoStream(track):
                if not first.done():
                    first.set_result(time.monotonic() - began)

        watchers = []
        room.on("track_subscribed", lambda track, *_: watchers.append(asyncio.ensure_future(watch(track))))
        await room.connect(info["livekit_url"], info["token"], rtc.RoomOptions(auto_subscribe=True))
        source = rtc.VideoSource(WIDTH, HEIGHT)
        feeder = asyncio.ensure_future(feed(source))
        await room.local_participant.publish_track(
            rtc.LocalVideoTrack.create_video_track("camera", source), rtc.TrackPublishOptions(
                source=rtc.TrackSource.SOURCE_CAMERA, simulcast=False, video_codec=rtc.VideoCodec.VP8))
        connected = time.monotonic() - began
        frame = await asyncio.wait_for(first, 30)
        found.append([connected * 1e3, frame * 1e3, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))])
        for task in (feeder, drain, *watchers):
            task.cancel()
        await room.disconnect()
        await socket.close()
    return found


async def read(socket):
    async for _ in socket:
        pass


async def feed(source):
    from livekit import rtc
    for number in range(10**9):
        frame = bytes([number % 200]) * (WIDTH * HEIGHT) + bytes([128]) * (WIDTH * HEIGHT // 2)
        source.capture_frame(rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.I420, frame))
        await asyncio.sleep(1 / RATE)


# --- The table ----------------------------------------------------------------------------------------------------------

def make_certificate(folder):
    """A certificate for the server's address, which vouches for itself."""
    files = {"CERTIFICATE": os.path.join(folder, "server.pem"), "KEY": os.path.join(folder, "server.key")}
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=server", "-addext", f"subjectAltName=IP:{netlab.SERVER}", "-days", "2", "-out",
                    files["CERTIFICATE"], "-keyout", files["KEY"]], check=True, capture_output=True)
    return files


def measure(role, options, round_trip, folder, files):
    environment = {**os.environ, **gstreamer(folder), "CONNECT_CERTIFICATE": files["CERTIFICATE"]}
    options = [files.get(option, option) for option in options]
    with netlab.Lab(link={"delay": round_trip / 2000}) as lab, contextlib.ExitStack() as stack:
        standin = lab.start(lab.server, [STANDIN, "--port", str(netlab.PORT), "--host", netlab.SERVER, "--transport", "livekit",
                                         "--server-codec", "vp8", *options],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        stack.callback(standin.kill)
        standin.stdout.readline()
        client = lab.start(lab.client, [sys.executable, os.path.abspath(__file__), "--role", role],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        stack.callback(client.kill)
        line = client.communicate(timeout=120)[0].decode().strip().splitlines()
        return json.loads(line[-1]) if line else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-trips", type=int, nargs="+", default=[0, 200])
    parser.add_argument("--role", choices=[row[0] for row in ROWS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        if options.role == "sdk":
            found = asyncio.run(run_sdk())
        elif options.role == "tls":
            found = run_element(URL.replace("ws:", "wss:"), f"ca-file={os.environ['CONNECT_CERTIFICATE']}")
        else:
            found = run_element(URL)
        print(json.dumps(found), flush=True)
        # The SDK's threads may outlive its rooms.
        os._exit(0)
    if (why := netlab.available()):
        sys.exit(why)
    print(f"Medians of {options.rounds} runs, ms: `compare_connect.py`.\n\n"
          "| round trip | process | connected | first frame | again: connected | first frame | fds | threads |\n"
          "|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        files = make_certificate(folder)
        for round_trip in options.round_trips:
            results = {name: [] for name, *_ in ROWS}
            for _ in range(options.rounds):
                for name, _, more in ROWS:
                    results[name].append(measure(name, more, round_trip, folder, files))
            for name, words, _ in ROWS:
                found = [each for each in results[name] if each]
                if not found:
                    print(f"| {round_trip} | {words} | failed | | | | | |")
                    continue
                cells = [[statistics.median(run[session][place] for run in found) for place in range(4)] for session in (0, 1)]
                figures = [*cells[0][:2], *cells[1][:2], *cells[0][2:]]
                print(f"| {round_trip} | {words} | {' | '.join(f'{value:.0f}' for value in figures)} |", flush=True)


if __name__ == "__main__":
    main()
