import DecartProtocol
import StandInServer
import TestSupport
import Testing

/// Requests to the control port that observe a running stand-in.
@Suite(.timeLimit(.minutes(1)))
struct ObservationTests {
    @Test func healthIsTold() throws {
        try withControl({ $0.version = "1.2.3" }) { server, port in
            let text = try ask(port, "GET", "/health")
            for part in [
                "200 OK", "application/json", "\"status\":\"ok\"", "\"version\":\"1.2.3\"",
                "\"port\":\(server.port)", "\"sessions_open\":0",
            ] {
                #expect(text.contains(part), "\(text)")
            }
            _ = try ask(port, "POST", "/control/faults", body: "refuse")
            #expect(try ask(port, "GET", "/health").contains("\"port\":null"))
        }
    }

    @Test func theWholeRecordIsTold() throws {
        try withControl { server, port in
            let (client, media) = try server.negotiate()
            try client.send(.prompt(PromptMessage(text: "lego secret", enhance: false)))
            _ = try client.next { if case .message(.promptAck) = $0 { true } else { false } }
            media.paint()
            media.painter.noteSent()
            _ = try client.next { $0 == .message(.generationStarted) }
            let text = try ask(port, "GET", "/control/sessions")
            let id = try #require(server.server.sessions.first?.sessionID)
            for part in [
                "application/json", "\"id\":\"\(id)\"", "\"model\":\"lucy-2.5\"", "\"state\":\"generating\"",
                "\"prompts\":1", "\"frames_in\":1", "\"transport\":\"webrtc\"", "\"look\":\"mosaic\"",
                "\"offers\":1", "\"frames_out\":1", "\"frames_by_look\":{\"mosaic\":1}", "\"width\":",
                "\"user_agent\":null", "\"offered_before_state\":true", "\"watches\":null", "\"tracks\":[]",
                "\"malformed\":0",
            ] {
                #expect(text.contains(part), "\(part): \(text)")
            }
            #expect(!text.contains("secret"))
            client.close()
        }
    }

    @Test func promptsAreShownOnRequest() throws {
        try withControl({ $0.showsPrompts = true }) { server, port in
            let client = try server.connect()
            try client.send(.prompt(PromptMessage(text: "noir \"quoted\"", enhance: false)))
            _ = try client.next { if case .message(.promptAck) = $0 { true } else { false } }
            #expect(try ask(port, "GET", "/control/sessions").contains("\"prompt_texts\":[\"noir \\\"quoted\\\"\"]"))
            #expect(try ask(port, "GET", "/control/journal").contains("noir \\\"quoted\\\""))
            client.close()
        }
    }

    // MARK: Wait

    @Test func aWaitEndsWithTheSession() throws {
        try withControl { server, port in
            let answer = Watched<String?>(nil)
            detachThread {
                let query = "state=generating&frames=1&look=lego&prompt=lego+a&timeout=30"
                let text = try? ask(port, "GET", "/control/wait?\(query)")
                answer.change { $0 = text ?? "none" }
            }
            let (client, media) = try server.negotiate()
            for _ in 0..<3 { media.painter.noteSent() }
            try client.send(.prompt(PromptMessage(text: "lego a", enhance: false)))
            _ = try client.next { if case .message(.promptAck) = $0 { true } else { false } }
            media.painter.noteSent()
            media.paint()
            #expect(answer.wait { $0 != nil })
            let text = try #require(answer.value)
            #expect(text.hasPrefix("HTTP/1.1 200 ") && text.contains("\"session\":{") && text.contains("generating"))
            // Frames before the look do not count.
            #expect(try ask(port, "GET", "/control/wait?look=lego&frames=3&timeout=0").hasPrefix("HTTP/1.1 408 "))
            client.close()
        }
    }

    @Test func aWaitThatNothingMeetsEndsAtItsTimeout() throws {
        try withControl { server, port in
            let empty = try ask(port, "GET", "/control/wait?state=open&timeout=0")
            #expect(empty.hasPrefix("HTTP/1.1 408 ") && empty.contains("\"session\":null"), "\(empty)")
            let client = try server.connect()
            let id = try client.expectGreeting().id
            let late = try ask(port, "GET", "/control/wait?session=\(id)&state=generating&timeout=0.05")
            #expect(late.hasPrefix("HTTP/1.1 408 ") && late.contains(id) && late.contains("\"error\""), "\(late)")
            #expect(try ask(port, "GET", "/control/wait?state=open&timeout=0").hasPrefix("HTTP/1.1 200 "))
            client.close()
            #expect(try ask(port, "GET", "/control/wait?session=\(id)&state=closed&timeout=30").contains("200 OK"))
            #expect(server.server.waitingRequestCount == 0)
        }
    }

