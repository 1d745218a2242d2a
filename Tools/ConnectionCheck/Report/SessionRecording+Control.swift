// The recording without secrets, for a replay. Of the client's messages it keeps the types, of the service's what
// `ControlRecording.Message` can hold; the texts for people pass the `Redactor`.
package import DecartProtocol

extension SessionRecording {
    /// - Parameter secrets: the key and other texts that must not appear. The texts of the messages are added.
    package static func control(_ entries: [Entry], secrets: [String]) -> ControlRecording {
        var conversion = ControlConversion(redact: Redactor(secrets, others: CheckReport.texts(of: entries)))
        return ControlRecording(
            entries.compactMap { entry in
                conversion.event(entry).map {
                    ControlRecording.Entry(attempt: max(entry.attempt, 1), time: entry.time, event: $0)
                }
            })
    }
}

private struct ControlConversion {
    let redact: Redactor
    /// The texts of the prompts of each attempt, in order.
    private var prompts: [Int: [String]] = [:]

    init(redact: Redactor) { self.redact = redact }

    mutating func event(_ entry: SessionRecording.Entry) -> ControlRecording.Event? {
        switch entry.event {
        case .opened: return .opened
        case .sent(let bytes):
            guard let message = try? ClientMessage(decoding: bytes) else { return .sent(type: "malformed") }
            prompts[entry.attempt, default: []] += message.promptTexts
            return .sent(type: name(message.type))
        case .received(let bytes): return .received(message(bytes, attempt: entry.attempt))
        case .closed(let code, let reason):
            let code = code.flatMap { (1000...4999).contains($0) ? $0 : nil }
            return .closed(code: code, reason: Self.bounded(redact(reason)))
        case .failed(_, _, let status, let message):
            let status = status.flatMap { (100...599).contains($0) ? $0 : nil }
            return .failed(httpStatus: status, reason: redact(message))
        case .left: return .left
        case .requested, .room, .roomChannel: return nil
        }
    }

    private func message(_ bytes: [UInt8], attempt: Int) -> ControlRecording.Message {
        guard let message = try? ServerMessage(decoding: bytes) else { return .malformed }
        if let kind = ControlRecording.Message.Kind(rawValue: message.type) { return .made(kind) }
        switch message {
        case .status(let text): return .plain(.status(redact(text)))
        case .unknown(let type): return .plain(.unknown(type: name(type)))
        case .promptAck(var ack):
            ack.prompt = ack.prompt.map { promptName($0, attempt: attempt) }
            return .plain(ServerMessage.promptAck(ack).mappingText { redact($0) })
        default: return .plain(message.mappingText { redact($0) })
        }
    }

    /// The latest prompt with this text: an acknowledgement answers the one that was sent last.
    private func promptName(_ text: String, attempt: Int) -> String {
        let index = prompts[attempt]?.lastIndex(of: text)
        return index.map { PromptName.name($0 + 1) } ?? PromptName.other
    }

    /// The name of a type, which the peer chose.
    private func name(_ text: String) -> String {
        if KnownMessages.names.contains(text) { return text }
        let isPlain = text.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte) || byte == UInt8(ascii: "_")
        }
        return isPlain && text.utf8.count <= 64 && redact(text) == text ? text : "unknown"
    }

    /// RFC 6455 §5.5: a control frame has at most 125 bytes, two of them the code.
    private static func bounded(_ text: String) -> String {
        var text = text
        while text.utf8.count > 123 { text.removeLast() }
        return text
    }
}
