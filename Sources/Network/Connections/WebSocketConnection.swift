package import EventLoopThreads

/// An open WebSocket over a stream, in either role: frames in, messages out. When to ping, to close and to give up is its
/// owner's decision.
// @unchecked: used only on the stream's thread.
package final class WebSocketConnection: @unchecked Sendable {
    package enum Event {
        case message(WebSocketEvent)
        /// See `ByteStream.Event`. A violation and a close frame are messages; the owner ends the connection.
        case writable
        case ended(NetworkError?)
    }

    package let stream: ByteStream
    package var onEvent: ((Event) -> Void)?
    private let role: WebSocketRole
    private var reader: WebSocketReader
    private var isReading = false
    /// The event with which the stream has ended, until it is delivered.
    private var end: NetworkError??

    /// Takes over the stream's events.
    /// - Parameter rest: bytes that followed the upgrade.
    package init(_ stream: ByteStream, as role: WebSocketRole, limits: WebSocketLimits, rest: [UInt8]) {
        (self.stream, self.role) = (stream, role)
        reader = WebSocketReader(role: role, limits: limits)
        reader.append(rest[...])
        stream.onEvent = { self.received($0) }
    }

    package var thread: NetworkThread { stream.thread }

    /// Delivers what has come with the upgrade, and what follows.
    package func start() { setReading(true) }

    /// Pauses or resumes reading; a message that has arrived waits too.
    package func setReading(_ isReading: Bool) {
        self.isReading = isReading
        stream.setReading(isReading)
        if isReading { thread.later { [weak self] in self?.deliver() } }
    }

    private func received(_ event: ByteStream.Event) {
        switch event {
        case .received(let bytes):
            reader.append(bytes)
            deliver()
        case .writable: onEvent?(.writable)
        case .ended(let error):
            end = .some(error)
            deliver()
        case .connected, .secured: break
        }
    }

    private func deliver() {
        while isReading, let onEvent, let event = reader.next() { onEvent(.message(event)) }
        // An end in order comes after the messages, also if they wait for the end of a pause.
        guard let error = end, let onEvent, isReading || error != nil else { return }
        self.onEvent = nil
        onEvent(.ended(error))
    }

    // MARK: Sending

    /// - Parameter completion: called when the frame has left the queue, or cannot any more.
    package func send(_ opcode: WebSocketOpcode, _ payload: some Collection<UInt8>, completion: (() -> Void)? = nil) {
        stream.write(WebSocketFrame.bytes(opcode, payload, as: role), completion: completion)
    }

    package func sendClose(code: UInt16?, reason: String = "") {
        stream.write(WebSocketFrame.close(code: code, reason: reason, as: role))
    }

    // MARK: Closing

    /// See `ByteStream.finish`.
    package func finish(within limit: Duration) {
        onEvent = nil
        stream.finish(within: limit)
    }

    package func close() {
        onEvent = nil
        stream.close()
    }
}
