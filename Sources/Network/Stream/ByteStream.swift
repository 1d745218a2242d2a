// One TCP connection on a network thread, with TLS or without: bytes in both directions, with backpressure in both. It
// knows no protocol above that.
package import EventLoopThreads
import Glibc
package import MediaSecurity

/// Everything is called on its thread, except `init` and `deinit`. An open stream stays open without its owner, which has
/// to close it.
// @unchecked: after init, used only on `thread`.
package final class ByteStream: @unchecked Sendable {
    package enum Event {
        /// TCP is connected.
        case connected
        /// The TLS handshake is complete and the server is verified.
        case secured(TLSFacts)
        case received(ArraySlice<UInt8>)
        /// Less waits to be sent than the low mark, after more than the high one has waited.
        case writable
        /// The last event; nil: the peer ended the connection in order. The descriptor is closed.
        case ended(NetworkError?)
    }

    private enum Phase {
        case connecting, open
        /// Closed by the owner: what waits is sent, and what comes is dropped, until the peer ends too.
        case finishing
        case closed
    }

    /// One byte leaves an interval, as from a slow peer or over a bad link; for tests of a peer.
    package struct Pace {
        package var interval: Duration
        /// Single bytes of the TCP connection; otherwise each byte above is a TLS record.
        package var isBelowTLS: Bool

        package init(interval: Duration, isBelowTLS: Bool) { (self.interval, self.isBelowTLS) = (interval, isBelowTLS) }
    }

    private static let chunk = 16 << 10
    /// Ciphertext that waits, beyond which no more is encrypted.
    private static let maximumCiphertext = 64 << 10
    /// Sent or received in one turn of the loop, so that other connections are served too.
    private static let turn = 256 << 10

    package let thread: NetworkThread
    package var onEvent: ((Event) -> Void)?
    /// Numbers of waiting bytes at which `isWritable` becomes true and false again.
    package var marks = (low: 32 << 10, high: 64 << 10)
    package var pace: Pace?

    private let descriptor: CInt
    private var phase: Phase
    /// nil: the loop does not watch the socket yet.
    private var interest: SocketReadiness?
    private(set) package var isReading = true
    private(set) package var isWritable = true
    private var tls: TLSSession?
    private var isSecured = false
    private var plain = OutgoingBytes()
    private var ciphertext = OutgoingBytes()
    /// Bytes that were taken from `plain` so far, and the calls that wait for a number of them.
    private var sent = 0
    private var completions: [(at: Int, body: () -> Void)] = []
    private var isFlushing = false
    private var isReceiving = false
    /// The error of a write: nothing more is sent.
    private var sendError: NetworkError?
    /// While `finishing`: the peer has ended its direction.
    private var hasPeerEnded = false
    private var timer: NetworkTimer?
    private var paceTimer: NetworkTimer?

    /// - Parameter descriptor: a non-blocking TCP socket, which the stream owns.
    package init(taking descriptor: CInt, isConnected: Bool, on thread: NetworkThread) {
        self.descriptor = descriptor
        self.thread = thread
        phase = isConnected ? .open : .connecting
        var one: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<CInt>.size))
    }

    deinit {
        guard phase != .closed else { return }
        Glibc.close(descriptor)
    }

    /// Begins to serve the socket. The events follow, none of them during this call.
    package func start() {
        thread.preconditionOnThread()
        updateInterest()
    }

    /// The connection fails once the peer's system has acknowledged nothing of what was sent for this time; zero: after
    /// minutes, as the system decides.
    package func limitAcknowledgement(to limit: Duration) {
        guard phase != .closed else { return }
        var time = UInt32(clamping: Int64(limit / .milliseconds(1)))
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_USER_TIMEOUT, &time, socklen_t(MemoryLayout<UInt32>.size))
    }

    package var localAddress: SocketAddress? { SocketAddress { getsockname(descriptor, $0, $1) } }
    package var remoteAddress: SocketAddress? { SocketAddress { getpeername(descriptor, $0, $1) } }
    package var isOpen: Bool { phase == .connecting || phase == .open }
    package var isSecure: Bool { tls != nil }
    /// Facts of the TLS connection, once `secured` has come.
    package var facts: TLSFacts? { isSecured ? tls?.facts : nil }
    /// Bytes that the system has not accepted yet.
    package var queued: Int { plain.count + ciphertext.count }

    /// Starts TLS. Call it before anything is written; what the peer sends from now on belongs to TLS.
    package func secure(_ tls: TLSSession) {
        guard isOpen, self.tls == nil else { return }
        self.tls = tls
        tls.start()
        flush()
    }

    // MARK: Sending

    /// - Parameter completion: called when the bytes have left the queue, or cannot any more.
    package func write(_ bytes: some Sequence<UInt8>, completion: (() -> Void)? = nil) {
        guard isOpen else {
            completion?()
            return
        }
        plain.append(bytes)
        if let completion { completions.append((sent + plain.count, completion)) }
        flush()
    }

    private func flush() {
        guard !isFlushing, sendError == nil, phase == .open || phase == .finishing else { return }
        isFlushing = true
        flushTurn()
        isFlushing = false
        guard phase != .closed else { return }
        updateMarks()
        updateInterest()
        guard phase == .finishing, queued == 0 else { return }
        if hasPeerEnded { closeDescriptor() } else { shutdown(descriptor, CInt(SHUT_WR)) }
    }

    private func flushTurn() {
        var budget = Self.turn
        while budget > 0, phase != .closed, paceTimer == nil {
            if let tls { encrypt(tls) }
            let (number, code) = tls == nil ? send(&plain) : send(&ciphertext)
            guard code == 0 else { return sendFailed(.system(code)) }
            if tls == nil { take(number) }
            guard number > 0 else { return }
            budget -= number
            if let pace, queued > 0 {
                paceTimer = thread.later(after: pace.interval) { [weak self] in
                    self?.paceTimer = nil
                    self?.flush()
                }
            }
        }
    }

    /// A peer that resets the connection may have said why before: that is read first.
    private func sendFailed(_ error: NetworkError) {
        guard phase == .open, isReading else { return end(error) }
        sendError = error
        // The caller may be in the middle of what was received before.
        thread.later { [self] in
            receive()
            if phase == .open { end(error) }
        }
    }

    private func encrypt(_ tls: TLSSession) {
        while ciphertext.count < Self.maximumCiphertext {
            let limit = pace.map { $0.isBelowTLS ? Self.chunk : 1 } ?? Self.chunk
            let number = plain.isEmpty || !isSecured ? 0 : plain.withPrefix(limit) { tls.write($0) }
            plain.remove(number)
            // close_notify follows the last data.
            if phase == .finishing, isSecured, plain.isEmpty { tls.close() }
            if tls.hasOutput { ciphertext.append(tls.takeOutput()) }
            guard number > 0 else { return }
            take(number)
            if pace?.isBelowTLS == false { return }
        }
    }

    /// Returns the number of bytes that the system has accepted, and its error: 0 if it only takes no more now. It makes
    /// no call of the owner's, which could read `bytes` while this function changes it.
    private func send(_ bytes: inout OutgoingBytes) -> (number: Int, code: CInt) {
        guard !bytes.isEmpty else { return (0, 0) }
        let limit = pace.map { $0.isBelowTLS || tls == nil ? 1 : Self.turn } ?? Self.turn
        let (number, code) = bytes.withPrefix(limit) { part -> (Int, CInt) in
            let number = Glibc.send(descriptor, part.baseAddress, part.count, CInt(MSG_NOSIGNAL))
            return (number, errno)
        }
        guard number < 0 else {
            bytes.remove(number)
            return (number, 0)
        }
        return (0, code == EAGAIN || code == EINTR ? 0 : code)
    }

    private func take(_ number: Int) {
        sent += number
        while let first = completions.first, first.at <= sent {
            completions.removeFirst()
            first.body()
        }
    }

    private func updateMarks() {
        if isWritable, queued > marks.high {
            isWritable = false
        } else if !isWritable, queued <= marks.low {
            isWritable = true
            onEvent?(.writable)
        }
    }

    // MARK: Receiving

    /// Pauses or resumes reading. While it is paused, bytes wait in the system's buffers and then at the peer.
    package func setReading(_ isReading: Bool) {
        guard self.isReading != isReading else { return }
        self.isReading = isReading
        guard isOpen else { return }
        updateInterest()
        // TLS may hold what has arrived before.
        if isReading, tls != nil { thread.later { [weak self] in self?.receiveFromTLS() } }
    }

    private func receive() {
        var buffer = [UInt8](repeating: 0, count: Self.chunk)
        var budget = Self.turn
        while budget > 0, phase != .closed, isReading || phase == .finishing {
            let number = recv(descriptor, &buffer, buffer.count, 0)
            if number < 0 {
                let code = errno
                if code == EINTR { continue }
                if code != EAGAIN { end(.system(code)) }
                return
            }
            if phase == .finishing {
                guard number > 0 else { return peerEnded() }
                budget -= number
                continue
            }
            guard number > 0 else { return receiveEnd() }
            budget -= number
            if let tls {
                buffer.withUnsafeBytes { tls.receive(UnsafeRawBufferPointer(rebasing: $0[..<number])) }
                receiveFromTLS()
            } else {
                onEvent?(.received(buffer[..<number]))
            }
            // The socket is empty, most probably.
            if number < buffer.count { return }
        }
    }

    private func receiveEnd() {
        guard let tls else { return end(nil) }
        tls.receivedEnd()
        receiveFromTLS()
        // With more to read, the end is found again when reading resumes.
        if isOpen, isReading || !isSecured { end(.ended) }
    }

    /// Sends the bytes that still wait: the peer may have ended its direction only.
    private func peerEnded() {
        hasPeerEnded = true
        if queued == 0 { closeDescriptor() } else { updateInterest() }
    }

    private func receiveFromTLS() {
        guard let tls, !isReceiving, isOpen else { return }
        isReceiving = true
        defer { isReceiving = false }
        while isOpen, isReading || !isSecured {
            if !isSecured, case .open = tls.state, let facts = tls.facts {
                isSecured = true
                flush()
                guard isOpen else { return }
                onEvent?(.secured(facts))
                continue
            }
            guard let bytes = tls.read() else { break }
            onEvent?(.received(bytes[...]))
        }
        guard isOpen else { return }
        // Alerts, key updates.
        flush()
        guard isOpen, isReading || !isSecured else { return }
        switch tls.state {
        case .handshaking, .open: break
        case .closed: end(nil)
        case .failed(let error): end(.tls(error))
        }
    }

    // MARK: The socket

    private func updateInterest() {
        guard phase != .closed else { return }
        var wanted: SocketReadiness = []
        switch phase {
        case .connecting: wanted = .writable
        case .open, .finishing:
            if phase == .finishing ? !hasPeerEnded : isReading { wanted.insert(.readable) }
            if waitsForSocket { wanted.insert(.writable) }
        case .closed: return
        }
        guard wanted != interest else { return }
        interest = wanted
        let status = thread.watch(descriptor, for: wanted) { self.isReady($0) }
        if status != 0 { thread.later { self.end(.system(status)) } }
    }

    private var waitsForSocket: Bool {
        guard paceTimer == nil, sendError == nil else { return false }
        return tls == nil ? !plain.isEmpty : !ciphertext.isEmpty || (isSecured && !plain.isEmpty)
    }

    private func isReady(_ readiness: SocketReadiness) {
        if phase == .connecting { return connected() }
        if readiness.contains(.writable) { flush() }
        if readiness.contains(.ended), !isReading || hasPeerEnded {
            // Nothing else notices the end.
            let code = socketError
            end(code == 0 ? nil : .system(code))
        } else if !readiness.isDisjoint(with: [.readable, .ended]) {
            receive()
        }
    }

    private func connected() {
        let code = socketError
        guard code == 0 else { return end(.system(code)) }
        phase = .open
        updateInterest()
        onEvent?(.connected)
        flush()
    }

    /// Reading it clears it.
    private var socketError: CInt {
        var (code, size) = (CInt(0), socklen_t(MemoryLayout<CInt>.size))
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno
    }

    // MARK: Closing

    private func end(_ error: NetworkError?) {
        guard isOpen else { return closeDescriptor() }
        let (onEvent, error) = (onEvent, sendError ?? error)
        // An alert tells the peer the reason.
        if let tls, tls.hasOutput {
            ciphertext.append(tls.takeOutput())
            _ = send(&ciphertext)
        }
        closeDescriptor()
        onEvent?(.ended(error))
    }

    /// Closes at once. What waits is sent only as far as the system takes it now. No event follows.
    package func close() {
        guard phase != .closed else { return }
        onEvent = nil
        if phase == .open { phase = .finishing }
        flush()
        closeDescriptor()
    }

    /// Sends what waits, then ends this direction, and drops what comes until the peer ends its own or the limit expires:
    /// a socket that is closed with unread data is reset, and the peer may lose what it was sent last. No event follows.
    package func finish(within limit: Duration) {
        guard isOpen else { return }
        guard phase == .open else { return close() }
        onEvent = nil
        phase = .finishing
        timer = thread.later(after: limit) { self.closeDescriptor() }
        flush()
    }

    /// Resets the connection, as a crashed process or a firewall does. No event follows.
    package func reset() {
        guard phase != .closed else { return }
        // RFC 9293 §3.10.4: with a linger time of zero, closing sends RST instead of FIN.
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
        closeDescriptor()
    }

    private func closeDescriptor() {
        guard phase != .closed else { return }
        phase = .closed
        onEvent = nil
        timer?.cancel()
        paceTimer?.cancel()
        thread.unwatch(descriptor)
        Glibc.close(descriptor)
        let waiting = completions
        completions = []
        for completion in waiting { completion.body() }
    }
}
