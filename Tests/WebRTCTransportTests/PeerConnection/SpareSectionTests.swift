import GStreamerKit
import ICE
import RTP
import TestSupport
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
                ($0.direction, $0.offersEachDirection, $0.awaitsServers) = (.sendonly, true, true)
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

        @Test("The first offer holds the candidates, also of a gathering that began before the connection")
        func earlyCandidates() throws {
            for isEarly in [false, true] {
                var configuration = PeerConnectionConfiguration()
                configuration.awaitsServers = true
                if isEarly {
                    let early = try #require(EarlyGathering(configuration))
                    (configuration.early, configuration.place) = (early, early.place)
                }
                let (a, b) = (try TestPeer(configuration), try TestPeer())
                defer { TestPeer.stop(a, b) }
                let offer = try a.connection.createOffer()
                let counts = try SDPDescription(parsing: offer).media.map { media in
                    media.attributes.count { $0.name == "candidate" }
                }
                #expect(counts[0] > 0 && counts.dropFirst().allSatisfy { $0 == 0 })
                try a.connection.setAnswer(b.connection.createAnswer(to: offer))
                b.trickle { [weak a] in a?.connection.addRemoteCandidate($0) }
                #expect(a.waitForConnected() && b.waitForConnected())
                // None of them was signalled besides, and their end comes with the last servers.
                #expect(a.seen.value.candidates.isEmpty)
                a.connection.addServers([], policy: .all)
                #expect(a.seen.wait { $0.candidates == [nil] })
            }
        }

        @Test("No candidate but those of relays is found where only relays may be used")
        func relaysAlone() throws {
            var configuration = PeerConnectionConfiguration()
            (configuration.awaitsServers, configuration.iceTransportPolicy) = (true, .relay)
            #expect(EarlyGathering(configuration) == nil)
            let peer = try TestPeer(configuration)
            defer { peer.stop() }
            #expect(try !peer.connection.createOffer().contains("a=candidate"))
        }

        @Test("A gathering that nobody takes ends, and one connection takes it")
        func untaken() throws {
            let closed = try #require(EarlyGathering(PeerConnectionConfiguration()))
            closed.close()
            let taken = try #require(EarlyGathering(PeerConnectionConfiguration()))
            for (early, uses) in [(closed, [false]), (taken, [true, false])] {
                for isUsed in uses {
                    try withConnection({
                        ($0.early, $0.place, $0.awaitsServers) = (early, early.place, true)
                    }) { connection in
                        let offer = try connection.createOffer()
                        #expect(offer.contains("a=ice-ufrag:\(early.usernameFragment)\r\n") == isUsed)
                    }
                }
            }
        }
    }
}
