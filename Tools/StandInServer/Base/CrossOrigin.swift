import Network

/// Requests by which web pages of other origins ask for rooms to watch and for client tokens. `BrowserGuard` has refused
/// those of origins that are not permitted.
enum CrossOrigin {
    private static func isPermitted(_ head: HTTPRequestHead) -> Bool {
        head.path.hasSuffix("/v1/client/tokens") || head.path.contains("/watch-stream/")
    }

    /// The answer to a browser's question before the request; nil: this is no such question.
    static func preflight(_ head: HTTPRequestHead) -> HTTPAnswer? {
        guard head.method == "OPTIONS", isPermitted(head), head.fields.contains("Access-Control-Request-Method") else {
            return nil
        }
        var answer = permitting(HTTPAnswer(200, "preflight"), to: head)
        answer.headers["Access-Control-Allow-Methods"] = "POST, OPTIONS"
        answer.headers["Access-Control-Allow-Headers"] = "x-api-key, content-type"
        answer.headers["Access-Control-Max-Age"] = "600"
        return answer
    }

    static func permitting(_ answer: HTTPAnswer, to head: HTTPRequestHead) -> HTTPAnswer {
        guard isPermitted(head), let origin = head.fields.first("Origin") else { return answer }
        var answer = answer
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Vary"] = "Origin"
        return answer
    }
}
