import ConnectionCheck
import DecartProtocol
import DecartSession
import Signalling
import StandInServer
import TestSupport
import Testing

/// The relay between a client and a stand-in, without media.
@Suite(.timeLimit(.minutes(1)))
struct RecordingRelayTests {
    /// A channel to the relay, and what it delivered.
    private final class Client: Sendable {
        private let events = Watched<[SignallingEvent]>([])
        private let channel: WebSocketChannel

        init(_ url: ServiceURL, _ messages: WebSocketChannel.Messages = .text) {
            var configuration = WebSocketChannel.Configuration()
            configuration.messages = messages
            channel = WebSocketChannel(url: url, configuration: configuration) { [events] event in
                events.change { $0.append(event) }
            }
            channel.open(timeout: .seconds(20))
        }

        convenience init(_ relay: RecordingRelay, key: APIKey) throws {
            self.init(
                try ServiceURL(base: relay.url).stream(
                    key: key, model: try DecartModel(named: "lucy-latest"),
                    options: [("livekit_early_room_info", "true")]))
        }

        func send(_ message: ClientMessage) throws {
            let bytes = try message.encoded()
            channel.send(bytes)
        }

        func close() { channel.close() }

        /// Waits until an event gives a value.
        func wait<Value>(for find: (SignallingEvent) -> Value?) throws -> Value {
            _ = events.wait(seconds: 20) { $0.contains { find($0) != nil } }
            return try #require(events.value.lazy.compactMap(find).first)
        }

        func message(_ type: String) throws -> ServerMessage {
            try wait { event in
                guard case .text(let bytes) = event, let message = try? ServerMessage(decoding: bytes) else {
                    return nil
                }
                return message.type == type ? message : nil
            }
        }

        func error() throws -> SessionError {
            try wait { if case .failed(let error) = $0 { error } else { nil } }
        }
    }

    private func run(
        query: String = "", replay: ControlRecording? = nil, _ body: (RecordingRelay) throws -> Void
    ) throws {
        var standIn = StandInConfiguration()
        standIn.replay = replay
        standIn.port = 0
        standIn.keys = KeyPolicy(accepted: ["the-real-key"])
        let server = StandInServer(configuration: standIn)
        let port = try server.start()
        defer { server.stop() }
        let configuration = CheckConfiguration(
            base: try ServiceURL(base: "ws://127.0.0.1:\(port)/\(query)"), model: try DecartModel(named: "lucy-latest"))
        let relay = try RecordingRelay(
            to: configuration, key: try APIKey("the-real-key"), recording: SessionRecording())
        defer { relay.close() }
        try body(relay)
    }

    @Test func messagesPassInBothDirections() throws {
        try run { relay in
            let client = try Client(relay, key: relay.localKey)
            _ = try client.wait { if case .opened = $0 { true } else { nil } }
            try client.send(.livekitJoin(LiveKitJoin()))
            guard case .livekitRoomInfo(let info) = try client.message("livekit_room_info") else { return }
            // The room's signalling passes through the relay too.
            #expect(info.url == relay.url + "/room/0")
            try client.send(.prompt(PromptMessage(text: "lego", enhance: false)))
            guard case .promptAck(let ack) = try client.message("prompt_ack") else { return }
            #expect(ack.success && ack.prompt == "lego")

            let token = try APIKey(info.token.reveal())
            let room = Client(try ServiceURL(room: info.url, token: token, options: [("protocol", "16")]), .binary)
            let first = try room.wait {
                if case .binary(let bytes) = $0 { RoomMessage(bytes, isSent: false) } else { nil }
            }
            #expect(first.kind == "join")
            // The event loops of the relay and the stand-in; the disposition of SIGPIPE is that of the host.
            let threads = BrokenPipe.eventLoopThreads()
            #expect(threads.blocking.count >= 2 && threads.others == [])
            room.close()
            client.close()
            relay.close()
            let events = relay.recording.entries.map(\.event)
            #expect(events.first == .requested(items: ["api_key", "model", "livekit_early_room_info"]))
            #expect(events.contains(.left))
            #expect(
                events.contains { if case .room(false, let message) = $0 { message.kind == "join" } else { false } })
            #expect(events.contains { if case .sent = $0 { true } else { false } })
        }
    }

    @Test func recordingHasNoSecretsAndIsReplayed() throws {
        var recording = ControlRecording([])
        var tokens: [String] = []
        for run in ["recorded", "replayed"] {
            let replay = run == "replayed" ? try ControlRecording(parsing: [UInt8](recording.encoded().utf8)) : nil
            try self.run(replay: replay) { relay in
                let client = try Client(relay, key: relay.localKey)
                _ = try client.wait { if case .opened = $0 { true } else { false } }
                try client.send(.livekitJoin(LiveKitJoin()))
                guard case .livekitRoomInfo(let info) = try client.message("livekit_room_info") else { return }
                tokens.append(info.token.reveal())
                let prompt = "a canary prompt, \(run)"
                try client.send(.prompt(PromptMessage(text: prompt, enhance: false)))
                #expect(try client.message("prompt_ack") == .promptAck(PromptAck(prompt: prompt, success: true)))
                try client.send(.prompt(PromptMessage(text: "refuse-me", enhance: false)))
                let refusal = try client.wait { event -> PromptAck? in
                    guard case .text(let bytes) = event,
                        case .promptAck(let ack)? = try? ServerMessage(decoding: bytes)
                    else { return nil }
                    return ack.success ? nil : ack
                }
                #expect(refusal.prompt == "refuse-me")
                #expect(refusal.error?.contains("moderation") == true)
                client.close()
                relay.close()
                let secrets = ["the-real-key", relay.localKey.reveal()]
                recording = SessionRecording.control(relay.recording.entries, secrets: secrets)
                let text = try recording.encoded()
                for secret in secrets + [info.token.reveal(), prompt, "canary", info.url, info.roomName ?? "canary"] {
                    #expect(!text.contains(secret))
                }
            }
        }
        #expect(Set(tokens).count == 2)
    }

    @Test func refusalIsReplayed() throws {
        let refused = ControlRecording([.init(attempt: 1, time: 3, event: .failed(httpStatus: 418, reason: "a teapot"))]
        )
        try run(replay: refused) { relay in
            try #expect(Client(relay, key: relay.localKey).error().httpStatus == 418)
        }
    }

    @Test func onlyTheElementMayUseTheRelay() throws {
        try run { relay in
            for key in ["the-real-key", "relay-", "x"] {
                try #expect(Client(relay, key: try APIKey(key)).error().httpStatus == 401)
            }
            #expect(relay.recording.entries.isEmpty)
            _ = try Client(try ServiceURL(room: relay.url + "/room/0", token: try APIKey("no token"))).error()
            #expect(relay.recording.entries.isEmpty)
        }
    }

    @Test(arguments: [("http_503", 503), ("http_401", 401), ("http_302", 302)])
    func refusalsPass(fault: String, status: Int) throws {
        try run(query: "?fault=\(fault)") { relay in
            try #expect(Client(relay, key: relay.localKey).error().httpStatus == status)
            #expect(
                relay.recording.entries.contains {
                    if case .failed(_, _, status, _) = $0.event { true } else { false }
                })
        }
    }

    @Test func closesPass() throws {
        try run(query: "?fault=close_1013_at_join") { relay in
            let client = try Client(relay, key: relay.localKey)
            try #expect(client.wait { if case .closed(let code, _) = $0 { code } else { nil } } == 1013)
            #expect(
                relay.recording.entries.contains {
                    if case .closed(1013, _) = $0.event { true } else { false }
                })
        }
    }
}
