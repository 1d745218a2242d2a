import DecartProtocol
import StandInServer
import Testing

/// Frames that a correct client never sends.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct HostileClientTests {
    /// The bytes of a message, and how often they are repeated in it.
    private static let malformed: [(TestClient.Opcode, [UInt8], Int)] =
        [
            "", "{", "[]", "1", "\"type\"", "{}", "{\"type\":1}", "{\"type\":\"prompt\"}",
            "{\"type\":\"prompt\",\"prompt\":7}", "{\"type\":\"offer\"}",
            "{\"type\":\"set_image\",\"image_data\":{}}", "{\"type\":\"ice-candidate\",\"candidate\":[]}",
        ].map { (.text, Array($0.utf8), 1) } + [
            (.text, Array("[".utf8), 100_000), (.binary, [1, 2, 3], 1),
        ]

    @Test(arguments: malformed)
    func malformedFramesAreAnsweredAndNeverFatal(opcode: TestClient.Opcode, bytes: [UInt8], times: Int) throws {
        try TestServer.run { server in
            let client = try server.greeted()
            client.send(opcode, Array(repeatElement(bytes, count: times).joined()))
            guard case .message(.error(let reason, _, _)) = try client.next() else { throw TestClient.TimedOut() }
            #expect(!reason.isEmpty)
            try client.expectAccepted()
            #expect(server.server.sessions.first?.malformedCount == 1)
        }
    }

    @Test func unknownTypesAreIgnored() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            client.sendText("{\"type\":\"frobnicate\",\"x\":[1,2]}".utf8)
            try client.expectAccepted()
            #expect(server.server.sessions.first?.unknownCount == 1)
        }
    }

    @Test func messagesOutOfPlaceAreAnErrorAndNoMore() throws {
        try TestServer.run({ $0.transports = [.webrtc] }) { server in
            let client = try server.greeted()
            for message in [ClientMessage.answer(sdp: "v=0"), .livekitJoin(LiveKitJoin())] {
                try client.send(message)
                guard case .message(.error) = try client.next() else { throw TestClient.TimedOut() }
            }
            try client.expectAccepted()
        }
    }

    @Test func aMessageInFragmentsIsOne() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            let bytes = try ClientMessage.prompt(PromptMessage(text: "lego", enhance: false)).encoded()
            client.send(.text, Array(bytes[..<9]), fin: false)
            client.send(.ping, [42])
            client.send(.continuation, Array(bytes[9...]))
            #expect(try client.next() == .pong([42]))
            #expect(try client.next() == .message(.promptAck(PromptAck(prompt: "lego", success: true))))
        }
    }

    @Test(arguments: ["unmasked", "reserved bit", "reserved opcode", "stray continuation", "nested fragment"])
    func breachesOfTheFramingEndTheConnection(breach: String) throws {
        try TestServer.run { server in
            let client = try server.greeted()
            switch breach {
            case "unmasked": client.send(.text, Array("{}".utf8), isMasked: false)
            case "reserved bit": client.send(.text, Array("{}".utf8), rsv1: true)
            case "reserved opcode": client.send(TestClient.Opcode(value: 3), [1])
            case "stray continuation": client.send(.continuation, [1])
            default:
                client.send(.text, [1], fin: false)
                client.send(.text, [1])
            }
            #expect(try client.next() == .closeFrame(code: 1002))
            #expect(try client.next() == .closed)
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.isOpen == false })
        }
    }

    /// RFC 6455 §8.1.
    @Test func textThatIsNotUTF8EndsTheConnection() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            client.send(.text, Array("{\"type\":\"prompt\",\"prompt\":\"".utf8) + [0xff, 0xfe] + Array("\"}".utf8))
            #expect(try client.next() == .closeFrame(code: 1007))
            #expect(try client.next() == .closed)
        }
    }

    @Test func tooLargeAMessageEndsTheConnection() throws {
        // Large enough for an image of 10 MiB in Base64; testing that size would be too slow in a debug build.
        #expect(StandInConfiguration().maximumMessageSize == 16 << 20)
        try TestServer.run({ $0.maximumMessageSize = 1 << 15 }) { server in
            let client = try server.greeted()
            let half = [UInt8](repeating: 0x20, count: (1 << 14) + 1)
            client.send(.text, half, fin: false)
            client.send(.continuation, half)
            #expect(try client.next() == .closeFrame(code: 1009))
        }
    }

    /// The acknowledgements repeat the prompts: they fill the system's buffers, and then the server's queue.
    @Test func aClientThatDoesNotReadIsDisconnected() throws {
        try TestServer.run { server in
            let client = try RawSocket.webSocket(port: server.port)
            client.limitReceiveBuffer()
            let text = Array("{\"type\":\"prompt\",\"prompt\":\"\(String(repeating: "a", count: 65_300))\"}".utf8)
            let head: [UInt8] = [0x81, 0x80 | 126, UInt8(text.count >> 8), UInt8(text.count & 255), 0, 0, 0, 0]
            let frame = head + text
            // The server may not have listed the session yet.
            for _ in 0..<300 where server.server.sessions.first?.isOpen != false { client.send(frame) }
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.isOpen == false })
            #expect(server.log.contains { $0.hasSuffix("the client does not read") })
        }
    }

    @Test func aCloseFrameIsEchoed() throws {
        try TestServer.run { server in
            let client = try server.greeted()
            client.send(.close, [0x03, 0xe8, 0x62, 0x79, 0x65])
            #expect(try client.next() == .closeFrame(code: 1000))
            #expect(try client.next() == .closed)
            #expect(server.server.wait(milliseconds: 20_000) { $0.first?.isOpen == false })
        }
    }
}
