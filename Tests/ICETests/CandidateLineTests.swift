import ICE
import Testing
import TestSupport

struct CandidateLineTests {
    @Test(arguments: [
        (
            "candidate:1 1 UDP 2122260223 192.0.2.1 5000 typ host",
            "a=candidate:1 1 UDP 2122260223 192.0.2.1 5000 typ host"
        ),
        (
            "a=candidate:aB+/9 1 udp 1 2001:db8::1 65535 typ host generation 0 ufrag x network-cost 50\r\n",
            "a=candidate:aB+/9 1 UDP 1 2001:db8::1 65535 typ host"
        ),
        (
            "candidate:2 1 udp 1677729535 198.51.100.7 1 typ SRFLX raddr 192.0.2.1 rport 5000",
            "a=candidate:2 1 UDP 1677729535 198.51.100.7 1 typ srflx raddr 192.0.2.1 rport 5000"
        ),
        (
            "candidate:3 1 udp 2147483647 127.0.0.1 9 typ relay raddr 0.0.0.0 rport 0",
            "a=candidate:3 1 UDP 2147483647 127.0.0.1 9 typ relay raddr 0.0.0.0 rport 0"
        ),
        (
            "candidate:4 1 udp 5 192.0.2.9 9 typ prflx raddr host.local rport 7",
            "a=candidate:4 1 UDP 5 192.0.2.9 9 typ prflx"
        ),
        // As pion writes it for a LiveKit server (candidate_base.go, Marshal).
        (
            "candidate:233762139 1 tcp 1671430143 192.0.2.5 7881 typ host tcptype passive ufrag kZbNqNyGJVhYRoxV",
            "a=candidate:233762139 1 TCP 1671430143 192.0.2.5 7881 typ host tcptype passive"
        ),
        (
            "candidate:1 1 TCP 9 2001:db8::5 7881 typ srflx raddr 192.0.2.1 rport 80 generation 0 tcptype PASSIVE",
            "a=candidate:1 1 TCP 9 2001:db8::5 7881 typ srflx raddr 192.0.2.1 rport 80 tcptype passive"
        ),
    ])
    func rewrites(_ text: String, _ expected: String) throws {
        #expect(try CandidateLine.parse(text).sdpAttribute == expected)
    }

    @Test(arguments: [
        ("", CandidateLine.Rejection.malformed),
        ("candidate:", .malformed),
        ("a=a=candidate:1 1 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 typ", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 host typ", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 typ wormhole", .malformed),
        ("candidate:1 0 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 257 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 -1 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 0 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 2147483648 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 99999999999999999999 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 65536 typ host", .malformed),
        ("candidate:! 1 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:123456789012345678901234567890123 1 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 typ host\u{0}", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 typ h\u{f6}st", .malformed),
        ("candidate:1 1 udp 1 192.0.2.1 1 typ host\na=candidate:1 1 udp 1 192.0.2.1 1 typ host", .malformed),
        ("candidate:1 1 udp 1 0b6f1a32-0f5e-4a43-a4b1-7a7f3c2a9d11.local 1 typ host", .mdns),
        ("candidate:1 1 UDP 1 X.LOCAL 1 typ host", .mdns),
        ("candidate:1 2 udp 1 192.0.2.1 1 typ host", .unusable),
        ("candidate:1 1 tcp 1 192.0.2.1 9 typ host tcptype active", .unusable),
        ("candidate:1 1 tcp 1 192.0.2.1 9 typ host tcptype so", .unusable),
        ("candidate:1 1 tcp 1 192.0.2.1 9 typ host tcptype", .unusable),
        ("candidate:1 1 tcp 1 192.0.2.1 9 typ host generation 0", .unusable),
        ("candidate:1 1 ssltcp 1 192.0.2.1 9 typ host tcptype passive", .unusable),
        ("candidate:1 1 udp 1 example.org 1 typ host", .unusable),
        ("candidate:1 1 udp 1 192.0.2.1 0 typ host", .unusable),
        ("candidate:1 1 udp 1 0.0.0.0 1 typ host", .unusable),
        ("candidate:1 1 udp 1 255.255.255.255 1 typ host", .unusable),
        ("candidate:1 1 udp 1 224.0.0.1 1 typ host", .unusable),
        ("candidate:1 1 udp 1 :: 1 typ host", .unusable),
        ("candidate:1 1 udp 1 ff02::1 1 typ host", .unusable),
        ("candidate:1 1 udp 1 fe80::1 1 typ host", .unusable),
        ("candidate:1 1 udp 1 fe80::1%eth0 1 typ host", .unusable),
        ("candidate:1 1 udp 1 ::ffff:192.0.2.1 1 typ host", .unusable),
        ("candidate:1 1 udp 1 192.0.2 1 typ host", .unusable),
        ("candidate:1 1 udp 1 192.0.2.1.1 1 typ host", .unusable),
    ])
    func rejects(_ text: String, _ reason: CandidateLine.Rejection) {
        #expect(throws: reason) { try CandidateLine.parse(text) }
    }

    @Test(arguments: [1_024, 1_025])
    func linesAreBounded(length: Int) throws {
        let head = "candidate:1 1 udp 1 192.0.2.1 1 typ host extension "
        let text = head + String(repeating: "x", count: length - head.utf8.count)
        if length == 1_024 {
            #expect(try CandidateLine.parse(text).address == "192.0.2.1")
        } else {
            #expect(throws: CandidateLine.Rejection.malformed) { try CandidateLine.parse(text) }
        }
    }

    @Test
    func rejectsAMegabyte() {
        let text = String(repeating: "candidate:1 ", count: 100_000)
        #expect(throws: CandidateLine.Rejection.malformed) { try CandidateLine.parse(text) }
    }

    /// Parsing damaged lines gives a well-formed line or a rejection, never a trap.
    @Test(.timeLimit(.minutes(1)))
    func survivesMutation() {
        let seed = Array("a=candidate:2 1 udp 1677729535 198.51.100.7 61000 typ srflx raddr 192.0.2.1 rport 5000".utf8)
        var generator = SeededGenerator(seed: 7)
        var accepted = 0
        for _ in 0..<20_000 {
            var bytes = seed
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                switch Int.random(in: 0..<3, using: &generator) {
                case 0:
                    bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(
                        in: 0...255, using: &generator)
                case 1: bytes.removeLast(Int.random(in: 0..<bytes.count, using: &generator))
                default: bytes.insert(UInt8.random(in: 32...126, using: &generator), at: bytes.count / 2)
                }
                if bytes.isEmpty { bytes = seed }
            }
            if let line = try? CandidateLine.parse(String(decoding: bytes, as: UTF8.self)) {
                accepted += 1
                #expect(line.sdpAttribute.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f })
                #expect((try? CandidateLine.parse(line.sdpAttribute)) == line)
            }
        }
        #expect(accepted > 0)
    }
}
