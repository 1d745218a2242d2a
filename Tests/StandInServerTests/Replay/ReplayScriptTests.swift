import DecartProtocol
import StandInServer
import Testing

@Suite(.timeLimit(.minutes(1))) struct ReplayScriptTests {
    private static let prompt = ClientMessage.prompt(PromptMessage(text: "Lego", enhance: true))
    private static let identity = SessionIdentity(id: "this-session")

    private func script(_ events: (ms: Int, event: ControlRecording.Event)...) -> ReplayScript {
        ReplayScript(
            events.map { ControlRecording.Entry(attempt: 1, time: $0.ms, event: $0.event) }, identity: Self.identity)
    }

    private func ack(_ name: String) -> ControlRecording.Event {
        .received(.plain(.promptAck(PromptAck(prompt: name, success: true))))
    }

    @Test func messagesComeAtTheirTimes() {
        var script = script(
            (100, .opened), (110, .received(.plain(.status("ready")))), (120, .received(.made(.sessionID))),
            (1100, .received(.plain(.error("busy")))))
        var due = script.due(at: 0)
        #expect(due.steps.isEmpty && due.next == 0.01)
        due = script.due(at: 0.02)
        #expect(due.steps == [.send(.status("ready")), .send(.sessionID(Self.identity))])
        #expect(due.next == 1)
        due = script.due(at: 1)
        #expect(due.steps == [.send(.error("busy"))] && due.next == nil)
    }

    @Test func acknowledgementFollowsItsPrompt() {
        var script = script((0, .opened), (500, .sent(type: "prompt")), (700, ack(PromptName.name(1))))
        #expect(script.due(at: 2).steps.isEmpty)
        script.received(Self.prompt, at: 2)
        #expect(script.due(at: 2.1).steps.isEmpty)
        let steps = script.due(at: 2.25).steps
        #expect(steps == [.send(.promptAck(PromptAck(prompt: "Lego", success: true)))])
    }

    @Test func acknowledgementOfAnotherPromptStaysOne() {
        var script = script(
            (0, .opened), (1, .sent(type: "prompt")), (2, ack(PromptName.other)), (2, ack(PromptName.name(7))))
        script.received(Self.prompt, at: 0)
        let other = ReplayScript.Step.send(.promptAck(PromptAck(prompt: PromptName.other, success: true)))
        #expect(script.due(at: 1).steps == [other, other])
    }

    @Test func messageGoesOnWithoutTheClientsAndAnswersDoNot() {
        var script = script(
            (0, .opened), (500, .sent(type: "prompt")), (700, ack(PromptName.name(1))),
            (800, .received(.plain(.generationTick(seconds: 1)))))
        #expect(script.due(at: 5).next == 0.7 + ReplayScript.grace)
        let steps = script.due(at: 6).steps
        #expect(steps == [.send(.generationTick(seconds: 1))])
    }

    @Test func answerWaitsForItsMedia() {
        var script = script((0, .opened), (10, .sent(type: "offer")), (20, .received(.made(.answer))))
        script.received(.offer(sdp: "offer"), at: 0)
        #expect(script.due(at: 1).steps.isEmpty)
        script.store(.answer(sdp: "new"))
        #expect(script.due(at: 1.1).steps == [.send(.answer(sdp: "new"))])
        #expect(script.due(at: 100).steps.isEmpty)
    }

    @Test func answerThatNeverComesHoldsNothingUp() {
        var script = script(
            (0, .opened), (10, .sent(type: "offer")), (20, .received(.made(.answer))),
            (30, .received(.plain(.error("busy")))))
        script.received(.offer(sdp: "offer"), at: 0)
        #expect(script.due(at: 1).steps.isEmpty)
        #expect(script.due(at: 6).steps == [.send(.error("busy"))])
    }

    @Test func generationStartsWithTheFirstFrame() {
        var script = script(
            (0, .opened), (100, .received(.plain(.generationStarted))),
            (1100, .received(.plain(.generationTick(seconds: 1)))))
        #expect(script.due(at: 3).steps.isEmpty)
        script.store(.generationStarted)
        #expect(script.due(at: 3).steps == [.restartMedia, .send(.generationStarted)])
        // A second after the start, as in the recording.
        #expect(script.due(at: 3.9).next == 4)
        #expect(script.due(at: 4).steps == [.send(.generationTick(seconds: 1))])
    }

    @Test func generationStartsWithoutFramesInTheEnd() {
        var script = script((0, .opened), (100, .received(.plain(.generationStarted))))
        #expect(script.due(at: 5).steps.isEmpty)
        #expect(script.due(at: 5.2).steps == [.restartMedia, .send(.generationStarted)])
    }

    @Test func mediaFollowTheGeneration() {
        var script = script(
            (0, .opened), (1, .received(.plain(.generationStarted))),
            (2, .received(.plain(.generationEnded(seconds: 1, reason: "timeout")))))
        script.store(.generationStarted)
        #expect(script.due(at: 0.001).steps == [.restartMedia, .send(.generationStarted)])
        let steps = script.due(at: 1).steps
        #expect(
            steps == [
                .pauseMedia(reason: "timeout"), .send(.generationEnded(seconds: 1, reason: "timeout")),
            ])
    }

    @Test func endsAreRepeated() {
        var closed = script((0, .opened), (1, .closed(code: 1011, reason: "bye")))
        #expect(closed.due(at: 1).steps == [.close(code: 1011, reason: "bye")])
        var dropped = script((0, .opened), (1, .received(.malformed)), (2, .failed(httpStatus: nil, reason: "")))
        #expect(dropped.due(at: 1).steps == [.sendMalformed, .drop])
        var left = script((0, .opened), (1, .left))
        #expect(left.due(at: 100).steps.isEmpty)
    }

    @Test func sessionsTakeTheAttemptsInOrderAndTheLastAgain() throws {
        let recording = ControlRecording([
            .init(attempt: 1, time: 0, event: .failed(httpStatus: 503, reason: "busy")),
            .init(attempt: 2, time: 5, event: .failed(httpStatus: nil, reason: "")),
            .init(attempt: 4, time: 9, event: .opened),
            .init(attempt: 4, time: 109, event: .received(.plain(.status("hello")))),
            .init(attempt: 4, time: 309, event: .closed(code: 4002, reason: "bye")),
        ])
        try TestServer.run({ $0.replay = recording }) { server in
            for status: UInt in [503, 502] {
                #expect(throws: TestClient.Refused(status: status)) { try server.connect() }
            }
            for _ in 0..<2 {
                let client = try server.connect()
                #expect(try client.next() == .message(.status("hello")))
                #expect(try client.next() == .closeFrame(code: 4002))
            }
        }
    }
}
