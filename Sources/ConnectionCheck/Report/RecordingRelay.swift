// A WebSocket server on loopback between the element and the service. It forwards each message and records it; of a
// LiveKit room it changes the URL, so that the room's signalling passes through the relay too. The element connects with
// a random key of this run, and to a room with the room's token, so that no other local program can use the relay, and
// with it the user's key.
package import DecartProtocol
import DecartSession
import Dispatch
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Signalling
import Synchronization

package final class RecordingRelay: Sendable {
    package let recording: SessionRecording
    /// The key with which the element must connect.
    package let localKey: APIKey
    /// Base URL for the element.
    package let url: String

    private let listener: any Channel
    private let upstream: Upstream

    package struct CannotListen: Error {}

    /// Opens the listener. Blocks until it listens; must not be called on the network thread.
    package init(to configuration: CheckConfiguration, key: APIKey, recording: SessionRecording) throws {
        let nonce = (0..<24).map { _ in UInt8.random(in: .min ... .max) }
        let localKey = try APIKey("relay-" + Base64.encode(nonce, alphabet: .url))
        let upstream = Upstream(configuration, key: key, localKey: localKey, recording)
        // The event loop of all channels: the two ends of a connection can call each other directly.
        listener = try ServerBootstrap(group: EventLoops.group.next())
            .serverChannelOption(.backlog, value: 16)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.keepFromChildren()
                return channel.eventLoop.makeCompletedFuture { try upstream.install(on: channel) }
            }
            .bind(host: "127.0.0.1", port: 0)
            .wait()
        guard let port = listener.localAddress?.port else { throw CannotListen() }
        self.upstream = upstream
        self.recording = recording
        self.localKey = localKey
        url = "ws://127.0.0.1:\(port)"
        upstream.rooms.setBase(url)
    }

    /// Closes the listener and waits, for a second at most, until the element's connections have ended, so that the
    /// recording has their ends too.
    package func close() {
        listener.close(promise: nil)
        let end = ContinuousClock.now + .seconds(1)
        while upstream.openLinks.load(ordering: .relaxed) > 0, .now < end { usleep(10_000) }
    }
}

/// Opens the service's channel for each connection of the element.
private final class Upstream: Sendable {
    let configuration: CheckConfiguration
    let key: APIKey
    let localKey: APIKey
    let recording: SessionRecording
    let attempts = Atomic(0)
    let openLinks = Atomic(0)
    let rooms = RelayRooms()

    init(_ configuration: CheckConfiguration, key: APIKey, localKey: APIKey, _ recording: SessionRecording) {
        (self.configuration, self.key, self.localKey, self.recording) = (configuration, key, localKey, recording)
    }

    func install(on channel: any Channel) throws {
        let link = NIOLoopBound(RelayLink(self), eventLoop: channel.eventLoop)
        let upgrader = NIOWebSocketServerUpgrader(
            maxFrameSize: ClientMessage.maximumSize,
            shouldUpgrade: { channel, head in link.value.open(head, channel.eventLoop) },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(
                        NIOWebSocketFrameAggregator(
                            minNonFinalFragmentSize: 1, maxAccumulatedFrameCount: 4096,
                            maxAccumulatedFrameSize: ClientMessage.maximumSize))
                    try pipeline.addHandler(RelayHandler(link.value))
                }
            })
        let pipeline = channel.pipeline.syncOperations
        try pipeline.configureHTTPServerPipeline(
            withServerUpgrade: (
                upgraders: [upgrader],
                completionHandler: { context in
                    context.pipeline.syncOperations.removeHandler(name: RelayRefusal.name, promise: nil)
                }
            ))
        try pipeline.addHandler(RelayRefusal(link.value), name: RelayRefusal.name)
    }
}

/// The rooms that the service has named, by their number.
private final class RelayRooms: Sendable {
    struct Room {
        var url: String
        var token: APIKey
        var attempt: Int
    }

    private let state = Mutex((base: "", rooms: [Room]()))

    func setBase(_ url: String) { state.withLock { $0.base = url } }

    /// Returns the relay's URL for a room of the service; nil if the service's URL or token cannot be used.
    func add(_ info: LiveKitRoomInfo, allowInsecure: Bool, attempt: Int) -> String? {
        guard let token = try? APIKey(info.token.reveal()),
            (try? ServiceURL(room: info.url, token: token, allowInsecure: allowInsecure)) != nil
        else { return nil }
        return state.withLock { state in
            guard state.rooms.count < 100 else { return nil }
            state.rooms.append(Room(url: info.url, token: token, attempt: attempt))
            return "\(state.base)/room/\(state.rooms.count - 1)"
        }
    }

