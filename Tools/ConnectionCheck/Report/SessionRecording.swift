// The messages of one run's control channel, unchanged. It holds secrets: only `CheckReport` reads it, and only for
// the report without them.
import DecartSession
import Synchronization

package final class SessionRecording: Sendable {
    package enum Event: Sendable, Equatable {
        /// The client opened a channel, with these query items (names only).
        case requested(items: [String])
        case opened(transport: Duration?, upgrade: Duration?)
        case sent([UInt8])
        case received([UInt8])
        /// The service closed the channel.
        case closed(code: Int?, reason: String)
        case failed(code: String, stage: String, httpStatus: Int?, message: String)
        /// The client closed the channel.
        case left
        /// A message of a room's signalling.
        case room(isSent: Bool, RoomMessage)
        /// The connection to a room opened or ended, in words without secrets.
        case roomChannel(String)
    }

    package struct Entry: Sendable, Equatable {
        /// Milliseconds since the start of the recording.
        package var time: Int
        /// Counted from 1: a reconnect opens another channel.
        package var attempt: Int
        package var event: Event

        package init(time: Int, attempt: Int, event: Event) {
            self.time = time
            self.attempt = attempt
            self.event = event
        }
    }

    /// These bound the memory that a hostile service can take.
    private static let maximumEntries = 5000
    private static let maximumBytes = 16 << 20

    private let begun = ContinuousClock.now
    private let state = Mutex((entries: [Entry](), bytes: 0))

    package init() {}

    package func add(_ event: Event, attempt: Int) {
        let time = begun.duration(to: .now).milliseconds
        let size =
            switch event {
            case .sent(let bytes), .received(let bytes): bytes.count
            default: 0
            }
        state.withLock { state in
            guard state.entries.count < Self.maximumEntries, state.bytes <= Self.maximumBytes - size else { return }
            state.bytes += size
            state.entries.append(Entry(time: time, attempt: attempt, event: event))
        }
    }

    package var entries: [Entry] { state.withLock { $0.entries } }
}
