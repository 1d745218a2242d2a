/// Detects a dead media path: adds up the time during which we sent and received nothing. The sum stands still while
/// the input is silent. A long gap between two samples, such as a suspended process leaves, counts as at most two
/// intervals.
///
/// No media are due after the end of a generation; until they are due again, the path is dead only after `idleTimeout`.
struct MediaWatchdog: Sendable, Equatable {
    private let timeout: Duration
    private let idleTimeout: Duration
    private let interval: Duration
    private var last: MediaTraffic?
    private var lastAt: Duration = .zero
    private(set) var silence: Duration = .zero
    /// Consecutive samples without media since the generation ended; nil while media are due.
    private var quietSamples: Int?
    /// Media that arrive after fewer quiet samples than this were in flight when the generation ended.
    private static let quietSamplesBeforeMedia = 2

    init(timeout: Duration, idleTimeout: Duration, interval: Duration) {
        self.timeout = timeout
        self.idleTimeout = idleTimeout
        self.interval = interval
    }

    var expectsMedia: Bool { quietSamples == nil }

    /// Call when the generation has ended.
    mutating func pause() { (quietSamples, silence) = (0, .zero) }

    /// Call when a generation runs; repeated calls have no effect.
    mutating func resume() {
        guard !expectsMedia else { return }
        (quietSamples, silence) = (nil, .zero)
    }

    /// Call when packets pass again on a lost path: it was the network that was silent, and media are due again.
    mutating func pathRecovered() { silence = .zero }

    /// Returns true if the path is dead.
    /// - Parameter minimumTimeout: replaces the timeout if it is longer.
    mutating func sample(_ traffic: MediaTraffic, now: Duration, minimumTimeout: Duration = .zero) -> Bool {
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
        return silence >= max(expectsMedia ? timeout : idleTimeout, minimumTimeout)
    }
}