    /// Returns the room and the rest of a request's path, such as "/rtc", if the request has the room's token.
    func room(_ head: HTTPRequestHead) -> (Room, path: String)? {
        let path = head.uri.prefix { $0 != "?" }
        let parts = path.split(separator: "/", maxSplits: 2)
        guard parts.count == 3, parts[0] == "room", let number = Int(parts[1]) else { return nil }
        let room = state.withLock { $0.rooms.indices.contains(number) ? $0.rooms[number] : nil }
        guard let room, head.headers.first(name: "Authorization") == "Bearer " + room.token.reveal() else { return nil }
        return (room, "/" + String(parts[2]))
    }
}

/// One connection of the element and the service's channel for it. Belongs to the event loop.
private final class RelayLink {
    private let upstream: Upstream
    private var attempt = 0
    private var channel: WebSocketChannel?
    private var decision: EventLoopPromise<HTTPHeaders?>?
    /// Events that came before the element's WebSocket was ready.
    private var waiting: [SignallingEvent] = []
    private var isOver = false
    private var isRoom = false
    /// The answer to a connection that is not forwarded.
    private(set) var refusal: (status: Int, reason: String) = (401, "invalid api key")
    weak var handler: RelayHandler?

    init(_ upstream: Upstream) { self.upstream = upstream }

    /// Opens the service's channel; upgrades the element's connection only when that is open.
    func open(_ head: HTTPRequestHead, _ loop: any EventLoop) -> EventLoopFuture<HTTPHeaders?> {
        guard channel == nil, let (url, configuration) = target(of: head) else { return loop.makeSucceededFuture(nil) }
        let bound = NIOLoopBound(self, eventLoop: loop)
        let channel = WebSocketChannel(url: url, configuration: configuration) { event in
            loop.execute { bound.value.received(event) }
        }
        self.channel = channel
        upstream.openLinks.wrappingAdd(1, ordering: .relaxed)
        let promise = loop.makePromise(of: HTTPHeaders?.self)
        decision = promise
        // Opening reads the root certificates.
        DispatchQueue.global().async { channel.open(timeout: .seconds(15)) }
        return promise.futureResult
    }

    /// Chooses the service's channel for a connection of the element; nil: the connection may not use the relay.
    private func target(of head: HTTPRequestHead) -> (ServiceURL, WebSocketChannel.Configuration)? {
        let configuration = upstream.configuration
        let items = PercentEncoding.queryItems(ofTarget: head.uri)
        if let (room, path) = upstream.rooms.room(head) {
            let url = try? ServiceURL(
                room: room.url, path: path, token: room.token, allowInsecure: configuration.isInsecure, options: items)
            guard let url else { return nil }
            isRoom = true
            attempt = room.attempt
            return (url, configuration.channel(.binary, trust: configuration.serverTrust))
        }
        guard items.contains(where: { $0.name == "api_key" && $0.value == upstream.localKey.reveal() }) else {
            return nil
        }
        let options = items.filter { $0.name != "api_key" && $0.name != "model" }
        attempt = upstream.attempts.wrappingAdd(1, ordering: .relaxed).newValue
        upstream.recording.add(.requested(items: (["api_key", "model"] + options.map(\.name))), attempt: attempt)
        let url = configuration.base.stream(key: upstream.key, model: configuration.model, options: options)
        return (url, configuration.channel(trust: configuration.trust))
    }

    private func received(_ event: SignallingEvent) {
        record(event)
        switch event {
        case .opened: decide([:])
        case .failed(let error):
            refusal = (error.httpStatus ?? 502, error.message)
            decide(nil)
        case .closed: decide(nil)
        case .silent: channel?.close()
        case .answered: break
        case .text(let bytes), .binary(let bytes): channel?.messageHandled(size: bytes.count)
        }
        let event = throughRelay(event)
        if let handler { handler.deliver(event) } else { waiting.append(event) }
        switch event {
        case .closed, .failed: upstream.openLinks.wrappingSubtract(1, ordering: .relaxed)
        case .opened, .text, .binary, .silent, .answered: break
        }
    }

