import Dispatch
import Synchronization

/// The records of all sessions. Connections write their own record; any thread may read.
final class SessionBoard: Sendable {
    private struct State {
        var entries: [Entry] = []
        var nextNumber = 1
        var observers: [Int: @Sendable () -> Void] = [:]
        var nextObserver = 0
    }

    private struct Entry {
        var record: SessionRecord
        /// Counts frames while the session is open; the record then keeps the final counts.
        var painter: FramePainter?

        var current: SessionRecord {
            var record = record
            if let painter {
                record.frames = record.frames + painter.counts
                record.media = painter.statistics
            }
            return record
        }
    }

    private let state = Mutex(State())
    /// The number of observers, for `wake`.
    private let storedObserverCount = Atomic(0)
    /// Number of ended sessions to keep, the latest ones.
    private static let endedLimit = 1024

    var records: [SessionRecord] { state.withLock { $0.entries.map(\.current) } }

    var openCount: Int { state.withLock { state in state.entries.count { $0.record.isOpen } } }

    /// Open sessions that count against the account's limit.
    var ownSessionCount: Int { state.withLock { state in state.entries.count { $0.record.countsAgainstLimit } } }

    /// - Returns: The new session's number.
    func add(sessionID: String, request: ConnectionRequest) -> Int {
        change { state in
            let number = state.nextNumber
            state.nextNumber += 1
            state.entries.append(
                Entry(record: SessionRecord(number: number, sessionID: sessionID, request: request)))
            let ended = state.entries.count { !$0.record.isOpen }
            if ended > Self.endedLimit, let oldest = state.entries.firstIndex(where: { !$0.record.isOpen }) {
                state.entries.remove(at: oldest)
            }
            return number
        }
    }

    func update(_ number: Int, _ body: (inout SessionRecord) -> Void) {
        changeEntry(number) { body(&$0.record) }
    }

    /// Replaces the source of the frame counts; the record keeps the counts of the former painter.
    func setPainter(_ painter: FramePainter?, of number: Int) {
        changeEntry(number) { ($0.record, $0.painter) = ($0.current, painter) }
    }

    /// Calls the observers after a count outside the board has changed. Called at each frame of every session,
    /// so it takes no lock while there is no observer: with more threads than cores, each would wait for all the others.
    func wake() {
        // One that is added meanwhile reads the new count.
        guard storedObserverCount.load(ordering: .sequentiallyConsistent) > 0 else { return }
        change { _ in }
    }

    /// Begins a look; it counts its frames.
    func begin(_ look: Look, of number: Int) {
        // The record holds the counts of former painters only.
        changeEntry(number) { $0.record.begin(look, sent: $0.current.frames.sent) }
    }

    /// Removes the records of ended sessions.
    func forgetEnded() -> Set<Int> {
        change { state in
            let ended = state.entries.filter { !$0.record.isOpen }.map(\.record.number)
            state.entries.removeAll { !$0.record.isOpen }
            return Set(ended)
        }
    }

    /// Calls `body` after each change, on the thread that made it; `body` must not block.
    /// - Returns: A number for `removeObserver`.
    func observe(_ body: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.nextObserver += 1
            state.observers[state.nextObserver] = body
            storedObserverCount.add(1, ordering: .sequentiallyConsistent)
            return state.nextObserver
        }
    }

    func removeObserver(_ number: Int) {
        state.withLock { state in
            guard state.observers.removeValue(forKey: number) != nil else { return }
            storedObserverCount.subtract(1, ordering: .sequentiallyConsistent)
        }
    }

    var observerCount: Int { storedObserverCount.load(ordering: .relaxed) }

    /// Blocks the calling thread until the condition holds or the timeout expires; checks it after every change.
    func wait(timeout: DispatchTimeInterval, until condition: ([SessionRecord]) -> Bool) -> Bool {
        let semaphore = DispatchSemaphore(value: 0)
        let deadline = DispatchTime.now() + timeout
        let id = observe { semaphore.signal() }
        defer { removeObserver(id) }
        while !condition(records) {
            if semaphore.wait(timeout: deadline) == .timedOut { return condition(records) }
        }
        return true
    }

    private func changeEntry(_ number: Int, _ body: (inout Entry) -> Void) {
        change { state in
            guard let index = state.entries.firstIndex(where: { $0.record.number == number }) else { return }
            body(&state.entries[index])
        }
    }

    private func change<Result: Sendable>(_ body: (inout sending State) -> Result) -> Result {
        let (result, observers) = state.withLock { state in
            (body(&state), Array(state.observers.values))
        }
        for observer in observers { observer() }
        return result
    }
}
