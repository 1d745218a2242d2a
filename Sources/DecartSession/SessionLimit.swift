/// How long a session may last, and when its end is announced. Two clocks: the user's starts with the first connection, and
/// goes on while a lost one is made anew; the service's starts with each connection, for that is a session of its own there.
struct SessionLimit: Sendable {
    /// Before the end; half of the time for sessions of less than a minute.
    private static let longestNotice: Duration = .seconds(30)

    /// By the user; nil: as long as it likes.
    private var allowed: Duration?
    private var start: Duration?
    /// By the service, for the present connection.
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

    /// The connection is lost, or not there yet: what the service grants counts from the next one.
    mutating func suspend() { (granted, connectedAt) = (nil, nil) }

    mutating func reset() {
        suspend()
        (start, announced) = (nil, nil)
    }

    mutating func set(_ allowed: Duration?) { (self.allowed, announced) = (allowed, nil) }

    mutating func grant(_ granted: Duration?) { self.granted = granted }

    /// Nothing without a limit of the user's: there is nothing to extend. What the service grants cannot be extended.
    mutating func extend(by more: Duration) {
        guard let allowed, more > .zero else { return }
        set(allowed + more)
    }

    /// The service's time is up, or as good as that: its clock may be ahead of ours.
    func isSpent(now: Duration) -> Bool {
        guard let granted, let connectedAt else { return false }
        return now - connectedAt >= granted - min(.seconds(5), granted / 10)
    }

    /// The nearer end, and how long it allows from its beginning.
    private var end: (at: Duration, length: Duration)? {
        let ends = [(start, allowed), (connectedAt, granted)].compactMap { start, length in
            start.flatMap { start in length.map { (at: start + $0, length: $0) } }
        }
        return ends.min { $0.at < $1.at }
    }

    /// What is due now; nil without a limit, or before the first connection.
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
