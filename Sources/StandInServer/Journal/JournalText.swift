// Makes a control message safe to keep: it is encoded again from what was understood, without keys, tokens, passwords,
// certificates' fingerprints and images.
package import DecartProtocol

package enum JournalText {
    /// Bytes of JSON; a longer message is only measured.
    static let maximumSize = 32 << 10
    private static let redacted = "<redacted>"

    package static func text(_ message: ClientMessage, showsPrompts: Bool) -> String {
        if case .unknown = message { return unknown(message.type) }
        return limited(try? clean(message, showsPrompts).encoded(), message.type)
    }

    package static func text(_ message: ServerMessage, showsPrompts: Bool) -> String {
        if case .unknown = message { return unknown(message.type) }
        return limited(try? clean(message, showsPrompts).encoded(), message.type)
    }

    private static func limited(_ bytes: [UInt8]?, _ type: String) -> String {
        guard let bytes else { return unknown(type) }
        guard bytes.count <= maximumSize else {
            return JSONValue.fields(["type": .string(type), "size": .integer(bytes.count)]).compactText
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func unknown(_ type: String) -> String {
        JSONValue.fields(["type": .string(LogText.clean(type))]).compactText
    }

    private static func clean(_ message: ClientMessage, _ showsPrompts: Bool) -> ClientMessage {
        switch message {
        case .prompt(let prompt): .prompt(clean(prompt, showsPrompts))
        case .setImage(let image): .setImage(clean(image, showsPrompts))
        case .offer(let sdp): .offer(sdp: clean(sdp: sdp))
        case .answer(let sdp): .answer(sdp: clean(sdp: sdp))
        case .livekitJoin(let join): .livekitJoin(clean(join, showsPrompts))
        case .iceCandidate, .unknown: message
        }
    }

    private static func clean(_ join: LiveKitJoin, _ showsPrompts: Bool) -> LiveKitJoin {
        var join = join
        switch join.initialState {
        case .prompt(let prompt): join.initialState = .prompt(clean(prompt, showsPrompts))
        case .setImage(let image): join.initialState = .setImage(clean(image, showsPrompts))
        case nil: break
        }
        return join
    }

    private static func clean(_ message: ServerMessage, _ showsPrompts: Bool) -> ServerMessage {
        switch message {
        case .offer(let sdp): return .offer(sdp: clean(sdp: sdp))
        case .answer(let sdp): return .answer(sdp: clean(sdp: sdp))
        case .promptAck(var ack):
            ack.prompt = ack.prompt.map { showsPrompts ? $0 : hidden($0) }
            return .promptAck(ack)
        case .turnConfig(var server):
            server.username = server.username.map { _ in redacted }
            server.credential = server.credential.map { _ in Secret(redacted) }
            return .turnConfig(server)
        case .livekitRoomInfo(var info):
            info.token = Secret(redacted)
            return .livekitRoomInfo(info)
        default: return message
        }
    }

    private static func clean(_ prompt: PromptMessage, _ showsPrompts: Bool) -> PromptMessage {
        PromptMessage(text: showsPrompts ? prompt.text : hidden(prompt.text), enhance: prompt.enhance)
    }

    private static func clean(_ image: SetImageMessage, _ showsPrompts: Bool) -> SetImageMessage {
        var image = image
        if case .data(let base64) = image.image {
            image.image = .data(base64: "<\(base64.utf8.count) bytes of base64>")
        }
        if case .prompt(let prompt) = image.text, !showsPrompts { image.text = .prompt(hidden(prompt)) }
        return image
    }

    private static func hidden(_ prompt: String) -> String { "<\(prompt.count) characters>" }

    /// Attributes that prove an identity or protect media (RFC 8839, RFC 8122, RFC 4568, RFC 8827).
    private static let secretAttributes = ["a=ice-pwd:", "a=fingerprint:", "a=crypto:", "a=identity:", "a=tls-id:"]

    package static func clean(sdp: String) -> String {
        sdp.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map { line in
            let key = line.trimmingWhitespace().lowercased()
            let secret = secretAttributes.first { key.hasPrefix($0) || key.contains(" \($0)") }
            return secret.map { $0 + redacted } ?? String(line)
        }.joined(separator: "\r\n")
    }
}
