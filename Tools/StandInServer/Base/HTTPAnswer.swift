import DecartProtocol
import Network

package struct HTTPAnswer: Error, Hashable {
    var status: Int
    /// Text for the log and the body; quotes nothing of the request.
    var text: String
    var contentType = "text/plain"
    /// Nil: `text`.
    var body: String?
    var headers: [String: String] = [:]

    init(_ status: Int, _ text: String) {
        self.status = status
        self.text = text
    }

    init(json: JSONValue, status: Int = 200, text: String = "JSON") {
        self.init(status, text)
        contentType = "application/json"
        body = json.compactText
    }

    init(_ status: Int, detail: JSONValue) {
        self.init(json: .fields(["detail": detail]), status: status, text: "with a detail")
    }

    /// An error of a request whose answers are JSON.
    init(error text: String, status: Int = 400) {
        self.init(json: .fields(["error": .string(text)]), status: status, text: text)
    }

    var bytes: [UInt8] { Array((body ?? text).utf8) + [0x0A] }

    var head: HTTPResponseHead {
        var fields: HTTPFields = [
            "Connection": "close", "Content-Type": contentType, "Content-Length": "\(bytes.count)",
        ]
        for (name, value) in headers { fields.add(name, value) }
        return HTTPResponseHead(status: status, fields: fields)
    }
}
