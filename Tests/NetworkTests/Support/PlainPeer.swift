import Glibc
import TestSupport

/// A blocking TCP socket of the system, as the peer of what is tested. Each call ends after 20 s.
final class PlainPeer: Sendable {
    enum End: Equatable { case inOrder, error(CInt), limit }

    let descriptor: CInt

    init(taking descriptor: CInt) {
        self.descriptor = descriptor
        keepBuffersSmall(descriptor)
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    /// Takes the next connection of a listening socket.
    convenience init(acceptedBy listener: LoopbackSocket) { self.init(taking: accept(listener.descriptor, nil, nil)) }

    convenience init(connectingTo port: Int) {
        self.init(taking: LoopbackSocket.connect(to: UInt16(clamping: port)).descriptor)
    }

    deinit { Glibc.close(descriptor) }

    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Sends without blocking until the system takes no more.
    func fill() -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let part = pattern(4096, from: all.count)
            let count = Glibc.send(descriptor, part, part.count, CInt(MSG_NOSIGNAL | MSG_DONTWAIT))
            guard count > 0 else { return all }
            all += part.prefix(count)
        }
    }

    /// Reads a number of bytes, or fewer at the end.
    func receive(_ number: Int) -> [UInt8] { read(number).bytes }

    /// Reads to the end.
    func receiveAll() -> (bytes: [UInt8], end: End?) { read(.max) }

    private func read(_ number: Int) -> (bytes: [UInt8], end: End?) {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while all.count < number {
            let count = recv(descriptor, &buffer, min(buffer.count, number - all.count), 0)
            guard count != 0 else { return (all, .inOrder) }
            guard count > 0 else { return (all, errno == EAGAIN ? .limit : .error(errno)) }
            all += buffer[..<count]
        }
        return (all, nil)
    }

    func finish() { shutdown(descriptor, CInt(SHUT_WR)) }

    /// Replaces the connection by a socket without one, so that the kernel closes it here and not at a later time.
    func close() { replace() }

    /// Closes with a RST.
    func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
        replace()
    }

    /// The number stays this object's.
    private func replace() {
        let other = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        dup2(other, descriptor)
        Glibc.close(other)
    }
}

/// The system keeps as little as it can, so that a writer soon has to wait for the reader.
func keepBuffersSmall(_ descriptor: CInt) {
    var size: CInt = 16 << 10
    for option in [SO_SNDBUF, SO_RCVBUF] {
        setsockopt(descriptor, SOL_SOCKET, option, &size, socklen_t(MemoryLayout<CInt>.size))
    }
}

/// More than what the system keeps, and than a stream sends in one turn.
let many = 1 << 20

/// Bytes of a known order: what is lost, repeated or moved shows.
func pattern(_ count: Int, from start: Int = 0) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    var number = start
    while number < start + count {
        bytes.append(UInt8(truncatingIfNeeded: number &* 31 &+ number >> 8 &* 17 &+ number >> 16))
        number += 1
    }
    return bytes
}
