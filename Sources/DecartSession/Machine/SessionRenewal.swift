// The renewal of a session before the service's limit ends it: a second session, the successor, is set up beside the
// running one and takes over with its first transformed frame.
//
// The successor is a copy of the machine that makes one attempt. It starts with all requests that are not acknowledged
// yet, and gets each further one; its events are those of its attempt. Its results are held back until it takes over,
// because the running session may have reported them. If it fails, the running session goes on as if nothing had
// happened; if that one is lost meanwhile, the successor takes its place as it is.
import DecartProtocol

struct SessionRenewal: Sendable {
    /// One element or none: a struct cannot contain itself.
    private var successors: [SessionMachine] = []
    private(set) var beganAt: Duration = .zero
    private var results: [RequestID: PromptResult] = [:]
    /// True in the machine of a successor.
    var isSuccessor = false
    /// The renewal that is due has not failed for good, so the session's end need not be announced.
    var isExpected = false
    /// No session could be set up beside this one: a new one replaces it at its end.
    var replacesAtEnd = false
    /// Time of the dial that met the account's limit.
    var refusedDial: Duration?

    var successor: SessionMachine? {
        get { successors.first }
        set { successors = newValue.map { [$0] } ?? [] }
    }

    mutating func reset() { self = SessionRenewal() }

    /// Forgets what concerns the attempt that ends.
    mutating func forget() { (isExpected, replacesAtEnd, refusedDial) = (false, false, nil) }

    mutating func begin(_ now: Duration) { (beganAt, results) = (now, [:]) }

    /// True if the event belongs to the successor.
    func owns(_ event: SessionEvent) -> Bool {
        guard let attempt = successor?.attempt else { return false }
        return event == .timerFired(.successorAcks) || event.attempt == attempt.id
    }

    mutating func hold(_ result: PromptResult) { results[result.id] = result }

    /// Results of the successor for requests that the running session has not reported.
    func results(for open: Set<RequestID>) -> [PromptResult] {
        open.sorted().compactMap { results[$0] }
    }

    /// The session can be renewed again this long before its end, if a first try fails in passing.
    static let leastTimeForAnother: Duration = .seconds(2)
}

extension SessionConfiguration {
    /// Time from the connection to the renewal of a session of this length; nil: it is not renewed.
    func renewal(of length: Duration) -> Duration? {
        renewBefore > .zero ? max(length / 2, length - renewBefore) : nil
    }
}

extension SessionMachine {
    /// Schedules the renewal, if the service's limit ends the session and not the user's.
    mutating func planRenewal(_ now: Duration) {
        guard !renewal.isSuccessor, renewal.successor == nil, !renewal.replacesAtEnd,
            attempt?.step == .connected
        else { return }
        guard let service = limit.serviceEnd, let wait = configuration.renewal(of: service.length),
            limit.userEnd.map({ $0 > service.at }) ?? true
        else {
            renewal.isExpected = false
            return emit(.cancel(.renewal))
        }
        renewal.isExpected = true
        emit(.schedule(.renewal, after: max(service.at - service.length + wait - now, .zero)))
        // Takes back an announcement that was planned without the renewal.
        watchLimit(now)
    }

    mutating func renew(_ now: Duration) {
        guard renewal.isExpected, renewal.successor == nil, attempt?.step == .connected else { return }
        var next = self
        next.phase = .idle
        next.actions = []
        next.previousMedia = nil
        next.ackDeadline = nil
        next.limit = SessionLimit(nil)
        next.renewal = SessionRenewal()
        next.renewal.isSuccessor = true
        next.backOff.reset()
        next.snapshot = SessionSnapshot()
        next.begin(now)
        let actions = next.takeActions()
        renewal.begin(now)
        renewal.successor = next
        lastAttempt = next.lastAttempt
        report(.note("Renews the session before its end"))
        perform(actions)
    }

    /// Passes an event to the successor, which then may have failed or be ready to take over.
    mutating func successorHandles(_ event: SessionEvent, _ now: Duration, _ jitter: Double) {
        guard var next = renewal.successor else { return }
        let event = event == .timerFired(.successorAcks) ? .timerFired(.acks) : event
        perform(next.handle(event, now: now, jitter: jitter))
        lastAttempt = next.lastAttempt
        if case .failed = next.phase {
            renewal.successor = nil
            emit(.cancel(.successorAcks))
            guard var error = next.snapshot.lastError else { return }
            guard next.snapshot.phases.firstFrame != nil else {
                return renewalFailed(error, dialledAt: renewal.beganAt, now)
            }
            // The output has dropped the running session's frames since it showed one of the successor.
            error.isPermanent = false
            attemptFailed(error, now, jitter)
        } else {
            renewal.successor = next
            guard next.attempt?.step == .connected, next.isSilent || next.snapshot.phases.firstFrame != nil else {
                return
            }
            takeOver(keepingMedia: false, now)
        }
    }

    /// Performs what the successor requests. The timers of its own length run once it has taken over.
    private mutating func perform(_ actions: [SessionAction]) {
        for action in actions {
            switch action {
            case .schedule(.acks, let delay): emit(.schedule(.successorAcks, after: delay))
            case .cancel(.acks): emit(.cancel(.successorAcks))
            case .schedule(.limit, _), .schedule(.renewal, _), .cancel(.limit), .cancel(.renewal), .cancel(.retry):
                break
            case .report(.promptResult(let result)): renewal.hold(result)
            case .report(.failed), .report(.ending): break
            default: emit(action)
            }
        }
    }

