// Compares with bytes that LiveKit's own package wrote, which reveals a wrong field number or type.
import FoundationEssentials
import LiveKitProtocol
import SwiftProtobuf
import Testing

@Suite("LiveKit's frames", .timeLimit(.minutes(1)))
struct GoldenFrameTests {
    private static let candidate =
        #"{"candidate":"candidate:1 1 udp 1 192.0.2.1 9 typ host","sdpMid":"0","sdpMLineIndex":0}"#

    private static let layer = LiveKitVideoLayer.with {
        $0.quality = .high
        $0.width = 1280
        $0.height = 704
        $0.bitrate = 3_500_000
    }

    private static let track = LiveKitTrackInfo.with {
        $0.sid = "TR_out"
        $0.type = .video
        $0.name = "output"
        $0.muted = true
        $0.width = 1280
        $0.height = 704
        $0.source = .camera
        $0.layers = [layer]
        $0.mimeType = "video/H264"
        $0.mid = "1"
        $0.stream = "camera"
        $0.codecs = [
            .with {
                $0.mimeType = "video/H264"
                $0.mid = "1"
                $0.cid = "c1"
                $0.layers = [layer]
            }
        ]
    }

    private static let worker = LiveKitParticipantInfo.with {
        $0.sid = "PA_worker"
        $0.identity = "inference-server-7"
        $0.state = .active
        $0.tracks = [track]
        $0.name = "w"
        $0.isPublisher = true
        $0.kind = .agent
        $0.attributes = ["a": "b"]
        $0.version = 300
    }

    private static let gone = LiveKitParticipantInfo.with {
        $0.sid = "PA_gone"
        $0.identity = "other"
        $0.state = .disconnected
        $0.disconnectReason = .duplicateIdentity
    }

    private static let servers: [LiveKitICEServer] = [
        .with { $0.urls = ["stun:stun.example:3478"] },
        .with {
            $0.urls = ["turns:turn.example:443?transport=tcp"]
            $0.username = "u:1"
            $0.credential = "p/+="
        },
    ]

    private static let requests: [String: LiveKitSignalRequest.OneOf_Message] = [
        "offer": .offer(
            .with {
                $0.type = "offer"
                $0.sdp = "v=0\r\n"
                $0.id = 1
                $0.midToTrackID = ["0": "c1"]
            }),
        "answer": .answer(
            .with {
                $0.type = "answer"
                $0.sdp = "v=0\r\n"
                $0.id = 70_000
            }),
        "trickle": .trickle(
            .with {
                $0.candidateInit = candidate
                $0.target = .subscriber
                $0.final = true
            }),
        "addTrack": .addTrack(
            .with {
                $0.cid = "c1"
                $0.name = "camera"
                $0.type = .video
                $0.width = 1280
                $0.height = 704
                $0.source = .camera
                $0.layers = [layer]
                $0.simulcastCodecs = [
                    .with {
                        $0.codec = "h264"
                        $0.cid = "c1"
                        $0.layers = [layer]
                        $0.videoLayerMode = .oneSpatialLayerPerStream
                    }
                ]
            }),
        "mute": .mute(
            .with {
                $0.sid = "TR_in"
                $0.muted = true
            }),
        "subscription": .subscription(
            .with {
                $0.trackSids = ["TR_out"]
                $0.subscribe = true
                $0.participantTracks = [
                    .with {
                        $0.participantSid = "PA_worker"
                        $0.trackSids = ["TR_out"]
                    }
                ]
            }),
        "trackSetting": .trackSetting(
            .with {
                $0.trackSids = ["TR_out"]
                $0.quality = .high
                $0.width = 1280
                $0.height = 704
                $0.fps = 30
            }),
        "leave": .leave(
            .with {
                $0.reason = .clientInitiated
                $0.action = .disconnect
            }),
        "syncState": .syncState(
            .with {
                ($0.offer.type, $0.offer.sdp, $0.offer.id) = ("offer", "v=0\r\n", 3)
                ($0.answer.type, $0.answer.sdp, $0.answer.id) = ("answer", "v=0\r\n", 3)
                ($0.subscription.trackSids, $0.subscription.subscribe) = (["TR_out"], true)
                $0.publishTracks = [.with { ($0.cid, $0.track) = ("c1", track) }]
                $0.trackSidsDisabled = ["TR_off"]
            }),
        "ping": .ping(1_700_000_000_000),
        "pingReq": .pingReq(
            .with {
                $0.timestamp = 1_700_000_000_000
                $0.rtt = 23
            }),
    ]

