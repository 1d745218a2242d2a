import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Serialised: these suites use sockets, encoders and both cores.
@Suite(.serialized)
enum Transport {}

extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct PeerConnectionTests {
        @Test(arguments: VideoCodec.available)
        func mediaFlowsBothWays(codec: VideoCodec) throws {
            var configuration = PeerConnectionConfiguration()
            configuration.codec = codec
            let (a, b) = (try TestPeer(configuration), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            #expect(b.connection.negotiatedCodec == codec)
            try a.startMedia()
            try b.startMedia(width: 160, height: 120)
            #expect(a.waitForConnected())
            #expect(b.waitForConnected())
            #expect(a.waitForFrames(20))
            // A packet is counted after it was sent, so it may arrive first; its predecessor has been counted by then.
            #expect(b.waitForFrames(21))
            #expect(a.size == (160, 120))
            #expect(b.size == (320, 180))
            let statistics = a.connection.statistics()
            #expect(statistics.packetsSent >= 20)
            #expect(statistics.packetsReceived >= 20)
            #expect(statistics.packetsRefused == 0)
            #expect(statistics.iceTime != nil && statistics.dtlsTime != nil)
            #expect(statistics.selectedPair != nil)
        }

        /// The numbers of a description are those that its author receives (RFC 3264 5.1).
        @Test func anAnswerWithOtherPayloadTypes() throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try join(
                a, b,
                mangleAnswer: {
                    $0.replacing("SAVPF 96 97", with: "SAVPF 111 112").replacing(":96 ", with: ":111 ")
                        .replacing(":97 ", with: ":112 ").replacing("apt=96", with: "apt=111")
                })
            #expect(a.connection.sendParameters?.payloadType == 111)
            try TestPeer.startMedia(a, b)
            #expect(a.waitForFrames(20), "what has the numbers of our offer is dropped")
            #expect(a.connection.statistics().rtp.plisSent < 5)
        }

        /// Candidates are in the first m-line of the bundle, as services write them that gather before they answer. The
        /// answerer has none of our candidates, so our side must send the first connectivity check.
        @Test func candidatesInTheAnswerAreEnough() throws {
            var configuration = PeerConnectionConfiguration()
            configuration.audio = .sendrecv
            let (a, b) = (try TestPeer(configuration), try TestPeer(configuration))
            defer { TestPeer.stop(a, b) }
            let answer = try b.connection.createAnswer(to: try a.connection.createOffer())
            #expect(b.seen.wait(.seconds(20)) { $0.candidates.contains { $0 == nil } }, "no end of candidates")
            let lines = b.seen.value.candidates.compactMap { $0.map { "a=" + $0.candidate + "\r\n" } }
            let parts = answer.split(separator: "m=", omittingEmptySubsequences: false)
            try #require(parts.count == 3 && !lines.isEmpty)
            try a.connection.setAnswer("\(parts[0])m=\(parts[1])\(lines.joined())a=end-of-candidates\r\nm=\(parts[2])")
            #expect(a.waitForConnected() && b.waitForConnected())
        }
    }
}
