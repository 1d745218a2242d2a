// The messages of the control channels, for tests: which came, in which order, and when. It holds no secret, and the
// oldest entries make room for new ones.
import Synchronization

package final class Journal: Sendable {
    package enum Direction: String, Sendable {
        case received = "in"
        case sent = "out"
        case event
    }

    package struct Entry: Sendable, Equatable {
        /// Counted from 1 over all sessions.
        package internal(set) var number: Int
        package let session: Int
        package let sessionID: String
        package let time: Duration
        package let direction: Direction
        package let type: String
        package let message: String

        /// The journal sets the number.
        package init(
            session: Int, sessionID: String, time: Duration, direction: Direction, type: String, message: String
        ) {
            (number, self.session, self.sessionID, self.time) = (0, session, sessionID, time)
            (self.direction, self.type, self.message) = (direction, type, message)
        }

        fileprivate var size: Int { message.utf8.count + type.utf8.count + sessionID.utf8.count + 64 }
    }

    private struct State {
        var entries: [Entry] = []
        var size = 0
        var count = 0
    }

    /// Prompts are journaled as they are.
    let showsPrompts: Bool
    private let maximumCount: Int
    /// Bytes.
    private let maximumSize: Int
    private let state = Mutex(State())

    package init(showsPrompts: Bool = false, maximumCount: Int = 4096, maximumSize: Int = 4 << 20) {
        self.showsPrompts = showsPrompts
        self.maximumCount = maximumCount
        self.maximumSize = maximumSize
    }

    package func add(_ entry: Entry) {
        state.withLock { state in
            state.count += 1
            var entry = entry
            entry.number = state.count
            state.entries.append(entry)
            state.size += entry.size
            var excess = 0
            while state.entries.count - excess > maximumCount || state.size > maximumSize {
                state.size -= state.entries[excess].size
                excess += 1
            }
            state.entries.removeFirst(excess)
        }
    }

    /// - Parameter after: Number of the last entry that is known already.
    package func entries(ofSession id: String? = nil, after: Int = 0) -> (entries: [Entry], last: Int) {
        state.withLock { state in
            (state.entries.filter { $0.number > after && (id == nil || $0.sessionID == id) }, state.count)
        }
    }

    package func forget(_ sessions: Set<Int>) {
        state.withLock { state in
            state.entries.removeAll { sessions.contains($0.session) }
            state.size = state.entries.reduce(0) { $0 + $1.size }
        }
    }
}
