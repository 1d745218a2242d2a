#!/usr/bin/python3
"""Compares LiveKitProtocol with LiveKit's own package of its messages, `livekit-protocol` on PyPI.

    check_messages.py            prints "ok NAME" or "not ok NAME: why"
    check_messages.py --write    writes Tests/LiveKitProtocolTests/GoldenFrames.swift: run it after adding a message

The tables in Sources/LiveKitProtocol have LiveKit's names and numbers. GoldenFrames.swift has what the package writes.
Random messages, which have all of LiveKit's fields, are the same in Swift, and what Swift writes of them is the same here.
"""

import glob
import os
import random
import re
import subprocess
import sys
import tempfile

from google.protobuf.json_format import MessageToJson
from livekit.protocol import models as m
from livekit.protocol import rtc as r

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Host"))
from checks import RELEASE, REPO, Problem, Results, read  # noqa: E402

GOLDEN = f"{REPO}/Tests/LiveKitProtocolTests/GoldenFrames.swift"
RUNNER = f"{RELEASE}/gst-decartPackageTests.xctest"

# --- The messages of GoldenFrames.swift --------------------------------------------------------------------------------

VIDEO = m.VideoLayer(quality=m.VideoQuality.HIGH, width=1280, height=704, bitrate=3_500_000)
TRACK = m.TrackInfo(
    sid="TR_out", type=m.TrackType.VIDEO, name="output", muted=True, width=1280, height=704,
    source=m.TrackSource.CAMERA, layers=[VIDEO], mime_type="video/VP8", stream="camera",
    codecs=[m.SimulcastCodecInfo(mime_type="video/VP8", mid="1", cid="c1", layers=[VIDEO])])
QUALITY = r.SubscribedQuality(quality=m.VideoQuality.MEDIUM, enabled=True)
WORKER = m.ParticipantInfo(
    sid="PA_worker", identity="inference-server-7", state=m.ParticipantInfo.ACTIVE, tracks=[TRACK], name="w",
    is_publisher=True, kind=m.ParticipantInfo.AGENT, version=300)
GONE = m.ParticipantInfo(
    sid="PA_gone", identity="other", state=m.ParticipantInfo.DISCONNECTED)
CANDIDATE = '{"candidate":"candidate:1 1 udp 1 192.0.2.1 9 typ host","sdpMid":"0","sdpMLineIndex":0}'
ICE = m.ICEServer if hasattr(m, "ICEServer") else r.ICEServer
SERVERS = [
    ICE(urls=["stun:stun.example:3478"]),
    ICE(urls=["turns:turn.example:443?transport=tcp"], username="u:1", credential="p/+="),
]

REQUESTS = {
    "offer": r.SignalRequest(offer=r.SessionDescription(type="offer", sdp="v=0\r\n", id=1, mid_to_track_id={"0": "c1"})),
    "answer": r.SignalRequest(answer=r.SessionDescription(type="answer", sdp="v=0\r\n", id=70_000)),
    "trickle": r.SignalRequest(
        trickle=r.TrickleRequest(candidateInit=CANDIDATE, target=r.SignalTarget.SUBSCRIBER, final=True)),
    "addTrack": r.SignalRequest(
        add_track=r.AddTrackRequest(
            cid="c1", name="camera", type=m.TrackType.VIDEO, width=1280, height=704, source=m.TrackSource.CAMERA,
            layers=[VIDEO],
            simulcast_codecs=[r.SimulcastCodec(codec="h264", cid="c1", layers=[VIDEO])])),
    "mute": r.SignalRequest(mute=r.MuteTrackRequest(sid="TR_in", muted=True)),
    "subscription": r.SignalRequest(
        subscription=r.UpdateSubscription(
            track_sids=["TR_out"], subscribe=True,
            participant_tracks=[m.ParticipantTracks(participant_sid="PA_worker", track_sids=["TR_out"])])),
    "leave": r.SignalRequest(
        leave=r.LeaveRequest(reason=m.DisconnectReason.CLIENT_INITIATED, action=r.LeaveRequest.DISCONNECT)),
    "syncState": r.SignalRequest(
        sync_state=r.SyncState(
            offer=r.SessionDescription(type="offer", sdp="v=0\r\n", id=3),
            answer=r.SessionDescription(type="answer", sdp="v=0\r\n", id=3),
            subscription=r.UpdateSubscription(track_sids=["TR_out"], subscribe=True),
            publish_tracks=[r.TrackPublishedResponse(cid="c1", track=TRACK)])),
    "ping": r.SignalRequest(ping=1_700_000_000_000),
    "pingReq": r.SignalRequest(ping_req=r.Ping(timestamp=1_700_000_000_000, rtt=23)),
}

