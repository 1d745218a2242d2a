/// Limits a session's duration and announces its end. There are two clocks: the user's starts with the first connection
/// and continues while a lost one is reconnected; the service's starts with each control channel, or when the queue is
/// left, because each one is a new session for it (`Attempt.serviceEnd`).
struct SessionLimit: Sendable {
    /// Notice before the end; half of the duration for sessions of less than a minute.
    private static let longestNotice: Duration = .seconds(30)

    /// The user's limit; nil: unlimited.
    private var allowed: Duration?
    private var start: Duration?
    /// The end that was announced last.
    private var announced: Duration?

    /// The time of an end, and the duration that it permits from its start.
    typealias End = (at: Duration, length: Duration)

    enum Verdict: Sendable, Equatable {
        case wait(Duration)
        case announce(left: Duration)
        case over(after: Duration)
    }

    init(_ allowed: Duration?) { self.allowed = allowed }

    /// Call when a connection is established.
    mutating func begin(now: Duration) { if start == nil { start = now } }

    mutating func reset() { (start, announced) = (nil, nil) }

    mutating func set(_ allowed: Duration?) { (self.allowed, announced) = (allowed, nil) }

    /// Has no effect without a user's limit. The service's limit cannot be extended.
    mutating func extend(by more: Duration) {
        guard let allowed, more > .zero else { return }
        set(allowed + more)
    }

    static func end(_ start: Duration?, _ length: Duration?) -> End? {
        guard let start, let length else { return nil }
        return (start + length, length)
    }

    private var userEnd: End? { Self.end(start, allowed) }

    func userEnds(by time: Duration) -> Bool { userEnd.map { $0.at <= time } ?? false }

    /// Returns the step that is due now; nil without a limit, or before the first connection.
    /// - Parameters:
    ///   - service: the service's end of the current connection.
    ///   - isRenewed: another session is to replace this one at the service's end, which is not announced.
    mutating func verdict(now: Duration, service: End?, isRenewed: Bool) -> Verdict? {
        guard let end = [userEnd, service].compactMap(\.self).min(by: { $0.at < $1.at }) else { return nil }
        if now >= end.at { return .over(after: end.length) }
        guard let announceable = isRenewed ? userEnd : end, announced != announceable.at else {
            return .wait(end.at - now)
        }
        let notice = announceable.at - min(Self.longestNotice, announceable.length / 2)
        if now < notice { return .wait(min(notice, end.at) - now) }
        announced = announceable.at
        return .announce(left: announceable.at - now)
    }
}
