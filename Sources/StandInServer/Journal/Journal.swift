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
        package fileprivate(set) var message: String

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
        var first = 0
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
            while state.entries.count - state.first > maximumCount || state.size > maximumSize,
                state.first < state.entries.count
            {
                state.size -= state.entries[state.first].size
                state.entries[state.first].message = ""
                state.first += 1
            }
            // Moving all entries at each removal would take time in proportion to their number.
            if state.first > state.entries.count / 2 {
                state.entries.removeFirst(state.first)
                state.first = 0
            }
        }
    }

    /// - Parameter after: Number of the last entry that is known already.
    package func entries(ofSession id: String? = nil, after: Int = 0) -> (entries: [Entry], last: Int) {
        state.withLock { state in
            let fitting = state.entries[state.first...].filter {
                $0.number > after && (id == nil || $0.sessionID == id)
            }
            return (fitting, state.count)
        }
    }

    package func forget(_ sessions: Set<Int>) {
        state.withLock { state in
            state.entries = state.entries[state.first...].filter { !sessions.contains($0.session) }
            state.first = 0
            state.size = state.entries.reduce(0) { $0 + $1.size }
        }
    }
}
