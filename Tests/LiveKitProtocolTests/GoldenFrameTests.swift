// Compares with bytes and JSON that LiveKit's own package wrote, which reveals a wrong field number, name or type.
import LiveKitProtocol
import SwiftProtobuf
import Testing

@Suite("LiveKit's frames", .timeLimit(.minutes(1)))
struct GoldenFrameTests {
    private static func bytes(_ frame: GoldenFrame) -> [UInt8] {
        let digits = frame.hex.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    /// Returns the message that both forms of a frame have, after a check that they have the same one.
    private func check<Kind: SwiftProtobuf.Message & Equatable>(_ frame: GoldenFrame?) throws -> Kind {
        let frame = try #require(frame)
        // No field of the JSON is unknown to our messages, else this throws.
        let message = try Kind(jsonString: frame.json)
        #expect(try Kind(serializedBytes: Self.bytes(frame)) == message)
        #expect(try message.serializedBytes() as [UInt8] == Self.bytes(frame))
        return message
    }

    @Test("Requests, both ways", arguments: GoldenFrames.requests.keys.sorted())
    func requests(name: String) throws {
        let request: LiveKitSignalRequest = try check(GoldenFrames.requests[name])
        #expect(request.message != nil)
    }

    @Test("Responses, both ways", arguments: GoldenFrames.responses.keys.sorted().filter { $0 != "speakers" })
    func responses(name: String) throws {
        let response: LiveKitSignalResponse = try check(GoldenFrames.responses[name])
        #expect(response.message != nil)
    }

    @Test("What is asked for one connection, both ways")
    func joins() throws {
        let join: LiveKitJoinRequest = try check(GoldenFrames.joins["join"])
        #expect(join.reconnect && join.participantSid == "PA_me")
        let wrapped: LiveKitWrappedJoinRequest = try check(GoldenFrames.joins["wrapped"])
        #expect(wrapped.compression == .gzip)
    }

    @Test("A kind that is not known is no error, and no message")
    func unknownKind() throws {
        let frame = Self.bytes(try #require(GoldenFrames.responses["speakers"]))
        #expect(try LiveKitSignalResponse(serializedBytes: frame).message == nil)
    }

    @Test("A torn frame is an error", arguments: GoldenFrames.responses.keys.sorted())
    func torn(name: String) throws {
        let frame = Self.bytes(try #require(GoldenFrames.responses[name]))
        #expect(throws: (any Error).self) { try LiveKitSignalResponse(serializedBytes: Array(frame.dropLast())) }
    }
}
