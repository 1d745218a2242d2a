// One ICE-TCP connection (RFC 6544) to a passive candidate of the remote peer: its socket, its frames (RFC 4571) and the
// connectivity checks on it. libnice reads a connection until it is empty, within one turn of the loop, so a peer that
// writes fast enough would hold the thread for ever; here each turn reads a bounded number of bytes.
private import CNice
import EventLoopThreads
private import Glibc

/// Belongs to the network thread.
final class TCPConnection {
    enum Event {
        /// The remote peer has answered the first check.
        case connected
        case confirmed(roundTrip: Duration)
        case failed
    }

    struct Parameters {
        let local: ICECredentials
        let remote: ICECredentials
        let isControlling: Bool
        let onDatagram: (UnsafeMutableRawBufferPointer) -> Void
        let onBatchEnd: () -> Void
    }

    /// Bytes that one turn of the loop reads.
    private static let turn = 65_536
    /// Bytes that wait for the socket; what does not fit is lost, as on the network.
    private static let maximumWaiting = 262_144

    /// A receive buffer holds less than as many turns.
    private static let maximumDrains = 128

    private let network: NetworkThread
    private let candidate: CandidateLine
    private let address: SocketAddress
    private let parameters: Parameters
    private let onEvent: (Event) -> Void
    private let checks: ConsentChecks
    private let responder: CheckResponder
    private var isControlling: Bool
    /// −1: closed.
    private var descriptor: CInt
    private var isOpen = false
    private var isConnected = false
    private var reader = FrameReader()
    private var waiting: [UInt8] = []
    private(set) var pair: ICECandidatePair?

    /// Begins to connect; nil if the system refuses at once.
    /// - Parameter source: the local address.
    init?(
        to candidate: CandidateLine, from source: String, _ parameters: Parameters, on network: NetworkThread,
        onEvent: @escaping (Event) -> Void
    ) {
        guard let address = SocketAddress(ip: candidate.address, port: Int(candidate.port)),
            let source = SocketAddress(ip: source, port: 0)
        else { return nil }
        descriptor = gst_decart_open_stream(address.family)
        (self.candidate, self.address, self.parameters, self.network) = (candidate, address, parameters, network)
        (self.onEvent, isControlling) = (onEvent, parameters.isControlling)
        checks = ConsentChecks(
            local: parameters.local.usernameFragment, remote: parameters.remote.usernameFragment,
            remotePassword: parameters.remote.password)
        responder = CheckResponder(local: parameters.local, remoteFragment: parameters.remote.usernameFragment)
        guard descriptor >= 0 else { return nil }
        var one: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<CInt>.size))
        guard source.withSocketAddress({ bind(descriptor, $0, $1) }) == 0, begin() else {
            close()
            return nil
        }
    }

    private func begin() -> Bool {
        let (status, code) = address.withSocketAddress { (connect(descriptor, $0, $1), errno) }
        return (status == 0 || code == EINPROGRESS) && watch(.writable)
    }

    private func watch(_ interest: SocketReadiness) -> Bool {
        network.watch(descriptor, for: interest) { [weak self] in self?.ready($0) } == 0
    }

    func close() {
        guard descriptor >= 0 else { return }
        network.unwatch(descriptor)
        if isOpen { endSending() }
        Glibc.close(descriptor)
        descriptor = -1
    }

    /// Lets what was sent last, a DTLS alert, arrive: to a socket that is closed with unread bytes the kernel sends a reset,
    /// which overtakes it.
    private func endSending() {
        shutdown(descriptor, CInt(SHUT_WR))
        withUnsafeTemporaryAllocation(byteCount: Self.turn, alignment: 16) { buffer in
            for _ in 0..<Self.maximumDrains
            where recv(descriptor, buffer.baseAddress, buffer.count, CInt(MSG_DONTWAIT)) <= 0 { break }
        }
    }

    private func fail() {
        guard descriptor >= 0 else { return }
        close()
        onEvent(.failed)
    }

    private func ready(_ readiness: SocketReadiness) {
        guard isOpen else { return opened() }
        if readiness.contains(.writable) { flush() }
        if readiness.contains(.readable) || readiness.contains(.ended) { read() }
    }

    private func opened() {
        var (code, size) = (CInt(0), socklen_t(MemoryLayout<CInt>.size))
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) == 0, code == 0,
            let local = SocketAddress(reading: { getsockname(descriptor, $0, $1) })
        else { return fail() }
        isOpen = true
        pair = ICECandidatePair(
            local: .init(type: "host", address: local.text),
            remote: .init(type: candidate.type, address: address.text), base: local.ip, transport: "tcp")
        guard watch(.readable) else { return fail() }
        check()
    }

    // MARK: Receiving

    private func read() {
        let isAlive = withUnsafeTemporaryAllocation(byteCount: Self.turn, alignment: 16) { buffer in
            let length = recv(descriptor, buffer.baseAddress, buffer.count, CInt(MSG_DONTWAIT))
            guard length > 0 else { return length < 0 && (errno == EAGAIN || errno == EINTR) }
            return reader.read(UnsafeRawBufferPointer(rebasing: buffer[..<min(length, buffer.count)])) { received($0) }
        }
        parameters.onBatchEnd()
        if !isAlive { fail() }
    }

    private func received(_ datagram: UnsafeMutableRawBufferPointer) -> Bool {
        // The owner may have closed this connection for an earlier one.
        guard descriptor >= 0, let first = datagram.first else { return true }
        // RFC 7983.
        guard first > 3 else { return receivedSTUN(datagram) }
        guard (20...63).contains(first) || (128...191).contains(first) else { return false }
        if isConnected { parameters.onDatagram(datagram) }
        return true
    }

    private func receivedSTUN(_ datagram: UnsafeMutableRawBufferPointer) -> Bool {
        if let time = checks.roundTrip(of: datagram, now: Self.now) {
            let isFirst = !isConnected
            isConnected = true
            if isFirst { onEvent(.connected) }
            onEvent(.confirmed(roundTrip: time))
            return true
        }
        let role = isControlling
        let response = responder.response(
            to: datagram, from: address, isControlling: &isControlling, tieBreaker: checks.tieBreaker)
        guard let response else { return false }
        response.withUnsafeBytes { _ = send($0) }
        if isControlling != role { check() }
        return true
    }

    // MARK: Sending

    private static var now: Duration { .microseconds(NetworkThread.now) }

    /// Sends a connectivity check. A controlling agent nominates the pair with it.
    func check() {
        checks.withCheck(isControlling: isControlling, nominates: isControlling, now: Self.now) { _ = send($0) }
    }

    /// - Returns: false if the connection is closed, or too many bytes wait.
    func send(_ datagram: UnsafeRawBufferPointer) -> Bool {
        guard isOpen, descriptor >= 0, let length = UInt16(exactly: datagram.count),
            waiting.count + datagram.count + 2 <= Self.maximumWaiting
        else { return false }
        let isFirst = waiting.isEmpty
        waiting.append(UInt8(length >> 8))
        waiting.append(UInt8(length & 0xFF))
        waiting.append(contentsOf: datagram)
        if isFirst { flush() }
        return true
    }

    private func flush() {
        guard descriptor >= 0 else { return }
        let sent = waiting.withUnsafeBytes {
            Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL | MSG_DONTWAIT))
        }
        // An error ends the connection when it is read.
        waiting.removeFirst(min(max(0, sent), waiting.count))
        _ = watch(waiting.isEmpty ? .readable : [.readable, .writable])
    }
}

extension SocketAddress {
    fileprivate var text: String { isIPv6 ? "[\(ip)]:\(port)" : "\(ip):\(port)" }
}
