// The rules of protobuf's wire format, each with a message of LiveKit's as an example.
import LiveKitProtocol
import Testing

@Suite("Wire format", .timeLimit(.minutes(1)))
struct WireTests {
    private typealias Request = LiveKitSignalRequest

    /// Checks that the bytes are read as the message, and that the message is written as the bytes, or as others.
    private func check<Kind: WireMessage>(
        _ bytes: [UInt8], _ message: Kind, written: [UInt8]? = nil, _ location: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try Kind(serializedBytes: bytes) == message, sourceLocation: location)
        #expect(message.serializedBytes() == written ?? bytes, sourceLocation: location)
    }

    // MARK: Presence

    @Test("Default values are not written, and an empty submessage is")
    func presence() throws {
        try check([], LiveKitRoom())
        try check([0x0a, 0, 0x12, 0, 0x48, 0], LiveKitRoom(), written: [])
        try check([], LiveKitRoomUpdate())
        let update = LiveKitRoomUpdate.with { $0.room = LiveKitRoom() }
        try check([0x0a, 0], update)
        #expect(update.$room != nil && LiveKitRoomUpdate().$room == nil && LiveKitRoomUpdate().room == LiveKitRoom())
    }

    @Test("A oneof is written even if it has the default value")
    func presenceOfOneOf() throws {
        try check([0x90, 1, 0], LiveKitSignalResponse.with { $0.pong = 0 })
        try check([0x82, 1, 0], LiveKitSignalResponse.with { $0.refreshToken = "" })
        try check([0x62, 0], LiveKitSignalResponse.with { $0.message = .connectionQuality(.init()) })
    }

    // MARK: Repeated occurrences

    @Test("The last scalar wins; submessages are merged, also in a oneof; elements are appended")
    func merging() throws {
        try check([0x12, 1, 97, 0x12, 1, 98], LiveKitRoom.with { $0.name = "b" }, written: [0x12, 1, 98])
        try check(
            [0x0a, 3, 0x0a, 1, 97, 0x0a, 3, 0x12, 1, 98],
            LiveKitRoomUpdate.with { ($0.room.sid, $0.room.name) = ("a", "b") },
            written: [0x0a, 6, 0x0a, 1, 97, 0x12, 1, 98])
        try check(
            [0x2a, 3, 0x0a, 1, 97, 0x2a, 2, 0x10, 1],
            Request.with { $0.mute = .with { ($0.sid, $0.muted) = ("a", true) } },
            written: [0x2a, 5, 0x0a, 1, 97, 0x10, 1])
        try check([0x0a, 1, 97, 0x0a, 0], LiveKitICEServer.with { $0.urls = ["a", ""] })
    }

    @Test("The last kind of a oneof wins, and nothing is left of an earlier one")
    func lastKind() throws {
        let ping: [UInt8] = [0x70, 7]
        try check([0x2a, 3, 0x0a, 1, 97] + ping, Request.with { $0.ping = 7 }, written: ping)
        try check(
            [0x2a, 3, 0x0a, 1, 97] + ping + [0x2a, 2, 0x10, 1], Request.with { $0.mute.muted = true },
            written: [0x2a, 2, 0x10, 1])
        let request = Request.with { $0.ping = 7 }
        #expect(request.ping == 7 && request.mute == LiveKitMuteTrackRequest())
    }

    @Test("Repeated varints are read packed and one by one, and written packed")
    func packed() throws {
        let info = LiveKitTrackInfo.with { $0.packetTrailerFeatures = [.ptfFrameID, .unrecognized(300), .ptfUserData] }
        let packed: [UInt8] = [0xaa, 1, 4, 1, 0xac, 2, 2]
        try check(packed, info)
        try check([0xa8, 1, 1, 0xa8, 1, 0xac, 2, 0xa8, 1, 2], info, written: packed)
        try check([0xa8, 1, 1, 0xaa, 1, 3, 0xac, 2, 2], info, written: packed)
        try check([0xaa, 1, 0], LiveKitTrackInfo(), written: [])
    }

    @Test("Maps: the last value of a key wins, absent parts are empty, and the order is that of the keys")
    func maps() throws {
        func entry(_ fields: UInt8...) -> [UInt8] { [0x22, UInt8(fields.count)] + fields }
        try check(
            entry(0x0a, 1, 98, 0x12, 1, 1) + entry(0x12, 1, 2, 0x0a, 1, 97) + entry(0x0a, 1, 98, 0x12, 1, 3),
            LiveKitSessionDescription.with { $0.midToTrackID = ["a": "\u{2}", "b": "\u{3}"] },
            written: entry(0x0a, 1, 97, 0x12, 1, 2) + entry(0x0a, 1, 98, 0x12, 1, 3))
        try check(
            entry(), LiveKitSessionDescription.with { $0.midToTrackID = ["": ""] }, written: entry(0x0a, 0, 0x12, 0))
    }

    // MARK: Numbers

    private static let minusOne = [UInt8](repeating: 0xff, count: 9) + [1]

    @Test("Varints have up to ten bytes, and lose the bits for which the type has no room")
    func numbers() throws {
        try check([0x50] + Self.minusOne, LiveKitJoinResponse.with { $0.pingTimeout = -1 })
        try check([0x70] + Self.minusOne, Request.with { $0.ping = -1 })
        try check([0x70, 0x81, 0x80, 0], Request.with { $0.ping = 1 }, written: [0x70, 1])
        try check(
            [0x18, 0xff, 0xff, 0xff, 0xff, 0x1f], LiveKitSessionDescription.with { $0.id = .max },
            written: [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f])
        try check([0x50, 0x80, 0x80, 0x80, 0x80, 0x10], LiveKitJoinResponse(), written: [])
        try check(
            [0x10, 0x80, 0x80, 0x80, 0x80, 0x10], LiveKitMuteTrackRequest.with { $0.muted = true }, written: [0x10, 1])
        #expect(throws: WireError.malformed) {
            try Request(serializedBytes: [0x70] + [UInt8](repeating: 0x80, count: 11))
        }
    }

    @Test("Numbers without a name are values of an enum")
    func enums() throws {
        try check([0x10, 99], LiveKitLeaveRequest.with { $0.reason = .unrecognized(99) })
        try check([0x10] + Self.minusOne, LiveKitLeaveRequest.with { $0.reason = .unrecognized(-1) })
        try check([0x10, 5], LiveKitRequestResponse.with { $0.reason = .unsupportedType })
        try check([0x10, 7], LiveKitRequestResponse.with { $0.reason = .unrecognized(7) })
        try check([0x10, 11], LiveKitRequestResponse.with { $0.reason = .invalidRequest })
        try check([0x10, 0], LiveKitLeaveRequest(), written: [])
    }

    // MARK: Unknown fields

    @Test(
        "Unknown fields of every type, and fields of another type than ours, are kept as they came",
        arguments: [
            [0xf8, 1, 0x81, 0], [0xf9, 1, 1, 2, 3, 4, 5, 6, 7, 8], [0xfa, 1, 2, 8, 8], [0xfd, 1, 1, 2, 3, 4],
            [0xfb, 1, 8, 1, 0x13, 0x14, 0x1a, 1, 0, 0xfc, 1], [0x72, 1, 0], [0x28, 1], [0x2b, 0x2c],
        ] as [[UInt8]])
    func unknown(field: [UInt8]) throws {
        let ping: [UInt8] = [0x70, 7]
        let request = Request.with { ($0.ping, $0.unknownFields) = (7, field) }
        try check(ping + field, request)
        try check(field + ping, request, written: ping + field)
        // Other messages skip them.
        let track = LiveKitTrackPublishedResponse.with { $0.cid = "a" }
        let other = field[0] == 0x28 || field[0] == 0x72 || field[0] == 0x2b ? [] : field
        try check(other + [0x0a, 1, 97] + other, track, written: [0x0a, 1, 97])
    }

    // MARK: Errors

    @Test(
        "Errors",
        arguments: [
            (.truncated, [0x70]), (.truncated, [0xf0]), (.truncated, [0x70, 0x80]), (.truncated, [0x2a]),
            (.truncated, [0x2a, 1]), (.truncated, [0x2a, 2, 0x10]), (.truncated, [0x2a, 1, 0x10]),
            (.truncated, [0x2a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            // A string is longer than its message, but not longer than the bytes.
            (.truncated, [0x2a, 2, 0x0a, 2, 97, 97]), (.truncated, [0xf9, 1, 0, 0, 0, 0, 0, 0, 0]),
            (.truncated, [0xfd, 1, 0, 0, 0]), (.truncated, [0xfb, 1]), (.truncated, [0xfb, 1, 8, 0]),
            // Field 0, types 6 and 7, a number of more than 29 bits.
            (.malformed, [0]), (.malformed, [2, 0]), (.malformed, [0x76]), (.malformed, [0x77]),
            (.malformed, [0x80, 0x80, 0x80, 0x80, 0x10]),
            // Ends of groups.
            (.malformed, [0x2c]), (.malformed, [0xfb, 1, 0xf4, 1]), (.malformed, [0xfb, 1, 0x76, 0xfc, 1]),
            (.invalidUTF8, [0x2a, 3, 0x0a, 1, 0xff]), (.invalidUTF8, [0x2a, 4, 0x0a, 2, 0xc0, 0x80]),
            (.invalidUTF8, [0x2a, 5, 0x0a, 3, 0xed, 0xa0, 0x80]),
            (.invalidUTF8, [0x0a, 6, 0x22, 4, 0x0a, 2, 97, 0xc3]),
            (.invalidUTF8, [0x0a, 6, 0x22, 4, 0x12, 2, 97, 0xc3]),
        ] as [(WireError, [UInt8])])
    func errors(error: WireError, bytes: [UInt8]) {
        #expect(throws: error) { try Request(serializedBytes: bytes) }
    }

    @Test("Strings may hold any Unicode scalar")
    func strings() throws {
        let text = "\0ä\u{FFFF}\u{10FFFF}\u{FEFF}"
        try check([0x0a, UInt8(text.utf8.count)] + text.utf8, LiveKitCodec.with { $0.mime = text })
    }

    @Test("Limits of depth and length")
    func limits() throws {
        func groups(_ depth: Int) -> [UInt8] {
            (0..<depth).flatMap { _ in [0xfb, 1] } + (0..<depth).flatMap { _ in [0xfc, 1] }
        }
        let deepest = groups(WireReader.maximumDepth)
        try check(deepest, Request.with { $0.unknownFields = deepest })
        #expect(throws: WireError.tooDeep) { try Request(serializedBytes: groups(WireReader.maximumDepth + 1)) }
        // Messages count too.
        let nested = groups(WireReader.maximumDepth)
        var field: [UInt8] = [0x2a, UInt8(nested.count & 127) | 128, UInt8(nested.count >> 7)]
        field += nested
        #expect(throws: WireError.tooDeep) { try Request(serializedBytes: field) }
        let long = [UInt8](repeating: 0, count: WireReader.maximumLength + 1)
        #expect(throws: WireError.tooLong) { try Request(serializedBytes: long) }
    }

    @Test("Lengths of all sizes are written in front of their messages")
    func lengths() throws {
        for count in [0, 1, 60, 61, 62, 63, 125, 126, 127, 128, 16_380, 16_383, 16_384, 100_000] {
            let update = LiveKitRoomUpdate.with { $0.room.name = String(repeating: "a", count: count) }
            #expect(try LiveKitRoomUpdate(serializedBytes: update.serializedBytes()) == update)
        }
    }
}
