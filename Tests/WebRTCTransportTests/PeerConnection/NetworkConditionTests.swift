import GStreamerKit
import ICE
import RTP
import Testing
import TestSupport
import WebRTCTransport

/// Connections over impaired network paths.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct NetworkConditionTests {
        private func withPair(
            _ configuration: PeerConnectionConfiguration = PeerConnectionConfiguration(),
            _ body: (TestPeer, TestPeer) throws -> Void
        ) throws {
            let (a, b) = (try TestPeer(configuration), try TestPeer(configuration))
            defer { TestPeer.stop(a, b) }
            try body(a, b)
        }

        @Test func overIPv6Only() throws {
            try withPair { a, b in
                try join(a, b, keep: { $0.candidate.contains(" ::1 ") })
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(5))
                #expect(b.waitForFrames(5))
                let pair = try #require(a.connection.statistics().selectedPair)
                #expect(pair.local.address.hasPrefix("[::1]") && pair.remote.address.hasPrefix("[::1]"))
            }
        }

        @Test(.enabled(if: TurnServer.isInstalled, "coturn is not installed"), arguments: ["udp", "tcp"])
        func overARelayOnly(transport: String) throws {
            let turn = try TurnServer()
            var configuration = PeerConnectionConfiguration()
            configuration.iceServers = [try turn.server(transport)]
            configuration.iceTransportPolicy = .relay
            try withPair(configuration) { a, b in
                try join(a, b)
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(5))
                #expect(b.waitForFrames(5))
                for peer in [a, b] {
                    for case let candidate? in peer.seen.value.candidates {
                        #expect(candidate.candidate.contains(" typ relay"))
                    }
                    #expect(peer.connection.statistics().selectedPair?.isRelayed == true)
                }
            }
        }

        @Test(.enabled(if: TurnServer.isInstalled, "coturn is not installed"), arguments: [true, false])
        func aMissingRelayIsReported(isMissing: Bool) throws {
            let turn = try TurnServer()
            var configuration = PeerConnectionConfiguration()
            let password = isMissing ? "wrong" : "pass"
            configuration.iceServers = [try ICEServer(url: "turn://test:\(password)@127.0.0.1:\(turn.port)")]
            try withPair(configuration) { peer, _ in
                _ = try peer.connection.createOffer()
                try #require(peer.seen.wait(.seconds(20)) { $0.candidates.contains { $0 == nil } })
                #expect(peer.seen.value.missingRelays == (isMissing ? 1 : 0))
            }
        }

        /// NACK and RTX recover lost packets, and no datagram exceeds 1200 bytes, so that it fits into a tunnel's MTU.
        @Test(arguments: Verification.isOn ? VideoCodec.available : [.vp8])
        func mediaUnderFivePercentLoss(codec: VideoCodec) throws {
            let path = try LossyPath(seed: 7)
            var configuration = PeerConnectionConfiguration()
            configuration.codec = codec
            try withPair(configuration) { a, b in
                try join(a, b, over: path)
                // The noise pattern fills every packet.
                try a.startMedia(pattern: "snow", bitrate: 1_200_000)
                try b.startMedia()
                #expect(a.waitForFrames(5) && b.waitForFrames(5))
                path.setLoss(0.05)
                let (before, count) = (b.frames, Verification.isOn ? 150 : 30)
                #expect(b.seen.wait(.seconds(40)) { $0.frames >= before + count }, "\(b.frames - before) frames")
                measure("longest gap with 5 % loss, \(codec)", b.seen.value.longestGap, atMost: .milliseconds(1500))
                #expect(eventually(seconds: 40) { path.seen.dropped > 10 })
                // Some of them were the video's.
                #expect(eventually(seconds: 40) { b.connection.statistics().rtp.nacksSent > 0 })
                #expect(eventually(seconds: 40) { a.connection.statistics().rtp.nacksReceived > 0 })
                #expect(b.connection.statistics().packetsRefused == 0)
                #expect(path.seen.largest <= 1200)
                #expect(path.seen.largest > 1100, "this test is no test of length")
            }
        }

        /// A tunnel in mid-session: packets of full length vanish, and the same connection goes on with shorter ones.
        @Test(arguments: [true, false]) func fullPacketsVanish(hasTransportCC: Bool) throws {
            let path = try LossyPath(seed: 11)
            try withPair { a, b in
                try join(a, b, over: path) { offer in
                    if hasTransportCC { return offer }
                    let lines = offer.split(separator: "\r\n" as Character)
                    return lines.filter { !$0.contains("transport-") }.map { $0 + "\r\n" }.joined()
                }
                try a.startMedia(pattern: "snow", bitrate: 1_200_000)
                try b.startMedia()
                #expect(a.waitForFrames(5) && b.waitForFrames(5))
                path.setLongest(1100)
                try #require(eventually(seconds: 20) { path.seen.dropped > 20 })
                // Frames before the switch may still wait in the receiver.
                let before = b.frames
                #expect(b.seen.wait(.seconds(40)) { $0.frames >= before + 40 }, "\(b.frames - before) frames")
            }
        }

        /// The last DTLS flight arrives after the path has failed: no keys are set and nothing is sent.
        @Test func aHandshakeThatEndsAfterTheFailure() throws {
            let path = try LossyPath(seed: 5)
            var configuration = PeerConnectionConfiguration()
            configuration.consentTimeout = .seconds(2)
            try withPair(configuration) { a, b in
                path.holdLastFlight(to: .b)
                try join(a, b, over: path)
                #expect(a.waitForConnected(), "the server's handshake does not end")
                #expect(b.seen.value.iceConnected != nil && b.seen.value.connected == nil)
                path.setLoss(1)
                try #require(b.seen.wait(.seconds(40)) { $0.failed != nil }, "the network path is not given up")
                path.releaseLastFlight()
                #expect(b.seen.staysFalse(.milliseconds(500)) { $0.bitrateTargets > 0 || $0.connected != nil })
            }
        }

        /// The session survives the loss of all packets for a while, and a keyframe restores the video.
        @Test func aShortOutage() throws {
            let path = try LossyPath(seed: 3)
            try withPair { a, b in
                try join(a, b, over: path)
                try TestPeer.startMedia(a, b)
                #expect(a.waitForFrames(10) && b.waitForFrames(10))
                path.setLoss(1)
                let outage: Duration = Verification.isOn ? .seconds(2) : .seconds(1)
                #expect(b.seen.staysFalse(outage) { if case .failed = $0.state { true } else { false } })
                let (before, healed) = (b.frames, ContinuousClock.now)
                path.setLoss(0)
                #expect(b.seen.wait(.seconds(40)) { $0.frames >= before + 10 })
                measure("time to 10 frames after an outage", ContinuousClock.now - healed, atMost: .seconds(2.5))
                #expect(a.error == nil && b.error == nil)
            }
        }
    }
}
