// Makes a control message safe to keep: it is encoded again from what was understood, without keys, tokens, passwords,
// certificates' fingerprints and images.
package import DecartProtocol

package enum JournalText {
    /// Bytes of JSON; a longer message is only measured.
    private static let maximumSize = 32 << 10
    private static let redacted = "<redacted>"

    package static func text(_ message: ClientMessage, showsPrompts: Bool) -> String {
        if case .unknown = message { return typeOnly(message.type) }
        return text(try? message.encoded(), message.type, showsPrompts)
    }

    package static func text(_ message: ServerMessage, showsPrompts: Bool) -> String {
        if case .unknown = message { return typeOnly(message.type) }
        return text(try? message.encoded(), message.type, showsPrompts)
    }

    private static func text(_ bytes: [UInt8]?, _ type: String, _ showsPrompts: Bool) -> String {
        guard let value = try? bytes.map(JSONValue.init(decoding:)) else { return typeOnly(type) }
        let text = clean("", value, showsPrompts).compactText
        guard text.utf8.count <= maximumSize else {
            return JSONValue.fields(["type": .string(type), "size": .integer(text.utf8.count)]).compactText
        }
        return text
    }

    static func prompt(_ text: String, showsPrompts: Bool) -> String {
        showsPrompts ? text : "<\(text.count) characters>"
    }

    private static func typeOnly(_ type: String) -> String {
        JSONValue.fields(["type": .string(LogText.clean(type))]).compactText
    }

    /// - Parameter name: of the field that has the value.
    private static func clean(_ name: String, _ value: JSONValue, _ showsPrompts: Bool) -> JSONValue {
        switch (name, value) {
        case ("sdp", .string(let sdp)): .string(clean(sdp: sdp))
        case ("token", .string), ("username", .string), ("credential", .string): .string(redacted)
        case ("image_data", .string(let base64)): .string("<\(base64.utf8.count) bytes of base64>")
        case ("prompt", .string(let text)): .string(prompt(text, showsPrompts: showsPrompts))
        case (_, .object(let fields)): .object(fields.map { .init($0.name, clean($0.name, $0.value, showsPrompts)) })
        default: value
        }
    }

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
