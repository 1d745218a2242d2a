import GStreamerKit
import Testing
import WebRTCTransport

/// Offers with m-lines of their own to receive on, as a single connection of a LiveKit room has them.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct SpareSectionTests {
        /// The answer of a server that receives what is sent and would send on all other m-lines.
        /// - Parameter tracks: the `msid` of m-lines by their mids.
        private func answer(to offer: String, tracks: [String: String] = [:]) throws -> String {
            var sdp = try SDPDescription(parsing: offer)
            for index in sdp.media.indices {
                let track = tracks[sdp.media[index].value("mid") ?? ""]
                let isSent = sdp.media[index].has("sendonly")
                sdp.media[index].attributes = sdp.media[index].attributes.compactMap { attribute in
                    switch attribute.name {
                    case "msid", "ssrc", "ssrc-group": nil
                    case "sendonly", "recvonly", "inactive": SDPAttribute(isSent ? "recvonly" : "sendonly")
                    case "setup": SDPAttribute("setup", "active")
                    default: attribute
                    }
                }
                if let track { sdp.media[index].attributes.append(SDPAttribute("msid", track)) }
            }
            return sdp.text(sessionID: 1, version: 1)
        }

        @Test("An m-line receives once it carries a track that is wanted, though the server would send on it before")
        func spare() throws {
            try withConnection({
                ($0.direction, $0.offersEachDirection, $0.holdsGathering) = (.sendonly, true, true)
            }) { connection in
                connection.addReceivers([.video: 1, .audio: 1])
                let offer = try connection.createOffer()
                let mids = try SDPDescription(parsing: offer).media.filter { $0.has("recvonly") }.map { media in
                    try #require(media.value("mid"))
                }
                #expect(mids.count == 2)
                try connection.setAnswer(answer(to: offer))
                #expect(connection.videoDirection == .sendonly && connection.audioDirection == .inactive)
                let tracks = Dictionary(uniqueKeysWithValues: mids.map { ($0, "PA_bot|TR_\($0) TR_\($0)") })
                for (isWanted, video, audio) in [
                    (false, MediaDirection.sendonly, MediaDirection.inactive), (true, .sendrecv, .recvonly),
                ] {
                    let next = try connection.createOffer()
                    try connection.setAnswer(answer(to: next, tracks: tracks)) { _ in isWanted }
                    #expect(connection.videoDirection == video && connection.audioDirection == audio)
                }
            }
        }
    }
}
