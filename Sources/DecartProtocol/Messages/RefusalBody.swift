/// The cause in the JSON body of an HTTP response that refuses a request: FastAPI's `{"detail": "…"}` or, with HTTP 422,
/// its list of invalid fields; `{"error": …}`, `{"message": …}`, and `error_type` as in a message.
package struct RefusalBody: Sendable, Equatable {
    package let text: String
    /// The service's word for the cause.
    package let type: String?

    /// Returns nil unless the body is such an object.
    package init?(decoding bytes: [UInt8]) {
        guard let body = try? JSONValue(decoding: bytes) else { return nil }
        let causes = ["detail", "error", "message", "title"].compactMap { body[$0] }
        guard let text = causes.compactMap(Self.text).first else { return nil }
        self.text = text
        type = ([body] + causes).compactMap { $0["error_type"]?.string }.first
    }

    private static func text(of cause: JSONValue) -> String? {
        switch cause {
        case .string(let text): text.isEmpty ? nil : text
        case .object: ["message", "msg", "error", "detail"].compactMap { cause[$0]?.string }.first
        case .array(let items): list(items.prefix(3).compactMap(field))
        default: nil
        }
    }

    private static func list(_ texts: [String]) -> String? { texts.isEmpty ? nil : texts.joined(separator: "; ") }

    /// `{"loc": ["query", "model"], "msg": "Field required"}` as "query.model: Field required".
    private static func field(_ item: JSONValue) -> String? {
        guard let message = item["msg"]?.string else { return nil }
        guard case .array(let location)? = item["loc"] else { return message }
        let path = location.compactMap(\.string).joined(separator: ".")
        return path.isEmpty ? message : "\(path): \(message)"
    }
}
