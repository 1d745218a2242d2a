// Failures of attempts, and when the next attempt begins. The first connection and a lost one fail in the same way: only
// `attemptFailed` decides whether to retry. If no retries are allowed, the session fails at once.
import DecartProtocol
import Recovery

extension SessionMachine {
    enum Loss { case connection, path, address }

    /// Ends an attempt that failed or whose connection was lost.
    /// - Parameter loss: a lost path suspends the attempt for the case that packets pass again; after the loss of its
    ///   address, the next attempt begins at once.
    mutating func attemptFailed(_ id: AttemptID, _ error: SessionError, loss: Loss = .connection) {
        guard let attempt = live(id) else { return }
        reportAttempt(attempt, error)
        // A session that a viewer has shown is over: no failure of the viewer.
        if configuration.isViewer, hasBeenConnected, error.hasSessionEnded { return endWatching(error) }
        let isFull = error.code == .concurrencyLimit
        if attempt.isTransportPresumed, !isFull, attempt.step > .opening, attempt.step < .connected,
            detection.store(nil)
        {
            report(.transportDetected(nil))
        }
        if attempt.role == .candidate { return candidateFailed(attempt, error) }
        if continueAfterLoss(attempt, error) { return }
        if isFull, !error.isPermanent { return waitForSession(attempt, error) }
        let error = attempt.isSpent(now: now) && !error.isPermanent ? .expired(error.message) : error
        let retries = backOff.count
        let isExhausted = configuration.retry.maximumRetries.map { retries >= $0 } ?? false
        guard !isExhausted, !error.isPermanent else {
            return fail(isExhausted && !error.isPermanent ? error.after(retries: retries) : error)
        }
        switch loss {
        case .connection: release(attempt, after: error)
        case .path, .address: suspend(attempt, isGone: loss == .address)
        }
        mayRetryEarly = error.retryAfter == nil
        let delay = max(backOff.next(jitter: jitter), error.requestedWait)
        dial(after: loss == .address ? .zero : delay)
        warn(error, nil)
    }

    /// Begins the next attempt after that time.
    private mutating func dial(after delay: Duration) {
        phase = .backingOff
        snapshot.queue = nil
        emit(.schedule(.retry, after: delay))
    }

    /// Waits for a session of the account to end.
    private mutating func waitForSession(_ attempt: Attempt, _ error: SessionError) {
        let isFirst = !limitWait.isWaiting
        let wait = limitWait.next(error.requestedWait, dialledAt: attempt.startedAt, now: now, jitter: jitter)
        guard let wait else { return fail(error.afterWait(limitWait.allowed)) }
        release(attempt, after: error)
        closeLingeringChannel()
        snapshot.serviceStatus = .waitingForSession
        snapshot.lastError = error
        dial(after: wait)
        if isFirst { announceLimitWait() }
    }

    /// Reports the wait for a session, and repeats that while it lasts.
    mutating func announceLimitWait() {
        guard limitWait.isWaiting else { return }
        if let error = snapshot.lastError, error.code == .concurrencyLimit { report(.warning(error)) }
        emit(.schedule(.limitWaitNotice, after: LimitWait.reportInterval))
    }

    /// Lets the service end the previous session, which may be one too many for the account.
    private mutating func closeLingeringChannel() {
        if let lingering { emit(.closeChannel(lingering.id)) }
    }

    // MARK: Losses around a renewal

    /// Continues with the candidate if the current attempt is lost, and replaces a session that has come to its end and
    /// could not be renewed beside the current one.
    /// - Returns: false if the loss has to be handled as any other.
    private mutating func continueAfterLoss(_ attempt: Attempt, _ error: SessionError) -> Bool {
        let isSpent = attempt.isSpent(now: now)
        guard let candidate else { return isSpent && replace(attempt, after: error) }
        release(attempt, after: error)
        if attempts[attempt.id] == nil { endOlder(than: candidate.id) }
        promote(candidate.id)
        if !isSpent { warn(error, candidate.id) }
        return true
    }

    /// Does the same when the service's limit is reached by our clock.
    mutating func continueAfterEnd() -> Bool {
        guard let current, let end = current.serviceEnd, end.at <= now, !limit.userEnds(by: now) else { return false }
        guard let candidate else { return replace(current, after: nil) }
        takeOver(candidate.id)
        return true
    }

    /// Break before make.
    /// - Returns: false if no replacement is planned.
    private mutating func replace(_ attempt: Attempt, after error: SessionError?) -> Bool {
        guard case .atEnd(let earliest) = attempt.renewal else { return false }
        if let error { release(attempt, after: error) } else { end(attempt.id) }
        closeLingeringChannel()
        renewalPace.count(now: max(now, earliest ?? now))
        let wait = earliest.map { max($0 - now, .zero) } ?? .zero
        if wait > .zero { dial(after: wait) } else { dial() }
        return true
    }

    private mutating func candidateFailed(_ candidate: Attempt, _ cause: SessionError) {
        let error = candidate.isSpent(now: now) && !cause.isPermanent ? .expired(cause.message) : cause
        end(candidate.id)
        guard let current else { return }
        if current.successor == .expected, candidate.snapshot.phases.firstFrame == nil {
            // The running session needs no other one yet. Media that end are handled as any loss.
            attempts[current.id]?.successor = error.isPermanent ? .refused : .failed
            warn(error.passing.adding("The running session continues."), current.id)
            limitChanged()
        } else if candidate.snapshot.phases.firstFrame == nil {
            renewalFailed(current, error, dialledAt: candidate.startedAt)
        } else {
            // The output has dropped the current attempt's frames since it showed one of the candidate.
            attemptFailed(current.id, error.passing)
        }
    }

    // MARK: Channel and network

    mutating func channelGone(_ id: AttemptID, _ error: (Attempt) -> SessionError) {
        if let attempt = live(id) { attemptFailed(id, error(attempt)) }
        if suspended?.id == id { endSuspended() }
    }

    mutating func channelSilent(_ id: AttemptID, _ error: SessionError) {
        guard let attempt = live(id) else { return }
        if let recoveredAt = attempt.recoveredAt, now - recoveredAt < RecoveryPlan.Channel.retransmissionTime { return }
        attemptFailed(id, error, loss: canSuspend(attempt) ? .path : .connection)
    }

    mutating func networkChanged(_ lost: AttemptID?) {
        // The wait of a room, or its dial, was meant for the former network.
        for attempt in attempts.all where attempt.interruption != nil { emit(.recover(attempt.id)) }
        if let lost, let attempt = live(lost, at: .connected) {
            guard configuration.keepsMediaWhileReconnecting, attempt.causeOfEnd == nil else { return }
            return attemptFailed(lost, .addressLost, loss: .address)
        }
        guard hasBeenConnected else { return }
        if phase == .backingOff, mayRetryEarly {
            guard backOff.endWait() else { return }
            emit(.cancel(.retry))
        } else if let current, current.step == .opening, now - current.startedAt >= RecoveryPlan.Session.dialAge,
            backOff.endWait()
        {
            // A dial into a network that is gone would only wait for its timeout.
            end(current.id)
        } else {
            return
        }
        dial()
    }
}
