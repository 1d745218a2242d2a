// Compares with bytes and JSON that LiveKit's own package wrote, which reveals a wrong field number, name or type.
import DecartProtocol
import Foundation
import LiveKitProtocol
import TestSupport
import Testing

/// check_messages.py names a file with messages, and reads what the test has written of them.
private let exchangeFile = ProcessInfo.processInfo.environment["DECART_TEST_MESSAGES"]

@Suite("LiveKit's frames", .timeLimit(.minutes(1)))
struct GoldenFrameTests {
    private static let kinds: [String: any WireMessage.Type] = [
        "SignalRequest": LiveKitSignalRequest.self, "SignalResponse": LiveKitSignalResponse.self,
        "JoinRequest": LiveKitJoinRequest.self, "WrappedJoinRequest": LiveKitWrappedJoinRequest.self,
    ]

    /// Returns the message that both forms of a frame have, after a check that they have the same one.
    private func check<Kind: WireMessage>(_ frame: GoldenFrame?, as kind: Kind.Type = Kind.self) throws -> Kind {
        let frame = try #require(frame)
        let message = try Kind(serializedBytes: frame.bytes)
        let json = try JSONValue(decoding: Array(frame.json.utf8))
        #expect(JSONValue(reflecting: message).withoutSpelling == json.withoutSpelling)
        return message
    }

    /// Checks also that the message is written as LiveKit's package wrote it.
    private func checkBothWays<Kind: WireMessage>(_ frame: GoldenFrame?) throws -> Kind {
        let message: Kind = try check(frame)
        #expect(message.serializedBytes() == frame?.bytes)
        return message
    }

    @Test("Requests, both ways", arguments: GoldenFrames.requests.keys.sorted())
    func requests(name: String) throws {
        let request: LiveKitSignalRequest = try checkBothWays(GoldenFrames.requests[name])
        #expect(request.message != nil && request.unknownFields.isEmpty)
    }

    // No closure in the macro's arguments: Swift 6.0 crashes there.
    private static let withoutSpeakers = GoldenFrames.responses.keys.sorted().filter { $0 != "speakers" }

    @Test("Responses, both ways", arguments: withoutSpeakers)
    func responses(name: String) throws {
        let response: LiveKitSignalResponse = try checkBothWays(GoldenFrames.responses[name])
        #expect(response.message != nil && response.unknownFields.isEmpty)
    }

    @Test("Join requests of a single connection, both ways")
    func joins() throws {
        let join: LiveKitJoinRequest = try checkBothWays(GoldenFrames.joins["join"])
        #expect(join.reconnect && join.participantSid == "PA_me")
        let wrapped: LiveKitWrappedJoinRequest = try checkBothWays(GoldenFrames.joins["wrapped"])
        #expect(wrapped.compression == .gzip && wrapped.joinRequest == [1, 2])
    }

    @Test("A kind that is not known is no error, and no message")
    func unknownKind() throws {
        let frame = try #require(GoldenFrames.responses["speakers"]).bytes
        let response = try LiveKitSignalResponse(serializedBytes: frame)
        #expect(response.message == nil && response.unknownFields == frame && response.serializedBytes() == frame)
    }

    @Test("A torn frame is an error", arguments: GoldenFrames.responses.keys.sorted())
    func torn(name: String) throws {
        let frame = try #require(GoldenFrames.responses[name]).bytes
        #expect(throws: WireError.truncated) { try LiveKitSignalResponse(serializedBytes: Array(frame.dropLast())) }
    }

    @Test("Every beginning of a frame is a message or an error, and mutations of it are")
    func damaged() throws {
        var generator = SeededGenerator(seed: 50)
        for frame in [GoldenFrames.requests, GoldenFrames.responses, GoldenFrames.joins].flatMap(\.values) {
            for end in frame.bytes.indices { try readAndRepeat(Array(frame.bytes[..<end])) }
            for _ in 0..<300 {
                var bytes = frame.bytes
                for _ in 0...generator.below(4) {
                    let at = generator.below(bytes.count)
                    switch generator.below(3) {
                    case 0: bytes[at] = UInt8(generator.below(256))
                    case 1: bytes[at] ^= 1 << UInt8(generator.below(8))
                    default: bytes.insert(contentsOf: generator.bytes(generator.below(4)), at: at)
                    }
                }
                try readAndRepeat(bytes)
            }
        }
    }

    /// A message that can be read is written and read again.
    private func readAndRepeat(_ bytes: [UInt8]) throws {
        func check<Kind: WireMessage>(_ kind: Kind.Type) throws {
            guard let message = try? Kind(serializedBytes: bytes) else { return }
            #expect(try Kind(serializedBytes: message.serializedBytes()) == message)
        }
        for kind in Self.kinds.values { try check(kind) }
    }

    @Test("Messages of LiveKit's package", .enabled(if: exchangeFile != nil, "check_messages.py runs it"))
    func exchange() throws {
        let path = try #require(exchangeFile)
        var answers = ""
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
            let parts = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            try #require(parts.count == 3)
            let kind = try #require(Self.kinds[parts[0]])
            let message = try check(GoldenFrame(parts[1], parts[2]), as: kind) as any WireMessage
            answers +=
                message.serializedBytes().map { $0 < 16 ? "0" + String($0, radix: 16) : String($0, radix: 16) }
                .joined() + "\n"
        }
        try answers.write(toFile: path + ".swift", atomically: false, encoding: .utf8)
    }
}

extension GoldenFrame {
    var bytes: [UInt8] {
        let digits = hex.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
