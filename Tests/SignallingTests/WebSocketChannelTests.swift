import DecartProtocol
import DecartSession
import MediaSecurity
import Signalling
import Testing

/// Runs `body` with a server and shuts it down afterwards.
func withServer(
    _ script: Script = Script(), tls: TLSServerContext? = nil, host: String = "127.0.0.1",
    _ body: (RawServer) async throws -> Void
) async throws {
    let server = try RawServer(script, tls: tls, host: host)
    do {
        try await body(server)
    } catch {
        await server.stop()
        throw error
    }
    await server.stop()
}

/// Runs `body` with a server and a client that it has accepted, and closes the channel afterwards.
func withChannel(
    _ script: Script = Script(), tls: TLSServerContext? = nil, host: String = "127.0.0.1", roomToken: String? = nil,
    configure: (inout WebSocketChannel.Configuration) -> Void = { _ in },
    _ body: (RawServer, WebSocketChannel, EventQueue<SignallingEvent>) async throws -> Void
) async throws {
    try await withServer(script, tls: tls, host: host == "localhost" ? "127.0.0.1" : host) { server in
        let client = try Client(
            port: server.port, host: host, secure: tls != nil, roomToken: roomToken, configure: configure)
        let events = client.open()
        #expect(await events.next()?.isOpened == true)
        try await body(server, client.channel, events)
        client.channel.close()
    }
}

@Suite("The channel and an honest server", .timeLimit(.minutes(1)))
struct HonestServerTests {
    @Test func echoesTextAndClosesCleanly() async throws {
        try await withServer { server in
            let client = try Client(port: server.port)
            let events = client.open()
            let opened = await events.next()
            guard case .opened(let transport?, let upgrade?) = opened else {
                Issue.record("not opened: \(String(describing: opened))")
                return
            }
            #expect(transport > .zero && upgrade > .zero)
            for text in ["one", "zwei", String(repeating: "é", count: 40_000)] {
                client.channel.send([UInt8](text.utf8))
                #expect(await events.next() == .text([UInt8](text.utf8)))
            }
            client.channel.close()
            #expect(await events.next() == .closed(code: 1000, reason: ""))
            #expect(await events.next() == nil)
        }
    }

    @Test func requestIsWellFormed() async throws {
        try await withChannel { server, _, _ in
            let request = try #require(server.requests.first)
            let line = request.split(separator: "\r\n").first
            let key = "canary%2Bkey%26with%3Dodd%23chars%25%2F%3F%C3%A9"
            #expect(line == "GET /v1/stream?api_key=\(key)&model=lucy-restyle-2 HTTP/1.1")
            #expect(RawServer.header("Host", in: request) == "127.0.0.1:\(server.port)")
            #expect(RawServer.header("Sec-WebSocket-Version", in: request) == "13")
            #expect(RawServer.header("Sec-WebSocket-Extensions", in: request) == nil)
            // Only a room gets its token in a header.
            #expect(RawServer.header("Authorization", in: request) == nil)
        }
    }

    @Test func everyFrameHasItsOwnMask() async throws {
        try await withChannel { server, channel, events in
            for _ in 0..<8 {
                channel.send([UInt8]("same".utf8))
                _ = await events.next()
            }
            #expect(server.frames.allSatisfy { $0.isMasked })
            #expect(Set(server.frames.map(\.mask)).count >= 7)
        }
    }

    @Test func fragmentsBecomeOneMessageWithAPingBetween() async throws {
        var script = Script()
        script.greet =
            RawServer.frame(1, [UInt8]("a".utf8), fin: false) + RawServer.frame(9, [1, 2])
            + RawServer.frame(0, [UInt8]("b".utf8), fin: false) + RawServer.frame(0, [UInt8]("c".utf8))
        try await withChannel(script) { server, channel, events in
            #expect(await events.next() == .text([UInt8]("abc".utf8)))
            channel.send([UInt8]("x".utf8))
            _ = await events.next()
            #expect(server.frames.contains { $0.opcode == 10 && $0.payload == [1, 2] })
        }
    }

    @Test func worksOverIPv6() async throws {
        try await withChannel(host: "::1") { server, _, _ in
            #expect(RawServer.header("Host", in: server.requests.first ?? "") == "[::1]:\(server.port)")
        }
    }

    @Test func looksUpNames() async throws {
        try await withChannel(host: "localhost") { _, _, _ in }
    }

