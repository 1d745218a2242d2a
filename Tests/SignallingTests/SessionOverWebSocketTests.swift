// Controller and real channel together, against a scripted server of the control channel; the media path is a fake.
import DecartProtocol
import DecartSession
import Signalling
import Testing

private final class PlayedMedia: MediaTransport {
    private let onEvent: @Sendable (MediaEvent) -> Void

    init(onEvent: @escaping @Sendable (MediaEvent) -> Void) { self.onEvent = onEvent }

    func start(_ start: MediaStart) {
        onEvent(.candidate(CandidateMessage(candidate: "candidate:early")))
        onEvent(.offer(sdp: "offer"))
    }
    func apply(answer sdp: String) {
        onEvent(.connected(ice: .milliseconds(1), dtls: .milliseconds(1)))
        onEvent(.firstFrame)
    }
    func rollbackOffer() {}
    func apply(offer sdp: String) {}
    func apply(candidate: CandidateMessage?) {}
    var traffic: MediaTraffic { MediaTraffic(sent: 0, received: 0) }
    func stop() { onEvent(.stopped) }
}

@Suite("A session over the real channel", .timeLimit(.minutes(1)))
struct SessionOverWebSocketTests {
    /// Sends a status at once, an ack for every prompt, and an answer to the offer.
    static func service(refusing: String? = nil) -> Script {
        var script = Script()
        script.greet = text(.status("ready"))
        script.onFrame = { frame in
            guard frame.opcode == 1 else { return RawServer.standardReply(frame) }
            switch try? ClientMessage(decoding: frame.payload) {
            case .prompt(let prompt):
                let isRefused = prompt.text == refusing
                return text(
                    .promptAck(PromptAck(prompt: prompt.text, success: !isRefused, error: isRefused ? "No." : nil)))
            case .setImage: return text(.setImageAck(SetImageAck(success: true)))
            case .offer:
                return text(.sessionID(SessionIdentity(id: "s"))) + text(.answer(sdp: "answer"))
                    + text(.generationStarted)
            default: return nil
            }
        }
        return script
    }

    static func text(_ message: ServerMessage) -> [UInt8] {
        RawServer.frame(1, (try? message.encoded()) ?? [])
    }

    private func controller(
        port: Int, retries: Int? = 0, changes: EventQueue<SessionSnapshot>,
        reports: EventQueue<SessionReport> = EventQueue()
    ) throws -> SessionController {
        let base = try ServiceURL(base: "ws://127.0.0.1:\(port)")
        let url = base.stream(key: try APIKey(Client.key), model: try DecartModel(named: "lucy-restyle-2"))
        var configuration = SessionConfiguration(
            initial: SessionContent(prompt: try Prompt("Lego World")), retry: RetryPolicy(maximumRetries: retries))
        configuration.retry.maximumDelay = .milliseconds(20)
        return SessionController(
            configuration: configuration, scheduler: SessionQueue(label: "test.session"),
            makeChannel: { _, _, onEvent throws(SessionError) in WebSocketChannel(url: url, onEvent: onEvent) },
            makeMedia: { _, _, onEvent throws(SessionError) in PlayedMedia(onEvent: onEvent) },
            onChange: { changes.yield($0) }, onEvent: { reports.yield($0) })
    }

    private func stop(_ controller: SessionController, sourceLocation: SourceLocation = #_sourceLocation) async {
        let stopped = EventQueue<Void>()
        controller.stop { stopped.yield(()) }
        _ = await stopped.next("the end of the session", sourceLocation: sourceLocation)
    }

    @Test func connectsPromptsAndStops() async throws {
        try await withServer(SessionOverWebSocketTests.service()) { server in
            let changes = EventQueue<SessionSnapshot>()
            let reports = EventQueue<SessionReport>()
            let controller = try controller(port: server.port, changes: changes, reports: reports)
            controller.start()
            _ = await changes.first("the generation") { $0.state == .generating }
            let phases = controller.snapshot.phases
            #expect(phases.transport != nil && phases.upgrade != nil && phases.initialAck != nil)
            #expect(controller.snapshot.sessionID == "s")

            let id = controller.updatePrompt(PromptUpdate(prompt: try Prompt("anime")))
            let report = await reports.first("the prompt's result") {
                if case .promptResult = $0 { true } else { false }
            }
            if case .promptResult(let result) = report { #expect(result.id == id && result.isAccepted) }
            await stop(controller)
            #expect(controller.snapshot.state == .disconnected)
            let types = server.frames.filter { $0.opcode == 1 }.compactMap {
                try? ClientMessage(decoding: $0.payload).type
            }
            #expect(types == ["prompt", "offer", "ice-candidate", "prompt"])
            #expect(await server.waitForFrames { $0.last?.opcode == 8 })
        }
    }

    @Test func refusedPromptSendsNoOffer() async throws {
        try await withServer(SessionOverWebSocketTests.service(refusing: "Lego World")) { server in
            let changes = EventQueue<SessionSnapshot>()
            let controller = try controller(port: server.port, retries: 5, changes: changes)
            controller.start()
            _ = await changes.first("the failure") { $0.state == .error }
            #expect(controller.snapshot.lastError?.code == .moderationViolation)
            #expect(controller.snapshot.lastError?.message.hasPrefix("The service reported an error: No. ") == true)
            #expect(server.frames.filter { $0.opcode == 1 }.count == 1)
            #expect(server.connections == 1)
            await stop(controller)
        }
    }

    @Test func comesBackAfterEveryCut() async throws {
        try await withServer(SessionOverWebSocketTests.service()) { server in
            let changes = EventQueue<SessionSnapshot>()
            let controller = try controller(port: server.port, retries: nil, changes: changes)
            controller.start()
            var cuts = 0
            var wasGenerating = false
            while let snapshot = await changes.next("generation \(cuts)") {
                let isGenerating = snapshot.state == .generating
                if isGenerating, !wasGenerating {
                    if cuts == 20 { break }
                    cuts += 1
                    server.cut()
                }
                wasGenerating = isGenerating
                if snapshot.state == .error {
                    Issue.record("\(String(describing: snapshot.lastError))")
                    break
                }
            }
            #expect(server.connections == 21)
            await stop(controller)
        }
    }

    @Test func unauthorizedIsDialledOnce() async throws {
        var script = Script()
        script.respond = { _ in [UInt8]("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".utf8) }
        try await withServer(script) { server in
            let changes = EventQueue<SessionSnapshot>()
            let reports = EventQueue<SessionReport>()
            let controller = try controller(port: server.port, retries: 5, changes: changes, reports: reports)
            controller.start()
            _ = await changes.first("the failure") { $0.state == .error }
            let report = await reports.first("the error") { if case .failed = $0 { true } else { false } }
            if case .failed(let error) = report {
                #expect(error.code == .invalidAPIKey && error.httpStatus == 401)
                #expect(!"\(error)".contains("canary"))
            }
            #expect(server.connections == 1)
            await stop(controller)
        }
    }
}
