import DecartProtocol
import NIOCore
import NIOHTTP1

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

    /// The caller closes the connection.
    func write(to context: ChannelHandlerContext, promise: EventLoopPromise<Void>? = nil) {
        let body = ByteBuffer(string: (body ?? text) + "\n")
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
