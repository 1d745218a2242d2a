package import EventLoopThreads
import Glibc

/// A UDP socket with one peer: the system reports a port that ICMP says is closed as an error.
// @unchecked: used only on `thread`.
package final class DatagramSocket: @unchecked Sendable {
    package let thread: NetworkThread
    /// Bytes of a datagram, or the error with which the socket ends.
    package var onEvent: ((Result<[UInt8], NetworkError>) -> Void)?
    private let descriptor: CInt
    private var isClosed = false

    /// Call on the thread.
    package init(
        to address: SocketAddress, from source: SourceAddresses?, on thread: NetworkThread
    ) throws(NetworkError) {
        descriptor = try Socket.open(address.family, SOCK_DGRAM) { descriptor throws(NetworkError) in
            try source?.bind(descriptor, family: address.family)
            try Socket.connect(descriptor, to: address)
        }
        self.thread = thread
        let status = thread.watch(descriptor, for: .readable) { _ in self.receive() }
        guard status == 0 else { throw .system(status) }
    }

    deinit { Glibc.close(descriptor) }

    package func send(_ bytes: [UInt8]) {
        guard !isClosed, Glibc.send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL)) < 0 else { return }
        let code = errno
        if code != EAGAIN { thread.later { self.fail(code) } }
    }

    /// No event follows.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        onEvent = nil
        thread.unwatch(descriptor)
    }

    private func receive() {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        for _ in 0..<64 {
            guard !isClosed else { return }
            let number = recv(descriptor, &buffer, buffer.count, 0)
            if number < 0 {
                let code = errno
                return code == EAGAIN || code == EINTR ? () : fail(code)
            }
            onEvent?(.success(Array(buffer[..<number])))
        }
    }

    private func fail(_ code: CInt) {
        let onEvent = onEvent
        close()
        onEvent?(.failure(.system(code)))
    }
}