RESPONSES = {
    "join": r.SignalResponse(
        join=r.JoinResponse(
            room=m.Room(sid="RM_1", name="r", num_participants=2),
            participant=m.ParticipantInfo(sid="PA_me", identity="me", state=m.ParticipantInfo.JOINED),
            other_participants=[WORKER], server_version="1.13.5", ice_servers=SERVERS, subscriber_primary=True,
            client_configuration=m.ClientConfiguration(force_relay=m.ClientConfigSetting.ENABLED), ping_timeout=15,
            ping_interval=5, server_info=m.ServerInfo(version="1.13.5", protocol=17), sif_trailer=b"\x01\xfftrailer",
            enabled_publish_codecs=[m.Codec(mime="video/H264")],
            fast_publish=True)),
    "answer": r.SignalResponse(answer=r.SessionDescription(type="answer", sdp="v=0\r\n", mid_to_track_id={"0": "TR_in"})),
    "offer": r.SignalResponse(offer=r.SessionDescription(type="offer", sdp="v=0\r\n", id=2)),
    "trickle": r.SignalResponse(trickle=r.TrickleRequest(candidateInit=CANDIDATE, target=r.SignalTarget.PUBLISHER)),
    "update": r.SignalResponse(update=r.ParticipantUpdate(participants=[WORKER, GONE])),
    "trackPublished": r.SignalResponse(track_published=r.TrackPublishedResponse(cid="c1", track=TRACK)),
    "leave": r.SignalResponse(
        leave=r.LeaveRequest(
            can_reconnect=True, reason=m.DisconnectReason.SERVER_SHUTDOWN, action=r.LeaveRequest.RECONNECT,
            regions=r.RegionSettings(regions=[r.RegionInfo(region="a", url="wss://a.example")]))),
    "mute": r.SignalResponse(mute=r.MuteTrackRequest(sid="TR_in", muted=True)),
    "roomUpdate": r.SignalResponse(room_update=r.RoomUpdate(room=m.Room(sid="RM_1", name="r"))),
    "connectionQuality": r.SignalResponse(connection_quality=r.ConnectionQualityUpdate()),
    "streamState": r.SignalResponse(
        stream_state_update=r.StreamStateUpdate(stream_states=[
            r.StreamStateInfo(participant_sid="PA_worker", track_sid="TR_out", state=r.StreamState.PAUSED)])),
    "subscribedQuality": r.SignalResponse(
        subscribed_quality_update=r.SubscribedQualityUpdate(
            track_sid="TR_in", subscribed_qualities=[QUALITY],
            subscribed_codecs=[r.SubscribedCodec(codec="vp8", qualities=[QUALITY])])),
    "refreshToken": r.SignalResponse(refresh_token="fresh"),
    "trackUnpublished": r.SignalResponse(track_unpublished=r.TrackUnpublishedResponse(track_sid="TR_in")),
    "pong": r.SignalResponse(pong=1_700_000_000_001),
    "reconnect": r.SignalResponse(reconnect=r.ReconnectResponse(ice_servers=SERVERS)),
    "pongResp": r.SignalResponse(
        pong_resp=r.Pong(last_ping_timestamp=1_700_000_000_000, timestamp=1_700_000_000_023)),
    "subscriptionResponse": r.SignalResponse(
        subscription_response=r.SubscriptionResponse(track_sid="TR_out", err=m.SubscriptionError.SE_TRACK_NOTFOUND)),
    "requestResponse": r.SignalResponse(
        request_response=r.RequestResponse(
            reason=r.RequestResponse.NOT_ALLOWED, message="no", add_track=r.AddTrackRequest(cid="c1"))),
    "trackSubscribed": r.SignalResponse(track_subscribed=r.TrackSubscribed(track_sid="TR_in")),
    "roomMoved": r.SignalResponse(
        room_moved=r.RoomMovedResponse(token="t2", other_participants=[WORKER])),
    "mediaSections": r.SignalResponse(
        media_sections_requirement=r.MediaSectionsRequirement(num_audios=1, num_videos=2)),
    # A message type that we do not define.
    "speakers": r.SignalResponse(
        speakers_changed=r.SpeakersChanged(speakers=[m.SpeakerInfo(sid="PA_me", level=0.5, active=True)])),
}

