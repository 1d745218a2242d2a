// A connection whose path is lost: it is suspended, goes on if packets pass again, or makes way for the next attempt.
import DecartProtocol

extension SessionMachine {
    /// True if a dead service and a network that drops everything look the same.
    var canSuspend: Bool {
        guard let attempt, attempt.step == .connected, attempt.pathIsLost, !attempt.channelAnswers else { return false }
        return configuration.keepsMediaWhileReconnecting && causeOfEnd == nil
    }

    mutating func suspend(_ error: SessionError, isGone: Bool, _ now: Duration, _ jitter: Double) {
        attemptFailed(error, now, jitter, suspends: isGone)
    }

    mutating func suspendAttempt(_ isGone: Bool) {
        guard let attempt else { return }
        endSuspended()
        endPreviousMedia()
        let timers: [TimerID] = [.stable(attempt.id), .renegotiationAnswer(attempt.id)]
        for timer in timers { emit(.cancel(timer)) }
        if attempt.offers.isRenegotiating {
            _ = self.attempt?.offers.rollback()
            emit(.rollbackOffer(attempt.id))
        }
        suspended = Suspended(attempt: self.attempt ?? attempt, snapshot: snapshot, limit: limit, isGone: isGone)
        limit.suspend()
        emit(.schedule(.suspension(attempt.id), after: configuration.suspensionTimeout))
        phase = .idle
    }

    /// Packets of the suspended attempt arrive: it goes on, and the next one ends. Too late once that has sent its
    /// initial state, because prompts then belong to its channel.
    @discardableResult
    mutating func resumeSuspended(_ now: Duration) -> Bool {
        guard let suspended, (attempt?.step ?? .opening) <= .open else { return false }
        self.suspended = nil
        endAttempt(keepingMedia: false)
        emit(.cancel(.suspension(suspended.attempt.id)))
        var attempt = suspended.attempt
        (attempt.pathIsLost, attempt.channelAnswers, attempt.recoveredAt) = (false, false, now)
        attempt.watchdog = makeWatchdog()
        if case .ended = attempt.generation { attempt.watchdog.pause() }
        phase = .running(attempt)
        let retries = backOff.count
        snapshot = suspended.snapshot
        snapshot.retries = retries
        limit.resume(suspended.limit)
        watchLimit(now)
        planRenewal(now)
        emit(.schedule(.stable(attempt.id), after: configuration.stableAfter))
        report(.note("Packets arrive again: the session goes on"))
        return true
    }

    mutating func endSuspended() {
        guard let suspended else { return }
        self.suspended = nil
        let id = suspended.attempt.id
        for timer in [TimerID.suspension(id), .mediaSample(id)] { emit(.cancel(timer)) }
        emit(.closeChannel(id))
        emit(.stopMedia(id))
    }

    /// The media path is lost, but messages arrive: the service may restart ICE with us.
    mutating func channelAnswered() {
        guard let attempt, attempt.pathIsLost, !attempt.channelAnswers else { return }
        self.attempt?.channelAnswers = true
        guard detection.current == .webrtc, !configuration.isViewer, attempt.offers.refusalOfRemoteOffer == nil else {
            return
        }
        emit(.restartICE(attempt.id))
    }

    mutating func networkChanged(_ lost: AttemptID?, _ now: Duration, _ jitter: Double) {
        switch phase {
        case .running(let attempt) where attempt.step == .connected && attempt.id == lost:
            guard configuration.keepsMediaWhileReconnecting, causeOfEnd == nil else { return }
            let words = "The address of this host that the connection used is gone; a new session begins."
            suspend(SessionError(.webRTC, words, stage: .media), isGone: true, now, jitter)
        case .backingOff:
            guard mayRetryEarly, hasBeenConnected, earlyRetries < Self.maximumEarlyRetries else { return }
            earlyRetries += 1
            emit(.cancel(.retry))
            begin(now)
        case .running(let attempt):
            // A dial into a network that is gone would only wait for its timeout.
            guard attempt.step == .opening, hasBeenConnected, now - attempt.startedAt >= .seconds(1),
                earlyRetries < Self.maximumEarlyRetries
            else { return }
            earlyRetries += 1
            endAttempt(keepingMedia: false)
            begin(now)
        case .idle, .stopped, .failed: break
        }
    }
}
