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

    /// Continues with the connection that `suspend` ended in the meantime.
    mutating func resume(_ before: SessionLimit) { (granted, connectedAt) = (before.granted, before.connectedAt) }

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

    /// The time of an end, and the duration that it permits from its start.
    typealias End = (at: Duration, length: Duration)

    private static func end(_ start: Duration?, _ length: Duration?) -> End? {
        guard let start, let length else { return nil }
        return (start + length, length)
    }

    var serviceEnd: End? { Self.end(connectedAt, granted) }
    var userEnd: Duration? { Self.end(start, allowed)?.at }

    /// The user's clock goes on; that of the service is the other's.
    func continued(by next: SessionLimit) -> SessionLimit {
        var limit = self
        (limit.granted, limit.connectedAt) = (next.granted, next.connectedAt)
        return limit
    }

    /// Returns the step that is due now; nil without a limit, or before the first connection.
    /// - Parameter isRenewed: another session is to replace this one at the service's end, which is not announced.
    mutating func verdict(now: Duration, isRenewed: Bool = false) -> Verdict? {
        let (user, service) = (Self.end(start, allowed), serviceEnd)
        guard let end = [user, service].compactMap(\.self).min(by: { $0.at < $1.at }) else { return nil }
        if now >= end.at { return .over(after: end.length) }
        guard let announceable = isRenewed ? user : end, announced != announceable.at else {
            return .wait(end.at - now)
        }
        let notice = announceable.at - min(Self.longestNotice, announceable.length / 2)
        if now < notice { return .wait(min(notice, end.at) - now) }
        announced = announceable.at
        return .announce(left: announceable.at - now)
    }
}
