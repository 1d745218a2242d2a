/// How long a session may last, and when its end is announced. The clock starts with the first connection, and goes on
/// while a lost one is made anew.
struct SessionLimit: Sendable {
    /// Before the end; half of the time for sessions of less than a minute.
    private static let longestNotice: Duration = .seconds(30)

    /// nil: as long as it likes.
    private(set) var allowed: Duration?
    private var start: Duration?
    private var isAnnounced = false

    enum Verdict: Sendable, Equatable {
        case wait(Duration)
        case announce(left: Duration)
        case over
    }

    init(_ allowed: Duration?) { self.allowed = allowed }

    mutating func begin(now: Duration) { if start == nil { start = now } }

    mutating func reset() { (start, isAnnounced) = (nil, false) }

    mutating func set(_ allowed: Duration?) { (self.allowed, isAnnounced) = (allowed, false) }

    /// Nothing without a limit: there is nothing to extend.
    mutating func extend(by more: Duration) {
        guard let allowed, more > .zero else { return }
        set(allowed + more)
    }

    /// What is due now; nil without a limit, or before the first connection.
    mutating func verdict(now: Duration) -> Verdict? {
        guard let start, let allowed else { return nil }
        let end = start + allowed
        if now >= end { return .over }
        let notice = end - min(Self.longestNotice, allowed / 2)
        if isAnnounced { return .wait(end - now) }
        if now < notice { return .wait(notice - now) }
        isAnnounced = true
        return .announce(left: end - now)
    }
}
