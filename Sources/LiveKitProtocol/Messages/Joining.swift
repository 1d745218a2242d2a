// Joining a room, resuming a connection to it and leaving it.

package struct LiveKitJoinResponse: WireMessage {
    package static let fields: Fields = [
        Field(1, \.$room), Field(2, \.$participant), Field(3, \.otherParticipants), Field(4, \.serverVersion),
        Field(5, \.iceServers), Field(6, \.subscriberPrimary), Field(8, \.$clientConfiguration),
        Field(10, \.pingTimeout), Field(11, \.pingInterval), Field(12, \.$serverInfo),
        Field(13, \.$sifTrailer), Field(14, \.enabledPublishCodecs), Field(15, \.fastPublish),
    ]
    @Submessage package var room: LiveKitRoom
    @Submessage package var participant: LiveKitParticipantInfo
    package var otherParticipants: [LiveKitParticipantInfo] = []
    package var serverVersion = ""
    package var iceServers: [LiveKitICEServer] = []
    package var subscriberPrimary = false
    @Submessage package var clientConfiguration: LiveKitClientConfiguration
    /// Seconds.
    package var (pingTimeout, pingInterval): (Int32, Int32) = (0, 0)
    @Submessage package var serverInfo: LiveKitServerInfo
    /// The end of each frame that the server makes itself.
    @WireData package var sifTrailer: [UInt8]
    /// The codecs that participants may publish; empty: any.
    package var enabledPublishCodecs: [LiveKitCodec] = []
    package var fastPublish = false
    package init() {}
}

package struct LiveKitReconnectResponse: WireMessage {
    package static let fields: Fields = [
        Field(1, \.iceServers), Field(2, \.$clientConfiguration), Field(3, \.$serverInfo),
    ]
    package var iceServers: [LiveKitICEServer] = []
    @Submessage package var clientConfiguration: LiveKitClientConfiguration
    @Submessage package var serverInfo: LiveKitServerInfo
    package init() {}
}

package struct LiveKitICEServer: WireMessage {
    package static let fields: Fields = [Field(1, \.urls), Field(2, \.username), Field(3, \.credential)]
    package var urls: [String] = []
    package var (username, credential) = ("", "")
    package init() {}
}

