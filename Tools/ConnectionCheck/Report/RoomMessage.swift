// A message of a LiveKit room's signalling, as far as a report shows it: its kind, and facts about SDP and candidates.
import DecartProtocol
import LiveKitProtocol

package struct RoomMessage: Sendable, Equatable {
    /// LiveKit's name of it, or "field N".
    package var kind: String
    package var isKnown = false
    package var sdp: SDPFacts?
    /// Such as "host udp".
    package var candidate: String?

    /// - Parameter isSent: true for a message of the client (SignalRequest).
    package init(_ bytes: [UInt8], isSent: Bool) {
        if isSent, let request = try? LiveKitSignalRequest(serializedBytes: bytes) {
            self.init(request.message, [request.offer, request.answer], request.trickle, request.unknownFields)
        } else if !isSent, let response = try? LiveKitSignalResponse(serializedBytes: bytes) {
            self.init(
                response.message, [response.offer, response.answer], response.trickle, response.unknownFields)
        } else {
            self.init(nil, [], LiveKitTrickleRequest(), [])
        }
    }

    private init(
        _ message: Any?, _ descriptions: [LiveKitSessionDescription], _ trickle: LiveKitTrickleRequest,
        _ unknown: [UInt8]
    ) {
        let name = message.flatMap { Mirror(reflecting: $0).children.first?.label }
        isKnown = name != nil
        kind = name.map(Self.snakeCase) ?? Self.fieldNumber(unknown).map { "field \($0)" } ?? "malformed"
        sdp = descriptions.first { !$0.sdp.isEmpty }.map { SDPFacts($0.sdp) }
        candidate = (try? CandidateMessage(decodingInit: [UInt8](trickle.candidateInit.utf8)))
            .flatMap { SDPFacts.type(ofCandidate: $0.candidate) }
    }

    private static func snakeCase(_ name: String) -> String {
        name.map { $0.isUppercase ? "_" + $0.lowercased() : String($0) }.joined()
    }

    /// The number in the first tag, a varint of number and wire type: kinds that LiveKitProtocol does not know are the
    /// interesting ones.
    private static func fieldNumber(_ bytes: [UInt8]) -> Int? {
        var tag = 0
        for (index, byte) in bytes.prefix(5).enumerated() {
            tag |= Int(byte & 0x7F) << (7 * index)
            if byte < 0x80 { return tag >> 3 }
        }
        return nil
    }
}
