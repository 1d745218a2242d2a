import GStreamerKit
import Testing
import TestSupport
import WebRTCTransport

/// Sends every length of every kind of datagram, from the remote peer's own address and from a stranger's. A trap would
/// be a remote denial of service, and the session must not be disturbed.
extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct LengthSweepTests {
        /// Kinds by the first byte (RFC 7983 7), and by the second byte for RTP and RTCP (RFC 5761 4).
        enum Kind: CaseIterable, Sendable {
            case stun, stunWithCookie, dtls, rtp, rtcp, other

            func make(_ length: Int, _ generator: inout SeededGenerator) -> [UInt8] {
                var bytes = generator.bytes(length)
                func set(_ index: Int, _ value: UInt8) { if index < length { bytes[index] = value } }
                switch self {
                case .stun: set(0, UInt8(length % 4))
                case .stunWithCookie:
                    // A binding request with a correct length and random attributes.
                    let body = max(0, length - 20) & ~3
                    for (index, value) in [0, 1, UInt8(body >> 8), UInt8(body & 255), 0x21, 0x12, 0xa4, 0x42]
                        .enumerated()
                    { set(index, value) }
                case .dtls: set(0, UInt8(20 + length % 44))
                case .rtp:
                    set(0, UInt8(128 + length % 64))
                    set(1, 96 | UInt8(length % 2) << 7)
                case .rtcp:
                    set(0, UInt8(128 + length % 64))
                    set(1, UInt8(192 + length % 32))
                case .other: set(0, [4, 19, 64, 127, 192, 255][length % 6])
                }
                return bytes
            }
        }

        /// Every length of headers, and all others only in `scripts/verify`: the sweep takes seconds, in which a handshake
        /// that is held must not time out.
        private static func lengths(_ range: ClosedRange<Int>) -> [Int] {
            range.filter { Verification.isOn || $0 <= 64 || $0 % 17 == 0 || $0 > range.upperBound - 4 }
        }

        private func sweep(_ path: LossyPath, _ side: LossyPath.Side, kinds: [Kind] = Kind.allCases) throws {
            let stranger = try DatagramSocket()
            let port = try #require(path.port(of: side))
            var generator = SeededGenerator(seed: 42)
            for (index, length) in Self.lengths(0...1500).enumerated() {
                for kind in kinds {
                    let datagram = kind.make(length, &generator)
                    path.inject(datagram, to: side)
                    stranger.send(datagram, to: port)
                }
                // Otherwise the kernel might drop some.
                if index % 4 == 3 { letTheNetworkThreadRun() }
            }
            letTheNetworkThreadRun()
        }

        private func pair(_ path: LossyPath, _ body: (TestPeer, TestPeer) throws -> Void) throws {
            let (a, b) = (try TestPeer(), try TestPeer())
            defer { TestPeer.stop(a, b) }
            try body(a, b)
        }

        private func expectMedia(_ a: TestPeer, _ b: TestPeer) throws {
            #expect(a.waitForConnected(), "\(String(describing: a.error))")
            #expect(b.waitForConnected(), "\(String(describing: b.error))")
            try TestPeer.startMedia(a, b)
            #expect(a.waitForFrames(20))
            #expect(b.waitForFrames(20))
        }

        @Test func beforeTheAnswer() throws {
            let path = try LossyPath()
            try pair(path) { a, b in
                let offer = try a.connection.createOffer()
                a.trickle { if let candidate = $0 { _ = path.replace(candidate, of: .a) } }
                #expect(eventually(seconds: 20) { path.port(of: .a) != nil })
                try sweep(path, .a)
                let answer = try b.connection.createAnswer(to: offer)
                try a.connection.setAnswer(answer)
                trickle(a, b, over: path)
                try expectMedia(a, b)
            }
        }

        @Test func duringTheHandshake() throws {
            let path = try LossyPath()
            try pair(path) { a, b in
                path.holdHandshake(true)
                try join(a, b, over: path)
                #expect(a.seen.wait(.seconds(20)) { $0.iceConnected != nil })
                #expect(b.seen.wait(.seconds(20)) { $0.iceConnected != nil })
                try sweep(path, .a)
                try sweep(path, .b)
                #expect(a.seen.value.connected == nil, "the handshake was to be held")
                path.holdHandshake(false)
                try expectMedia(a, b)
            }
        }

        @Test func withMediaFlowing() throws {
            let path = try LossyPath()
            try pair(path) { a, b in
                try join(a, b, over: path)
                try expectMedia(a, b)
                try sweep(path, .a)
                try sweep(path, .b)
                for peer in [a, b] {
                    let frames = peer.frames
                    #expect(peer.waitForFrames(frames + 20))
                    #expect(peer.error == nil)
                    // RTP, RTCP and undefined datagrams reach our demux; empty datagrams do not.
                    let sent = UInt64(3 * Self.lengths(1...1500).count)
                    #expect(eventually(seconds: 20) { peer.connection.statistics().packetsRefused > sent / 2 })
                    measure(
                        "refused of \(sent) datagrams", Double(peer.connection.statistics().packetsRefused),
                        atLeast: Double(sent) * 14 / 15, unit: "packets")
                }
            }
        }

        /// Records with a valid header and random content, as an on-path attacker can forge. They may end a handshake,
        /// as in any implementation, but not an established association (RFC 6347 4.1.2.7).
        @Test(arguments: [false, true])
        func plausibleRecords(afterTheHandshake: Bool) throws {
            let path = try LossyPath()
            try pair(path) { a, b in
                path.holdHandshake(!afterTheHandshake)
                try join(a, b, over: path)
                if afterTheHandshake {
                    try expectMedia(a, b)
                } else {
                    #expect(a.seen.wait(.seconds(20)) { $0.iceConnected != nil })
                }
                var generator = SeededGenerator(seed: 9)
                for (index, length) in Self.lengths(0...1487).enumerated() {
                    for type: UInt8 in [20, 21, 22, 23, 24, 25] {
                        let epoch: UInt8 = UInt8(length % 3)
                        let header = [
                            type, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, UInt8(length >> 8), UInt8(length & 255),
                            UInt8(length >> 8), UInt8(length & 255),
                        ]
                        path.inject(header + generator.bytes(length), to: .a)
                        path.inject(header + generator.bytes(length), to: .b)
                    }
                    if index % 4 == 3 { letTheNetworkThreadRun() }
                }
                // Unencrypted alerts: close_notify and fatal ones.
                for level: UInt8 in [1, 2] {
                    for description: UInt8 in [0, 10, 20, 40, 80] {
                        path.inject([21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, level, description], to: .a)
                    }
                }
                letTheNetworkThreadRun()
                if afterTheHandshake {
                    for peer in [a, b] {
                        let frames = peer.frames
                        #expect(peer.waitForFrames(frames + 20))
                        #expect(peer.error == nil, "\(String(describing: peer.error))")
                    }
                } else {
                    path.holdHandshake(false)
                    #expect(
                        a.seen.wait(.seconds(20)) { $0.connected != nil || $0.failed != nil }, "neither up nor failed")
                }
            }
        }
    }
}
