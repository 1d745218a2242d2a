import Glibc
import Synchronization

/// A thread that runs the work of one queue after the other. There are as many as queues have work at the same time,
/// because the work may block; one that has none ends after a while.
// @unchecked: `queue` belongs to the thread; while the worker is parked, to the thread that takes it out of `pool`.
final class Worker: @unchecked Sendable {
    private struct Pool {
        var parked: [Worker] = []
        /// Queues for which the system gave no thread.
        var waiting: [SerialQueue] = []
    }
    private static let pool = Mutex(Pool())
    private static let idleTime = Duration.seconds(2)
    /// Time after which a thread is requested again for a queue that waits: perhaps no other queue leaves one.
    private static let retryTime = Duration.milliseconds(250)
    /// Its destructor runs when the thread ends, even if the application ends it in a callback.
    private static let thread: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { worker in
            guard let worker else { return }
            Unmanaged<Worker>.fromOpaque(worker).takeRetainedValue().queue?.passOn()
        }
        return key
    }()

    private var queue: SerialQueue?
    private let wakeUp = WakeUp()

    private init(_ queue: SerialQueue) { self.queue = queue }

    /// - Parameter waits: without a thread, the queue waits for one that another queue leaves or the system gives.
    /// - Returns: true if a thread runs the queue.
    @discardableResult
    static func run(_ queue: SerialQueue, waits: Bool = true) -> Bool {
        if let worker = pool.withLock({ $0.parked.popLast() }) {
            worker.queue = queue
            worker.wakeUp.signal()
            return true
        }
        let worker = Unmanaged.passRetained(Worker(queue))
        let isStarted = startThread(worker.toOpaque()) { worker in
            pthread_setspecific(Worker.thread, worker)
            if let worker { Unmanaged<Worker>.fromOpaque(worker).takeUnretainedValue().work() }
            return nil
        }
        guard !isStarted else { return true }
        worker.release()
        guard waits else { return false }
        pool.withLock { $0.waiting.append(queue) }
        // The timer needs the network thread, which may not have got a thread either.
        NetworkThread.shared.start()
        NetworkThread.shared.schedule(after: retryTime) {
            if let queue = pool.withLock({ $0.waiting.popLast() }) { run(queue) }
        }
        return false
    }

    private func work() {
        var name = ""
        while let queue {
            if name != queue.label { setThreadName(queue.label) }
            name = queue.label
            queue.drain()
            self.queue = nil
            awaitQueue()
        }
    }

    private func awaitQueue() {
        let isParked = Self.pool.withLock { pool in
            queue = pool.waiting.popLast()
            if queue == nil { pool.parked.append(self) }
            return queue == nil
        }
        guard isParked, !wakeUp.wait(until: monotonicTime + Self.idleTime) else { return }
        let isUnused = Self.pool.withLock { pool in
            guard let index = pool.parked.firstIndex(where: { $0 === self }) else { return false }
            pool.parked.remove(at: index)
            return true
        }
        // Otherwise it has got a queue since.
        if !isUnused { wakeUp.wait() }
    }
}

/// Starts a detached thread.
/// - Returns: false: the process has none left.
func startThread(
    _ argument: UnsafeMutableRawPointer?,
    _ main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
) -> Bool {
    guard let thread = makeThread(argument, main) else { return false }
    pthread_detach(thread)
    return true
}

/// Starts a thread that takes none of the host's signals, except those that its own faults raise.
func makeThread(
    _ argument: UnsafeMutableRawPointer?,
    _ main: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
) -> pthread_t? {
    var signals = sigset_t()
    sigfillset(&signals)
    for fault in [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS] { sigdelset(&signals, fault) }
    return blocking(signals) {
        var thread = pthread_t()
        return pthread_create(&thread, nil, main, argument) == 0 ? thread : nil
    }
}

/// Names the calling thread. Swift does not import `pthread_setname_np`. Linux cuts names off after 15 bytes.
func setThreadName(_ name: String) {
    let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    write(file, name, name.utf8.count)
    close(file)
}
