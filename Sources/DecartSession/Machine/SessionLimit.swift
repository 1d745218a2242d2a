/// Limits a session's duration and announces its end. There are two clocks: the user's starts with the first connection
/// and continues while a lost one is reconnected; the service's starts with each connection, because the service treats
/// each one as a new session.
struct SessionLimit: Sendable {
    /// Notice before the end; half of the duration for sessions of less than a minute.
    private static let longestNotice: Duration = .seconds(30)

    /// The user's limit; nil: unlimited.
    private var allowed: Duration?
    private var start: Duration?
    /// The service's limit for the present connection.
    private var granted: Duration?
    private var connectedAt: Duration?
    /// The end that was announced last.
    private var announced: Duration?

    enum Verdict: Sendable, Equatable {
        case wait(Duration)
        case announce(left: Duration)
        case over(after: Duration)
    }

    init(_ allowed: Duration?) { self.allowed = allowed }

    mutating func begin(now: Duration) {
        if start == nil { start = now }
        connectedAt = now
    }

    /// Forgets the service's limit when the connection is lost: the next connection brings its own.
    mutating func suspend() { (granted, connectedAt) = (nil, nil) }

    mutating func reset() {
        suspend()
        (start, announced) = (nil, nil)
    }

    mutating func set(_ allowed: Duration?) { (self.allowed, announced) = (allowed, nil) }

    mutating func grant(_ granted: Duration?) { self.granted = granted }

    /// Has no effect without a user's limit. The service's limit cannot be extended.
    mutating func extend(by more: Duration) {
        guard let allowed, more > .zero else { return }
        set(allowed + more)
    }

    /// True if the service's time is up or almost up: its clock may be ahead of ours.
    func isSpent(now: Duration) -> Bool {
        guard let granted, let connectedAt else { return false }
        return now - connectedAt >= granted - min(.seconds(5), granted / 10)
    }

    /// The earlier of the two ends, and the duration that it permits from its start.
    private var end: (at: Duration, length: Duration)? {
        let ends = [(start, allowed), (connectedAt, granted)].compactMap { start, length in
            start.flatMap { start in length.map { (at: start + $0, length: $0) } }
        }
        return ends.min { $0.at < $1.at }
    }

    /// Returns the step that is due now; nil without a limit, or before the first connection.
    mutating func verdict(now: Duration) -> Verdict? {
        guard let end else { return nil }
        if now >= end.at { return .over(after: end.length) }
        if announced == end.at { return .wait(end.at - now) }
        let notice = end.at - min(Self.longestNotice, end.length / 2)
        if now < notice { return .wait(notice - now) }
        announced = end.at
        return .announce(left: end.at - now)
    }
}