    /// Makes the successor the session, and ends the running one.
    private mutating func takeOver(keepingMedia: Bool, _ now: Duration) {
        guard var next = renewal.successor else { return }
        let open = prompts.openRequests
        let results = renewal.results(for: open)
        let took = now - renewal.beganAt
        renewal.reset()
        endAttempt(keepingMedia: keepingMedia)
        if !keepingMedia { endPreviousMedia() }
        emit(.cancel(.successorAcks))
        emit(.cancel(.acks))
        next.prompts.markReported(allBut: open.subtracting(results.map(\.id)))
        next.limit = limit.continued(by: next.limit)
        next.backOff = backOff
        next.snapshot.retries = snapshot.retries
        next.renewal = SessionRenewal()
        next.previousMedia = previousMedia
        next.ackDeadline = nil
        next.actions = actions
        self = next
        for result in results { report(.promptResult(result)) }
        if attempt?.step == .connected { report(.renewed(after: took)) }
        watchLimit(now)
        planRenewal(now)
    }

    private mutating func renewalFailed(_ cause: SessionError, dialledAt: Duration, _ now: Duration) {
        var error = cause
        let left = limit.serviceEnd.map { max($0.at - now, .zero) } ?? .zero
        let seconds = left.components.seconds
        error.isPermanent = false
        let isFull = cause.code == .concurrencyLimit
        if cause.isPermanent {
            renewal.isExpected = false
            error.message += " The session was not renewed and ends in \(seconds) s."
        } else if !isFull, left >= SessionRenewal.leastTimeForAnother {
            emit(.schedule(.renewal, after: left / 2))
            error.message += " The session was not renewed yet; the next try follows."
        } else {
            renewal.replacesAtEnd = true
            renewal.refusedDial = isFull ? dialledAt : nil
            error.message +=
                " The session was not renewed beside the running one; a new one replaces it in \(seconds) s."
        }
        snapshot.lastError = error
        report(.warning(error))
        watchLimit(now)
    }

    /// Continues with the successor if the running session is lost, and replaces a session that has come to its end
    /// and could not be renewed beside the running one.
    /// - Returns: false if the attempt has to be handled as any other.
    mutating func continueAfterLoss(_ error: SessionError, _ now: Duration) -> Bool {
        guard let attempt, !renewal.isSuccessor else { return false }
        let isSpent = limit.isSpent(now: now)
        if renewal.successor != nil {
            takeOver(keepingMedia: attempt.canKeepMedia(after: error, configuration), now)
            guard !isSpent else { return true }
            snapshot.lastError = error
            report(.warning(error))
            return true
        }
        guard isSpent, renewal.replacesAtEnd else { return false }
        replace(keepingMedia: attempt.canKeepMedia(after: error, configuration), now)
        return true
    }

    /// Does the same when the service's limit is reached by our clock.
    mutating func continueAfterEnd(_ now: Duration) -> Bool {
        guard let service = limit.serviceEnd, service.at <= now, limit.userEnd.map({ $0 > now }) ?? true else {
            return false
        }
        if renewal.successor != nil {
            takeOver(keepingMedia: false, now)
        } else if renewal.replacesAtEnd {
            replace(keepingMedia: false, now)
        } else {
            return false
        }
        return true
    }

    /// Break before make.
    private mutating func replace(keepingMedia: Bool, _ now: Duration) {
        let wait = renewal.refusedDial.map { max($0 + LimitWait.interval - now, .zero) } ?? .zero
        renewal.reset()
        endAttempt(keepingMedia: keepingMedia)
        closePreviousChannel()
        guard wait > .zero else { return begin(now) }
        phase = .backingOff(next: AttemptID(lastAttempt &+ 1))
        emit(.schedule(.retry, after: wait))
    }

    /// Ends the successor with the session.
    mutating func endRenewal(_ now: Duration) {
        if var next = renewal.successor {
            perform(next.handle(.stop, now: now, jitter: 0))
            emit(.cancel(.successorAcks))
        }
        emit(.cancel(.renewal))
        renewal.reset()
    }

    private mutating func takeActions() -> [SessionAction] {
        defer { actions = [] }
        return actions
    }
}

extension SessionEvent {
    /// The attempt to which the event belongs.
    var attempt: AttemptID? {
        switch self {
        case .grant(let id, _), .channelOpened(let id, _, _), .channelMessage(let id, _),
            .channelMalformed(let id, _), .channelClosed(let id, _, _), .channelFailed(let id, _),
            .channelSilent(let id, _), .channelAnswered(let id), .media(let id, _), .mediaSampled(let id, _):
            id
        case .networkChanged(let lost): lost
        case .timerFired(let timer): timer.attempt
        case .start, .stop, .update, .limit, .extend, .mute: nil
        }
    }

    /// A request of the application that a successor must not miss.
    var isRequest: Bool {
        switch self {
        case .update, .mute: true
        case .start, .stop, .limit, .extend, .grant, .channelOpened, .channelMessage, .channelMalformed, .channelClosed,
            .channelFailed, .channelSilent, .channelAnswered, .networkChanged, .media, .mediaSampled, .timerFired:
            false
        }
    }
}

extension TimerID {
    fileprivate var attempt: AttemptID? {
        switch self {
        case .opening(let id), .statusTimeout(let id), .initialAck(let id), .roomInfo(let id), .mediaConnect(let id),
            .renegotiationAnswer(let id), .mediaSample(let id), .stable(let id), .suspension(let id),
            .takeover(let id), .mediaClosed(let id):
            id
        case .acks, .retry, .limit, .renewal, .successorAcks: nil
        }
    }
}
