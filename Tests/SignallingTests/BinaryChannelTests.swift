import DecartProtocol
import DecartSession
import Signalling
import Testing

/// LiveKit signalling needs binary messages, and the token in a header.
@Suite("A binary channel", .timeLimit(.minutes(1)))
struct BinaryChannelTests {
    private static let token = "canary-token-of-a-room"

    private func client(_ server: RawServer) throws -> Client {
        try Client(port: server.port, roomToken: Self.token) { $0.messages = .binary }
    }

    @Test func bytesGoBothWaysAsTheyAre() async throws {
        try await withChannel(roomToken: Self.token, configure: { $0.messages = .binary }) { _, channel, events in
            for bytes in [[], [0], [0xFF, 0xC3, 0x28], [UInt8](repeating: 0x80, count: 70_000)] as [[UInt8]] {
                channel.send(bytes)
                #expect(await events.next() == .binary(bytes))
            }
            channel.close()
            #expect(await events.next() == .closed(code: 1000, reason: ""))
        }
    }

    @Test(arguments: [0, 1]) func messagesAreLimited(excess: Int) async throws {
        let most = 256 << 10
        let reply = Script(greet: RawServer.frame(2, [UInt8](repeating: 7, count: most + excess)))
        try await withServer(reply) { server in
            let client = try Client(port: server.port, roomToken: Self.token) {
                ($0.messages, $0.maximumMessageSize) = (.binary, most)
            }
            let events = client.open()
            _ = await events.next()
            switch await events.next() {
            case .binary(let bytes)?: #expect(excess == 0 && bytes.count == most)
            case .failed(let error)?: #expect(excess == 1 && error.message.contains("256 KiB"))
            default: Issue.record("neither a message nor an error")
            }
            client.channel.close()
        }
    }

    @Test func textIsIgnored() async throws {
        let reply = Script(greet: RawServer.frame(1, [65]) + RawServer.frame(2, [66]))
        try await withChannel(reply, roomToken: Self.token, configure: { $0.messages = .binary }) { _, _, events in
            #expect(await events.next() == .binary([66]))
        }
    }

    @Test func theTokenIsInTheHeaderAndNowhereElse() async throws {
        try await withChannel(roomToken: Self.token, configure: { $0.messages = .binary }) { server, _, _ in
            let request = try #require(server.requests.first)
            #expect(request.split(separator: "\r\n").first == "GET /rtc?protocol=16 HTTP/1.1")
            #expect(RawServer.header("Authorization", in: request) == "Bearer \(Self.token)")
            #expect(request.split(separator: Self.token, omittingEmptySubsequences: false).count == 2)
        }
        let closing = Script(greet: RawServer.close(4000, "no \(Self.token) here"))
        try await withServer(closing) { server in
            let client = try client(server)
            #expect(await client.run().last == .closed(code: 4000, reason: "no <redacted> here"))
        }
    }
}
