// Descriptions, candidates and liveness of a connection.

package enum LiveKitSignalTarget: OpenEnum {
    case publisher, subscriber
    case unrecognized(Int32)
    package static let names: [Self?] = [.publisher, .subscriber]
    package var unrecognizedNumber: Int32? { if case .unrecognized(let number) = self { number } else { nil } }
}

package struct LiveKitSessionDescription: WireMessage {
    package static let fields: Fields = [Field(1, \.type), Field(2, \.sdp), Field(3, \.id), Field(4, \.midToTrackID)]
    package var (type, sdp) = ("", "")
    package var id: UInt32 = 0
    package var midToTrackID: [String: String] = [:]
    package init() {}
}

package struct LiveKitTrickleRequest: WireMessage {
    package static let fields: Fields = [Field(1, \.candidateInit), Field(2, \.target), Field(3, \.final)]
    /// JSON of an RTCIceCandidateInit.
    package var candidateInit = ""
    package var target = LiveKitSignalTarget.publisher
    package var final = false
    package init() {}
}

package struct LiveKitMediaSectionsRequirement: WireMessage {
    package static let fields: Fields = [Field(1, \.numAudios), Field(2, \.numVideos)]
    package var (numAudios, numVideos): (UInt32, UInt32) = (0, 0)
    package init() {}
}

// MARK: Liveness

package struct LiveKitPing: WireMessage {
    package static let fields: Fields = [Field(1, \.timestamp), Field(2, \.rtt)]
    /// Milliseconds.
    package var (timestamp, rtt): (Int64, Int64) = (0, 0)
    package init() {}
}

package struct LiveKitPong: WireMessage {
    package static let fields: Fields = [Field(1, \.lastPingTimestamp), Field(2, \.timestamp)]
    package var (lastPingTimestamp, timestamp): (Int64, Int64) = (0, 0)
    package init() {}
}