package enum LiveKitClientConfigSetting: OpenEnum {
    case unset, disabled, enabled
    case unrecognized(Int32)
    package static let names: [Self?] = [.unset, .disabled, .enabled]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitClientConfiguration: WireMessage {
    package static let fields: Fields = [Field(5, \.forceRelay)]
    package var forceRelay = LiveKitClientConfigSetting.unset
    package init() {}
}

package struct LiveKitServerInfo: WireMessage {
    package static let fields: Fields = [Field(2, \.version), Field(3, \.protocol)]
    package var version = ""
    package var `protocol`: Int32 = 0
    package init() {}
}

package struct LiveKitRoomMovedResponse: WireMessage {
    package static let fields: Fields = [Field(2, \.token), Field(4, \.otherParticipants)]
    package var token = ""
    package var otherParticipants: [LiveKitParticipantInfo] = []
    package init() {}
}

/// The client sends it before the offers of a resumed connection.
package struct LiveKitSyncState: WireMessage {
    package static let fields: Fields = [
        Field(1, \.$answer), Field(2, \.$subscription), Field(3, \.publishTracks), Field(5, \.$offer),
    ]
    @Submessage package var answer: LiveKitSessionDescription
    @Submessage package var subscription: LiveKitUpdateSubscription
    package var publishTracks: [LiveKitTrackPublishedResponse] = []
    @Submessage package var offer: LiveKitSessionDescription
    package init() {}
}

// MARK: Leaving

package enum LiveKitDisconnectReason: OpenEnum {
    case unknownReason, clientInitiated, duplicateIdentity, serverShutdown, participantRemoved, roomDeleted
    case stateMismatch, joinFailure, migration, signalClose, roomClosed, userUnavailable, userRejected, sipTrunkFailure
    case connectionTimeout, mediaFailure, agentError
    case unrecognized(Int32)
    package static let names: [Self?] = [
        .unknownReason, .clientInitiated, .duplicateIdentity, .serverShutdown, .participantRemoved, .roomDeleted,
        .stateMismatch, .joinFailure, .migration, .signalClose, .roomClosed, .userUnavailable, .userRejected,
        .sipTrunkFailure, .connectionTimeout, .mediaFailure, .agentError,
    ]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitLeaveRequest: WireMessage {
    package enum Action: OpenEnum {
        case disconnect, resume, reconnect
        case unrecognized(Int32)
        package static let names: [Self?] = [.disconnect, .resume, .reconnect]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package static let fields: Fields = [
        Field(1, \.canReconnect), Field(2, \.reason), Field(3, \.action), Field(4, \.$regions),
    ]
    /// Older servers set it instead of an action.
    package var canReconnect = false
    package var reason = LiveKitDisconnectReason.unknownReason
    package var action = Action.disconnect
    @Submessage package var regions: LiveKitRegionSettings
    package init() {}
}

package struct LiveKitRegionSettings: WireMessage {
    package static let fields: Fields = [Field(1, \.regions)]
    package var regions: [LiveKitRegionInfo] = []
    package init() {}
}

package struct LiveKitRegionInfo: WireMessage {
    package static let fields: Fields = [Field(1, \.region), Field(2, \.url)]
    package var (region, url) = ("", "")
    package init() {}
}

// MARK: Joining with one connection for both directions

/// Base64 of it, in the URL's alphabet, is the query item `join_request` of `/rtc/v1`.
package struct LiveKitWrappedJoinRequest: WireMessage {
    package enum Compression: OpenEnum {
        case none, gzip
        case unrecognized(Int32)
        package static let names: [Self?] = [Compression.none, .gzip]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package static let fields: Fields = [Field(1, \.compression), Field(2, \.$joinRequest)]
    package var compression = Compression.none
    /// A `LiveKitJoinRequest`.
    @WireData package var joinRequest: [UInt8]
    package init() {}
}

package struct LiveKitJoinRequest: WireMessage {
    package static let fields: Fields = [
        Field(1, \.$clientInfo), Field(2, \.$connectionSettings), Field(5, \.addTrackRequests),
        Field(6, \.$publisherOffer), Field(7, \.reconnect), Field(8, \.reconnectReason), Field(9, \.participantSid),
        Field(10, \.$syncState),
    ]
    @Submessage package var clientInfo: LiveKitClientInfo
    @Submessage package var connectionSettings: LiveKitConnectionSettings
    package var addTrackRequests: [LiveKitAddTrackRequest] = []
    @Submessage package var publisherOffer: LiveKitSessionDescription
    /// The connection resumes a former one of the participant `participantSid`.
    package var reconnect = false
    package var reconnectReason = LiveKitReconnectReason.rrUnknown
    package var participantSid = ""
    @Submessage package var syncState: LiveKitSyncState
    package init() {}
}

/// A number in the URL of a connection that resumes another one.
package enum LiveKitReconnectReason: OpenEnum {
    case rrUnknown, rrSignalDisconnected, rrPublisherFailed, rrSubscriberFailed, rrSwitchCandidate
    case unrecognized(Int32)
    package static let names: [Self?] = [
        .rrUnknown, .rrSignalDisconnected, .rrPublisherFailed, .rrSubscriberFailed, .rrSwitchCandidate,
    ]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitClientInfo: WireMessage {
    package enum Capability: OpenEnum {
        case capUnused, capPacketTrailer
        case unrecognized(Int32)
        package static let names: [Self?] = [.capUnused, .capPacketTrailer]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    /// Servers adapt their behaviour to it.
    package enum SDK: OpenEnum {
        case unknown, js, swift, android, flutter, go, unity, reactNative, rust, python, cpp, unityWeb, node, unreal
        case esp32, dotnet
        case unrecognized(Int32)
        package static let names: [Self?] = [
            .unknown, .js, .swift, .android, .flutter, .go, .unity, .reactNative, .rust, .python, .cpp, .unityWeb,
            .node, .unreal, .esp32, .dotnet,
        ]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package static let fields: Fields = [
        Field(1, \.sdk), Field(2, \.version), Field(3, \.protocol), Field(13, \.capabilities),
    ]
    package var sdk = SDK.unknown
    package var version = ""
    package var `protocol`: Int32 = 0
    package var capabilities: [Capability] = []
    package init() {}
}

package struct LiveKitConnectionSettings: WireMessage {
    package static let fields: Fields = [Field(1, \.autoSubscribe)]
    package var autoSubscribe = false
    package init() {}
}
