// A serial queue on plain threads. Code that may call into the application runs here and not on a dispatch queue: an
// interpreter that ends (Python) ends each thread that calls into it by pthread_exit, and libdispatch traps when one of
// its threads ends in the middle of its work.
import Glibc
import Queues
import Synchronization

package final class SerialQueue: Sendable {
    private enum Item {
        case work(@Sendable () -> Void)
        /// A thread that waits in `sync`.
        case turn(WakeUp)
    }
    private struct State {
        var items = RingBuffer<Item>()
        /// A thread runs the work, or will soon.
        var isTaken = false

        /// Returns false if the turn is over.
        mutating func replace(_ turn: WakeUp, by work: @escaping @Sendable () -> Void) -> Bool {
            let index = (0..<items.count).first {
                if case .turn(let other)? = items[$0] { other === turn } else { false }
            }
            if let index { items[index] = .work(work) }
            return index != nil
        }
    }
    /// Name of a thread while it runs this queue's work.
    let label: String
    private let state = Mutex(State())
    /// The thread that runs the work; 0: none.
    private let owner = Atomic<pthread_t>(0)

    package init(label: String) { self.label = label }

    /// True if the caller runs on this queue.
    package var isCurrent: Bool { owner.load(ordering: .relaxed) == pthread_self() }

    /// Runs the first work of a queue.
    /// - Returns: false: the process has no thread left, and the work is dropped.
    package func start(_ work: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.isTaken = true
            state.items.append(.work(work))
        }
        return Worker.run(self, waits: false)
    }

    package func async(_ work: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            defer { state.isTaken = true }
            state.items.append(.work(work))
            return !state.isTaken
        }
        if needsThread { Worker.run(self) }
    }

    /// Runs `work` on the caller's thread, after the work that waits. Not on this queue.
    /// - Parameter limit: after this time `work` is left to the queue. The work that runs may call an application's
    ///   handler, and that may wait for a lock which the caller holds.
    package func sync(within limit: Duration = .seconds(10), _ work: @escaping @Sendable () -> Void) {
        let turn = state.withLock { state -> WakeUp? in
            defer { state.isTaken = true }
            guard state.isTaken else { return nil }
            let turn = WakeUp()
            state.items.append(.turn(turn))
            return turn
        }
        if let turn, !turn.wait(until: monotonicTime + limit) {
            if state.withLock({ $0.replace(turn, by: work) }) { return }
            // Its turn came before `replace`.
            turn.wait()
        }
        owner.store(pthread_self(), ordering: .relaxed)
        work()
        passOn()
    }

    /// Runs `work` later. It keeps this queue until then.
    package func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        NetworkThread.shared.schedule(after: delay) { [self] in async(work) }
    }

    /// Runs the work that waits. Called by a worker thread.
    func drain() {
        owner.store(pthread_self(), ordering: .relaxed)
        while let item = next() {
            switch item {
            case .work(let work): work()
            case .turn(let turn):
                owner.store(0, ordering: .relaxed)
                return turn.signal()
            }
        }
    }

    private func next() -> Item? {
        state.withLock { state in
            if state.items.isEmpty {
                owner.store(0, ordering: .relaxed)
                state.isTaken = false
            }
            return state.items.popFirst()
        }
    }

    /// Leaves the rest of the work to another thread.
    func passOn() {
        owner.store(0, ordering: .relaxed)
        let hasMore = state.withLock { state in
            state.isTaken = !state.items.isEmpty
            return state.isTaken
        }
        if hasMore { Worker.run(self) }
    }
}
