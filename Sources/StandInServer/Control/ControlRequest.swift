import DecartProtocol

/// A request to the control endpoint.
struct ControlRequest: Sendable {
    let method: String
    let target: String
    let body: String

    static let help = """
        GET    /control/faults      the faults of new connections, one SPEC a line
        POST   /control/faults      replaces them by the SPECs of the body
        DELETE /control/faults      no more faults
        POST   /control/inject      puts the SPECs of the body into running sessions
        GET    /control/sessions    JSON: sessions, the ended ones included
        POST   /control/close       closes sessions; ?code= (1001), reason=
        POST   /control/drop        resets connections
        inject, close and drop take ?session=ID; without it they mean all.
        """

    func answer(_ server: StandInServer) -> HTTPAnswer {
        let path = String(target.prefix { $0 != "?" })
        do {
            switch (method, path) {
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
                var answer = HTTPAnswer(200, "sessions")
                answer.contentType = "application/json"
                answer.body = SessionsJSON.text(server.sessions)
                return answer
            case ("POST", "/control/close"): return close(server)
            case ("POST", "/control/drop"):
                if let session = item("session") { server.dropSession(session) } else { server.dropAll() }
                return HTTPAnswer(200, "done")
            case ("GET", "/control"), ("GET", "/"): return HTTPAnswer(200, Self.help)
            default: return HTTPAnswer(404, Self.help)
            }
        } catch {
            return HTTPAnswer(400, String(describing: error))
        }
    }

    private func specs() throws(FaultSyntaxError) -> [Fault] {
        try FaultPlan(parsing: body.split(whereSeparator: \.isNewline).map(String.init)).faults
    }

    private func item(_ name: String) -> String? {
        PercentEncoding.queryItems(ofTarget: target).first { $0.name == name }?.value
    }

    private func faults(of server: StandInServer) -> HTTPAnswer {
        HTTPAnswer(200, server.faults.map(\.description).joined(separator: "\n"))
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

/// Encodes session records as JSON. Prompts are only counted, because they are private.
enum SessionsJSON {
    static func text(_ records: [SessionRecord]) -> String {
        "{\"sessions\":[" + records.map(text).joined(separator: ",") + "]}"
    }

    private static func text(_ record: SessionRecord) -> String {
        let (seconds, attoseconds) = record.age.components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        let fields: [(String, String)] = [
            ("number", String(record.number)), ("id", quoted(record.sessionID)),
            ("model", quoted(record.request.model)), ("state", quoted(state(record))),
            ("age_ms", String(milliseconds)), ("prompts", String(record.promptCount)),
            ("images", String(record.imageCount)), ("refusals", String(record.refusalCount)),
            ("frames_in", String(record.frameCount)), ("frames_out", String(record.sentFrameCount)),
            ("ticks", String(record.tickCount)), ("muted_tracks", String(record.mutedTracks.count)),
            ("viewers", String(record.viewerCount)),
            ("room_joins", String(record.roomJoinCount)), ("room_resumes", String(record.roomResumeCount)),
            ("room_offers", String(record.roomOfferCount)),
        ]
        return "{" + fields.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
    }

    private static func state(_ record: SessionRecord) -> String {
        if !record.isOpen { return "closed" }
        if record.isGenerating { return "generating" }
        return record.offerCount > 0 ? "negotiating" : "open"
    }

    /// Escapes a string (RFC 8259 §7).
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let hex = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
