"""Joins a room of the stand-in with the official LiveKit SDK, publishes video and counts the transformed frames.

It verifies the stand-in's room server, against which our own client is tested. It opens a session on the control
channel like the service's SDKs, sets the prompt, joins the room, publishes blue frames and subscribes to the video of
the participant `inference-server-...`.

libwebrtc ignores the loopback interface: the stand-in needs another address of this machine.

Usage: livekit_peer.py ws://ADDRESS:PORT [--frames N] [--codec vp8|vp9|h264] [--simulcast] [--metadata]
       livekit_peer.py ws://ADDRESS:PORT --watch TOKEN | --see TOKEN
Prints one JSON line; exits with 0 if enough frames arrived and the last one is transformed. It waits for events; `--limit`
only ends what hangs.
"""

import argparse
import asyncio
import base64
import json
import os
import sys
import time
import urllib.request

import numpy
import websockets
from livekit import rtc

WIDTH, HEIGHT = 640, 352
BLUE = (30, 60, 200)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--codec", choices=["vp8", "vp9", "h264"], default="vp8")
    parser.add_argument("--size", default=f"{WIDTH}x{HEIGHT}", help="of the frames")
    parser.add_argument("--metadata", action="store_true", help="append a time and a frame number to each frame")
    parser.add_argument("--simulcast", action="store_true")
    parser.add_argument("--tone", type=int, help="Hz of a sine that is published after the video and must return")
    parser.add_argument("--no-redundancy", action="store_true", help="publish the tone without RED")
    parser.add_argument("--packets", type=int, default=0, help="number of packets of the tone to wait for, each way")
    parser.add_argument("--viewers", type=int, default=0, help="number of viewers that join by watch-stream")
    parser.add_argument("--mute", action="store_true", help="mute the video until its generation has ended, as a viewer sees")
    parser.add_argument("--resumes", type=int, default=0, help="number of reconnects to wait for, each with frames after it")
    parser.add_argument("--fault", metavar="SPEC", help="inject this fault once frames have come, and after each reconnect")
    parser.add_argument("--control", metavar="URL", help="the stand-in's control port")
    parser.add_argument("--restarts", nargs="*", default=[], metavar="OUTPUT", help="how the output returns when the generation "
                        "restarts: each time the frames come back")
    parser.add_argument("--until-disconnected", action="store_true", help="wait until the room has disconnected this peer")
    parser.add_argument("--watch", metavar="TOKEN", help="only watch the session with this subscribe token, and print a line "
                        "whenever its video is muted or unmuted, until the end of the standard input")
    parser.add_argument("--see", metavar="TOKEN", help="only watch the session with this subscribe token, and report its "
                        "frames")
    parser.add_argument("--announce", action="store_true", help="print the subscribe token once frames arrive")
    parser.add_argument("--stay", action="store_true", help="stay in the room until the end of the standard input")
    parser.add_argument("--room-limit", type=float, default=90, help="seconds until the service has named its room")
    parser.add_argument("--limit", type=float, default=90, help="seconds, for each wait")
    return parser.parse_args()


class Session:
    """The control channel."""

    def __init__(self, socket):
        self.socket = socket
        self.seen = []
        self.room = asyncio.get_running_loop().create_future()
        self.acknowledged = asyncio.get_running_loop().create_future()

    async def send(self, **message):
        await self.socket.send(json.dumps(message))

    async def read(self):
        async for text in self.socket:
            message = json.loads(text)
            self.seen.append(message["type"])
            if message["type"] == "livekit_room_info":
                self.room.set_result(message)
            elif message["type"] == "prompt_ack":
                self.acknowledged.set_result(message["success"])


async def publish(source, until, sent=None, size=(WIDTH, HEIGHT)):
    """Captures blue frames with a moving white bar, 20 a second. `sent` gets the time of each frame's number."""
    (width, height), number = size, 0
    while not until.is_set():
        pixels = numpy.empty((height, width, 4), numpy.uint8)
        pixels[...] = (*BLUE, 255)
        left = number * 8 % (width - 32)
        pixels[height - 32:, left:left + 32] = 255
        number += 1
        metadata = None
        if sent is not None:
            sent[number] = time.time_ns() // 1000
            metadata = rtc.FrameMetadata(user_timestamp=sent[number], frame_id=number)
        frame = rtc.VideoFrame(width, height, rtc.VideoBufferType.RGBA, pixels.tobytes())
        source.capture_frame(frame, metadata=metadata)
        await asyncio.sleep(0.05)


async def publish_tone(source, frequency):
    """Captures a sine in frames of 10 ms; `capture_frame` keeps the pace."""
    number = 0
    while True:
        at = numpy.arange(number * 480, (number + 1) * 480)
        samples = (12000 * numpy.sin(2 * numpy.pi * frequency * at / 48000)).astype(numpy.int16)
        await source.capture_frame(rtc.AudioFrame(samples.tobytes(), 48000, 1, 480))
        number += 1


