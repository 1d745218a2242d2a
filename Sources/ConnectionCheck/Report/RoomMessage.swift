// A message of a LiveKit room's signalling, as far as a report shows it: its kind, and facts about SDP and candidates.
// It reads protobuf's wire format itself, because kinds that LiveKitProtocol does not know are the interesting ones.
import DecartProtocol

package struct RoomMessage: Sendable, Equatable {
    /// The name in livekit_signal.proto, or "field N".
    package var kind: String
    package var isKnown: Bool
    package var sdp: SDPFacts?
    /// Such as "host udp".
    package var candidate: String?

    // A response has the numbers of offer and answer the other way round.
    private static let requests: [Int: String] = [
        1: "offer", 2: "answer", 3: "trickle", 4: "add_track", 5: "mute", 6: "subscription", 7: "track_setting",
        8: "leave", 12: "sync_state", 14: "ping", 16: "ping_req",
    ]
    private static let responses: [Int: String] = [
        1: "join", 2: "answer", 3: "offer", 4: "trickle", 5: "update", 6: "track_published", 8: "leave", 9: "mute",
        11: "room_update", 12: "connection_quality", 13: "stream_state_update", 14: "subscribed_quality_update",
        16: "refresh_token", 17: "track_unpublished", 18: "pong", 19: "reconnect", 20: "pong_resp",
        21: "subscription_response", 22: "request_response", 23: "track_subscribed", 24: "room_moved",
        25: "media_sections_requirement",
    ]

    /// - Parameter isSent: true for a message of the client (SignalRequest).
    package init(_ bytes: [UInt8], isSent: Bool) {
        guard let field = Self.fields(bytes[...]).first else {
            (kind, isKnown) = ("malformed", false)
            return
        }
        let name = (isSent ? Self.requests : Self.responses)[field.number]
        kind = name ?? "field \(field.number)"
        isKnown = name != nil
        switch kind {
        case "offer", "answer":
            // SessionDescription.sdp
            sdp = Self.text(2, in: field.payload).map { SDPFacts($0) }
        case "trickle":
            // TrickleRequest.candidateInit
            let candidate = Self.text(1, in: field.payload).flatMap {
                try? CandidateMessage(decodingInit: [UInt8]($0.utf8))
            }
            self.candidate = candidate.flatMap { SDPFacts.type(ofCandidate: $0.candidate) }
        default: break
        }
    }

    private static func text(_ number: Int, in payload: ArraySlice<UInt8>) -> String? {
        fields(payload).first { $0.number == number }.map { String(decoding: $0.payload, as: UTF8.self) }
    }

    /// The fields of a message, up to the first malformed one.
    private static func fields(_ bytes: ArraySlice<UInt8>) -> [(number: Int, payload: ArraySlice<UInt8>)] {
        var rest = bytes
        var fields: [(number: Int, payload: ArraySlice<UInt8>)] = []
        while let tag = varint(&rest), fields.count < 100 {
            let number = Int(clamping: tag >> 3)
            let size: Int
            switch tag & 7 {
            case 0:
                guard varint(&rest) != nil else { return fields }
                size = 0
            case 1: size = 8
            case 2:
                guard let length = varint(&rest), length <= UInt64(rest.count) else { return fields }
                size = Int(length)
            case 5: size = 4
            default: return fields
            }
            guard size <= rest.count, number > 0 else { return fields }
            fields.append((number, rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        return fields
    }

    private static func varint(_ bytes: inout ArraySlice<UInt8>) -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard let byte = bytes.popFirst() else { return nil }
            value |= UInt64(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }
}
