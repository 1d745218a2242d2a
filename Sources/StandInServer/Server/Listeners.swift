import Dispatch
import NIOCore

/// The listening sockets, and the one fault that closes them: `refuse`.
// @unchecked: mutable fields are touched on `queue` only.
final class Listeners: @unchecked Sendable {
    private let queue = DispatchQueue(label: "decart-standin.listeners")
    private let listener: Listener
    private let host: String?
    private let log: @Sendable (String) -> Void

    // MARK: State (`queue`)
    private var port: Int
    private var channels: [any Channel] = []
    /// Number of the present plan; timers of an earlier plan do nothing.
    private var plan = 0

    init(listener: Listener, host: String?, port: Int, log: @escaping @Sendable (String) -> Void) {
        self.listener = listener
        self.host = host
        self.port = port
        self.log = log
    }

    /// Blocks, like all calls here; must not be called from an event loop.
    func open() throws -> Int {
        try queue.sync {
            try listen()
            return port
        }
    }

    /// TCP port of the service, also while `refuse` keeps it closed.
    var servicePort: Int { queue.sync { port } }

    /// Nil while the port is closed.
    var openPort: Int? { queue.sync { channels.isEmpty ? nil : port } }

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

    private func listen() throws {
        guard channels.isEmpty else { return }
        (port, channels) = try listener.listen(host: host, port: port)
    }

    private func stopListening() {
        for channel in channels { try? channel.close().wait() }
        channels = []
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
