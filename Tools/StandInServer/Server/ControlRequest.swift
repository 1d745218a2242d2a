import DecartProtocol

struct ControlRequest: Sendable {
    let method: String
    let target: String
    let body: String
    /// The header `Host`, which names this machine, or that of `--web-host`.
    let host: String
    /// From another machine, by the page's host; the token was right.
    var isForeign = false

    enum Reply: Sendable {
        case answer(HTTPAnswer)
        /// The answer follows when a session meets the query, or at its timeout.
        case wait(SessionQuery)
    }

    static let help = """
        GET    /health              JSON: state of the stand-in
        GET    /control/faults      the faults of new connections, one SPEC a line
        POST   /control/faults      replaces them by the SPECs of the body
        DELETE /control/faults      no more faults
        POST   /control/inject      puts the SPECs of the body into running sessions
        GET    /control/sessions    JSON: sessions, the ended ones included
        DELETE /control/sessions    forgets the ended ones, and their journal
        GET    /control/wait        waits for a session; ?state= (open, negotiating, generating, closed), frames=, prompt=, look=, timeout= seconds (10)
        GET    /control/journal     JSON: messages of the control channels; ?after=NUMBER
        POST   /control/prompt      applies the prompt of the body, as if the client had sent it
        POST   /control/close       closes sessions; ?code= (1001), reason=
        POST   /control/drop        resets connections
        inject, close, drop, wait, journal and prompt take ?session=ID; without it they mean all.
        """

    private var path: String { String(target.prefix { $0 != "?" }) }

    /// Errors are JSON, where answers are.
    private var isJSON: Bool {
        ["/health", "/control/sessions", "/control/wait", "/control/journal", "/control/prompt"].contains(path)
    }

    func reply(_ server: StandInServer) -> Reply {
        guard method == "GET", path == "/control/wait" else { return .answer(answer(server)) }
        do {
            // HTTP clients encode a space of a form as a plus sign.
            let target = target.replacing("+", with: "%20")
            let query = try SessionQuery(PercentEncoding.queryItems(ofTarget: target))
            if let id = query.sessionID, !server.sessions.contains(where: { $0.sessionID == id }) {
                return .answer(HTTPAnswer(error: "there is no such session", status: 404))
            }
            return .wait(query)
        } catch {
            return .answer(HTTPAnswer(error: error.description))
        }
    }

    private func answer(_ server: StandInServer) -> HTTPAnswer {
        do {
            switch (method, path) {
            case ("GET", "/health"): return HTTPAnswer(json: server.health)
            case ("GET", "/control/faults"): return faults(of: server)
            case ("POST", "/control/faults"):
                try server.setFaults(specs())
                return faults(of: server)
            case ("DELETE", "/control/faults"):
                try server.setFaults([])
                return faults(of: server)
            case ("POST", "/control/inject"):
                try server.inject(specs(), into: item("session"))
                return HTTPAnswer(200, "done")
            case ("GET", "/control/sessions"):
                return HTTPAnswer(json: server.sessionsJSON.list(server.sessions))
            case ("DELETE", "/control/sessions"):
                let count = server.forgetSessions()
                return HTTPAnswer(
                    json: .fields(["forgotten": .integer(count), "open": .integer(server.sessions.count { $0.isOpen })])
                )
            case ("GET", "/control/journal"): return try journal(of: server)
            case ("POST", "/control/prompt"): return try prompt(server)
            case ("POST", "/page/config") where server.pageAccess != nil:
                return server.pageConfiguration(isForeign: isForeign)
            case ("POST", "/control/close"): return close(server)
            case ("POST", "/control/drop"):
                if let session = item("session") { server.dropSession(session) } else { server.dropAll() }
                return HTTPAnswer(200, "done")
            case ("GET", let path) where server.pageAccess != nil && PageFiles.paths.contains(path):
                return server.pageFile(path, host: host, isForeign: isForeign)
            case ("GET", "/control"), ("GET", "/"): return HTTPAnswer(200, Self.help)
            case _ where isJSON:
                return HTTPAnswer(error: "this path does not know \(LogText.clean(method))", status: 405)
            default: return HTTPAnswer(404, Self.help)
            }
        } catch {
            let text = String(describing: error)
            return isJSON ? HTTPAnswer(error: text) : HTTPAnswer(400, text)
        }
    }

    private func specs() throws(StandInError) -> [Fault] {
        try FaultPlan(parsing: body.split(whereSeparator: \.isNewline).map(String.init)).faults
    }

    private func item(_ name: String) -> String? {
        PercentEncoding.firstQueryItems(ofTarget: target)[name]
    }

    private func faults(of server: StandInServer) -> HTTPAnswer {
        HTTPAnswer(200, server.faults.map(\.description).joined(separator: "\n"))
    }

    private func journal(of server: StandInServer) throws(StandInError) -> HTTPAnswer {
        guard let after = Int(item("after") ?? "0"), after >= 0 else {
            throw StandInError("after is the number of an entry")
        }
        let (entries, last) = server.services.journal.entries(ofSession: item("session"), after: after)
        let values = entries.map { entry in
            JSONValue.fields([
                "number": .integer(entry.number), "session": .string(entry.sessionID),
                "session_number": .integer(entry.session), "at_ms": .milliseconds(entry.time),
                "direction": .string(entry.direction.rawValue), "type": .string(entry.type),
                "message": (try? JSONValue(decoding: Array(entry.message.utf8))) ?? .null,
            ])
        }
        return HTTPAnswer(json: .fields(["last": .integer(last), "entries": .array(values)]))
    }

    private func prompt(_ server: StandInServer) throws(StandInError) -> HTTPAnswer {
        if let id = item("session"), !server.sessions.contains(where: { $0.sessionID == id && $0.isOpen }) {
            return HTTPAnswer(error: "there is no such open session", status: 404)
        }
        if let reason = ControlStateMachine.moderation(of: body) {
            return HTTPAnswer(error: reason, status: 422)
        }
        server.applyPrompt(body, sessionID: item("session"))
        return HTTPAnswer(json: .fields(["done": .bool(true)]))
    }

    private func close(_ server: StandInServer) -> HTTPAnswer {
        // RFC 6455 §7.4: other codes must not appear on the wire.
        guard let code = UInt16(item("code") ?? "1001"), (1000...4999).contains(code) else {
            return HTTPAnswer(400, "code is a number from 1000 to 4999")
        }
        let reason = item("reason") ?? ""
        guard reason.utf8.count <= 123 else { return HTTPAnswer(400, "reason is longer than 123 bytes") }
        server.closeSessions(code: code, reason: reason, sessionID: item("session"))
        return HTTPAnswer(200, "done")
    }
}
