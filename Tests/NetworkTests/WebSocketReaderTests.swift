import Testing

import Network

/// RFC 6455 by the kinds of the Autobahn test suite, for both roles, with the bytes in one piece and in parts.
@Suite struct WebSocketReaderTests {
    /// Frames that the peer of a reader in either role sends, and the events that they yield.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let frames: [WebSocketFrame]
        let events: [WebSocketEvent]
        let limits: WebSocketLimits
        var testDescription: String { name }

        func bytes(to role: WebSocketRole) -> [UInt8] {
            frames.flatMap { frame in
                var frame = frame
                frame.maskKey = role == .server ? 0x37FA_213D : nil
                return frame.bytes
            }
        }
    }

    /// One statement for each row: the compiler would take minutes for the rows as one expression.
    struct Table {
        var limits = WebSocketLimits(messageSize: 1 << 17, fragments: 64)
        private(set) var rows: [Row] = []

        static func of(_ fill: (inout Table) -> Void) -> [Row] {
            var table = Table()
            fill(&table)
            return table.rows
        }

        mutating func row(_ name: String, _ frames: [WebSocketFrame], _ events: [WebSocketEvent]) {
            rows.append(Row(name: name, frames: frames, events: events, limits: limits))
        }

        mutating func row(_ name: String, _ frames: [WebSocketFrame], _ event: WebSocketEvent) {
            row(name, frames, [event])
        }
    }

    private static func frame(
        _ opcode: UInt8, _ payload: [UInt8] = [], fin: Bool = true, rsv: UInt8 = 0
    ) -> WebSocketFrame {
        WebSocketFrame(isFinal: fin, reserved: rsv, opcode: opcode, payload: payload)
    }

    private static func text(_ text: String = "", fin: Bool = true) -> WebSocketFrame { frame(1, utf8(text), fin: fin) }
    private static func more(_ text: String = "", fin: Bool = true) -> WebSocketFrame { frame(0, utf8(text), fin: fin) }
    private static func ping(_ text: String = "") -> WebSocketFrame { frame(9, utf8(text)) }

    private static func close(_ code: Int, _ reason: [UInt8] = []) -> WebSocketFrame {
        frame(8, [UInt8(code >> 8 & 0xFF), UInt8(code & 0xFF)] + reason)
    }

    private static func utf8(_ text: String) -> [UInt8] { [UInt8](text.utf8) }
    private static func letters(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x61, count: count) }
    private static func text(_ text: String) -> WebSocketEvent { .text(utf8(text)) }

    private static func refused(_ reason: String) -> WebSocketEvent { .violation(code: 1002, reason: reason) }
    private static func tooLarge(_ reason: String) -> WebSocketEvent { .violation(code: 1009, reason: reason) }

    private static let hasReservedBits = refused("reserved bits are set")
    private static let hasUnknownOpcode = refused("unknown opcode")
    private static let isNoControl = refused("a control frame is fragmented or too long")
    private static let isStray = refused("a continuation frame without a first fragment")
    private static let isNested = refused("a new message before the last fragment of the previous one")
    private static let isNoCode = refused("an invalid close code")
    private static let isNoText = WebSocketEvent.violation(code: 1007, reason: "a text message is not UTF-8")
    private static let isNoReason = WebSocketEvent.violation(code: 1007, reason: "a close reason is not UTF-8")
    private static let hasManyFragments = tooLarge("a message has too many fragments")

    // MARK: Rows

    static let framing = Table.of { table in
        for count in [0, 1, 7, 8, 9, 125, 126, 127, 128, 65_535, 65_536] {
            let bytes = (0..<count).map { UInt8($0 & 0xFF) }
            table.row("text of \(count)", [frame(1, letters(count))], .text(letters(count)))
            table.row("binary of \(count)", [frame(2, bytes)], .binary(bytes))
        }
        table.row("two messages", [text("one"), frame(2, [0xFF])], [text("one"), .binary([0xFF])])
        table.row("a text with NUL", [text("a\0b")], .text([0x61, 0, 0x62]))
        table.row("empty messages", [text(), frame(2), text()], [.text([]), .binary([]), .text([])])
        for bits: UInt8 in 1...7 {
            table.row("RSV \(bits)", [text("x"), frame(1, letters(3), rsv: bits)], [text("x"), hasReservedBits])
        }
        table.row("RSV of a ping", [frame(9, rsv: 1)], hasReservedBits)
        table.row("RSV of a close", [frame(8, rsv: 4)], hasReservedBits)
        table.row("RSV of a continuation", [text("x", fin: false), frame(0, [0x78], rsv: 2)], hasReservedBits)
        for opcode: UInt8 in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
            table.row("opcode \(opcode)", [frame(opcode)], hasUnknownOpcode)
            table.row(
                "opcode \(opcode), payload", [text("x"), frame(opcode, [0x79]), ping()], [text("x"), hasUnknownOpcode])
        }
    }

    static let controls = Table.of { table in
        table.row("empty ping", [ping()], .ping([]))
        table.row("ping with text", [ping("hm")], .ping(utf8("hm")))
        table.row("ping with bytes", [frame(9, [0, 0xFF, 0xFE])], .ping([0, 0xFF, 0xFE]))
        table.row("ping of 125", [frame(9, letters(125)), text()], [.ping(letters(125)), .text([])])
        table.row("ping of 126", [frame(9, letters(126))], isNoControl)
        table.row("ping of 65,536", [frame(9, letters(65_536))], isNoControl)
        table.row("ten pings", (0..<10).map { frame(9, [$0]) }, (0..<10).map { .ping([$0]) })
        table.row("pong unasked", [frame(10), frame(10, [1]), ping()], [.pong([]), .pong([1]), .ping([])])
        table.row("pong of 125", [frame(10, letters(125))], .pong(letters(125)))
        table.row("pong of 126", [frame(10, letters(126))], isNoControl)
        table.row("fragmented ping", [frame(9, [1], fin: false), more("y")], isNoControl)
        table.row("fragmented pong", [frame(10, fin: false)], isNoControl)
        table.row("fragmented close", [frame(8, fin: false)], isNoControl)
        table.limits = WebSocketLimits(messageSize: 8, fragments: 1)
        table.row(
            "the limits are for messages", [frame(9, letters(125)), close(1000, letters(123))],
            [.ping(letters(125)), .close(code: 1000, reason: String(repeating: "a", count: 123))])
    }

    static let fragmentation = Table.of { table in
        table.row("two fragments", [text("ab", fin: false), more("c")], text("abc"))
        table.row(
            "binary fragments", [frame(2, [0xFF], fin: false), frame(0, [0xFE], fin: false), frame(0, [0xFD])],
            .binary([0xFF, 0xFE, 0xFD]))
        table.row("the last is empty", [text("ab", fin: false), more()], text("ab"))
        table.row("ping between", [text("ab", fin: false), ping("p"), more("c")], [.ping(utf8("p")), text("abc")])
        table.row(
            "pings and pongs between",
            [text("a", fin: false), ping(), frame(10, [1]), more("b", fin: false), ping(), more("c"), text("d")],
            [.ping([]), .pong([1]), .ping([]), text("abc"), text("d")])
        table.row(
            "close between", [text("a", fin: false), close(1001), more("b")], .close(code: 1001, reason: ""))
        table.row("stray continuation", [more("x")], isStray)
        table.row("stray continuation, not final", [more("x", fin: false)], isStray)
        table.row("stray continuation after a message", [text("x"), more("y")], [text("x"), isStray])
        table.row(
            "continuation after the end", [text("a", fin: false), more("b"), more("c")], [text("ab"), isStray])
        table.row("text inside a text", [text("a", fin: false), text("b")], isNested)
        table.row(
            "binary inside a text", [text("a", fin: false), more("b", fin: false), frame(2, [1], fin: false)], isNested)
        table.row(
            "text inside a binary", [frame(2, [1], fin: false), ping(), text("b", fin: false)], [.ping([]), isNested])
        let many = [text("a", fin: false)] + (0..<62).map { _ in more("a", fin: false) }
        table.row("64 fragments", many + [more("a"), text()], [.text(letters(64)), .text([])])
        table.row("65 fragments", many + [more("a", fin: false), more("a")], hasManyFragments)
        table.limits.fragments = 1
        table.row(
            "one frame, and then two", [frame(2, [1]), frame(2, [2], fin: false), frame(0, [3])],
            [.binary([1]), hasManyFragments])
    }

    static let validTexts: [(String, [UInt8])] = [
        ("κόσμε", utf8("κόσμε")), ("mixed", utf8("Hello-µ@ßöäüàá-UTF-8!!")),
        ("first and last code points", utf8("\0\u{7F}\u{80}\u{7FF}\u{800}\u{FFFF}\u{10000}\u{10FFFF}")),
        ("around the surrogates", utf8("\u{D7FF}\u{E000}\u{FFFD}")),
        ("noncharacters", [0xEF, 0xB7, 0x90, 0xEF, 0xBF, 0xBE, 0xEF, 0xBF, 0xBF, 0xF4, 0x8F, 0xBF, 0xBE]),
        ("byte order mark", [0xEF, 0xBB, 0xBF]), ("long", utf8(String(repeating: "aé€😀 ", count: 20))),
    ]

    static let invalidTexts: [(String, [UInt8])] = [
        ("lone continuation", [0x80]), ("last continuation", [0xBF]), ("continuations", [0x80, 0xBF, 0x80, 0xBF]),
        ("two bytes, cut off", [0xDF]), ("three bytes, cut off", [0xEF, 0xBF]),
        ("four bytes, cut off", [0xF1, 0xBF, 0xBF]), ("cut off before a letter", [0xE2, 0x82, 0x41]),
        ("two starts", [0xC2, 0xC2, 0x80]), ("0xFE", [0xFE]), ("0xFF", [0xFF]),
        ("overlong of two", [0xC0, 0xAF]), ("overlong of two, last", [0xC1, 0xBF]),
        ("overlong of three", [0xE0, 0x80, 0xAF]), ("overlong of three, last", [0xE0, 0x9F, 0xBF]),
        ("overlong of four", [0xF0, 0x80, 0x80, 0xAF]), ("overlong of four, last", [0xF0, 0x8F, 0xBF, 0xBF]),
        ("five bytes", [0xF8, 0x88, 0x80, 0x80, 0x80]), ("six bytes", [0xFC, 0x84, 0x80, 0x80, 0x80, 0x80]),
        ("beyond Unicode", [0xF4, 0x90, 0x80, 0x80]), ("far beyond Unicode", [0xF5, 0x80, 0x80, 0x80]),
        ("first surrogate", [0xED, 0xA0, 0x80]), ("last surrogate", [0xED, 0xBF, 0xBF]),
        ("pair of surrogates", [0xED, 0xA0, 0x80, 0xED, 0xB0, 0x80]),
        ("after 20 letters", letters(20) + [0xCE, 0x61]), ("before 20 letters", [0xFF] + letters(20)),
    ]

    static let texts = Table.of { table in
        for (name, bytes) in validTexts {
            table.row("valid: \(name)", [frame(1, bytes)], .text(bytes))
            for count in 1...min(bytes.count, 24) {
                let (start, end) = (Array(bytes.prefix(count)), Array(bytes.dropFirst(count)))
                table.row(
                    "valid: \(name), fragment of \(count)", [frame(1, start, fin: false), ping(), frame(0, end)],
                    [.ping([]), .text(bytes)])
            }
        }
        for (name, bytes) in invalidTexts {
            let (start, end) = (Array(bytes.prefix(1)), Array(bytes.dropFirst()))
            table.row("invalid: \(name)", [frame(1, bytes)], isNoText)
            table.row("invalid: \(name), in the second message", [text("x"), frame(1, bytes)], [text("x"), isNoText])
            table.row("invalid: \(name), in fragments", [frame(1, start, fin: false), frame(0, end)], isNoText)
            table.row("invalid: \(name), as binary", [frame(2, bytes)], .binary(bytes))
        }
        table.row("refused before the end of the message", [frame(1, [0x61, 0xFF], fin: false)], isNoText)
        table.row("cut off in the last fragment", [text("a", fin: false), frame(0, [0xE2, 0x82])], isNoText)
        table.row("a code point over two messages", [frame(1, [0xC3]), frame(1, [0xA4])], isNoText)
    }

    static let closing = Table.of { table in
        table.row("without a code", [frame(8), text("x")], .close(code: nil, reason: ""))
        table.row("after a message", [text("x"), close(1000)], [text("x"), .close(code: 1000, reason: "")])
        table.row("with a reason", [close(1000, utf8("why € 😀"))], .close(code: 1000, reason: "why € 😀"))
        let reason = String(repeating: "a", count: 123)
        table.row("reason of 123", [close(1000, letters(123))], .close(code: 1000, reason: reason))
        table.row("reason of 124", [close(1000, letters(124))], isNoControl)
        table.row("half a code", [frame(8, [3])], refused("a close code is cut off"))
        table.row("invalid reason", [close(1000, [0xC3, 0x28])], isNoReason)
        table.row("reason cut off", [close(1000, [0xE2, 0x82])], isNoReason)
        table.row("followed by a ping", [close(1000), ping()], .close(code: 1000, reason: ""))
        table.row("followed by violations", [close(1000), frame(3, rsv: 7), close(0)], .close(code: 1000, reason: ""))
        table.row("a violation, and a close", [frame(3), close(1000)], hasUnknownOpcode)
        for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999] {
            table.row("close \(code)", [close(code)], .close(code: UInt16(code), reason: ""))
            table.row("close \(code), reason", [close(code, [0x61])], .close(code: UInt16(code), reason: "a"))
        }
        for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 32_768, 65_535] {
            table.row("close \(code)", [close(code)], isNoCode)
        }
    }

    static let sizes = Table.of { table in
        let full = frame(2, letters(1024))
        let (first, next) = (frame(2, letters(1024), fin: false), frame(0, letters(1024), fin: false))
        table.limits = WebSocketLimits(messageSize: 2048, frameSize: 1024, fragments: 8)
        table.row("a frame of the limit", [full], .binary(letters(1024)))
        table.row("a frame beyond the limit", [frame(1, letters(1025))], tooLarge("a frame is larger than 1 KiB"))
        table.row("a message of the limit", [first, next, more()], .binary(letters(2048)))
        table.row(
            "a message beyond the limit", [first, next, ping(), more("a")],
            [.ping([]), tooLarge("a message is larger than 2 KiB")])
        table.row("each message begins at 0", [full, full, full], (0..<3).map { _ in .binary(letters(1024)) })
        table.limits = WebSocketLimits(messageSize: 1024, fragments: 8)
        table.row("one limit for both", [frame(2, letters(1025))], tooLarge("a frame is larger than 1 KiB"))
        table.limits = WebSocketLimits(messageSize: 0, fragments: 1)
        table.row("limits of nothing", [ping(), text()], [.ping([]), .text([])])
        table.limits = WebSocketLimits(messageSize: .min, fragments: 1)
        table.row("a negative limit", [text()], tooLarge("a frame is larger than \(Int.min >> 10) KiB"))
    }

    @Test(arguments: framing + controls + fragmentation + texts + closing + sizes)
    func row(_ row: Row) {
        for role in [WebSocketRole.client, .server] { expect(row.bytes(to: role), row.events, role, row.limits) }
    }

    // MARK: Where the roles differ, and bytes that no frame has

    struct RawRow: Sendable, CustomTestStringConvertible {
        let role: WebSocketRole
        let name: String
        let bytes: [UInt8]
        let events: [WebSocketEvent]
        var testDescription: String { "\(role): \(name)" }

        init(_ role: WebSocketRole, _ name: String, _ bytes: [UInt8], _ events: [WebSocketEvent]) {
            (self.role, self.name, self.bytes, self.events) = (role, name, bytes, events)
        }
    }

    private static let isMasked = refused("a frame of the server is masked")
    private static let isNotMasked = refused("a frame of the client is not masked")
    private static let isNotShortest = refused("the length of a frame is not in its shortest form")
    private static let hello: [UInt8] = [0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]

    static let masks: [RawRow] = [
        // The examples of §5.7.
        RawRow(.client, "Hello", [0x81, 5] + utf8("Hello"), [text("Hello")]),
        RawRow(.server, "Hello", [0x81, 0x85] + hello, [text("Hello")]),
        RawRow(.client, "Hel, lo", [1, 3] + utf8("Hel") + [0x80, 2] + utf8("lo"), [text("Hello")]),
        RawRow(.client, "ping Hello", [0x89, 5] + utf8("Hello"), [.ping(utf8("Hello"))]),
        RawRow(.server, "pong Hello", [0x8A, 0x85] + hello, [.pong(utf8("Hello"))]),
        RawRow(.client, "masked text", [0x81, 0x81, 1, 2, 3, 4, 0x41], [isMasked]),
        RawRow(.client, "masked ping", [0x89, 0x80, 1, 2, 3, 4], [isMasked]),
        RawRow(.client, "masked close", [0x88, 0x80, 1, 2, 3, 4], [isMasked]),
        RawRow(.client, "a mask of zeros", [0x81, 0x80, 0, 0, 0, 0], [isMasked]),
        RawRow(.server, "text without a mask", [0x81, 1, 0x41], [isNotMasked]),
        RawRow(.server, "ping without a mask", [0x89, 0], [isNotMasked]),
        RawRow(.server, "close without a mask", [0x88, 0], [isNotMasked]),
        RawRow(.server, "a mask of zeros", [0x81, 0x81, 0, 0, 0, 0, 0x41], [.text([0x41])]),
        RawRow(.client, "empty fragments", [1, 0, 0, 0, 0x89, 0, 0x80, 0], [.ping([]), .text([])]),
        RawRow(
            .server, "empty fragments", [1, 0x80, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0x80, 0x80, 0, 0, 0, 0], [.text([])]),
    ]

    static let lengths: [RawRow] = {
        var rows: [RawRow] = []
        for (role, mask) in [(WebSocketRole.client, UInt8(0)), (.server, 0x80)] {
            func header(_ size: Int, _ number: UInt64) -> [UInt8] {
                let bytes = (0..<size).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * (size - 1 - $0))) }
                return [0x82, mask | (size == 2 ? 126 : 127)] + bytes
            }
            for number: UInt64 in [0, 1, 125] {
                rows.append(RawRow(role, "\(number) in two bytes", header(2, number), [isNotShortest]))
            }
            for number: UInt64 in [0, 125, 126, 65_535] {
                rows.append(RawRow(role, "\(number) in eight bytes", header(8, number), [isNotShortest]))
            }
            for number: UInt64 in [(1 << 17) + 1, 1 << 31, 1 << 32, 1 << 62, 1 << 63 - 1] {
                rows.append(RawRow(role, "\(number)", header(8, number), [tooLarge("a frame is larger than 128 KiB")]))
            }
            for number: UInt64 in [1 << 63, .max] {
                rows.append(RawRow(role, "\(number)", header(8, number), [refused("the length of a frame is invalid")]))
            }
            rows += [
                RawRow(role, "ping with a length of two bytes", [0x89, mask | 126], [isNoControl]),
                RawRow(role, "close with a length of eight bytes", [0x88, mask | 127], [isNoControl]),
                RawRow(role, "header cut off", header(8, 1 << 16).dropLast(), []),
                RawRow(role, "payload cut off", [0x82, mask | 5, 1, 2, 3, 4], []),
            ]
        }
        return rows
    }()

    @Test(arguments: masks + lengths) func rawRow(_ row: RawRow) {
        expect(row.bytes, row.events, row.role, WebSocketLimits(messageSize: 1 << 17, fragments: 64))
    }

    /// The header alone decides, also before the key of the mask.
    @Test func aFrameThatIsTooLongIsRefusedAtItsLength() {
        var reader = WebSocketReader(role: .server, limits: WebSocketLimits(messageSize: 1000, fragments: 1))
        reader.append([0x82, 0xFE, 3])
        #expect(reader.next() == nil)
        reader.append([0xE9])
        #expect(reader.next() == Self.tooLarge("a frame is larger than 0 KiB"))
        #expect(reader.hasFailed)
        reader.append([0x89, 0x80, 0, 0, 0, 0])
        #expect(reader.next() == nil)
    }

    // MARK: Feeding

    private func expect(
        _ bytes: [UInt8], _ events: [WebSocketEvent], _ role: WebSocketRole, _ limits: WebSocketLimits
    ) {
        let hasFailed = if case .violation = events.last { true } else { false }
        func check(_ parts: [ArraySlice<UInt8>], _ how: String) {
            var reader = WebSocketReader(role: role, limits: limits)
            #expect(reader.events(parts) == events, "\(role), \(how)")
            #expect(reader.hasFailed == hasFailed)
        }
        check([bytes[...]], "in one piece")
        check(bytes.indices.map { bytes[$0...$0] }, "byte by byte")
        let positions = bytes.count <= 400 ? Array(bytes.indices) : Array(0..<20) + [bytes.count / 2, bytes.count - 1]
        for position in positions { check([bytes[..<position], bytes[position...]], "split at \(position)") }
        guard bytes.count <= 400 else { return }
        var reader = WebSocketReader(role: role, limits: limits)
        for byte in bytes { reader.append([byte]) }
        #expect(reader.events([]) == events, "\(role), all bytes before the first event")
    }
}

extension WebSocketReader {
    mutating func events(_ parts: [ArraySlice<UInt8>]) -> [WebSocketEvent] {
        var events: [WebSocketEvent] = []
        for part in parts + [[]] {
            append(part)
            while let event = next() { events.append(event) }
        }
        return events
    }
}
