import DecartProtocol
import DecartSession
import Signalling
import TestSupport
import Testing

/// RFC 6455 against a server that violates it, by the categories of the common WebSocket test suites.
@Suite("Frames", .timeLimit(.minutes(1)))
struct HostileFrameTests {
    enum Want: Sendable, Equatable {
        /// We close with this code, and the session receives a protocol error.
        case violation(Int)
        /// The session receives the peer's close.
        case closed(Int?, String)
        /// Messages arrive, then the end marker.
        case texts([String])
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: [UInt8]
        let want: Want
        var testDescription: String { name }

        init(_ name: String, _ bytes: [UInt8], _ want: Want) {
            self.name = name
            self.bytes = bytes
            self.want = want
        }
    }

    private static func f(_ opcode: UInt8, _ text: String = "", fin: Bool = true, rsv: UInt8 = 0) -> [UInt8] {
        RawServer.frame(opcode, [UInt8](text.utf8), fin: fin, rsv: rsv)
    }

    private static func f(_ opcode: UInt8, bytes: [UInt8], fin: Bool = true) -> [UInt8] {
        RawServer.frame(opcode, bytes, fin: fin)
    }

    static let rows: [Row] =
        [1, 2, 3, 4, 5, 6, 7].map { Row("RSV \($0)", f(1, "x", rsv: $0), .violation(1002)) }
        + [3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map { Row("opcode \($0)", f($0, "x"), .violation(1002)) }
        + [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535].map {
            Row("close code \($0)", RawServer.close($0), .violation(1002))
        }
        + [1000, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 4999].map {
            Row("valid close code \($0)", RawServer.close($0, "why"), .closed($0, "why"))
        }
        + [
            Row("close without code", f(8), .closed(nil, "")),
            Row("close with one byte", f(8, bytes: [3]), .violation(1002)),
            Row("close reason not UTF-8", f(8, bytes: [0x03, 0xE8, 0xC3, 0x28]), .violation(1007)),
            Row(
                "close reason of 124 bytes", f(8, bytes: [0x03, 0xE8] + [UInt8](repeating: 65, count: 124)),
                .violation(1002)),
            Row("fragmented close", f(8, "", fin: false), .violation(1002)),
            Row("RSV on a close", f(8, "", rsv: 4), .violation(1002)),
            Row("frame after close is ignored", RawServer.close(1000) + f(3), .closed(1000, "")),
            Row("fragmented ping", f(9, "x", fin: false), .violation(1002)),
            Row("fragmented pong", f(10, "x", fin: false), .violation(1002)),
            Row("ping of 126 bytes", f(9, bytes: [UInt8](repeating: 0, count: 126)), .violation(1002)),
            Row("pong of 126 bytes", f(10, bytes: [UInt8](repeating: 0, count: 126)), .violation(1002)),
            Row("ping of 125 bytes", f(9, bytes: [UInt8](repeating: 0, count: 125)) + f(1, "end"), .texts(["end"])),
            Row("unasked pong", f(10, "hm") + f(1, "end"), .texts(["end"])),
            Row("masked text", [0x81, 0x81, 1, 2, 3, 4, 0x41], .violation(1002)),
            Row("masked ping", [0x89, 0x80, 1, 2, 3, 4], .violation(1002)),
            Row("continuation of nothing", f(0, "x"), .violation(1002)),
            Row("continuation of nothing, not final", f(0, "x", fin: false), .violation(1002)),
            Row("text inside a text", f(1, "a", fin: false) + f(1, "b"), .violation(1002)),
            Row("binary inside a text", f(1, "a", fin: false) + f(2, "b"), .violation(1002)),
            Row("continuation after the end", f(1, "a", fin: false) + f(0, "b") + f(0, "c"), .violation(1002)),
            Row("invalid UTF-8: lone continuation", f(1, bytes: [0x80]), .violation(1007)),
            Row("invalid UTF-8: overlong", f(1, bytes: [0xC0, 0xAF]), .violation(1007)),
            Row("invalid UTF-8: surrogate", f(1, bytes: [0xED, 0xA0, 0x80]), .violation(1007)),
            Row("invalid UTF-8: beyond Unicode", f(1, bytes: [0xF4, 0x90, 0x80, 0x80]), .violation(1007)),
            Row("invalid UTF-8: cut off", f(1, bytes: [0xE2, 0x82]), .violation(1007)),
            Row(
                "invalid UTF-8 across fragments", f(1, bytes: [0xE2], fin: false) + f(0, bytes: [0x28]),
                .violation(1007)),
            Row(
                "UTF-8 split by fragments", f(1, bytes: [0xE2, 0x82], fin: false) + f(0, bytes: [0xAC]) + f(1, "end"),
                .texts(["€", "end"])),
            Row("empty text", f(1) + f(1, "end"), .texts(["", "end"])),
            Row(
                "empty fragments", f(1, "", fin: false) + f(0, "", fin: false) + f(0, "x") + f(1, "end"),
                .texts(["x", "end"])),
            Row("binary is ignored", f(2, bytes: [0xFF]) + f(1, "end"), .texts(["end"])),
            Row("NUL in a text", f(1, "a\u{0}b") + f(1, "end"), .texts(["a\u{0}b", "end"])),
            Row(
                "64 fragments",
                f(1, "a", fin: false) + (0..<62).flatMap { _ in f(0, "a", fin: false) } + f(0, "a") + f(1, "end"),
                .texts([String(repeating: "a", count: 64), "end"])),
            Row(
                "65 fragments", f(1, "a", fin: false) + (0..<64).flatMap { _ in f(0, "a", fin: false) },
                .violation(1009)),
            Row(
                "fragments over 1 MiB",
                f(1, bytes: [UInt8](repeating: 65, count: 600_000), fin: false)
                    + f(0, bytes: [UInt8](repeating: 65, count: 600_000)), .violation(1009)),
            Row("length 1 MiB + 1", [0x81, 127, 0, 0, 0, 0, 0, 0x10, 0, 1], .violation(1009)),
            Row("length 17 MiB", [0x81, 127, 0, 0, 0, 0, 1, 0x10, 0, 0], .violation(1009)),
            Row("length 2^31", [0x81, 127, 0, 0, 0, 0, 0x80, 0, 0, 0], .violation(1009)),
            Row("length 2^63 - 1", [0x81, 127, 0x7F, 255, 255, 255, 255, 255, 255, 255], .violation(1009)),
            Row("length 2^64 - 1", [0x81, 127] + [UInt8](repeating: 255, count: 8), .violation(1002)),
            Row(
                "1 MiB exactly", f(1, bytes: [UInt8](repeating: 65, count: 1 << 20)) + f(1, "end"),
                .texts([String(repeating: "A", count: 1 << 20), "end"])),
        ]

    @Test(arguments: rows) func frame(_ row: Row) async throws {
        var script = Script()
        script.greet = row.bytes
        try await withChannel(script) { server, channel, events in
            switch row.want {
            case .violation(let code):
                let rest = await events.rest()
                guard case .failed(let error) = rest.last else {
                    Issue.record("ended with \(rest)")
                    return
                }
                #expect(error.code == .webSocket && error.stage == .channel && !error.isPermanent)
                // The close frame may take a moment to arrive.
                let close = [UInt8(code >> 8), UInt8(code & 255)]
                #expect(await server.waitForFrames { $0.contains { $0.opcode == 8 && $0.payload == close } })
            case .closed(let code, let reason):
                #expect(await events.next() == .closed(code: code, reason: reason))
                #expect(await events.next() == nil)
            case .texts(let texts):
                for text in texts { #expect(await events.next() == .text([UInt8](text.utf8))) }
                channel.close()
            }
        }
    }

    @Test func aFloodOfPingsIsAnsweredBriefly() async throws {
        var script = Script()
        script.greet = (0..<1_500).flatMap { RawServer.frame(9, [UInt8($0 & 255)]) } + RawServer.frame(1, [65])
        try await withChannel(script) { server, channel, events in
            #expect(await events.next() == .text([65]))
            channel.send([66])
            #expect(await events.next() == .text([66]))
            // The last ping is answered, most of the others are not (RFC 6455 5.5.3).
            let last = [UInt8(1_499 & 255)]
            #expect(await server.waitForFrames { $0.contains { $0.opcode == 10 && $0.payload == last } })
            #expect(server.frames.count { $0.opcode == 10 } < 500)
        }
    }

    @Test func endlessFragmentsAreCutOff() async throws {
        var script = Script()
        script.greet = RawServer.frame(1, [65], fin: false)
        script.endless = (0..<100).flatMap { _ in RawServer.frame(0, [65], fin: false) }
        try await withServer(script) { server in
            let client = try Client(port: server.port)
            let error = await client.failure()
            #expect(error?.message.contains("too many fragments") == true)
        }
    }

    /// Upgrade response, at most one message, and the end arrive in one read.
    @Test(arguments: [false, true]) func closedRightAfterTheUpgrade(_ hasText: Bool) async throws {
        var script = Script()
        script.greet = hasText ? Self.f(1, "x") : []
        script.closes = true
        try await withServer(script) { server in
            let client = try Client(port: server.port)
            let events = await client.run()
            if hasText { #expect(events.contains(.text([UInt8]("x".utf8)))) }
            guard case .closed(nil, _) = events.last else {
                Issue.record("\(events)")
                return
            }
        }
    }

    /// Seeded damage to streams built from the rows above: the channel ends, without a trap or a hang.
    @Test(arguments: 0..<8) func damagedStreams(_ block: Int) async throws {
        var generator = SeededGenerator(seed: UInt64(block + 1))
        func random(_ bound: Int) -> Int { generator.below(bound) }
        let short = Self.rows.filter { $0.bytes.count < 1000 }
        for round in 0..<60 {
            var script = Script()
            for _ in 0...random(3) { script.greet += short[random(short.count)].bytes }
            for _ in 0...random(5) where !script.greet.isEmpty {
                switch random(3) {
                case 0: script.greet[random(script.greet.count)] = UInt8(random(256))
                case 1: script.greet.remove(at: random(script.greet.count))
                default: script.greet.insert(UInt8(random(256)), at: random(script.greet.count))
                }
            }
            script.closes = true
            try await withServer(script) { server in
                let client = try Client(port: server.port)
                let events = client.open()
                var last: SignallingEvent?
                while let event = await events.next() { last = event }
                switch last {
                case .closed, .failed: break
                default: Issue.record("block \(block), round \(round) ends with \(String(describing: last))")
                }
            }
        }
    }
}
