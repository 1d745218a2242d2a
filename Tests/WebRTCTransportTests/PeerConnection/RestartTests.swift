import GStreamerKit
import ICE
import TestSupport
import Testing
import WebRTCTransport

/// ICE restarts: a second ICE session below the same DTLS association.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct RestartTests {
        /// Frames after a restart: enough that the session before it is closed meanwhile, in `scripts/verify`.
        private static let frameCount = Verification.isOn ? 90 : 20

        private func withPair(
            keep: @escaping @Sendable (ICECandidate) -> Bool = { _ in true }, startsMedia: Bool = true,
            _ body: (TestPeer, TestPeer) throws -> Void
        ) throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b, keep: keep)
            if startsMedia {
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
            }
            try body(a, b)
        }

        private func transport(_ sdp: String) throws -> [String?] {
            let description = try SDPDescription(parsing: sdp)
            return ["ice-ufrag", "ice-pwd", "fingerprint", "ssrc", "mid"].map { description.media.first?.value($0) }
        }

        private func expectRestart(_ a: TestPeer, _ b: TestPeer, _ count: Int) {
            for peer in [a, b] {
                #expect(peer.seen.wait(.seconds(20)) { $0.restarts.count == count })
                #expect(peer.seen.value.restarts.allSatisfy(\.self) && peer.seen.value.error == nil)
                #expect(peer.connection.statistics().iceRestarts == count)
            }
        }

        @Test func mediaGoOnOverTheNewPath() throws {
            try withPair { a, b in
                for (index, (offerer, answerer)) in [(a, b), (b, a)].enumerated() {
                    let old = try #require(offerer.connection.statistics().selectedPair)
                    for peer in [a, b] { peer.seen.change { $0.longestGap = .zero } }
                    let offer = try offerer.connection.createOffer(restartsICE: true, reason: "a test")
                    let answer = try answerer.connection.createAnswer(to: offer)
                    try offerer.connection.setAnswer(answer)
                    expectRestart(a, b, index + 1)
                    let pair = try #require(offerer.connection.statistics().selectedPair)
                    #expect(pair.local.address != old.local.address)
                    #expect(a.waitForFrames(a.frames + Self.frameCount) && b.waitForFrames(b.frames + 10))
                    for (name, peer) in [("offerer", offerer), ("answerer", answerer)] {
                        measure(
                            "longest gap of the \(name) in restart \(index + 1)", peer.seen.value.longestGap,
                            atMost: .milliseconds(500))
                        #expect(peer.connection.statistics().packetsRefused == 0)
                    }
                    // Only the credentials change; a later offer repeats the new ones.
                    let before = try transport(offer)
                    let later = try transport(offerer.connection.createOffer())
                    #expect(before == later)
                    offerer.connection.rollbackOffer()
                }
            }
        }

        @Test func onlyTheCredentialsChange() throws {
            try withPair(startsMedia: false) { a, b in
                #expect(a.waitForConnected() && b.waitForConnected())
                let plain = try transport(a.connection.createOffer())
                a.connection.rollbackOffer()
                let restart = try transport(a.connection.createOffer(restartsICE: true))
                #expect(plain[0] != restart[0] && plain[1] != restart[1] && plain[2...] == restart[2...])
                a.connection.rollbackOffer()
                #expect(try transport(a.connection.createOffer()) == plain)
                a.connection.rollbackOffer()
                #expect(a.seen.wait(.seconds(20)) { $0.restarts == [false] })
            }
        }

        @Test func restartsInARowEndWithTheLatest() throws {
            try withPair { a, b in
                for _ in 0..<3 { try renegotiate(a, b, restartsICE: true) }
                #expect(a.seen.wait(.seconds(20)) { !$0.restarts.isEmpty })
                let frames = a.frames
                #expect(a.waitForFrames(frames + Self.frameCount) && a.error == nil && b.error == nil)
            }
        }

        /// No candidate of the first session passes: the restart connects, and the handshake takes its path.
        @Test func connectsThroughARestart() throws {
            // The first session of each peer stays without candidates, also late ones; those of the second one pass.
            let first = Watched((fragments: Set<String>(), isOver: false))
            let keep: @Sendable (ICECandidate) -> Bool = { candidate in
                guard let fragment = candidate.usernameFragment else { return false }
                first.change { if !$0.isOver { $0.fragments.insert(fragment) } }
                return !first.value.fragments.contains(fragment)
            }
            try withPair(keep: keep, startsMedia: false) { a, b in
                #expect(first.wait(.seconds(20)) { $0.fragments.count == 2 })
                first.change { $0.isOver = true }
                #expect(!a.seen.wait(.milliseconds(300)) { $0.connected != nil })
                try renegotiate(a, b, restartsICE: true)
                #expect(a.waitForConnected() && b.waitForConnected())
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
            }
        }

        @Test func unusableAnswersLeaveTheConnection() throws {
            try withPair { a, b in
                let plain = try b.connection.createAnswer(to: a.connection.createOffer())
                try a.connection.setAnswer(plain)
                let offer = try a.connection.createOffer(restartsICE: true)
                // The answer keeps the old credentials.
                #expect(throws: PeerConnectionError.self) { try a.connection.setAnswer(plain) }
                a.connection.rollbackOffer()
                // The answer restarts ICE, but its offer does not.
                let answer = try b.connection.createAnswer(to: offer)
                _ = try a.connection.createOffer()
                #expect(throws: PeerConnectionError.self) { try a.connection.setAnswer(answer) }
                a.connection.rollbackOffer()
                let frames = a.frames
                #expect(a.waitForFrames(frames + 10) && a.error == nil)
            }
        }

        /// With new ICE credentials, as when another server takes over, and without.
        @Test(arguments: [true, false]) func anotherCertificateIsAnError(restartsICE: Bool) throws {
            try withPair(startsMedia: false) { a, b in
                #expect(a.waitForConnected() && b.waitForConnected())
                let offer = try a.connection.createOffer(restartsICE: restartsICE)
                let fingerprint = try #require(try transport(offer)[2])
                let digest = try #require(fingerprint.split(separator: " ").last)
                let foreign = String(digest.dropLast(2)) + (digest.hasSuffix("00") ? "01" : "00")
                let changed = offer.replacing(digest, with: foreign)
                do {
                    _ = try b.connection.createAnswer(to: changed)
                    Issue.record("The description is answered.")
                } catch let error as PeerConnectionError {
                    #expect(error.code == .changedCertificate)
                }
                #expect(throws: Never.self) { try b.connection.createAnswer(to: offer) }
            }
        }

        /// A fingerprint that was added beside the certificate's does not replace it later.
        @Test func anAddedCertificateDoesNotTakeOver() throws {
            try withPair(startsMedia: false) { a, b in
                #expect(a.waitForConnected() && b.waitForConnected())
                let offer = try a.connection.createOffer()
                let fingerprint = try #require(try transport(offer)[2])
                let digest = try #require(fingerprint.split(separator: " ").last)
                let foreign = String(digest.dropLast(2)) + (digest.hasSuffix("00") ? "01" : "00")
                let line = "a=fingerprint:sha-256 \(digest)"
                let both = offer.replacing(line, with: "\(line)\r\na=fingerprint:sha-256 \(foreign)")
                #expect(both != offer)
                _ = try b.connection.createAnswer(to: both)
                _ = try b.connection.createAnswer(to: both)
                let error = thrown(PeerConnectionError.self) {
                    try b.connection.createAnswer(to: offer.replacing(digest, with: foreign))
                }
                #expect(error?.code == .changedCertificate)
                #expect(throws: Never.self) { try b.connection.createAnswer(to: offer) }
            }
        }

        @Test func aRestartNeedsAConnection() throws {
            let peer = try TestPeer()
            defer { peer.stop() }
            #expect(throws: PeerConnectionError.self) { try peer.connection.createOffer(restartsICE: true) }
            #expect(throws: Never.self) { try peer.connection.createOffer() }
        }

        // MARK: Candidates

        private func candidate(_ fragment: String?, inText: Bool = false) -> ICECandidate {
            let text = "candidate:1 1 UDP 1 192.0.2.1 9 typ host" + (inText ? " ufrag \(fragment ?? "")" : "")
            return ICECandidate(
                candidate: text, sdpMid: "0", sdpMLineIndex: 0, usernameFragment: inText ? nil : fragment)
        }

        @Test func candidatesFindTheirSession() {
            var router = CandidateRouter()
            #expect(router.route(candidate("NEWW"), remotes: []) == nil)
            #expect(router.route(candidate("OLDD"), remotes: ["NEWW", "OLDD"]) == 1)
            #expect(router.route(candidate("NEWW", inText: true), remotes: ["NEWW", "OLDD"]) == 0)
            #expect(router.route(candidate(nil), remotes: ["NEWW", "OLDD"]) == 0)
            // A restart without an answer has no remote candidates yet.
            #expect(router.route(candidate(nil), remotes: [nil, "OLDD"]) == 1)
            #expect(router.route(nil, remotes: [nil, "OLDD"]) == 1)
            #expect(router.takeEarly() == [candidate("NEWW")])
            router.ended("OLDD")
            #expect(router.route(candidate("OLDD"), remotes: ["NEWW"]) == nil)
            #expect(router.takeEarly().isEmpty)
            for _ in 0..<1000 { _ = router.route(candidate("ELSE"), remotes: ["NEWW"]) }
            #expect(router.takeEarly().count == 128)
        }
    }
}
