// Our offer with candidates: complete, or with those that come later as a fragment (RFC 8840).
import GStreamerKit
import RTP

package struct OfferText: Sendable {
    package let sdp: String
    private let usernameFragment: String
    private let password: String
    private let firstLine: SDPMedia
    package let hasAudio: Bool

    /// Returns nil if `sdp` is no offer of `PeerConnection.createOffer`.
    package init?(_ sdp: String) {
        guard let all = (try? SDPDescription(parsing: sdp))?.media, let media = all.first,
            let fragment = media.value("ice-ufrag"),
            let password = media.value("ice-pwd")
        else { return nil }
        (self.sdp, usernameFragment, self.password, firstLine) = (sdp, fragment, password, media)
        hasAudio = all.contains { $0.kind == MediaKind.audio.rawValue }
    }

    /// Adds candidates to the first m-line, whose transport all others share.
    /// - Parameter isComplete: no further candidates follow.
    package func with(candidates: [String], isComplete: Bool) -> String {
        let lines = Self.lines(candidates, isComplete)
        // CR LF is one Character.
        let starts = sdp.ranges(of: "\r\nm=").map { sdp.index(after: $0.lowerBound) }
        guard starts.count > 1 else { return sdp + lines }
        return "\(sdp[..<starts[1]])\(lines)\(sdp[starts[1]...])"
    }

    /// The body of an `application/trickle-ice-sdpfrag`.
    package func fragment(candidates: [String], isComplete: Bool) -> String {
        let head = [
            "a=ice-ufrag:\(usernameFragment)", "a=ice-pwd:\(password)",
            "m=\(firstLine.kind) \(firstLine.port) \(firstLine.transport) 0", "a=mid:\(firstLine.value("mid") ?? "0")",
        ]
        return head.map { $0 + "\r\n" }.joined() + Self.lines(candidates, isComplete)
    }

    private static func lines(_ candidates: [String], _ isComplete: Bool) -> String {
        (candidates.map { "a=\($0)" } + (isComplete ? ["a=end-of-candidates"] : [])).map { $0 + "\r\n" }.joined()
    }
}