    /// Replaces the URL of a room by the relay's; all other messages stay as they are.
    private func throughRelay(_ event: SignallingEvent) -> SignallingEvent {
        guard case .text(let bytes) = event, case .livekitRoomInfo(let info)? = try? ServerMessage(decoding: bytes),
            let url = upstream.rooms.add(info, allowInsecure: upstream.configuration.isInsecure, attempt: attempt),
            case .object(let fields)? = try? JSONValue(decoding: bytes)
        else { return event }
        let changed = fields.map { $0.name == "livekit_url" ? JSONValue.Field($0.name, .string(url)) : $0 }
        return .text([UInt8](JSONValue.object(changed).text.utf8))
    }

    private func decide(_ headers: HTTPHeaders?) {
        let decision = decision.take()
        decision?.succeed(headers)
    }

    private func record(_ event: SignallingEvent) {
        let entry: SessionRecording.Event? =
            switch event {
            case .silent, .answered: nil
            case .closed where isOver, .failed where isOver: nil
            // A room's channel delivers binary messages only, the service's control channel text only.
            case .text(let bytes): .received(bytes)
            case .binary(let bytes): .room(isSent: false, RoomMessage(bytes, isSent: false))
            case .opened where isRoom: .roomChannel("opened")
            case .closed(let code, _) where isRoom: .roomChannel("closed by the server, \(code ?? 0)")
            case .failed(let error) where isRoom:
                .roomChannel("failed, \(error.code.rawValue) in \(error.stage), HTTP \(error.httpStatus ?? 0)")
            case .opened(let transport, let upgrade): .opened(transport: transport, upgrade: upgrade)
            case .closed(let code, let reason): .closed(code: code, reason: reason)
            case .failed(let error):
                .failed(
                    code: error.code.rawValue, stage: error.stage.rawValue, httpStatus: error.httpStatus,
                    message: error.message)
            }
        if let entry { upstream.recording.add(entry, attempt: attempt) }
    }

    /// The element's WebSocket is ready.
    func attach(_ handler: RelayHandler) {
        self.handler = handler
        let events = waiting
        waiting = []
        for event in events { handler.deliver(event) }
    }

    func send(_ bytes: [UInt8]) {
        upstream.recording.add(
            isRoom ? .room(isSent: true, RoomMessage(bytes, isSent: true)) : .sent(bytes), attempt: attempt)
        channel?.send(bytes)
    }

    /// The element closed its connection.
    func left() {
        guard !isOver else { return }
        isOver = true
        if channel != nil, decision == nil {
            upstream.recording.add(isRoom ? .roomChannel("closed by the client") : .left, attempt: attempt)
        }
        channel?.close()
    }

    /// The service's channel has ended.
    func ended() { isOver = true }
}

/// The element's end of the relay.
private final class RelayHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let link: RelayLink
    private var context: ChannelHandlerContext?

    init(_ link: RelayLink) { self.link = link }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        link.attach(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        switch frame.opcode {
        case .text, .binary: link.send([UInt8](frame.unmaskedData.readableBytesView))
        case .ping: write(.pong, frame.unmaskedData)
        case .connectionClose:
            write(.connectionClose, frame.unmaskedData)
            context.close(promise: nil)
        default: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelInactive(context: ChannelHandlerContext) {
        link.left()
        context.fireChannelInactive()
    }

    func deliver(_ event: SignallingEvent) {
        switch event {
        case .opened, .silent, .answered: break
        case .text(let bytes): write(.text, ByteBuffer(bytes: bytes))
        case .binary(let bytes): write(.binary, ByteBuffer(bytes: bytes))
        case .closed(let code, let reason):
            link.ended()
            if let code = code.flatMap({ UInt16(exactly: $0) }) {
                var data = ByteBuffer()
                data.write(webSocketErrorCode: WebSocketErrorCode(codeNumber: Int(code)))
                // RFC 6455 §5.5: a control frame has at most 125 bytes.
                data.writeString(String(decoding: reason.utf8.prefix(120), as: UTF8.self).printable(limit: 40))
                write(.connectionClose, data)
            }
            context?.close(promise: nil)
        case .failed:
            link.ended()
            context?.close(promise: nil)
        }
    }

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer) {
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data)), promise: nil)
    }
}

/// Answers a connection that is not forwarded with the service's own status.
private final class RelayRefusal: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    static let name = "refusal"
    private let link: RelayLink

    init(_ link: RelayLink) { self.link = link }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .end = unwrapInboundIn(data) else { return }
        let (status, reason) = link.refusal
        let body = ByteBuffer(string: reason)
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: status),
            headers: [
                "Connection": "close", "Content-Type": "text/plain", "Content-Length": "\(body.readableBytes)",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        link.left()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The upgrader refused; the request itself follows.
        if !(error is NIOWebSocketUpgradeError) { context.close(promise: nil) }
    }
}