    @Test func serverCloseIsReported() async throws {
        var script = Script()
        script.greet = RawServer.close(1011, "out of order")
        try await withServer(script) { server in
            let events = try await Client(port: server.port).run()
            #expect(events.last == .closed(code: 1011, reason: "out of order"))
            #expect(await server.waitForFrames { $0.first?.opcode == 8 && $0.first?.payload == [0x03, 0xF3] })
        }
    }

    @Test func closeReasonLosesTheKey() async throws {
        var script = Script()
        script.greet = RawServer.close(1008, "invalid api key \(Client.key)")
        try await withServer(script) { server in
            let events = try await Client(port: server.port).run()
            #expect(events.last == .closed(code: 1008, reason: "invalid api key <redacted>"))
        }
    }

    @Test func lostConnectionIsReported() async throws {
        try await withChannel { server, _, events in
            server.cut()
            #expect(await events.next() == .closed(code: nil, reason: "without a close frame"))
        }
    }

    @Test func pingsKeepAQuietConnectionAlive() async throws {
        try await withChannel(configure: { $0.pingInterval = .milliseconds(300) }) { server, channel, events in
            // The channel still works after at least three answered pings.
            #expect(await server.waitForFrames { frames in frames.count { $0.opcode == 9 } >= 3 })
            channel.send([UInt8]("x".utf8))
            // A server without CPU time may truly have been silent for an interval; that ends nothing.
            let echo = SignallingEvent.text([UInt8]("x".utf8))
            #expect(await events.first("the echo", where: { $0 == echo }) != nil)
        }
    }

    /// The channel stays open: its owner decides, because packets may pass again.
    @Test func silentServerIsReportedRepeatedly() async throws {
        var script = Script()
        script.onFrame = { _ in nil }
        try await withChannel(script, configure: { $0.pingInterval = .milliseconds(50) }) { _, channel, events in
            for _ in 0..<3 {
                guard case .silent(let error)? = await events.next() else {
                    Issue.record("the channel does not report the silence")
                    break
                }
                #expect(error.message.contains("did not answer a ping") && !error.isPermanent)
            }
        }
    }

    @Test func aProbeIsAnswered() async throws {
        try await withChannel { _, channel, events in
            channel.probe()
            #expect(await events.next() == .answered)
        }
    }

    @Test func closeIsPromptInEveryPhase() async throws {
        // Closes while idle, connecting, upgrading and open, and again when closed.
        var silent = Script()
        silent.respond = { _ in nil }
        for script in [Script(), silent] {
            try await withServer(script) { server in
                let idle = try Client(port: server.port)
                idle.channel.close()
                #expect(await idle.run() == [.closed(code: nil, reason: "")])

                let connecting = try Client(port: server.port)
                var events = connecting.open()
                connecting.channel.close()
                connecting.channel.close()
                // On a busy machine the server may have answered before.
                let seen = await events.rest().filter { !$0.isOpened }
                #expect(seen.count == 1)
                guard case .closed? = seen.first else {
                    Issue.record("not closed: \(seen)")
                    return
                }

                let later = try Client(port: server.port)
                events = later.open()
                #expect(await server.waitForRequest())
                later.channel.close()
                for case .failed(let error) in await events.rest() { Issue.record("failed: \(error)") }
            }
        }
    }

    /// TCP connects after the dial was given up: the server gets no request, for which it would open a session.
    @Test func aDialThatIsGivenUpRequestsNothing() async throws {
        let server = try RawServer(isFull: true)
        let first = try Client(port: server.port)
        let events = first.open()
        let second = try Client(port: server.port)
        let given = second.open()
        second.channel.close()
        #expect(await given.rest() == [.closed(code: nil, reason: "")])
        server.admit()
        #expect(await events.next()?.isOpened == true)
        let third = try Client(port: server.port)
        #expect(await third.open().next()?.isOpened == true)
        #expect(server.requests.count == 2)
        first.channel.close()
        third.channel.close()
        await server.stop()
    }

    @Test func aPeerThatDoesNotReadIsGivenUp() async throws {
        var script = Script()
        script.isDeaf = true
        try await withChannel(script) { _, channel, events in
            // More data than the queue and the socket buffers hold.
            let message = [UInt8](repeating: 0x20, count: 64 << 10)
            for _ in 0..<1000 { channel.send(message) }
            let rest = await events.rest()
            guard case .failed(let error) = rest.last else {
                Issue.record("ended with \(rest)")
                return
            }
            #expect(error.message.contains("does not read its messages"))
        }
    }
}
