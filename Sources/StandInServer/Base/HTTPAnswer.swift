import DecartProtocol

package struct HTTPAnswer: Error, Hashable {
    var status: Int
    /// Text for the log and the body; quotes nothing of the request.
    var words: String
    var contentType = "text/plain"
    /// Nil: `words`.
    var body: String?
    var headers: [String: String] = [:]

    init(_ status: Int, _ words: String) {
        self.status = status
        self.words = words
    }
}

extension HTTPAnswer {
    init(json: JSONValue, status: Int = 200) {
        self.init(status, "JSON")
        contentType = "application/json"
        body = json.compactText
    }

    init(_ status: Int, detail: JSONValue) {
        self.init(json: .fields(["detail": detail]), status: status)
        words = "with a detail"
    }

    /// An error of a request whose answers are JSON.
    init(error words: String, status: Int = 400) {
        self.init(json: .fields(["error": .string(words)]), status: status)
        self.words = words
    }
}