JOIN_REQUEST = r.JoinRequest(
    client_info=m.ClientInfo(capabilities=[m.ClientInfo.CAP_PACKET_TRAILER]),
    connection_settings=r.ConnectionSettings(auto_subscribe=True),
    add_track_requests=[r.AddTrackRequest(cid="c1", name="camera", type=m.TrackType.VIDEO)],
    publisher_offer=r.SessionDescription(type="offer", sdp="v=0\r\n", id=1), reconnect=True,
    participant_sid="PA_me",
    sync_state=r.SyncState(subscription=r.UpdateSubscription(track_sids=["TR_out"], subscribe=True)))

JOINS = {
    "join": JOIN_REQUEST,
    "wrapped": r.WrappedJoinRequest(compression=r.WrappedJoinRequest.GZIP, join_request=b"\x01\x02"),
}


def encoded(message):
    return message.SerializeToString(deterministic=True)


def lines(text, end):
    return "".join(f"            {text[at:at + 96]}{end if at + 96 < len(text) else ''}\n" for at in range(0, len(text), 96))


def table(name, frames):
    text = f"    static let {name}: [String: GoldenFrame] = [\n"
    for key, frame in frames.items():
        text += f'        "{key}": GoldenFrame(\n            """\n{lines(encoded(frame).hex(), chr(92))}            """,\n'
        text += f'            #"""\n{lines(MessageToJson(frame, indent=None), chr(92) + "#")}            """#),\n'
    return text + "    ]\n"


def golden_frames():
    return f"""// Generated by check_messages.py with LiveKit's own protocol package; do not edit.

struct GoldenFrame {{
    let hex: String
    let json: String

    init(_ hex: String, _ json: String) {{ (self.hex, self.json) = (hex, json) }}
}}

enum GoldenFrames {{
{table("requests", REQUESTS)}
{table("responses", RESPONSES)}
{table("joins", JOINS)}}}
"""


# --- The tables of the Swift code --------------------------------------------------------------------------------------

ROW = re.compile(
    r"^package struct LiveKit(?P<message>\w+)|^(?P<indent> *)package enum (?P<enum>\w+): OpenEnum |names: \[Self\?\] = \[(?P<names>.*?)\]"
    r"|Field\((?P<number>\d+), \\\.\$?(?P<field>\w+)\)|package let (?P<case>\w+) = Case\((?P<case_number>\d+),|var (?P<unknown>unknownFields)", re.S | re.M)


def swift_tables():
    """The fields of each message, by their numbers; the names of each enum, in the order of their numbers; and the messages
    that keep unknown fields."""
    messages, enums, keepers, message, enum = {}, {}, set(), "", ""
    for path in glob.glob(f"{REPO}/Sources/LiveKitProtocol/Messages/*.swift"):
        for row in ROW.finditer(read(path)):
            if row["message"]:
                message = row["message"]
                messages[message] = {}
            elif row["enum"]:
                enum = f"{message}.{row['enum']}" if row["indent"] else row["enum"].removeprefix("LiveKit")
            elif row["unknown"]:
                keepers.add(message)
            elif row["names"]:
                enums[enum] = [name.strip().split(".")[-1] for name in row["names"].split(",") if name.strip()]
            else:
                messages[message][int(row["number"] or row["case_number"])] = row["field"] or row["case"]
    return messages, enums, keepers


MESSAGES, ENUMS, KEEPERS = swift_tables()


def find(name):
    """LiveKit's message or enum with the name."""
    for module in (r, m):
        found = module
        for part in name.split("."):
            found = getattr(found, part, None)
        if found:
            return found.DESCRIPTOR
    raise Problem(f"LiveKit has no {name}")


def is_spelled(ours, theirs):
    return ours.lower() == theirs.replace("_", "").lower()


def check_tables():
    for name, fields in MESSAGES.items():
        theirs = find(name).fields_by_number
        for number, ours in fields.items():
            if number not in theirs or not is_spelled(ours, theirs[number].name):
                raise Problem(f"{name}: field {number} is not {ours}")
        if list(fields) != sorted(fields):
            raise Problem(f"{name}: the fields are not in the order of their numbers")
    for name, names in ENUMS.items():
        theirs = find(name).values_by_number
        for number, ours in enumerate(names):
            if ours != "nil" and not (number in theirs and is_spelled(ours, theirs[number].name)):
                raise Problem(f"{name}: {number} is not {ours}")
    if len(MESSAGES) < 40 or len(ENUMS) < 10:
        raise Problem(f"only {len(MESSAGES)} messages and {len(ENUMS)} enums were found")


def check_golden_frames():
    if read(GOLDEN) != golden_frames():
        raise Problem("the package writes other frames: look at the difference that --write makes")


# --- Random messages ---------------------------------------------------------------------------------------------------

def name_of(descriptor):
    return descriptor.full_name.removeprefix("livekit.")


