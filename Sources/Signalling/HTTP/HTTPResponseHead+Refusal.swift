// The cause and the authentication scheme that an HTTP response names when it refuses a request. The caller removes its
// secrets from the texts.
import DecartProtocol
import Network

extension HTTPResponseHead {
    /// The text of the answer's body, and the service's word for the cause; nil: none, as in a page for people.
    func refusal(in body: [UInt8]) -> (text: String, type: String?)? {
        let type = (fields.first("Content-Type") ?? "").lowercased().prefix { $0 != ";" && !$0.isWhitespace }
        // Problem details (RFC 9457) are JSON by their suffix.
        guard type == "application/json" || type.hasSuffix("+json") || type == "text/plain" else { return nil }
        let answer = RefusalBody(decoding: body)
        var text = answer?.text ?? String(decoding: body.prefix(4096), as: UTF8.self)
        // Bodies often end with a line feed or a point, which would stand before the closing bracket of the sentence.
        while let last = text.last, last.isWhitespace || last == "." { text.removeLast() }
        return text.isEmpty ? nil : (text, answer?.type)
    }

    /// Names the property for the authentication scheme that the server requires (RFC 9110 §11.6.1).
    /// - Parameters:
    ///   - basic: where a user name and a password are set.
    ///   - bearer: where a token is set.
    func remedy(basic: String, bearer: String) -> String {
        // Parameters of a challenge have an equals sign; the first word of all others is a scheme.
        let schemes = fields.list("WWW-Authenticate").compactMap {
            $0.split(separator: " ").first.map { $0.lowercased() }
        }.filter { !$0.contains("=") }
        let others = schemes.filter { $0.utf8.count <= 32 && $0.utf8.allSatisfy(\.isTokenCharacter) }
        if schemes.contains("basic") { return "It wants Basic authentication: check \(basic)." }
        if schemes.contains("bearer") { return "It wants a Bearer token: check \(bearer)." }
        return others.isEmpty
            ? "Check \(bearer), or \(basic)."
            : "It wants \(others.prefix(4).joined(separator: ", ")) authentication, which is not supported: let it take "
                + "Basic or Bearer."
    }
}
