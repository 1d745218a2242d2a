import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// RFC 8827 6.5: a certificate without a matching signalled fingerprint ends the connection before any media, in
/// either DTLS role.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct FingerprintTests {
        @Test(arguments: [false, true], [false, true])
        func twoOfOurs(liarOffers: Bool, honestIsActive: Bool) throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            // An answerer takes the active role unless the offer insists on it.
            let offererIsActive = honestIsActive != liarOffers
            try join(
                a, b, mangleAnswer: { liarOffers ? $0 : withWrongFingerprint($0) },
                mangleOffer: { offer in
                    let offer = offererIsActive ? offer.replacing("a=setup:actpass", with: "a=setup:active") : offer
                    return liarOffers ? withWrongFingerprint(offer) : offer
                })
            try TestPeer.startMedia(a, b)
            let (honest, liar) = liarOffers ? (b, a) : (a, b)
            try expectRefusal(by: honest)
            #expect(liar.connection.statistics().packetsReceived == 0)
            #expect(liar.frames == 0)
        }

        @Test(
            .enabled(if: PythonPeer.isAvailable, PythonPeer.reason),
            arguments: ["offer", "answer-active", "answer-passive"])
        func aiortcLies(how: String) throws {
            let role =
                how.hasSuffix("active")
                ? ["--dtls-role", "active"] : how.hasSuffix("passive") ? ["--dtls-role", "passive"] : []
            let call = try Call(
                .aiortc, .vp8, peerOffers: how == "offer", options: ["--wrong-fingerprint"] + role, startMedia: false)
            defer { call.end() }
            try call.ours.startMedia()
            try expectRefusal(by: call.ours)
            let theirs = try #require(call.theirs.stats())
            #expect(theirs.packetsReceived == 0 && theirs.framesDecoded == 0)
        }

        private func expectRefusal(by honest: TestPeer, test: String = #function) throws {
            #expect(honest.seen.wait(.seconds(20)) { $0.failed != nil })
            let seen = honest.seen.value
            #expect(seen.error?.code == .fingerprintMismatch, "\(String(describing: seen.error))")
            let took = try #require(seen.failed) - #require(seen.iceConnected)
            measure("time from ICE to the refusal", took, atMost: .seconds(1), test: test)
            #expect(seen.connected == nil)
            // Leaves time for media to slip through.
            #expect(honest.seen.staysFalse(.milliseconds(300)) { $0.frames > 0 })
            let statistics = honest.connection.statistics()
            #expect(statistics.packetsSent == 0)
            #expect(statistics.packetsReceived == 0)
        }
    }
}

/// Changes the last hexadecimal digit of every fingerprint.
func withWrongFingerprint(_ sdp: String) -> String {
    sdp.split(separator: "\r\n" as Character, omittingEmptySubsequences: false).map { line in
        guard line.hasPrefix("a=fingerprint:"), let last = line.last else { return String(line) }
        return line.dropLast() + (last == "0" ? "1" : "0")
    }.joined(separator: "\r\n")
}
