package import EventLoopThreads
private import CGIO
import Glibc

/// Accepts TCP connections at one address.
// @unchecked: constant, or used on `thread` only.
package final class Listener: @unchecked Sendable {
    /// Accepted in one turn of the loop.
    private static let turn = 32

    package let address: SocketAddress
    package let thread: NetworkThread
    private let descriptor: CInt
    /// At the limit of descriptors, the connection stays in the queue, and `accept` fails until others are closed.
    private let pause: Duration
    /// Returns a descriptor; −1: `errno` has the reason.
    private let acceptNext: (CInt) -> CInt
    private var onAccept: ((ByteStream) -> Void)?
    private var isClosed = false
    private var timer: NetworkTimer?

    /// Listens. Any thread; does not block.
    /// - Parameter onAccept: called on the thread, which has to start the stream.
    package init(
        at address: SocketAddress, backlog: CInt = 128, on thread: NetworkThread, pause: Duration = .milliseconds(100),
        acceptNext: @escaping @Sendable (CInt) -> CInt = { gst_decart_accept($0) },
        onAccept: @escaping @Sendable (ByteStream) -> Void
    ) throws(NetworkError) {
        guard thread.start() else { throw .noLoop }
        descriptor = try Socket.open(address.family, SOCK_STREAM) { descriptor throws(NetworkError) in
            // A port whose last connections wait for late packets can be used at once.
            Socket.set(descriptor, SO_REUSEADDR)
            try Socket.bind(descriptor, to: address)
            guard listen(descriptor, backlog) == 0 else { throw .system(errno) }
        }
        let descriptor = descriptor
        self.address = SocketAddress { getsockname(descriptor, $0, $1) } ?? address
        (self.thread, self.pause, self.acceptNext) = (thread, pause, acceptNext)
        self.onAccept = onAccept
        thread.async { self.watch() }
    }

    deinit { if !isClosed { Glibc.close(descriptor) } }

    package var port: Int { address.port }

    /// Stops listening; on return the port is free. Any thread; other threads wait for the loop.
    package func close() {
        thread.sync { [self] in
            guard !isClosed else { return }
            isClosed = true
            onAccept = nil
            timer?.cancel()
            thread.unwatch(descriptor)
            Glibc.close(descriptor)
        }
    }

    private func watch() {
        guard onAccept != nil else { return }
        // Without room for the watch, it is tried again.
        if thread.watch(descriptor, for: .readable, { _ in self.accept() }) != 0 { retry() }
    }

    private func retry() {
        thread.unwatch(descriptor)
        timer = thread.later(after: pause) { [weak self] in self?.watch() }
    }

    private func accept() {
        for _ in 0..<Self.turn {
            guard let onAccept else { return }
            let accepted = acceptNext(descriptor)
            guard accepted >= 0 else {
                switch errno {
                case EAGAIN: return
                case ECONNABORTED, EINTR: continue
                // No descriptor or memory is left, for the most part.
                default: return retry()
                }
            }
            onAccept(ByteStream(taking: accepted, isConnected: true, on: thread))
        }
    }
}
