// The rules of an open WebSocket: which messages pass, liveness, and the closing handshake. Runs on the network thread.
import DecartSession
import EventLoopThreads
import Network

final class FrameHandler {
    /// Events for the owning channel. `closed`, `violated` and `failed` are final.
    enum Event {
        case text([UInt8])
        case binary([UInt8])
        case closed(code: Int?, reason: String)
        case violated(reason: String)
        case failed(NetworkError)
        /// No frame has arrived for a whole interval after a ping. Repeated after each further interval.
        case silent
        /// A frame arrived after `probe`.
        case answered
    }

    private enum Phase { case open, closing, ended }

    /// Limit of the fragments of a message.
    static let maximumFragments = 64

    private let configuration: WebSocketChannel.Configuration
    private let webSocket: WebSocketConnection
    private let onEvent: (Event) -> Void
    private let startedAt = monotonicTime
    private var rate = MessageRate()
    private var phase = Phase.open
    private var pingTimer: NetworkTimer?
    private var closeTimer: NetworkTimer?
    private var pingSentAt: Duration?
    private var hasReceivedSincePing = true
    private var isProbing = false
    private var isReading = true
    private var isPonging = false
    private var nextPong: [UInt8]?

    init(
        _ configuration: WebSocketChannel.Configuration, over webSocket: WebSocketConnection,
        onEvent: @escaping (Event) -> Void
    ) {
        (self.configuration, self.webSocket, self.onEvent) = (configuration, webSocket, onEvent)
        webSocket.onEvent = { self.received($0) }
        schedulePing()
        webSocket.start()
    }

    private var thread: NetworkThread { webSocket.thread }

    // MARK: Receiving

    private func received(_ event: WebSocketConnection.Event) {
        switch event {
        case .message(let message): received(message)
        case .writable: break
        case .ended(let error):
            pingTimer?.cancel()
            closeTimer?.cancel()
            guard phase != .ended else { return }
            phase = .ended
            onEvent(error.map { .failed($0) } ?? .closed(code: nil, reason: "without a close frame"))
        }
    }

    private func received(_ message: WebSocketEvent) {
        hasReceivedSincePing = true
        guard phase != .ended else { return }
        if isProbing {
            isProbing = false
            onEvent(.answered)
        }
        // Frames of all kinds count, because each costs this thread some work.
        if phase == .open, !isWithinRate(message) { return }
        switch message {
        // Ignore messages of the other kind.
        case .text(let bytes):
            guard phase == .open else { return }
            if configuration.messages == .text { onEvent(.text(bytes)) }
        case .binary(let bytes):
            guard phase == .open else { return }
            if configuration.messages == .binary { onEvent(.binary(bytes)) }
        case .ping(let payload): pong(payload)
        case .pong: break
        case .close(let code, let reason):
            // §5.5.1: echo the close frame; the server then closes the socket first.
            if phase == .open { webSocket.sendClose(code: code) }
            end(.closed(code: code.map(Int.init), reason: reason))
        case .violation(let code, let reason): violate(code, reason)
        }
    }

    /// Ends the connection if the peer sends more messages than any service does.
    private func isWithinRate(_ message: WebSocketEvent) -> Bool {
        let size: Int
        switch message {
        case .text(let bytes), .binary(let bytes), .ping(let bytes), .pong(let bytes): size = bytes.count
        case .close, .violation: return true
        }
        guard !rate.allows(size, at: monotonicTime - startedAt) else { return true }
        let (count, bytes) = ("\(MessageRate.most) messages and control frames", "\(MessageRate.mostBytes >> 20) MiB")
        violate(1008, "more than \(count) or \(bytes) in \(MessageRate.window.components.seconds) s")
        return false
    }

    private func violate(_ code: UInt16, _ reason: String) {
        if phase == .open { webSocket.sendClose(code: code) }
        end(.violated(reason: reason))
    }

    /// Pauses or resumes reading. The peer cannot count as dead while reading is paused, because no frame can arrive.
    func setReading(_ isReading: Bool) {
        self.isReading = isReading
        hasReceivedSincePing = true
        webSocket.setReading(isReading)
    }

    // MARK: Sending

    /// Sends a message.
    /// - Parameter completion: called after the system has accepted the bytes, or cannot any more.
    func send(_ bytes: [UInt8], completion: @escaping () -> Void) {
        guard phase == .open else { return completion() }
        webSocket.send(configuration.messages == .text ? .text : .binary, bytes, completion: completion)
    }

    /// Starts the closing handshake, bounded by a timeout.
    func close() {
        guard phase == .open else { return }
        phase = .closing
        webSocket.sendClose(code: 1000)
        closeSoon()
    }

    /// §5.5.3: only the last of several pings needs a response, so at most one pong is in flight.
    private func pong(_ payload: [UInt8]) {
        nextPong = payload
        guard !isPonging, phase == .open else { return }
        isPonging = true
        writeNextPong()
    }

    private func writeNextPong() {
        guard let payload = nextPong, phase == .open else {
            isPonging = false
            return
        }
        nextPong = nil
        // One turn of the loop later, so that a flood of pings in one read gets a single pong.
        webSocket.send(.pong, payload) { [thread] in thread.later { self.writeNextPong() } }
    }

    // MARK: Closing

    /// Closes the connection at once, without an event.
    func abandon() {
        phase = .ended
        pingTimer?.cancel()
        closeTimer?.cancel()
        webSocket.close()
    }

    private func end(_ event: Event) {
        guard phase != .ended else { return }
        phase = .ended
        pingTimer?.cancel()
        onEvent(event)
        closeSoon()
    }

    /// Closes the socket after a delay, so that written frames can be sent and the peer can close first.
    private func closeSoon() {
        guard closeTimer == nil else { return }
        closeTimer = thread.later(after: configuration.closeLimit) { [self] in
            webSocket.close()
            // After our own close frame, the channel waits for the end.
            guard phase != .ended else { return }
            phase = .ended
            pingTimer?.cancel()
            onEvent(.closed(code: nil, reason: "without a close frame"))
        }
    }

    // MARK: Liveness

    private func schedulePing() {
        pingTimer = thread.later(after: configuration.pingInterval) { self.tick() }
    }

    private func tick() {
        guard phase == .open else { return }
        let now = monotonicTime
        // If this process was suspended, the pong may still be unread in the socket: ping again.
        let isLate = pingSentAt.map { now - $0 > configuration.pingInterval * 2 } ?? false
        if !hasReceivedSincePing, !isLate, isReading { onEvent(.silent) }
        // The owner may have closed the channel.
        guard phase == .open else { return }
        hasReceivedSincePing = false
        pingSentAt = now
        ping()
        schedulePing()
    }

    private func ping() { webSocket.send(.ping, []) }

    func probe() {
        guard phase == .open else { return }
        isProbing = true
        ping()
    }
}
