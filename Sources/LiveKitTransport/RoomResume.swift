// One resume of a stay in a room, as a value: the signalling connection or a media path was lost, and on request the same
// participant opens another signalling connection while its media continue. It has no limit: the session sets one.
//
//   waiting ─retry→ opening ─opened→ joining ─first message→ restoring ─offers answered, paths restored→ done
//      ↑                                                       │ lost again
//      └───────────────────────────────────────────────────────┘
import LiveKitProtocol
import Recovery

struct RoomResume: Sendable, Equatable {
    enum Step: Int, Sendable, Comparable {
        /// The next attempt waits for its time, the first one for a request.
        case waiting
        case opening
        /// The signalling connection is open; the server's first message accepts or refuses.
        case joining
        /// The server has our state; ICE restarts where that is needed.
        case restoring

        static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
    }

    let cause: String
    let reason: LiveKitReconnectReason
    let startedAt: Duration
    /// Attempts of resumes that did not last, whose waits this one continues.
    let earlierAttempts: Int
    /// The server reports that its side of the media paths has failed or moves.
    var restartsICE: Bool
    /// Other URLs of the room, the nearest first.
    let regions: ArraySlice<String>
    var step = Step.waiting
    private(set) var attempts = 0
    /// Requests that wait for the end of the resume.
    private(set) var held: [LiveKitSignalRequest.Message] = []

    private static let maximumHeldCount = 256
    static let maximumRegionCount = 4

    /// Begins the next attempt.
    /// - Returns: the wait before it, which a jitter of 1 shortens by a fifth.
    mutating func nextWait(mediaPass: Bool, jitter: Double) -> Duration {
        let share = jitter.isFinite ? min(max(jitter, 0), 1) : 0
        let waits = RecoveryPlan.Room.waits
        // One resume soon after another is usual.
        var wait = waits[min(max(allAttempts - 1, attempts), waits.count - 1)] * (1 - 0.2 * share)
        if !mediaPass { wait = min(wait, RecoveryPlan.Room.longestWaitWithoutMedia) }
        attempts += 1
        step = .waiting
        return wait
    }

    var allAttempts: Int { earlierAttempts + attempts }

    /// The URL of the present attempt: the regions in turn, then the room's own, which is nil.
    var url: String? {
        let index = max(attempts - 1, 0) % (regions.count + 1)
        return regions.indices.contains(index) ? regions[index] : nil
    }

    /// True if the request goes out at once. SyncState comes before all others.
    func passes(_ message: LiveKitSignalRequest.Message) -> Bool {
        switch message {
        case .leave: step >= .joining
        case .syncState, .trickle, .offer, .answer: step == .restoring
        case .addTrack, .mute, .subscription, .ping, .pingReq: false
        }
    }

    /// Keeps a request for the end of the resume, which sends pings and tracks without an answer by itself.
    mutating func hold(_ message: LiveKitSignalRequest.Message) {
        switch message {
        case .mute, .subscription, .trickle:
            if held.count < Self.maximumHeldCount { held.append(message) }
        case .leave, .syncState, .offer, .answer, .addTrack, .ping, .pingReq: break
        }
    }
}
