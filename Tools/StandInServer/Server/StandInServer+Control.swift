import DecartProtocol

/// Observation while the stand-in runs.
extension StandInServer {
    /// The control endpoint's requests, formatted for a terminal.
    package static var controlHelp: String {
        ControlRequest.help.split(separator: "\n").map { "  " + $0 }.joined(separator: "\n")
    }

    var sessionsJSON: SessionsJSON { SessionsJSON(showsPrompts: configuration.showsPrompts) }

    var health: JSONValue {
        let records = sessions
        return .fields([
            "status": .string("ok"), "version": .string(configuration.version),
            "uptime_ms": .milliseconds(ContinuousClock.now - createdAt),
            "port": .optional(withRunning { listeners, _ in listeners.openPort } ?? nil),
            "sessions_open": .integer(records.count { $0.isOpen }), "sessions": .integer(records.count),
            "faults": .array(faults.map { .string($0.description) }),
        ])
    }

    /// Forgets the ended sessions and their journal.
    package func forgetSessions() -> Int {
        let numbers = services.board.forgetEnded()
        services.journal.forget(numbers)
        return numbers.count
    }

    /// Changes the look as if the client had sent this prompt; nothing is acknowledged.
    package func applyPrompt(_ prompt: String, sessionID: String? = nil) {
        withRunning { $1.notify(StepNotice(sessionID: sessionID, steps: [.prompt(prompt)])) }
    }

    package var journal: Journal { services.journal }

    /// Requests that wait for a session now.
    package var waitingRequestCount: Int { services.board.observerCount }

    /// Further requests are refused.
    package static let maximumWaitingRequestCount = SessionWait.maximumCount
}
