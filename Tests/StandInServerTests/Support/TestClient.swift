import DecartProtocol
import EventLoopThreads
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOWebSocket
import StandInServer
import TestSupport
import Testing

/// A WebSocket client without checks: it sends any frame and keeps every event. Calls block, each with a timeout.
final class TestClient: Sendable {
    enum Event: Sendable, Equatable {
        case message(ServerMessage)
        case unreadable([UInt8])
        case binary([UInt8])
        case pong([UInt8])
        case closeFrame(code: UInt16?)
        case closed
    }

    struct Refused: Error, Equatable {
        let status: UInt
    }

    /// `received` shows how far the exchange came.
    struct TimedOut: Error {
        var received: [String] = []
    }

    private let inbox = Watched(Inbox())
    private let channel: any Channel

    /// - Parameter trust: a PEM certificate; nil connects without TLS.
    init(port: Int, host: String = "127.0.0.1", target: String, trust: String? = nil) throws {
        let tls = try trust.map { path in
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.trustRoots = .file(path)
            configuration.shutdownTimeout = .milliseconds(100)
            return try NIOSSLContext(configuration: configuration)
        }
        let inbox = inbox
        let upgraded = TestLoop.group.next().makePromise(of: Void.self)
        let bootstrap = ClientBootstrap(group: TestLoop.group)
            .connectTimeout(.seconds(20))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls {
                        try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: "localhost"))
                    }
                    let upgrader = NIOWebSocketClientUpgrader(maxFrameSize: 1 << 24) { channel, _ in
                        channel.eventLoop.makeCompletedFuture {
                            let pipeline = channel.pipeline.syncOperations
                            pipeline.removeHandler(name: "request", promise: nil)
                            try pipeline.addHandler(FrameReader(inbox: inbox))
                            upgraded.succeed()
                        }
                    }
                    // The greeting may share a segment with the upgrade response: its bytes must not be dropped.
                    try pipeline.addHTTPClientHandlers(
                        leftOverBytesStrategy: .forwardBytes,
                        withClientUpgrade: (
                            upgraders: [upgrader], completionHandler: { _ in }
                        ))
                    try pipeline.addHandler(RequestWriter(target: target, upgraded: upgraded), name: "request")
                }
            }
        do {
            channel = try bootstrap.connect(host: host, port: port).wait()
        } catch {
            upgraded.fail(error)
            throw error
        }
        let limit = channel.eventLoop.scheduleTask(in: .seconds(20)) { upgraded.fail(TimedOut()) }
        defer { limit.cancel() }
        try upgraded.futureResult.wait()
    }

    func send(_ message: ClientMessage) throws {
        sendText(try message.encoded())
    }

    func sendText(_ bytes: some Sequence<UInt8>) {
        send(.text, Array(bytes))
    }

    func send(
        _ opcode: WebSocketOpcode, _ bytes: [UInt8], fin: Bool = true, rsv1: Bool = false, isMasked: Bool = true
    ) {
        let frame = WebSocketFrame(
            fin: fin, rsv1: rsv1, opcode: opcode, maskKey: isMasked ? WebSocketMaskingKey([1, 2, 3, 4]) : nil,
            data: ByteBuffer(bytes: bytes))
        channel.writeAndFlush(frame, promise: nil)
    }

    func ping(_ bytes: [UInt8]) {
        send(.ping, bytes)
    }

    /// Returns the next event in order, of any kind.
    func next(milliseconds: Int = 20_000) throws -> Event {
        _ = inbox.wait(.milliseconds(milliseconds)) { !$0.events.isEmpty }
        var event: Event?
        inbox.change { if !$0.events.isEmpty { event = $0.events.removeFirst() } }
        guard let event else { throw TimedOut(received: inbox.value.history) }
        return event
    }

    /// Skips events until one matches.
    func next(where fits: (Event) -> Bool) throws -> Event {
        while true {
            let event = try next()
            if fits(event) { return event }
        }
    }

    /// Sends a prompt and expects its acknowledgement as the next event.
    func expectAccepted(_ prompt: String = "lego", sourceLocation: SourceLocation = #_sourceLocation) throws {
        try send(.prompt(PromptMessage(text: prompt, enhance: false)))
        let ack = PromptAck(prompt: prompt, success: true)
        #expect(try next() == .message(.promptAck(ack)), sourceLocation: sourceLocation)
    }

    func awaitAnswer() throws { _ = try next { if case .message(.answer) = $0 { true } else { false } } }

    func expectGreeting() throws -> SessionIdentity {
        guard case .message(.status("ready")) = try next(), case .message(.sessionID(let identity)) = try next() else {
            throw TimedOut()
        }
        return identity
    }

    func close() {
        try? channel.close().wait()
    }
}

/// The event loop of all clients. Not NIO's shared group, whose threads take SIGPIPE.
enum TestLoop {
    static let group = blockingSIGPIPE { MultiThreadedEventLoopGroup(numberOfThreads: 1) }
}

/// The events that the test has not taken yet.
private struct Inbox: Sendable {
    var events: [TestClient.Event] = []
    /// Kinds of all messages so far.
    var history: [String] = []

    mutating func put(_ event: TestClient.Event) {
        if case .message(let message) = event { history.append(message.type) } else { history.append("\(event)") }
        events.append(event)
    }
}

private final class FrameReader: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    private let inbox: Watched<Inbox>

    init(inbox: Watched<Inbox>) { self.inbox = inbox }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        var payload = frame.unmaskedData
        let bytes = Array(payload.readableBytesView)
        switch frame.opcode {
        case .text: put((try? ServerMessage(decoding: bytes)).map { .message($0) } ?? .unreadable(bytes))
        case .binary: put(.binary(bytes))
        case .pong: put(.pong(bytes))
        case .connectionClose: put(.closeFrame(code: payload.readInteger()))
        default: break
        }
    }

    private func put(_ event: TestClient.Event) { inbox.change { $0.put(event) } }

    func channelInactive(context: ChannelHandlerContext) { put(.closed) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

private final class RequestWriter: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart
    private let target: String
    private let upgraded: EventLoopPromise<Void>

    init(target: String, upgraded: EventLoopPromise<Void>) {
        self.target = target
        self.upgraded = upgraded
    }

    func channelActive(context: ChannelHandlerContext) {
        let headers = HTTPHeaders([("Host", "localhost"), ("Content-Length", "0")])
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: target, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(let head) = unwrapInboundIn(data) else { return }
        upgraded.fail(TestClient.Refused(status: head.status.code))
        context.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        upgraded.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        upgraded.fail(ChannelError.eof)
    }
}
