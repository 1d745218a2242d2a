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
///
/// After the end of a generation no media are due: until they are again, the path is dead only after `idleTimeout`.
struct MediaWatchdog: Sendable, Equatable {
    private let timeout: Duration
    private let idleTimeout: Duration
    private let interval: Duration
    private var last: MediaTraffic?
    private var lastAt: Duration = .zero
    private(set) var silence: Duration = .zero
    /// Samples in a row without media since the generation ended; nil: media are due.
    private var quietSamples: Int?
    /// Media that come after less than this were on their way when the generation ended.
    private static let quietSamplesBeforeMedia = 2

    init(timeout: Duration, idleTimeout: Duration, interval: Duration) {
        self.timeout = timeout
        self.idleTimeout = idleTimeout
        self.interval = interval
    }

    var expectsMedia: Bool { quietSamples == nil }

    /// The generation has ended.
    mutating func pause() { (quietSamples, silence) = (0, .zero) }

    /// The generation runs, which need not be news.
    mutating func resume() {
        guard !expectsMedia else { return }
        (quietSamples, silence) = (nil, .zero)
    }

    /// true: dead.
    /// - Parameter patience: in place of the timeout, where it is longer.
    mutating func sample(_ traffic: MediaTraffic, now: Duration, patience: Duration = .zero) -> Bool {
        defer {
            last = traffic
            lastAt = now
        }
        guard let last else { return false }
        if traffic.received != last.received {
            silence = .zero
            if let quiet = quietSamples { quietSamples = quiet < Self.quietSamplesBeforeMedia ? 0 : nil }
        } else {
            quietSamples? += 1
            if traffic.sent != last.sent { silence += min(max(now - lastAt, .zero), interval * 2) }
        }
        return silence >= max(expectsMedia ? timeout : idleTimeout, patience)
    }
}
