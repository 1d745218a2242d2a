// A room and its participants.

package struct LiveKitRoom: WireMessage {
    package static let fields: Fields = [Field(1, \.sid), Field(2, \.name), Field(9, \.numParticipants)]
    package var (sid, name) = ("", "")
    package var numParticipants: UInt32 = 0
    package init() {}
}

package struct LiveKitRoomUpdate: WireMessage {
    package static let fields: Fields = [Field(1, \.$room)]
    @Submessage package var room: LiveKitRoom
    package init() {}
}

package struct LiveKitCodec: WireMessage {
    package static let fields: Fields = [Field(1, \.mime)]
    package var mime = ""
    package init() {}
}

package struct LiveKitParticipantPermission: WireMessage {
    package static let fields: Fields = [Field(1, \.canSubscribe), Field(2, \.canPublish), Field(3, \.canPublishData)]
    package var (canSubscribe, canPublish, canPublishData) = (false, false, false)
    package init() {}
}

package struct LiveKitParticipantInfo: WireMessage {
    package enum State: OpenEnum {
        case joining, joined, active, disconnected
        case unrecognized(Int32)
        package static let names: [Self?] = [.joining, .joined, .active, .disconnected]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package enum Kind: OpenEnum {
        case standard, ingress, egress, sip, agent, connector, bridge
        case unrecognized(Int32)
        package static let names: [Self?] = [.standard, .ingress, .egress, .sip, .agent, nil, nil, .connector, .bridge]
        package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
    }

    package static let fields: Fields = [
        Field(1, \.sid), Field(2, \.identity), Field(3, \.state), Field(4, \.tracks), Field(9, \.name),
        Field(10, \.version), Field(11, \.$permission), Field(13, \.isPublisher), Field(14, \.kind),
    ]
    package var (sid, identity) = ("", "")
    package var state = State.joining
    package var tracks: [LiveKitTrackInfo] = []
    package var name = ""
    package var version: UInt32 = 0
    @Submessage package var permission: LiveKitParticipantPermission
    package var isPublisher = false
    package var kind = Kind.standard
    package init() {}
}

package struct LiveKitParticipantUpdate: WireMessage {
    package static let fields: Fields = [Field(1, \.participants)]
    package var participants: [LiveKitParticipantInfo] = []
    package init() {}
}

package enum LiveKitConnectionQuality: OpenEnum {
    case poor, good, excellent, lost
    case unrecognized(Int32)
    package static let names: [Self?] = [.poor, .good, .excellent, .lost]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitConnectionQualityInfo: WireMessage {
    package static let fields: Fields = [Field(1, \.participantSid), Field(2, \.quality)]
    package var participantSid = ""
    package var quality = LiveKitConnectionQuality.poor
    package init() {}
}

package struct LiveKitConnectionQualityUpdate: WireMessage {
    package static let fields: Fields = [Field(1, \.updates)]
    package var updates: [LiveKitConnectionQualityInfo] = []
    package init() {}
}
