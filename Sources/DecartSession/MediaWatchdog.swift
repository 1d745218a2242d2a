/// Frames or packets counted since the media path was made.
package struct MediaTraffic: Sendable, Equatable {
    package var sent: UInt64
    package var received: UInt64

    package init(sent: UInt64, received: UInt64) {
        self.sent = sent
        self.received = received
    }
}

/// Finds a dead media path: it counts the time in which we sent and nothing came. With a silent input the clock stands
/// still, and so it does while the process is stopped: a long gap between samples counts as one interval.
struct MediaWatchdog: Sendable, Equatable {
    private let timeout: Duration
    private let interval: Duration
    private var last: MediaTraffic?
    private var lastAt: Duration = .zero
    private(set) var silence: Duration = .zero

    init(timeout: Duration, interval: Duration) {
        self.timeout = timeout
        self.interval = interval
    }

    /// true: dead.
    /// - Parameter patience: in place of the time-out, where it is longer.
    mutating func sample(_ traffic: MediaTraffic, now: Duration, patience: Duration = .zero) -> Bool {
        defer {
            last = traffic
            lastAt = now
        }
        guard let last else { return false }
        if traffic.received != last.received {
            silence = .zero
        } else if traffic.sent != last.sent {
            silence += min(max(now - lastAt, .zero), interval * 2)
        }
        return silence >= max(timeout, patience)
    }
}
