// The end of a session, and its renewal before the service's limit ends it: a candidate is set up beside the current
// attempt. If it fails, the current attempt continues.
import DecartProtocol

extension SessionMachine {
    /// Bounds how often another session begins at the end that the service has set, because each is billed and the service
    /// chooses their length.
    static let freshRenewalPace = Pace(burst: 4, interval: .seconds(30))
    private static let leastRenewalInterval: Duration = .seconds(2)
    /// The session can be renewed again this long before its end, if a first try fails in passing.
    private static let leastTimeForAnother: Duration = .seconds(2)

    /// Call when a limit has changed, or the connection to which it applies.
    mutating func limitChanged() {
        watchLimit()
        planRenewal()
    }

    /// - Parameter mayEnd: false in the middle of another event, which then ends the session by the timer.
    mutating func watchLimit(mayEnd: Bool = false) {
        guard phase == .running || phase == .backingOff else { return }
        let isRenewed = current.map { $0.renewal != .none } ?? false
        switch limit.verdict(now: now, service: current?.serviceEnd, isRenewed: isRenewed) {
        case nil: emit(.cancel(.limit))
        case .wait(let time): emit(.schedule(.limit, after: time))
        case .announce(let left):
            report(.ending(left: left))
            watchLimit()
        case .over(let allowed):
            guard mayEnd else { return emit(.schedule(.limit, after: .zero)) }
            if continueAfterEnd() { return }
            fail(.limitReached(allowed))
        }
    }

    /// Schedules the renewal, if the service's limit ends the session and not the user's.
    private mutating func planRenewal() {
        guard let current, current.step == .connected, candidate == nil else { return }
        if case .atEnd = current.renewal { return }
        guard let end = current.serviceEnd, let wait = configuration.renewal(of: end.length),
            !limit.userEnds(by: end.at)
        else {
            attempts[current.id]?.renewal = .none
            return emit(.cancel(.renewal))
        }
        let earliest = max(current.startedAt + Self.leastRenewalInterval, renewalPace.earliest)
        let due = end.at - end.length + wait
        if due < earliest, !hasWarnedOfShortSessions {
            hasWarnedOfShortSessions = true
            warn(.shortSessions(end.length, least: renewalPace.interval), current.id)
        }
        if earliest + Self.leastTimeForAnother > end.at {
            attempts[current.id]?.renewal = .atEnd(notBefore: earliest)
        } else {
            attempts[current.id]?.renewal = .expected
            emit(.schedule(.renewal, after: max(max(due, earliest) - now, .zero)))
        }
        // Takes back an announcement that was planned without the renewal.
        watchLimit()
    }

    mutating func renew() {
        guard let current, current.step == .connected, current.renewal == .expected, candidate == nil else { return }
        report(.note("Renews the session before its end"))
        prompts.beginCandidate()
        dial(as: .candidate)
    }

    mutating func renewalFailed(_ current: Attempt, _ cause: SessionError, dialledAt: Duration) {
        let left = current.serviceEnd.map { max($0.at - now, .zero) } ?? .zero
        let isFull = cause.code == .concurrencyLimit
        let mayTryAgain = !isFull && left >= Self.leastTimeForAnother
        let earliest = max(dialledAt + LimitWait.interval, now + cause.requestedWait)
        let end = Attempt.Renewal.atEnd(notBefore: isFull ? earliest : nil)
        let next: Attempt.Renewal = cause.isPermanent ? .none : mayTryAgain ? .expected : end
        attempts[current.id]?.renewal = next
        if next == .expected { emit(.schedule(.renewal, after: left / 2)) }
        warn(cause.afterRenewal(next: next, left: left), current.id)
        watchLimit()
    }
}
