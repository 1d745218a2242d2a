// The report of a first contact with a service. Values come in only by a list of what is safe: numbers, booleans, and
// texts for people without secrets; of every other text only the length.
package import DecartProtocol

package struct CheckReport: Sendable {
    private let output: CheckOutput
    private let entries: [SessionRecording.Entry]
    private let redact: Redactor

    /// - Parameter secrets: the key and other texts that must not appear. The report adds those of the messages.
    package init(_ output: CheckOutput, _ recording: [SessionRecording.Entry], secrets: [String]) {
        entries = recording
        redact = Redactor(secrets, others: Self.texts(of: recording))
        var output = output
        output.session = output.session?.mappingText { [redact] in redact($0) }
        for index in output.results.indices where output.results[index].kind == .session {
            output.results[index].message = redact(output.results[index].message)
        }
        self.output = output
    }

    /// All texts in the messages but their types and the texts for people: tokens, names, addresses.
    static func texts(of recording: [SessionRecording.Entry]) -> [String] {
        recording.flatMap { entry in
            switch entry.event {
            case .sent(let bytes), .received(let bytes):
                let value = Self.value(bytes)
                return texts(value, path: value["type"]?.string ?? "")
            default: return []
            }
        }
    }

    private static func value(_ bytes: [UInt8]) -> JSONValue { (try? JSONValue(decoding: bytes)) ?? .null }

    private static func texts(_ value: JSONValue, path: String) -> [String] {
        switch value {
        case .string(let text): KnownMessages.shownTexts.contains(path) || path.hasSuffix(".type") ? [] : [text]
        case .array(let values): values.flatMap { texts($0, path: path + "[]") }
        case .object(let fields): fields.flatMap { texts($0.value, path: "\(path).\($0.name)") }
        case .null, .bool, .number: []
        }
    }

    package var json: JSONValue {
        .fields([
            "report": "decart-check", "format": .integer(2), "check": output.json, "events": .array(entries.map(event)),
        ])
    }

    private func event(_ entry: SessionRecording.Entry) -> JSONValue {
        let details: JSONValue
        switch entry.event {
        case .requested(let items):
            details = .fields(["event": "requested", "query": .array(items.map { .string(name($0)) })])
        case .opened(let transport, let upgrade):
            details = .fields([
                "event": "opened", "connect-ms": transport.map { .integer($0.milliseconds) },
                "upgrade-ms": upgrade.map { .integer($0.milliseconds) },
            ])
        case .sent(let bytes): details = message(bytes, isSent: true)
        case .received(let bytes): details = message(bytes, isSent: false)
        case .closed(let code, let reason):
            details = .fields([
                "event": "closed-by-service", "code": code.map { .integer($0) }, "reason": .string(redact(reason)),
            ])
        case .failed(let code, let stage, let status, let message):
            details = .fields([
                "event": "failed", "code": .string(code), "stage": .string(stage),
                "http-status": status.map { .integer($0) }, "message": .string(redact(message)),
            ])
        case .left: details = .fields(["event": "closed-by-client"])
        case .room(let isSent, let message):
            details = .fields([
                "event": isSent ? "room-sent" : "room-received", "kind": .string(message.kind),
                "known": message.isKnown ? nil : false, "description": message.sdp?.json,
                "candidate": message.candidate.map { .string($0) },
            ])
        case .roomChannel(let state): details = .fields(["event": "room", "state": .string(redact(state))])
        }
        guard case .object(let fields) = details else { return details }
        return .object(
            [JSONValue.Field("time-ms", .integer(entry.time)), JSONValue.Field("attempt", .integer(entry.attempt))]
                + fields)
    }

    // MARK: Messages of the control channel

    private func message(_ bytes: [UInt8], isSent: Bool) -> JSONValue {
        let value = Self.value(bytes)
        let type = value["type"]?.string
        // Only the service can send what this version does not know: the element sends what DecartProtocol encodes.
        let known = type.flatMap { KnownMessages.fromService[$0] }
        let unknown = isSent ? [] : known.map { known in Self.paths(value, "").filter { !known.contains($0) } } ?? []
        let candidate = value["candidate"]?["candidate"]?.string.flatMap { SDPFacts.type(ofCandidate: $0) }
        return .fields([
            "event": isSent ? "sent" : "received", "type": type.map { .string(name($0)) } ?? .null,
            "known": isSent || known != nil ? nil : false,
            "unknown-fields": unknown.isEmpty ? nil : .array(Set(unknown).sorted().map { .string(name($0)) }),
            "size": .integer(bytes.count),
            "fields": type.map { shown(value, path: $0, depth: 0) },
            "description": value["sdp"]?.string.map { SDPFacts($0).json },
            "candidate": candidate.map { .string($0) },
        ])
    }

    /// The paths of the fields in a message, without its type.
    private static func paths(_ value: JSONValue, _ path: String, depth: Int = 0) -> [String] {
        guard depth < 6, path != "type" else { return [] }
        let own = path.isEmpty ? [] : [path]
        switch value {
        case .object(let fields):
            return own
                + fields.prefix(64).flatMap {
                    paths($0.value, path.isEmpty ? $0.name : "\(path).\($0.name)", depth: depth + 1)
                }
        case .array(let values): return own + values.prefix(20).flatMap { paths($0, path + "[]", depth: depth + 1) }
        default: return own
        }
    }

    /// The fields of a message with their safe values.
    private func shown(_ value: JSONValue, path: String, depth: Int) -> JSONValue {
        switch value {
        case .null, .bool, .number: return value
        case .string(let text):
            if KnownMessages.shownTexts.contains(path) { return .string(redact(text)) }
            return .string("<text of \(text.count) characters>")
        case .array(let values):
            return .array(values.prefix(depth > 4 ? 0 : 20).map { shown($0, path: path + "[]", depth: depth + 1) })
        case .object(let fields):
            let inner = fields.filter { depth > 0 || $0.name != "type" }.prefix(depth > 4 ? 0 : 64)
            return .object(
                inner.map {
                    JSONValue.Field(name($0.name), shown($0.value, path: "\(path).\($0.name)", depth: depth + 1))
                })
        }
    }

    /// A name that the service chose: of a type or of a field.
    private func name(_ text: String) -> String {
        // A value elsewhere may happen to equal a name of the protocol, which is no secret.
        if KnownMessages.names.contains(text) { return text }
        let allowed = text.utf8.allSatisfy { $0.isAlphanumeric(or: "-_.[]") }
        return allowed && text.utf8.count <= 64 ? redact(text) : "<name of \(text.count) characters>"
    }
}
