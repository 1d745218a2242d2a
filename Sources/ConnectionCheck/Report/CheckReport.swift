// The report of a first contact with a service. Values come in only by a list of what is safe: numbers, booleans, and
// texts for people without secrets; of every other text only the length.
package import DecartProtocol

package struct CheckReport: Sendable {
    private let output: CheckOutput
    private let entries: [SessionRecording.Entry]
    private let messages: [Message]
    private let redact: Redactor

    private struct Message {
        var entry: SessionRecording.Entry
        var isSent: Bool
        /// nil: not a JSON object with a type.
        var type: String?
        var value: JSONValue
        var size: Int
        var label: String { (isSent ? "sent " : "received ") + (type ?? "malformed") }
    }

    /// - Parameter secrets: the key and other texts that must not appear. The report adds those of the messages.
    package init(_ output: CheckOutput, _ recording: [SessionRecording.Entry], secrets: [String]) {
        entries = recording
        messages = Self.messages(recording)
        redact = Redactor(secrets + Self.texts(of: recording))
        var output = output
        output.session = output.session?.mappingText { [redact] in redact($0) }
        for index in output.results.indices where output.results[index].kind == .session {
            output.results[index].message = redact(output.results[index].message)
        }
        self.output = output
    }

    private static func messages(_ recording: [SessionRecording.Entry]) -> [Message] {
        recording.compactMap { entry in
            switch entry.event {
            case .sent(let bytes): message(entry, bytes, isSent: true)
            case .received(let bytes): message(entry, bytes, isSent: false)
            default: nil
            }
        }
    }

    private static func message(_ entry: SessionRecording.Entry, _ bytes: [UInt8], isSent: Bool) -> Message {
        let value = (try? JSONValue(decoding: bytes)) ?? .null
        return Message(entry: entry, isSent: isSent, type: value["type"]?.string, value: value, size: bytes.count)
    }

    /// All texts in the messages but their types and the texts for people: tokens, names, addresses.
    static func texts(of recording: [SessionRecording.Entry]) -> [String] {
        messages(recording).flatMap { texts($0.value, path: $0.type ?? "") }
    }

    private static func texts(_ value: JSONValue, path: String) -> [String] {
        switch value {
        case .string(let text): KnownMessages.shownTexts.contains(path) || path.hasSuffix(".type") ? [] : [text]
        case .array(let values): values.flatMap { texts($0, path: path + "[]") }
        case .object(let fields): fields.flatMap { texts($0.value, path: "\(path).\($0.name)") }
        case .null, .bool, .number: []
        }
    }

    // MARK: The report

    package var json: JSONValue {
        .fields([
            "report": "decart-check", "format": .integer(1), "check": output.json,
            "events": .array(entries.map(event)), "types": .array(types), "sdp": .array(sdp),
            "candidates": candidates, "timings": timings, "comparison": comparison,
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
        case .sent(let bytes): details = described(Self.message(entry, bytes, isSent: true))
        case .received(let bytes): details = described(Self.message(entry, bytes, isSent: false))
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
            details = .fields(["event": isSent ? "room-sent" : "room-received", "kind": .string(message.kind)])
        case .roomChannel(let state): details = .fields(["event": "room", "state": .string(redact(state))])
        }
        guard case .object(let fields) = details else { return details }
        return .object(
            [JSONValue.Field("time-ms", .integer(entry.time)), JSONValue.Field("attempt", .integer(entry.attempt))]
                + fields)
    }

    private func described(_ message: Message) -> JSONValue {
        .fields([
            "event": message.isSent ? "sent" : "received", "type": message.type.map { .string(name($0)) } ?? .null,
            "size": .integer(message.size),
            "fields": message.type == nil ? nil : shown(message.value, path: message.type ?? "", depth: 0),
        ])
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

    // MARK: Types

    private struct TypeFacts {
        var count = 0
        var fields: [String: Set<String>] = [:]
    }

    private func facts(isSent: Bool) -> [String: TypeFacts] {
        var facts: [String: TypeFacts] = [:]
        for message in messages where message.isSent == isSent {
            guard let type = message.type else { continue }
            facts[type, default: TypeFacts()].count += 1
            for (path, kind) in Self.paths(message.value, "", depth: 0) where path != "type" {
                facts[type, default: TypeFacts()].fields[path, default: []].insert(kind)
            }
        }
        return facts
    }

    private static func paths(_ value: JSONValue, _ path: String, depth: Int) -> [(String, String)] {
        guard depth < 6 else { return [] }
        let own = path.isEmpty ? [] : [(path, value.kind)]
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

    private var types: [JSONValue] {
        [true, false].flatMap { isSent in
            facts(isSent: isSent).sorted { $0.key < $1.key }.map { type, facts in
                let known = KnownMessages.fromService[type]
                return JSONValue.fields([
                    "direction": isSent ? "sent" : "received", "type": .string(name(type)),
                    "count": .integer(facts.count), "known": isSent ? nil : .bool(known != nil),
                    "fields": .array(
                        facts.fields.sorted { $0.key < $1.key }.map { path, kinds in
                            .fields([
                                "path": .string(name(path)),
                                "kinds": .array(kinds.sorted().map { .string($0) }),
                                "known": isSent ? nil : .bool(known?.contains(path) ?? false),
                            ])
                        }),
                ])
            }
        }
    }

    // MARK: Media

    private var sdp: [JSONValue] {
        func described(_ channel: String, _ isSent: Bool, _ type: String, _ facts: SDPFacts) -> JSONValue {
            .fields([
                "channel": .string(channel), "direction": isSent ? "sent" : "received", "type": .string(type),
                "description": facts.json,
            ])
        }
        let direct = messages.compactMap { message -> JSONValue? in
            guard let type = message.type, ["offer", "answer"].contains(type), let text = message.value["sdp"]?.string
            else { return nil }
            return described("control", message.isSent, type, SDPFacts(text))
        }
        let room = roomMessages.compactMap { isSent, message in
            message.sdp.map { described("room", isSent, message.kind, $0) }
        }
        return direct + room
    }

    private var roomMessages: [(isSent: Bool, message: RoomMessage)] {
        entries.compactMap { if case .room(let isSent, let message) = $0.event { (isSent, message) } else { nil } }
    }

    /// Candidates that came as messages.
    private var candidates: JSONValue {
        func counted(_ isSent: Bool) -> JSONValue {
            var counts: [String: Int] = [:]
            for message in messages where message.isSent == isSent && message.type == "ice-candidate" {
                let line = message.value["candidate"]?["candidate"]?.string
                if let type = line.flatMap({ SDPFacts.type(ofCandidate: $0) }) { counts[type, default: 0] += 1 }
            }
            for (each, message) in roomMessages where each == isSent {
                if let type = message.candidate { counts[type, default: 0] += 1 }
            }
            return .object(counts.sorted { $0.key < $1.key }.map { JSONValue.Field($0.key, .integer($0.value)) })
        }
        return .fields(["sent": counted(true), "received": counted(false)])
    }

    // MARK: Order and timings

    /// The first message of each type and direction, in order, with its time.
    private var firsts: [(label: String, time: Int)] {
        var seen: Set<String> = []
        return messages.compactMap { seen.insert($0.label).inserted ? ($0.label, $0.entry.time) : nil }
    }

    private var timings: JSONValue {
        var fields = firsts.map { JSONValue.Field("first " + label($0.label), .integer($0.time)) }
        func add(_ title: String, _ request: String, _ answer: String) {
            guard let sent = messages.first(where: { $0.isSent && $0.type == request })?.entry.time,
                let received = messages.first(where: { !$0.isSent && $0.type == answer && $0.entry.time >= sent })
            else { return }
            fields.append(JSONValue.Field(title, .integer(received.entry.time - sent)))
        }
        add("prompt to prompt_ack", "prompt", "prompt_ack")
        add("offer to answer", "offer", "answer")
        add("livekit_join to livekit_room_info", "livekit_join", "livekit_room_info")
        return .object(fields.map { JSONValue.Field($0.name + " ms", $0.value) })
    }

    private func label(_ text: String) -> String {
        let parts = text.split(separator: " ", maxSplits: 1)
        return "\(parts.first ?? "") \(name(String(parts.last ?? "")))"
    }

    // MARK: Comparison

    private var comparison: JSONValue {
        let received = facts(isSent: false)
        let baseline = StandInBaseline.of(transport: output.session?.transport)
        func list(_ values: some Sequence<String>) -> JSONValue {
            .array(values.sorted().map { .string(name($0)) })
        }
        var unknown: [String] = []
        var additional: [String] = []
        var missing: [String] = []
        for (type, facts) in received {
            if let known = KnownMessages.fromService[type] {
                unknown += facts.fields.keys.filter { !known.contains($0) }.map { "\(type).\($0)" }
            }
            guard let expected = baseline.fields[type] else { continue }
            additional += facts.fields.keys.filter { !expected.contains($0) }.map { "\(type).\($0)" }
            missing += expected.filter { facts.fields[$0] == nil }.map { "\(type).\($0)" }
        }
        // The service's own order: what the element sends in between depends on timing too.
        let order = firsts.filter { $0.label.hasPrefix("received") }.map { label($0.label) }
        let roomKinds = Set(roomMessages.filter { !$0.isSent && !$0.message.isKnown }.map(\.message.kind))
        return .fields([
            "unknown-room-messages": .array(roomKinds.sorted().map { .string($0) }),
            "unknown-types": list(received.keys.filter { KnownMessages.fromService[$0] == nil }),
            "unknown-fields": list(unknown),
            "malformed-messages": .integer(messages.count { !$0.isSent && $0.type == nil }),
            "types-the-stand-in-does-not-send": list(received.keys.filter { baseline.fields[$0] == nil }),
            "types-only-the-stand-in-sends": list(baseline.fields.keys.filter { received[$0] == nil }),
            "fields-the-stand-in-does-not-send": list(additional),
            "fields-only-the-stand-in-sends": list(missing),
            "same-order": .bool(order == baseline.order),
            "order": .array(order.map { .string($0) }),
            "order-of-the-stand-in": .array(baseline.order.map { .string($0) }),
        ])
    }
}
