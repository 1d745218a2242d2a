// The roles of attempts: how one begins and ends, and which one is the session.
import DecartProtocol
import Recovery

extension SessionMachine {
    var current: Attempt? { attempts.first(.current) }
    var candidate: Attempt? { attempts.first(.candidate) }
    var lingering: Attempt? { attempts.first(.lingering) }
    var suspended: Attempt? { attempts.all.first { $0.suspension != nil } }

    /// An attempt all of whose events count.
    func live(_ id: AttemptID, at step: Attempt.Step? = nil) -> Attempt? {
        guard let attempt = attempts[id], attempt.isLive, attempt.step == step ?? attempt.step else { return nil }
        return attempt
    }

    // MARK: Beginning and ending

    mutating func dial(as role: Attempt.Role = .current) {
        lastAttempt &+= 1
        let id = AttemptID(lastAttempt)
        var facts = SessionSnapshot()
        facts.transport = detection.first
        if role == .current {
            phase = .running
            facts.lastError = snapshot.lastError
            if limitWait.isWaiting { facts.serviceStatus = .waitingForSession }
        }
        attempts.append(
            Attempt(
                id: id, role: role, startedAt: now, snapshot: facts,
                isTransportPresumed: detection.isAutomatic && facts.transport != nil, watchdog: configuration.watchdog))
        pauseIfSilent(id)
        emit(.openChannel(id, facts.transport, timeout: configuration.connectionTimeout))
        // The channel keeps this timeout itself and knows the cause best. The timer guards against a channel that does
        // not.
        emit(.schedule(.opening(id), after: configuration.connectionTimeout + .seconds(1)))
    }

    /// Ends an attempt with its channel, media path and timers.
    mutating func end(_ id: AttemptID) {
        guard let attempt = attempts[id] else { return }
        for timer in TimerID.all(of: id) { emit(.cancel(timer)) }
        emit(.closeChannel(id))
        if attempt.step >= .negotiating { emit(.stopMedia(id)) }
        if attempt.role == .candidate {
            prompts.endCandidate()
            emit(.cancel(.successorAcks))
        }
        leave(attempt)
        attempts[id] = nil
    }

    mutating func endOlder(than id: AttemptID) {
        for attempt in attempts.all where attempt.id < id { end(attempt.id) }
    }

    /// Ends the attempt after that error, or lets it linger if its frames still arrive.
    mutating func release(_ attempt: Attempt, after error: SessionError) {
        guard configuration.keepsMediaWhileReconnecting, attempt.canLinger(after: error) else { return end(attempt.id) }
        if let lingering { end(lingering.id) }
        for timer in TimerID.all(of: attempt.id) where timer != .mediaSample(attempt.id) { emit(.cancel(timer)) }
        leave(attempt)
        attempts[attempt.id]?.role = .lingering
    }

    /// No attempt is current any more; the snapshot keeps what was known of it.
    private mutating func leave(_ attempt: Attempt) {
        guard attempt.role == .current else { return }
        snapshot = attempt.snapshot
        snapshot.generationSeconds = nil
        phase = .idle
        emit(.cancel(.renewal))
    }

    // MARK: Reports

    /// Reports what the attempt took, once.
    /// - Parameter error: why it failed; nil: it is connected.
    mutating func reportAttempt(_ attempt: Attempt, _ error: SessionError?) {
        guard !attempt.isReported else { return }
        attempts[attempt.id]?.isReported = true
        lastAttemptReport = AttemptReport(
            number: attempt.id.number, isRenewal: attempt.role == .candidate, transport: attempt.transport,
            error: error, duration: now - attempt.startedAt, phases: attempt.snapshot.phases,
            imageSize: prompts[attempt.role].wanted.image?.size ?? 0)
    }

    func isComplete(_ attempt: Attempt) -> Bool { attempt.step == .connected && attempt.initialState == .accepted }

    // MARK: Taking over

    /// The rule: the newest attempt that shows a frame is the session, and older ones end. One that shows none on purpose
    /// takes over once it is connected.
    mutating func takeOver(_ id: AttemptID) {
        endOlder(than: id)
        if attempts[id]?.role == .candidate { promote(id) }
    }

    mutating func takeOverIfReady() {
        guard let candidate, candidate.step == .connected,
            candidate.snapshot.phases.firstFrame != nil || isSilent(candidate)
        else { return }
        takeOver(candidate.id)
    }

    mutating func promote(_ id: AttemptID) {
        guard let candidate = attempts[id] else { return }
        attempts[id]?.role = .current
        phase = .running
        renewalPace.count(now: now)
        for timer in [TimerID.successorAcks, .acks] { emit(.cancel(timer)) }
        for result in prompts.takeOver() { report(.promptResult(result)) }
        if candidate.step == .connected { report(.renewed(after: now - candidate.startedAt)) }
        limitChanged()
    }

    // MARK: Suspension

    /// True if a dead service and a network that drops everything look the same.
    func canSuspend(_ attempt: Attempt) -> Bool {
        configuration.keepsMediaWhileReconnecting && attempt.step == .connected
            && attempt.path == .lost(channelAnswers: false) && attempt.causeOfEnd == nil
    }

    mutating func suspend(_ attempt: Attempt, isGone: Bool) {
        let id = attempt.id
        endOlder(than: id)
        for timer in [TimerID.stable(id), .renegotiationAnswer(id)] { emit(.cancel(timer)) }
        if attempts[id]?.offers.rollback() == true { emit(.rollbackOffer(id)) }
        leave(attempt)
        attempts[id]?.role = .suspended(Attempt.Suspension(isGone: isGone))
        emit(.schedule(.suspension(id), after: RecoveryPlan.Session.suspensionTimeout))
    }

    mutating func endSuspended() {
        if let suspended { end(suspended.id) }
    }

    /// Packets of the suspended attempt arrive: it is current again, and the next one ends. Too late once that has sent
    /// its initial state, because prompts then belong to its channel.
    @discardableResult
    mutating func resumeSuspended(hasPackets: Bool = true) -> Bool {
        guard let id = suspended?.id, (current?.step ?? .opening) <= .open else { return false }
        for attempt in attempts.all where attempt.id > id { end(attempt.id) }
        for timer in [TimerID.retry, .suspension(id)] { emit(.cancel(timer)) }
        phase = .running
        attempts[id]?.resume(now, hasPackets: hasPackets, watchdog: configuration.watchdog)
        pauseIfSilent(id)
        limitChanged()
        emit(.schedule(.stable(id), after: RecoveryPlan.Session.stableAfter))
        report(.note("Packets arrive again: the session continues"))
        return true
    }
}