def random_value(field, generator, depth):
    number = generator.choice((0, 1, 127, 128, 65_535, 2**31 - 1))
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        return None
    if field.cpp_type == field.CPPTYPE_ENUM:
        ours = ENUMS.get(name_of(field.enum_type))
        known = [at for at, name in enumerate(ours) if name != "nil"] if ours else list(field.enum_type.values_by_number)
        return generator.choice([*known, 100_000, -1])
    if field.type == field.TYPE_BYTES:
        return generator.randbytes(generator.choice((0, 1, 200)))
    if field.cpp_type == field.CPPTYPE_STRING:
        return generator.choice(("", "a", "PA_1", "é\U0001f600\ufeff\r\n\"\\", "x" * 127, "x" * 128))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return generator.random() < 0.5
    return number if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64) else number - 2**31 if depth % 2 else number


def fill(message, generator, depth=0):
    """Gives most fields of a message random values; all of LiveKit's, whether ours or not."""
    for field in message.DESCRIPTOR.fields:
        if generator.random() < 0.3 or depth > 6:
            continue
        target, count = getattr(message, field.name), generator.choice((1, 2, 5))
        if field.message_type and field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].cpp_type == field.CPPTYPE_STRING:
                target.update({f"{at}é": generator.choice(("", "TR_1")) for at in range(count)})
        elif field.message_type and field.is_repeated:
            for _ in range(min(count, 2)):
                fill(target.add(), generator, depth + 1)
        elif field.message_type:
            target.SetInParent()
            fill(target, generator, depth + 1)
        elif field.is_repeated:
            target.extend(random_value(field, generator, depth) for _ in range(count))
        else:
            setattr(message, field.name, random_value(field, generator, depth))
    return message


def pruned(message, keepers=frozenset()):
    """A copy without the fields that our tables do not have, except in the messages that keep them."""
    def prune(message):
        name = name_of(message.DESCRIPTOR)
        for field, value in message.ListFields():
            if field.number not in MESSAGES[name]:
                if name not in keepers:
                    message.ClearField(field.name)
            elif field.message_type and not field.message_type.GetOptions().map_entry:
                for part in value if field.is_repeated else [value]:
                    prune(part)

    copy = type(message).FromString(encoded(message))
    prune(copy)
    return copy


def random_messages(generator):
    """Messages with all of LiveKit's kinds and fields."""
    for kind in (r.SignalRequest, r.SignalResponse):
        for field in kind.DESCRIPTOR.fields:
            for _ in range(10):
                message = kind()
                if field.message_type:
                    getattr(message, field.name).SetInParent()
                    fill(getattr(message, field.name), generator)
                else:
                    setattr(message, field.name, random_value(field, generator, 0))
                yield message
    for kind in (r.JoinRequest, r.WrappedJoinRequest):
        for _ in range(20):
            yield fill(kind(), generator)


def check_random_messages():
    seed = random.randrange(2**32)
    messages = list(random_messages(random.Random(seed)))
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/messages", "w", encoding="utf-8") as file:
            for message in messages:
                json = MessageToJson(pruned(message), indent=None)
                file.write(f"{name_of(message.DESCRIPTOR)}\t{encoded(message).hex()}\t{json}\n")
        command = [RUNNER, "--testing-library", "swift-testing", "--filter", "^LiveKitProtocolTests.GoldenFrameTests/exchange"]
        done = subprocess.run(command, env=dict(os.environ, DECART_TEST_MESSAGES=f"{folder}/messages"),
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode or not os.path.exists(f"{folder}/messages.swift"):
            raise Problem(f"seed {seed}: {done.stdout[-400:]}")
        answers = read(f"{folder}/messages.swift").split("\n")[:-1]
    if len(answers) != len(messages):
        raise Problem(f"seed {seed}: {len(answers)} of {len(messages)} messages came back")
    for message, answer in zip(messages, answers):
        ours = pruned(message, KEEPERS)
        # Unknown fields come last, so that the bytes are equal only without them.
        is_same = type(message).FromString(bytes.fromhex(answer)) == ours
        if not is_same or ours == pruned(message) and bytes.fromhex(answer) != encoded(ours):
            raise Problem(f"seed {seed}: {name_of(message.DESCRIPTOR)} {encoded(message).hex()} came back as {answer}")


def main():
    if "--write" in sys.argv:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            file.write(golden_frames())
        return 0
    results = Results("LiveKit's messages")
    for name, check in (("names and numbers", check_tables), ("golden frames", check_golden_frames),
                        ("random messages, both ways", check_random_messages)):
        results.perform(name, lambda name=name, check=check: (check(), results(name)))
    return int(results.failed)


if __name__ == "__main__":
    sys.exit(main())
