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
            // Until reading stops, a server that got no CPU time may truly have been silent for an interval.
            var reported = 0
            while reported < 257, let event = await events.next().map(asText) {
                if case .silent = event { continue }
                guard case .text(let bytes) = event else { break }
                #expect(bytes.count == size)
                reported += 1
            }
            #expect(reported == 257, "only \(reported) messages came")
            // A dead peer would be reported after the second ping.
            let pings = server.frames.count { $0.opcode == 9 }
            #expect(await server.waitForFrames { $0.count { $0.opcode == 9 } >= pings + 9 })
            // Only messages of one event loop turn are left.
            client.channel.close()
            let rest = await events.rest().dropLast().map(asText)
            #expect(rest.allSatisfy { if case .text = $0 { true } else { false } }, "the peer counts as dead")
            #expect(rest.count <= 64, "\(rest.count) messages more were read")
        }
    }

    @Test func readingGoesOnWhenHalfIsHandled() async throws {
        let size = 10 << 10
        var script = Script()
        script.endless = RawServer.frame(1, [UInt8](repeating: 0x78, count: size))
        try await withChannel(script) { _, channel, events in
            for count in 1...1_500 {
                guard case .text? = await events.next() else {
                    Issue.record("no more than \(count) messages came")
                    break
                }
                channel.messageHandled(size: size)
            }
        }
    }

    @Test func aFloodEndsTheConnection() async throws {
        var script = Script()
        script.endless = (0..<100).flatMap { _ in RawServer.frame(1, [65]) }
        try await withChannel(script) { server, channel, events in
            var count = 0
            while case .text? = await events.next() {
                count += 1
                channel.messageHandled(size: 1)
            }
            #expect(count >= MessageRate.most)
            // 1008, "policy violation".
            let close: [UInt8] = [0x03, 0xf0]
            #expect(await server.waitForFrames { $0.contains { $0.opcode == 8 && $0.payload == close } })
        }
    }

    /// Control frames cost the thread of all sessions as much as messages.
    @Test(arguments: [9, 10] as [UInt8]) func aFloodOfControlFramesEndsTheConnection(opcode: UInt8) async throws {
        var script = Script()
        script.endless = (0..<100).flatMap { _ in RawServer.frame(opcode, [65]) }
        try await withChannel(script) { server, _, events in
            var last: SignallingEvent?
            while let event = await events.next() {
                last = event
                if case .failed = event { break }
                if case .closed = event { break }
            }
            guard case .failed(let error)? = last else {
                Issue.record("\(String(describing: last))")
                return
            }
            #expect(error.message.contains("control frames"))
        }
    }

    @Test func theRateIsThatOfTenSeconds() {
        var rate = MessageRate()
        // 200 messages a second, for a minute.
        let steady = (0..<12_000).filter { !rate.allows(1, at: .milliseconds(5 * $0)) }
        #expect(steady.isEmpty)
        var burst = MessageRate()
        let refused = (0..<MessageRate.most).filter { _ in !burst.allows(1, at: .seconds(7)) }
        #expect(refused.isEmpty)
        let (within, after) = (burst.allows(1, at: .milliseconds(16_999)), burst.allows(1, at: .seconds(17)))
        #expect(!within && after)
    }

    /// A few messages of the largest size, again and again.
    @Test func bytesCountToo() {
        var rate = MessageRate()
        let size = 1 << 20
        let allowed = (0..<200).filter { rate.allows(size, at: .milliseconds($0 * 100)) }
        let most = MessageRate.mostBytes / size
        #expect(allowed == Array(0..<most) + Array(100..<100 + most))
    }

    private func asText(_ event: SignallingEvent) -> SignallingEvent {
        if case .binary(let bytes) = event { .text(bytes) } else { event }
    }
}