    @Test(arguments: [
        ("state=asleep", 400, "state is"), ("frames=-1", 400, "frames is"), ("frames=x", 400, "frames is"),
        ("timeout=601", 400, "timeout is"), ("timeout=nan", 400, "timeout is"), ("look=blue", 400, "look is"),
        ("sate=open", 400, "there is no \\\"sate\\\""), ("session=none", 404, "no such session"),
    ])
    func aMistakeIsExplained(query: String, status: Int, excerpt: String) throws {
        try withControl { _, port in
            let text = try ask(port, "GET", "/control/wait?\(query)")
            #expect(text.hasPrefix("HTTP/1.1 \(status) ") && text.contains("application/json"), "\(text)")
            #expect(text.contains("{\"error\":\"") && text.contains(excerpt), "\(text)")
        }
    }

    @Test func waitingRequestsAreLimited() throws {
        try withControl { server, port in
            let waiting = try (0..<StandInServer.maximumWaitingRequestCount).map { _ in
                let socket = try RawSocket(port: port)
                socket.send("GET /control/wait?state=generating&timeout=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                return socket
            }
            // They begin on another thread; each of these requests ends at once.
            let deadline = ContinuousClock.now + .seconds(20)
            var isFull = false
            while !isFull, .now < deadline {
                let answer = try ask(port, "GET", "/control/wait?state=generating&timeout=0")
                isFull = answer.hasPrefix("HTTP/1.1 503 ")
            }
            #expect(isFull)
            #expect(server.server.waitingRequestCount == StandInServer.maximumWaitingRequestCount)
            withExtendedLifetime(waiting) {}
        }
    }

    // MARK: Journal and reset

    @Test func theJournalHasBothDirections() throws {
        try withControl { server, port in
            let (client, _) = try server.negotiate()
            try client.send(.prompt(PromptMessage(text: "secret words", enhance: false)))
            _ = try client.next { if case .message(.promptAck) = $0 { true } else { false } }
            client.sendText("{\"type\":".utf8)
            _ = try client.next { if case .message(.error) = $0 { true } else { false } }
            client.sendText("{\"type\":\"later\",\"api_key\":\"secret\"}".utf8)
            client.ping([1])
            _ = try client.next { $0 == .pong([1]) }
            _ = try ask(port, "POST", "/control/close?code=1013")
            _ = try client.next { $0 == .closed }
            #expect(server.server.wait(milliseconds: 20_000) { $0.allSatisfy { !$0.isOpen } })
            let id = try #require(server.server.sessions.first?.sessionID)
            let entries = server.server.journal.entries(ofSession: id).entries
            #expect(
                entries.map(\.type).filter { $0 != "ice-candidate" } == [
                    "opened", "status", "session_id", "offer", "answer", "prompt", "prompt_ack", "malformed", "error",
                    "later", "close", "closed",
                ])
            #expect(zip(entries, entries.dropFirst()).allSatisfy { $0.time <= $1.time && $0.number < $1.number })
            let text = try ask(port, "GET", "/control/journal?session=\(id)&after=1")
            #expect(!text.contains("secret") && text.contains("\"code\":1013"), "\(text)")
            #expect(text.contains("\"direction\":\"in\"") && text.contains("\"direction\":\"out\""))
            #expect(try ask(port, "GET", "/control/journal?after=x").hasPrefix("HTTP/1.1 400 "))
        }
    }

    @Test func endedSessionsAreForgotten() throws {
        try withControl { server, port in
            try server.connect().close()
            #expect(server.server.wait(milliseconds: 20_000) { $0.count == 1 && !$0[0].isOpen })
            let open = try server.greeted()
            let text = try ask(port, "DELETE", "/control/sessions")
            #expect(text.contains("{\"forgotten\":1,\"open\":1}"), "\(text)")
            #expect(server.server.sessions.map(\.number) == [2])
            #expect(server.server.journal.entries().entries.allSatisfy { $0.session == 2 })
            open.close()
        }
    }

    // MARK: Prompt

    @Test func aPromptIsAppliedWithoutTheClient() throws {
        try withControl { server, port in
            let client = try server.connect()
            let id = try client.expectGreeting().id
            #expect(try ask(port, "POST", "/control/prompt?session=\(id)", body: "noir").contains("200 OK"))
            #expect(server.server.wait(milliseconds: 20_000) { $0[0].look?.style == .grey })
            #expect(server.server.sessions[0].promptCount == 0)
            #expect(try ask(port, "POST", "/control/prompt?session=none", body: "x").hasPrefix("HTTP/1.1 404 "))
            let refusal = try ask(port, "POST", "/control/prompt?session=\(id)", body: "refuse-me, noir")
            #expect(refusal.hasPrefix("HTTP/1.1 422 ") && refusal.contains("refused by moderation"))
            let texts = server.server.journal.entries().entries.filter { $0.type == "prompt" }.map(\.message)
            #expect(texts == ["{\"prompt\":\"<4 characters>\"}"])
            client.close()
        }
    }
}
