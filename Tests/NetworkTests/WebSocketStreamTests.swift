import TestSupport
import Testing

import Network

/// Streams with a seed: what one role writes, the other reads, whatever the parts; damage is a violation or other frames.
@Suite struct WebSocketStreamTests {
    private static let limits = WebSocketLimits(messageSize: 1 << 20, fragments: 64)

    @Test(arguments: 0..<16) func whatOneRoleWritesTheOtherReads(seed: Int) {
        for role in [WebSocketRole.client, .server] {
            var stream = RandomStream(seed: UInt64(seed), role: role)
            stream.write(messages: 12)
            var reader = WebSocketReader(role: role == .client ? .server : .client, limits: Self.limits)
            #expect(reader.events(stream.parts()) == stream.events)
            #expect(!reader.hasFailed)
        }
    }

    /// Nothing traps, and the parts in which the bytes come change nothing.
    @Test(arguments: 0..<16) func damagedStreams(seed: Int) {
        for role in [WebSocketRole.client, .server] {
            var stream = RandomStream(seed: UInt64(seed), role: role)
            stream.write(messages: 3)
            for _ in 0..<40 {
                stream.damage()
                let peer: WebSocketRole = role == .client ? .server : .client
                var whole = WebSocketReader(role: peer, limits: Self.limits)
                var parts = whole
                let events = whole.events([stream.bytes[...]])
                #expect(parts.events(stream.parts()) == events)
                #expect(parts.hasFailed == whole.hasFailed)
            }
        }
    }

    /// Each byte of short streams with each value.
    @Test func everyMutationOfAByte() {
        for role in [WebSocketRole.client, .server] {
            let key: UInt32? = role == .server ? 0x0102_0304 : nil
            let bytes = [
                WebSocketFrame(isFinal: false, opcode: 1, maskKey: key, payload: "aä".utf8),
                WebSocketFrame(opcode: 9, maskKey: key, payload: [1]),
                WebSocketFrame(opcode: 0, maskKey: key, payload: "€".utf8),
                WebSocketFrame(opcode: 8, maskKey: key, payload: [3, 0xE8, 0x61]),
            ].flatMap(\.bytes)
            for index in bytes.indices {
                for value in UInt8.min ... .max {
                    var mutated = bytes
                    mutated[index] = value
                    var whole = WebSocketReader(role: role, limits: WebSocketLimits(messageSize: 256, fragments: 4))
                    var parts = whole
                    let events = whole.events([mutated[...]])
                    let isSame = parts.events(mutated.indices.map { mutated[$0...$0] }) == events
                    if !isSame { Issue.record("\(role), byte \(index) is \(value)") }
                }
            }
        }
    }

    /// The bounds of all ranges, at each place of a code point, against the decoder of the standard library.
    @Test func textIsWhatTheStandardLibraryAccepts() {
        let firsts: [UInt8] = [0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5]
        let others: [UInt8] = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xE1]
        for first in UInt8.min ... .max {
            for second in others { check([first, second]) }
        }
        for first in firsts {
            for second in others {
                for third in others {
                    check([first, second, third])
                    for fourth in others { check([first, second, third, fourth]) }
                }
            }
        }
    }

    private func check(_ bytes: [UInt8]) {
        var check = UTF8Check()
        let isValid = bytes.withUnsafeBytes { check.accepts($0) } && check.isComplete
        if isValid != (String(validating: bytes, as: UTF8.self) != nil) {
            Issue.record("\(bytes) is valid: \(isValid)")
        }
    }
}

/// Messages in random fragments with control frames between them, and the events that they should yield.
private struct RandomStream {
    private let role: WebSocketRole
    private var generator: SeededGenerator
    private(set) var bytes: [UInt8] = []
    private(set) var events: [WebSocketEvent] = []

    init(seed: UInt64, role: WebSocketRole) {
        self.role = role
        generator = SeededGenerator(seed: seed)
    }

    mutating func write(messages: Int) {
        for _ in 0..<messages {
            let isText = generator.below(2) == 0
            let message = isText ? text() : octets(generator.below(400))
            write(message, isText ? .text : .binary)
            events.append(isText ? .text(message) : .binary(message))
        }
        let code = UInt16(3000 + generator.below(2000))
        bytes += WebSocketFrame.close(code: code, reason: "the end", as: role)
        events.append(.close(code: code, reason: "the end"))
    }

    /// Any fragment may be empty.
    private mutating func write(_ message: [UInt8], _ opcode: WebSocketOpcode) {
        var (opcode, rest) = (opcode, message[...])
        while generator.below(3) > 0 {
            let fragment = rest.prefix(generator.below(rest.count + 1))
            bytes += WebSocketFrame.bytes(opcode, fragment, isFinal: false, as: role)
            rest = rest.dropFirst(fragment.count)
            opcode = .continuation
            control()
        }
        bytes += WebSocketFrame.bytes(opcode, rest, as: role)
    }

    private mutating func control() {
        let payload = octets(generator.below(126))
        switch generator.below(4) {
        case 0:
            bytes += WebSocketFrame.bytes(.ping, payload, as: role)
            events.append(.ping(payload))
        case 1:
            bytes += WebSocketFrame.bytes(.pong, payload, as: role)
            events.append(.pong(payload))
        default: break
        }
    }

    private mutating func text() -> [UInt8] {
        let scalars: [Unicode.Scalar] = ["a", "~", "\0", "ä", "€", "\u{FFFF}", "😀", "\u{10FFFF}"]
        var text = String.UnicodeScalarView()
        for _ in 0..<generator.below(generator.below(3) == 0 ? 40_000 : 100) {
            text.append(scalars[generator.below(scalars.count)])
        }
        return Array(String(text).utf8)
    }

    private mutating func octets(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(generator.below(256)) } }

    mutating func damage() {
        // Mostly in the first bytes, where more headers are.
        let index = generator.below(generator.below(2) == 0 ? 40 : bytes.count)
        guard index < bytes.count else { return }
        switch generator.below(3) {
        case 0: bytes[index] ^= 1 << UInt8(generator.below(8))
        case 1: bytes.remove(at: index)
        default: bytes.insert(UInt8(generator.below(256)), at: index)
        }
    }

    mutating func parts() -> [ArraySlice<UInt8>] {
        var (parts, rest) = ([ArraySlice<UInt8>](), bytes[...])
        while !rest.isEmpty {
            let part = rest.prefix(1 + generator.below(generator.below(2) == 0 ? 4 : 5000))
            parts.append(part)
            rest = rest.dropFirst(part.count)
        }
        return parts
    }
}
