"""Prints GoldenFrames.swift: frames written by LiveKit's own protocol package, to compare our names and field numbers with.
Run it again after adding a message. Needs: pip install livekit-protocol==1.1.29"""

from google.protobuf.json_format import MessageToJson
from livekit.protocol import models as m
from livekit.protocol import rtc as r

VIDEO = m.VideoLayer(quality=m.VideoQuality.HIGH, width=1280, height=704, bitrate=3_500_000)
TRACK = m.TrackInfo(
    sid="TR_out", type=m.TrackType.VIDEO, name="output", muted=True, width=1280, height=704,
    source=m.TrackSource.CAMERA, layers=[VIDEO], stream="camera")
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
            ping_interval=5, server_info=m.ServerInfo(version="1.13.5", protocol=17),
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
        stream_state_update=r.StreamStateUpdate(stream_states=[r.StreamStateInfo(state=r.StreamState.PAUSED)])),
    "subscribedQuality": r.SignalResponse(subscribed_quality_update=r.SubscribedQualityUpdate()),
    "refreshToken": r.SignalResponse(refresh_token="fresh"),
    "trackUnpublished": r.SignalResponse(track_unpublished=r.TrackUnpublishedResponse(track_sid="TR_in")),
    "pong": r.SignalResponse(pong=1_700_000_000_001),
    "reconnect": r.SignalResponse(reconnect=r.ReconnectResponse(ice_servers=SERVERS)),
    "pongResp": r.SignalResponse(
        pong_resp=r.Pong(last_ping_timestamp=1_700_000_000_000, timestamp=1_700_000_000_023)),
    "subscriptionResponse": r.SignalResponse(
        subscription_response=r.SubscriptionResponse(err=m.SubscriptionError.SE_TRACK_NOTFOUND)),
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


def printed(text, end):
    for at in range(0, len(text), 96):
        print(f"            {text[at:at + 96]}{end if at + 96 < len(text) else ''}")


def table(name, frames):
    print(f"    static let {name}: [String: GoldenFrame] = [")
    for key, frame in frames.items():
        print(f'        "{key}": GoldenFrame(\n            """')
        printed(frame.SerializeToString(deterministic=True).hex(), "\\")
        print('            """,\n            #"""')
        printed(MessageToJson(frame, indent=None), "\\#")
        print('            """#),')
    print("    ]")


print("// Generated by golden.py with LiveKit's own protocol package; do not edit.\n")
print("struct GoldenFrame {\n    let hex: String\n    let json: String\n")
print("    init(_ hex: String, _ json: String) { (self.hex, self.json) = (hex, json) }\n}\n")
print("enum GoldenFrames {")
table("requests", REQUESTS)
print()
table("responses", RESPONSES)
print()
table("joins", JOINS)
print("}")