def pitch(frame):
    """Returns the pitch in Hz, None for silence."""
    samples = numpy.frombuffer(frame.data, numpy.int16)[::frame.num_channels].astype(int)
    if len(samples) < 100 or abs(samples).max() < 2000:
        return None
    return int(((samples[:-1] < 0) & (samples[1:] >= 0)).sum()) * frame.sample_rate / len(samples)


def mean_colour(frame):
    """Returns the mean red, green and blue of the upper half, which has no bar."""
    rgb = frame.convert(rtc.VideoBufferType.RGB24)
    pixels = numpy.frombuffer(rgb.data, numpy.uint8).reshape(rgb.height, rgb.width, 3)
    return [round(float(value)) for value in pixels[: rgb.height // 2].reshape(-1, 3).mean(axis=0)]


def watch_stream(options, room_name):
    """Requests a viewer's room info: the room's URL, and a token that permits subscribing but not publishing."""
    url = options.url.replace("ws", "http", 1) + "/watch-stream/" + room_name
    request = urllib.request.Request(url, data=b"", method="POST", headers={"x-api-key": "x"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def is_grey(colour):
    return max(colour) - min(colour) < 12


async def inject(options, fault):
    if fault:
        request = urllib.request.Request(f"{options.control}/control/inject", data=fault.encode(), method="POST")
        await asyncio.to_thread(urllib.request.urlopen, request, timeout=options.limit)


def note_mutes(room, handler):
    """Passes True for each muted video track of the client whose video is transformed, and False for an unmuted one."""
    def note(participant, is_muted):
        if participant.identity.startswith("client-"):
            handler(is_muted)
    room.on("track_muted", lambda participant, _: note(participant, True))
    room.on("track_unmuted", lambda participant, _: note(participant, False))


async def watch_mutes(options):
    token = json.loads(base64.urlsafe_b64decode(options.watch + "=="))
    info = await asyncio.to_thread(watch_stream, options, token["room_name"])
    room, changes = rtc.Room(), []

    def note(is_muted):
        changes.append(is_muted)
        print("muted" if is_muted else "unmuted", flush=True)
    note_mutes(room, note)
    await room.connect(info["livekit_url"], info["token"])
    seen = [track.muted for participant in room.remote_participants.values() if participant.identity.startswith("client-")
            for track in participant.track_publications.values()]
    print("watching", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await room.disconnect()
    return {"at_first": seen, "changes": changes}


async def until(options, condition):
    """Waits until the condition holds."""
    async with asyncio.timeout(options.limit):
        while not condition():
            await asyncio.sleep(0.05)


async def watch_muted(options, room_name, track, session):
    """Mutes the track until its generation has ended, and unmutes it, while a viewer looks. Returns what the viewer saw, and
    how many generations have ended."""
    info = await asyncio.to_thread(watch_stream, options, room_name)
    room, changes = rtc.Room(), []
    note_mutes(room, changes.append)
    await room.connect(info["livekit_url"], info["token"])
    await until(options, lambda: any(participant.identity.startswith("client-") and participant.track_publications
                                     for participant in room.remote_participants.values()))
    ended = session.seen.count("generation_ended")
    track.mute()
    await until(options, lambda: changes == [True] and session.seen.count("generation_ended") > ended)
    track.unmute()
    await until(options, lambda: len(changes) > 1)
    await room.disconnect()
    return changes, session.seen.count("generation_ended") - ended


def note_metadata(metadata, sent, report):
    """Counts frames with metadata, and those without behind the first one: the SDK sets its handlers, of the sender and of the
    receiver, while its first frames pass."""
    if metadata is None:
        if "with_metadata" in report:
            report["without_metadata"] = report.get("without_metadata", 0) + 1
        return
    report["with_metadata"] = report.get("with_metadata", 0) + 1
    # The service returns time and number of the frame from which it made this one.
    if sent is not None and sent.get(metadata.frame_id) != metadata.user_timestamp:
        report["wrong_metadata"] = report.get("wrong_metadata", 0) + 1


async def watch(options, room_name, report):
    """Joins as a viewer, counts frames and reports whether they are grey."""
    room_info = await asyncio.to_thread(watch_stream, options, room_name)
    room = rtc.Room()
    done = asyncio.Event()
    frames = []
    seen = {}

    async def count(track):
        async for event in rtc.VideoStream(track):
            frames.append(mean_colour(event.frame))
            note_metadata(event.metadata, None, seen)
            if len(frames) >= options.frames:
                done.set()
                return

    tasks = []
    room.on("track_subscribed", lambda track, *_: tasks.append(asyncio.ensure_future(count(track))))
    await room.connect(room_info["livekit_url"], room_info["token"])
    try:
        await asyncio.wait_for(done.wait(), options.limit)
    finally:
        colour = frames[-1] if frames else BLUE
        report["viewers"].append({"frames": len(frames), **seen, "colour": list(colour), "is_grey": is_grey(colour)})
        for task in tasks:
            task.cancel()
        await room.disconnect()


async def see(options):
    report = {"viewers": []}
    await watch(options, json.loads(base64.urlsafe_b64decode(options.see + "=="))["room_name"], report)
    return report["viewers"][0]


async def note_sent(track, report):
    """Notes how often a keyframe was requested of the track, and how many frames it has: those of each layer count."""
    for each in await track.get_stats():
        if each.WhichOneof("stats") == "outbound_rtp":
            sent = each.outbound_rtp.outbound
            report["keyframe_requests"] = report.get("keyframe_requests", 0) + sent.pli_count + sent.fir_count
            report["frames_encoded"] = report.get("frames_encoded", 0) + sent.frames_encoded
        elif each.WhichOneof("stats") == "media_source":
            report["frames_captured"] = each.media_source.video.frames


async def note_received(track, report):
    """Notes the MIME type of the video that arrives."""
    codecs, used = {}, None
    for each in await track.get_stats():
        kind = each.WhichOneof("stats")
        if kind == "codec":
            codecs[each.codec.rtc.id] = each.codec.codec.mime_type
        elif kind == "inbound_rtp":
            used = each.inbound_rtp.stream.codec_id
    report["received"] = codecs.get(used)


async def audio_statistics(sent, received):
    """Returns counters of both directions, as far as there are any. The SDK's name of the codec is that within the redundancy."""
    seen = {}
    for each in await sent.get_stats():
        if each.WhichOneof("stats") == "outbound_rtp":
            counts = each.outbound_rtp.sent
            seen["sent"], seen["sent_bytes"] = counts.packets_sent, counts.bytes_sent
    for each in await received.get_stats():
        if each.WhichOneof("stats") == "inbound_rtp":
            counts = each.inbound_rtp
            seen["received"], seen["received_bytes"] = counts.received.packets_received, counts.inbound.bytes_received
            seen["samples"], seen["concealed"] = counts.inbound.total_samples_received, counts.inbound.concealed_samples
    return seen


async def run(options):
    publishing = None
    # Tracks of the inference server: a resume keeps them.
    report = {"frames": 0, "tracks": 0}
    room = rtc.Room()
    done = asyncio.Event()
    tasks = []
    shown = []
    heard = []
    started = time.monotonic()
    size = [int(length) for length in options.size.split("x")]

    tone_received = asyncio.Event()

    async def measure_pitch(track):
        pitches = []
        async for event in rtc.AudioStream(track, sample_rate=48000, num_channels=1, frame_size_ms=100):
            pitches.append(pitch(event.frame))
            report["pitch"] = pitches[-1] and round(pitches[-1])
            # Half a second of the tone is required.
            if all(value and abs(value - options.tone) < 30 for value in pitches[-5:]) and len(pitches) > 5:
                tone_received.set()

    sent = {} if options.metadata else None

    async def count(track):
        async for event in rtc.VideoStream(track):
            report["frames"] += 1
            note_metadata(event.metadata, sent, report)
            if report["frames"] == 1:
                report["first_frame_s"] = round(time.monotonic() - started, 2)
            report["colour"] = mean_colour(event.frame)
            report["size"] = [event.frame.width, event.frame.height]
            if "full_s" not in report and report["size"] == size and is_grey(report["colour"]):
                report["full_s"] = round(time.monotonic() - publishing, 2)
            if report["frames"] >= options.frames:
                done.set()

    @room.on("track_subscribed")
    def subscribed(track, publication, participant):
        report["from"] = participant.identity
        is_audio = track.kind == rtc.TrackKind.KIND_AUDIO
        report["tracks"] += not is_audio
        (heard if is_audio else shown).append(track)
        tasks.append(asyncio.ensure_future(measure_pitch(track) if is_audio else count(track)))

    @room.on("disconnected")
    def disconnected(reason):
        report["disconnected"] = str(reason)

    @room.on("reconnecting")
    def reconnecting():
        report["reconnecting"] = True

    @room.on("reconnected")
    def reconnected():
        report["reconnected"] = report.get("reconnected", 0) + 1

    url = f"{options.url}/v1/stream?api_key=x&model=lucy-restyle-2&livekit_early_room_info=true"
    async with websockets.connect(url) as socket:
        session = Session(socket)
        tasks.append(asyncio.ensure_future(session.read()))
        await session.send(type="livekit_join")
        await session.send(type="prompt", prompt="Noir film", enhance_prompt=False)
        info = await asyncio.wait_for(session.room, options.room_limit)
        report["accepted"] = await asyncio.wait_for(session.acknowledged, options.limit)
        await room.connect(info["livekit_url"], info["token"])
        report["connected_s"] = round(time.monotonic() - started, 2)
        publishing = time.monotonic()
        source = rtc.VideoSource(*size)
        track = rtc.LocalVideoTrack.create_video_track("camera", source)
        codec = getattr(rtc.VideoCodec, options.codec.upper())
        features = [rtc.FrameMetadataFeature.FMF_USER_TIMESTAMP, rtc.FrameMetadataFeature.FMF_FRAME_ID]
        await room.local_participant.publish_track(
            track, rtc.TrackPublishOptions(
                source=rtc.TrackSource.SOURCE_CAMERA, simulcast=options.simulcast, video_codec=codec,
                frame_metadata_features=features if options.metadata else []))
        report["published_s"] = round(time.monotonic() - started, 2)
        tasks.append(asyncio.ensure_future(publish(source, asyncio.Event(), sent, size)))
        if options.tone:
            voice = rtc.AudioSource(48000, 1)
            spoken = rtc.LocalAudioTrack.create_audio_track("voice", voice)
            await room.local_participant.publish_track(
                spoken, rtc.TrackPublishOptions(
                    source=rtc.TrackSource.SOURCE_MICROPHONE, red=not options.no_redundancy))
            tasks.append(asyncio.ensure_future(publish_tone(voice, options.tone)))
        try:
            await asyncio.wait_for(done.wait(), options.limit)
            await note_sent(track, report)
            await note_received(shown[-1], report)
            if options.announce:
                token = json.dumps({"room_name": info["room_name"]})
                print(base64.urlsafe_b64encode(token.encode()).decode(), flush=True)
            if options.tone:
                await asyncio.wait_for(tone_received.wait(), options.limit)
                report["tone_received"] = True
            # The decoder conceals what is missing before the first packet too.
            before = await audio_statistics(spoken, heard[-1]) if options.packets else {}
            while options.packets:
                now = await audio_statistics(spoken, heard[-1])
                report["audio"] = {name: value - before.get(name, 0) for name, value in now.items()}
                if min(report["audio"].get(direction, 0) for direction in ("sent", "received")) >= options.packets:
                    break
                if time.monotonic() - started > options.limit:
                    raise asyncio.TimeoutError
                await asyncio.sleep(0.2)
            if options.viewers:
                report["viewers"] = []
                await asyncio.gather(*(watch(options, info["room_name"], report) for _ in range(options.viewers)))
            if options.mute:
                report["mutes"], report["generations_ended"] = await watch_muted(options, info["room_name"], track, session)
                before = report["frames"]
                await until(options, lambda: report["frames"] > before + 20)
                report["frames_after_mute"] = report["frames"] - before
            for output in options.restarts:
                starts = session.seen.count("generation_started")
                await inject(options, f"generation_restart:at=0,delay=1,output={output}")
                await until(options, lambda count=starts: session.seen.count("generation_started") > count)
                before = report["frames"]
                await until(options, lambda: report["frames"] > before + 10)
                report["restarts"] = [*report.get("restarts", []), output]
            for number in range(options.resumes):
                await inject(options, options.fault)
                await until(options, lambda count=number: report.get("reconnected", 0) > count)
                before = report["frames"]
                await until(options, lambda: report["frames"] > before + 10)
            if options.until_disconnected:
                await inject(options, options.fault)
                await until(options, lambda: "disconnected" in report)
            if options.stay:
                await asyncio.to_thread(sys.stdin.read)
        except asyncio.TimeoutError:
            report["error"] = "too few frames, no audio, or an event that did not come"
        report["captured"] = len(sent or {})
        report["messages"] = sorted(set(session.seen))
        for task in tasks:
            task.cancel()
        await room.disconnect()
    return report


def main():
    options = parse_arguments()
    if options.watch:
        print(json.dumps(asyncio.run(watch_mutes(options))))
        return 0
    if options.see:
        print(json.dumps(asyncio.run(asyncio.wait_for(see(options), 2 * options.limit))))
        return 0
    try:
        report = asyncio.run(asyncio.wait_for(run(options), 2 * options.limit))
    except (Exception, asyncio.TimeoutError) as error:  # pylint: disable=broad-except
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 1
    # The noir look is grey: the blue input must have lost its colour.
    colour = report.get("colour", BLUE)
    report["is_grey"] = is_grey(colour)
    print(json.dumps(report))
    good = report["frames"] >= options.frames and report.get("from", "").startswith("inference-server-")
    good = good and {"generation_started", "prompt_ack", "livekit_room_info"} <= set(report["messages"])
    return 0 if good and report["is_grey"] and report["accepted"] else 1


if __name__ == "__main__":
    result = main()
    sys.stdout.flush()
    # Without the interpreter's teardown: threads of LiveKit's library may still call into it, which aborts the process.
    os._exit(result)
