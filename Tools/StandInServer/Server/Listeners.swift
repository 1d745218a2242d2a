import Dispatch
import EventLoopThreads
import Glibc
import Network
import Synchronization

/// The listening sockets, and the one fault that closes them: `refuse`.
// @unchecked: mutable fields are touched on `queue` only.
final class Listeners: @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.listeners")
    private let thread: NetworkThread
    private let host: String?
    private let log: @Sendable (String) -> Void
    private let accept: @Sendable (ByteStream) -> Void

    // MARK: State (`queue`)
    private var port: Int
    private var listeners: [Listener] = []
    /// Number of the present plan; timers of an earlier plan do nothing.
    private var plan = 0

    /// - Parameter accept: called on the thread for each connection.
    init(
        _ configuration: StandInConfiguration, on thread: NetworkThread,
        accept: @escaping @Sendable (ByteStream) -> Void
    ) {
        (host, port, log) = (configuration.host, configuration.port, configuration.log)
        (self.thread, self.accept) = (thread, accept)
    }

    /// Blocks, like all calls here; must not be called from the thread.
    func open() throws(NetworkError) -> Int {
        try queue.sync {
            Result { () throws(NetworkError) in
                try listen()
                return port
            }
        }.get()
    }

    /// TCP port of the service, also while `refuse` keeps it closed.
    var servicePort: Int { queue.sync { port } }

    /// Nil while the port is closed.
    var openPort: Int? { queue.sync { listeners.isEmpty ? nil : port } }

    func close() {
        queue.sync {
            plan += 1
            stopListening()
        }
    }

    func apply(_ faults: FaultPlan) {
        queue.sync {
            plan += 1
            guard let fault = faults.first(.refuse) else { return reopen(plan) }
            let start = fault.at ?? 0
            if start > 0 {
                reopen(plan)
                after(start) { $0.stopListening() }
            } else {
                stopListening()
            }
            let plan = plan
            if let duration = fault.for { after(start + duration) { $0.reopen(plan) } }
        }
    }

    private func after(_ seconds: Double, _ body: @escaping @Sendable (Listeners) -> Void) {
        queue.asyncAfter(deadline: .now() + seconds) { [weak self, plan] in
            guard let self, self.plan == plan else { return }
            body(self)
        }
    }

    private func listen() throws(NetworkError) {
        guard listeners.isEmpty else { return }
        if let host {
            listeners = [try bind(host, port)]
        } else {
            listeners = try bindLoopback(attempts: port == 0 ? 10 : 1)
        }
        port = listeners[0].port
    }

    /// - Parameter attempts: The kernel selects a port that is free at 127.0.0.1, but a connection may have it at ::1.
    private func bindLoopback(attempts: Int) throws(NetworkError) -> [Listener] {
        let first = try bind("127.0.0.1", port)
        do throws(NetworkError) {
            return [first, try bind("::1", first.port)]
        } catch .system(EADDRNOTAVAIL), .system(EAFNOSUPPORT) {
            // The machine has no IPv6.
            return [first]
        } catch {
            // Close it after the next attempt, which gets another port for that reason.
            defer { first.close() }
            guard attempts > 1, error == .system(EADDRINUSE) else { throw error }
            return try bindLoopback(attempts: attempts - 1)
        }
    }

    private func bind(_ host: String, _ port: Int) throws(NetworkError) -> Listener {
        try Self.listen(host, port, on: thread, accept: accept)
    }

    /// Blocks while a host name is looked up.
    static func listen(
        _ host: String, _ port: Int, on thread: NetworkThread, accept: @escaping @Sendable (ByteStream) -> Void
    ) throws(NetworkError) -> Listener {
        let found = Mutex<Result<[SocketAddress], LookupFailure>>(.failure(.unknownHost))
        let isDone = DispatchSemaphore(value: 0)
        HostLookup.resolve(host) { result in
            found.withLock { $0 = result }
            isDone.signal()
        }
        isDone.wait()
        switch found.withLock({ $0 }) {
        case .failure(let failure): throw .lookup(failure)
        case .success(let addresses):
            guard let port = UInt16(exactly: port), let address = addresses.first?.with(port: port) else {
                throw .system(EADDRNOTAVAIL)
            }
            return try Listener(at: address, on: thread, onAccept: accept)
        }
    }

    private func stopListening() {
        for listener in listeners { listener.close() }
        listeners = []
    }

    /// Retries until it succeeds: another process may hold the port while it is closed.
    private func reopen(_ plan: Int) {
        guard plan == self.plan else { return }
        do {
            try listen()
        } catch {
            log("cannot listen on port \(port) again yet")
            after(0.1) { $0.reopen(plan) }
        }
    }
}