    private static let responses: [String: LiveKitSignalResponse.OneOf_Message] = [
        "join": .join(
            .with {
                $0.room = .with {
                    $0.sid = "RM_1"
                    $0.name = "r"
                    $0.numParticipants = 2
                }
                $0.participant = .with {
                    $0.sid = "PA_me"
                    $0.identity = "me"
                    $0.state = .joined
                }
                $0.otherParticipants = [worker]
                $0.serverVersion = "1.13.5"
                $0.iceServers = servers
                $0.subscriberPrimary = true
                $0.clientConfiguration = .with { $0.forceRelay = .enabled }
                $0.pingTimeout = 15
                $0.pingInterval = 5
                $0.serverInfo = .with {
                    $0.edition = .cloud
                    $0.version = "1.13.5"
                    $0.`protocol` = 17
                }
                $0.enabledPublishCodecs = [
                    .with {
                        $0.mime = "video/H264"
                        $0.fmtpLine = "profile-level-id=42e01f"
                    }
                ]
                $0.fastPublish = true
            }),
        "answer": .answer(
            .with {
                $0.type = "answer"
                $0.sdp = "v=0\r\n"
                $0.midToTrackID = ["0": "TR_in"]
            }),
        "offer": .offer(
            .with {
                $0.type = "offer"
                $0.sdp = "v=0\r\n"
                $0.id = 2
            }),
        "trickle": .trickle(.with { $0.candidateInit = candidate }),
        "update": .update(.with { $0.participants = [worker, gone] }),
        "trackPublished": .trackPublished(
            .with {
                $0.cid = "c1"
                $0.track = track
            }),
        "leave": .leave(
            .with {
                $0.canReconnect = true
                $0.reason = .serverShutdown
                $0.action = .reconnect
                $0.regions = .with {
                    $0.regions = [
                        .with {
                            $0.region = "a"
                            $0.url = "wss://a.example"
                            $0.distance = 1
                        }
                    ]
                }
            }),
        "mute": .mute(
            .with {
                $0.sid = "TR_in"
                $0.muted = true
            }),
        "roomUpdate": .roomUpdate(
            .with {
                $0.room = .with {
                    $0.sid = "RM_1"
                    $0.name = "r"
                    $0.numPublishers = 1
                }
            }),
        "connectionQuality": .connectionQuality(
            .with {
                $0.updates = [
                    .with {
                        $0.participantSid = "PA_me"
                        $0.quality = .excellent
                        $0.score = 4.5
                    }
                ]
            }),
        "streamState": .streamStateUpdate(
            .with {
                $0.streamStates = [
                    .with {
                        $0.participantSid = "PA_worker"
                        $0.trackSid = "TR_out"
                        $0.state = .paused
                    }
                ]
            }),
        "subscribedQuality": .subscribedQualityUpdate(
            .with {
                $0.trackSid = "TR_in"
                $0.subscribedCodecs = [
                    .with {
                        $0.codec = "h264"
                        $0.qualities = [
                            .with {
                                $0.quality = .high
                                $0.enabled = true
                            }
                        ]
                    }
                ]
            }),
        "refreshToken": .refreshToken("fresh"),
        "trackUnpublished": .trackUnpublished(.with { $0.trackSid = "TR_in" }),
        "pong": .pong(1_700_000_000_001),
        "reconnect": .reconnect(
            .with {
                $0.iceServers = servers
                $0.lastMessageSeq = 9
            }),
        "pongResp": .pongResp(
            .with {
                $0.lastPingTimestamp = 1_700_000_000_000
                $0.timestamp = 1_700_000_000_023
            }),
        "subscriptionResponse": .subscriptionResponse(
            .with {
                $0.trackSid = "TR_out"
                $0.err = .seTrackNotfound
            }),
        "requestResponse": .requestResponse(
            .with {
                $0.reason = .notAllowed
                $0.message = "no"
                $0.addTrack = .with { $0.cid = "c1" }
            }),
        "trackSubscribed": .trackSubscribed(.with { $0.trackSid = "TR_in" }),
        "roomMoved": .roomMoved(
            .with {
                $0.room = .with { $0.name = "r2" }
                $0.token = "t2"
                $0.participant = .with { $0.sid = "PA_2" }
                $0.otherParticipants = [worker]
            }),
        "mediaSections": .mediaSectionsRequirement(
            .with {
                $0.numAudios = 1
                $0.numVideos = 2
            }),
    ]

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    @Test("Requests, both ways", arguments: GoldenFrames.requests.keys.sorted())
    func requests(name: String) throws {
        let frame = Self.bytes(try #require(GoldenFrames.requests[name]))
        let message = LiveKitSignalRequest.with { $0.message = Self.requests[name] }
        #expect(message.message != nil)
        #expect(try LiveKitSignalRequest(serializedBytes: frame) == message)
        #expect(try message.serializedBytes() as [UInt8] == frame)
    }

    @Test("Responses, both ways", arguments: GoldenFrames.responses.keys.sorted().filter { $0 != "speakers" })
    func responses(name: String) throws {
        let frame = Self.bytes(try #require(GoldenFrames.responses[name]))
        let message = LiveKitSignalResponse.with { $0.message = Self.responses[name] }
        #expect(message.message != nil)
        #expect(try LiveKitSignalResponse(serializedBytes: frame) == message)
        #expect(try message.serializedBytes() as [UInt8] == frame)
    }

    @Test("What is asked for one connection, both ways")
    func joins() throws {
        let join = LiveKitJoinRequest.with {
            $0.clientInfo = .with {
                $0.sdk = .cpp
                $0.version = "1"
                $0.protocol = 16
                $0.os = "linux"
            }
            $0.connectionSettings = .with { ($0.autoSubscribe, $0.adaptiveStream) = (true, true) }
            $0.addTrackRequests = [.with { ($0.cid, $0.name, $0.type) = ("c1", "camera", .video) }]
            $0.publisherOffer = .with { ($0.type, $0.sdp, $0.id) = ("offer", "v=0\r\n", 1) }
            ($0.reconnect, $0.reconnectReason) = (true, .rrSubscriberFailed)
            $0.participantSid = "PA_me"
            ($0.syncState.subscription.trackSids, $0.syncState.subscription.subscribe) = (["TR_out"], true)
        }
        let frame = Self.bytes(try #require(GoldenFrames.joins["join"]))
        #expect(try LiveKitJoinRequest(serializedBytes: frame) == join)
        #expect(try join.serializedBytes() as [UInt8] == frame)
        let wrapped = LiveKitWrappedJoinRequest.with { ($0.compression, $0.joinRequest) = (.gzip, Data([1, 2])) }
        let outer = Self.bytes(try #require(GoldenFrames.joins["wrapped"]))
        #expect(try LiveKitWrappedJoinRequest(serializedBytes: outer) == wrapped)
        #expect(try wrapped.serializedBytes() as [UInt8] == outer)
    }

    @Test("A kind that is not known is no error, and no message")
    func unknownKind() throws {
        let frame = Self.bytes(try #require(GoldenFrames.responses["speakers"]))
        #expect(try LiveKitSignalResponse(serializedBytes: frame).message == nil)
    }

    @Test("A torn frame is an error", arguments: GoldenFrames.responses.keys.sorted())
    func torn(name: String) throws {
        let frame = Self.bytes(try #require(GoldenFrames.responses[name]))
        #expect(throws: (any Error).self) { try LiveKitSignalResponse(serializedBytes: Array(frame.dropLast())) }
    }
}
