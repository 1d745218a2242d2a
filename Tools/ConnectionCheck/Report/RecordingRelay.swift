// A WebSocket server on loopback between the element and the service. It forwards each message and records it; of a
// LiveKit room it changes the URL, so that the room's signalling passes through the relay too. The element connects with
// a random key of this run, and to a room with the room's token, so that no other local program can use the relay, and
// with it the user's key.
package import DecartProtocol
import DecartSession
import EventLoopThreads
import Glibc
import Network
import Signalling
import Synchronization

package final class RecordingRelay: Sendable {
    package let recording: SessionRecording
    /// The key with which the element must connect.
    package let localKey: APIKey
    /// Base URL for the element.
    package let url: String

    private let listener: Listener
    private let upstream: Upstream

    package struct CannotListen: Error {}

    package init(to configuration: CheckConfiguration, key: APIKey, recording: SessionRecording) throws {
        let nonce = (0..<24).map { _ in UInt8.random(in: .min ... .max) }
        let localKey = try APIKey("relay-" + Base64.encode(nonce, alphabet: .url))
        let upstream = Upstream(configuration, key: key, localKey: localKey, recording)
        // The thread of all channels: the two ends of a connection can call each other directly.
        guard let address = SocketAddress(ip: "127.0.0.1", port: 0),
            let listener = try? Listener(
                at: address, backlog: 16, on: .shared, onAccept: { _ = RelayLink(upstream, $0) })
        else { throw CannotListen() }
        self.listener = listener
        self.upstream = upstream
        self.recording = recording
        self.localKey = localKey
        url = "ws://127.0.0.1:\(listener.port)"
        upstream.rooms.setBase(url)
    }

    /// Closes the listener and waits, for a second at most, until the element's connections have ended, so that the
    /// recording has their ends too.
    package func close() {
        listener.close()
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
        let path = head.target.prefix { $0 != "?" }
        let parts = path.split(separator: "/", maxSplits: 2)
        guard parts.count == 3, parts[0] == "room", let number = Int(parts[1]) else { return nil }
        let room = state.withLock { $0.rooms.indices.contains(number) ? $0.rooms[number] : nil }
        guard let room, head.fields.first("Authorization") == "Bearer " + room.token.reveal() else { return nil }
        return (room, "/" + String(parts[2]))
    }
}

/// One connection of the element and the service's channel for it. They hold each other until both have ended.
// @unchecked: used only on the network thread.
private final class RelayLink: @unchecked Sendable {
    private static let limits = WebSocketLimits(messageSize: ClientMessage.maximumSize, fragments: 4096)
    private static let closeLimit = Duration.milliseconds(500)

    private let upstream: Upstream
    private var attempt = 0
    private var request: HTTPServerConnection?
    private var element: WebSocketConnection?
    private var channel: WebSocketChannel?
    private var isRoom = false
    /// One of the two ends has ended; what the other reports of its end is no news.
    private var isOver = false

    init(_ upstream: Upstream, _ stream: ByteStream) {
        self.upstream = upstream
        request = HTTPServerConnection(stream) { event in
            switch event {
            case .head(let head): self.open(head)
            case .ended: self.left()
            case .body, .end: break
            }
        }
    }

    // MARK: Opening

    /// Opens the service's channel; upgrades the element's connection only when that is open.
    private func open(_ head: HTTPRequestHead) {
        guard WebSocketUpgrade.problem(of: head) == nil, let (url, configuration) = target(of: head) else {
            return refuse(401, "invalid api key")
        }
        request?.hold()
        let channel = WebSocketChannel(url: url, configuration: configuration) { self.received($0) }
        self.channel = channel
        upstream.openLinks.wrappingAdd(1, ordering: .relaxed)
        channel.open(timeout: .seconds(15))
    }

    /// Answers a connection that is not forwarded, with the service's own status if there is one.
    private func refuse(_ status: Int, _ reason: String) {
        let body = [UInt8](reason.utf8)
        let head = HTTPResponseHead(
            status: status,
            fields: ["Connection": "close", "Content-Type": "text/plain", "Content-Length": "\(body.count)"])
        request?.answer(head, body: body)
        request = nil
    }

    private func upgrade() {
        element = request?.upgrade(limits: Self.limits)
        request = nil
        element?.onEvent = { self.received($0) }
        element?.start()
    }

    /// Chooses the service's channel for a connection of the element; nil: the connection may not use the relay.
    private func target(of head: HTTPRequestHead) -> (ServiceURL, WebSocketChannel.Configuration)? {
        let configuration = upstream.configuration
        let items = PercentEncoding.queryItems(ofTarget: head.target)
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

    // MARK: Events

    private func received(_ event: SignallingEvent) {
        record(event)
        switch event {
        case .opened: upgrade()
        case .text(let bytes): deliver(.text, throughRelay(bytes), size: bytes.count)
        case .binary(let bytes): deliver(.binary, bytes, size: bytes.count)
        case .silent: channel?.close()
        case .answered: break
        case .closed(let code, let reason):
            if let code = code.flatMap({ UInt16(exactly: $0) }) {
                element?.sendClose(code: code, reason: reason.printable(limit: 40))
            }
            ended((502, "the service has closed the connection"))
        case .failed(let error): ended((error.httpStatus ?? 502, error.message))
        }
    }

    /// The service may send more as soon as the element's connection has taken what came.
    /// - Parameter size: of the message as it came.
    private func deliver(_ opcode: WebSocketOpcode, _ bytes: [UInt8], size: Int) {
        let handled = { [channel] in
            channel?.messageHandled(size: size)
            return
        }
        if let element { element.send(opcode, bytes, completion: handled) } else { handled() }
    }

    /// The service's channel has ended.
    private func ended(_ refusal: (status: Int, reason: String)) {
        isOver = true
        channel = nil
        upstream.openLinks.wrappingSubtract(1, ordering: .relaxed)
        refuse(refusal.status, refusal.reason)
        element?.finish(within: Self.closeLimit)
        element = nil
    }

    private func received(_ event: WebSocketConnection.Event) {
        switch event {
        case .message(.text(let bytes)), .message(.binary(let bytes)):
            upstream.recording.add(
                isRoom ? .room(isSent: true, RoomMessage(bytes, isSent: true)) : .sent(bytes), attempt: attempt)
            channel?.send(bytes)
        case .message(.ping(let bytes)): element?.send(.pong, bytes)
        case .message(.close(let code, let reason)): close(code, reason)
        case .message(.violation(let code, let reason)): close(code, reason)
        case .message(.pong), .writable: break
        case .ended: left()
        }
    }

    private func close(_ code: UInt16?, _ reason: String) {
        element?.sendClose(code: code, reason: reason)
        element?.finish(within: Self.closeLimit)
        left()
    }

    /// The element has closed its connection.
    private func left() {
        request = nil
        guard !isOver else { return }
        isOver = true
        if element != nil {
            upstream.recording.add(isRoom ? .roomChannel("closed by the client") : .left, attempt: attempt)
        }
        channel?.close()
    }

    /// Replaces the URL of a room by the relay's; all other messages stay as they are.
    private func throughRelay(_ message: [UInt8]) -> [UInt8] {
        guard case .livekitRoomInfo(let info)? = try? ServerMessage(decoding: message),
            let url = upstream.rooms.add(info, allowInsecure: upstream.configuration.isInsecure, attempt: attempt),
            case .object(let fields)? = try? JSONValue(decoding: message)
        else { return message }
        let changed = fields.map { $0.name == "livekit_url" ? JSONValue.Field($0.name, .string(url)) : $0 }
        return [UInt8](JSONValue.object(changed).text.utf8)
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
}
