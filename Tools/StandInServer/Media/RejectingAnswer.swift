import GStreamerKit
import WebRTCTransport

/// The answer to an offer without a codec that we have: it rejects each m-line (RFC 8829 5.3.1).
enum RejectingAnswer {
    static func sdp(to offer: String) throws -> String {
        let lines = try SDPDescription(parsing: offer).media
        guard !lines.isEmpty else { throw PeerConnectionError(.rejected, "the offer has no m-line") }
        var answer = SDPDescription()
        answer.media = lines.map(\.rejected)
        return answer.text(sessionID: 1, version: 1)
    }
}

extension SDPMedia {
    var rejected: SDPMedia {
        var line = self
        line.port = 0
        line.attributes = attributes.filter { $0.name == "mid" } + [SDPAttribute("inactive")]
        return line
    }
}
