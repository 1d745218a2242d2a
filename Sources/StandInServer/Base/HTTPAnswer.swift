import DecartProtocol
import NIOCore
import NIOHTTP1

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

    init(json: JSONValue, status: Int = 200, words: String = "JSON") {
        self.init(status, words)
        contentType = "application/json"
        body = json.compactText
    }

    init(_ status: Int, detail: JSONValue) {
        self.init(json: .fields(["detail": detail]), status: status, words: "with a detail")
    }

    /// An error of a request whose answers are JSON.
    init(error words: String, status: Int = 400) {
        self.init(json: .fields(["error": .string(words)]), status: status, words: words)
    }

    /// The caller closes the connection.
    func write(to context: ChannelHandlerContext, promise: EventLoopPromise<Void>? = nil) {
        let body = ByteBuffer(string: (body ?? words) + "\n")
        var fields = HTTPHeaders([
            ("Connection", "close"), ("Content-Type", contentType), ("Content-Length", "\(body.readableBytes)"),
        ])
        for (name, value) in headers { fields.add(name: name, value: value) }
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: status), headers: fields)
        context.write(NIOAny(HTTPServerResponsePart.head(head)), promise: nil)
        context.write(NIOAny(HTTPServerResponsePart.body(.byteBuffer(body))), promise: nil)
        context.writeAndFlush(NIOAny(HTTPServerResponsePart.end(nil)), promise: promise)
    }
}
