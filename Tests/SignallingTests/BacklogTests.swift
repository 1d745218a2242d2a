import DecartProtocol
import DecartSession
import Signalling
import Testing

@Suite("A channel whose owner is busy", .timeLimit(.minutes(1)))
struct BacklogTests {
    /// The server sends 10 KiB messages without end while the owner handles none for a while. The channel stops
    /// reading, so the pongs wait behind the messages, and yet the peer must not count as dead.
    @Test(arguments: [WebSocketChannel.Messages.text, .binary]) func readingStopsAndGoesOn(
        messages: WebSocketChannel.Messages
    ) async throws {
        let size = 10 << 10
        var script = Script()
        script.endless = RawServer.frame(messages == .text ? 1 : 2, [UInt8](repeating: 0x78, count: size))
        try await withServer(script) { server in
            let client = try Client(port: server.port) {
                $0.messages = messages
                $0.pingInterval = .milliseconds(40)
            }
            let events = client.open()
            #expect(await events.next()?.isOpened == true)
            // A dead peer would be dropped after two pings.
            let pings = await server.waitForFrames { $0.count { $0.opcode == 9 } >= 6 }
            #expect(pings, "the channel does not live on")
            var reported = 0
            for _ in 0..<257 {
                guard case .text(let bytes)? = await events.next().map(asText) else { break }
                #expect(bytes.count == size)
                reported += 1
            }
            #expect(reported == 257, "only \(reported) messages came")
            let waiting = server.frames.count { $0.opcode == 9 }
            #expect(await server.waitForFrames { $0.count { $0.opcode == 9 } >= waiting + 3 })
            // Only messages of one event loop turn are left.
            client.channel.close()
            var rest = 0
            while case .text? = await events.next().map(asText) { rest += 1 }
            #expect(rest <= 64, "\(rest) messages more were read")
        }
    }

    @Test func readingGoesOnWhenHalfIsHandled() async throws {
        let size = 10 << 10
        var script = Script()
        script.endless = RawServer.frame(1, [UInt8](repeating: 0x78, count: size))
        try await withServer(script) { server in
            let client = try Client(port: server.port)
            let events = client.open()
            #expect(await events.next()?.isOpened == true)
            for count in 1...3_000 {
                guard case .text? = await events.next() else {
                    Issue.record("no more than \(count) messages came")
                    break
                }
                client.channel.messageHandled(size: size)
            }
            client.channel.close()
        }
    }

    private func asText(_ event: SignallingEvent) -> SignallingEvent {
        if case .binary(let bytes) = event { .text(bytes) } else { event }
    }
}
