// Events and samples of the media path.
import DecartProtocol
import Recovery

extension SessionMachine {
    mutating func media(_ event: MediaEvent, _ id: AttemptID) {
        guard let attempt = attempts[id] else { return }
        switch (attempt.role, event) {
        case (_, .recovering(let error)): recovering(attempt, error)
        case (_, .recovered): recovered(id)
        case (.suspended, .pathRecovered): resumeSuspended()
        case (.suspended, .failed), (.suspended, .closedByPeer), (.suspended, .lost), (.lingering, .failed),
            (.lingering, .closedByPeer), (.lingering, .lost):
            end(id)
        case (.suspended, _), (.lingering, _): break
        case (.current, _), (.candidate, _): if attempt.step >= .negotiating { media(event, of: attempt) }
        }
    }

    private mutating func media(_ event: MediaEvent, of attempt: Attempt) {
        let id = attempt.id
        switch event {
        case .offer(let sdp): offer(sdp, id)
        case .answer(let sdp): emit(.send(id, .answer(sdp: sdp)))
        case .candidate(let candidate):
            if attempts[id]?.offers.sends(candidate) == true { emit(.send(id, .iceCandidate(candidate))) }
        case .relaysMissing: attempts[id]?.relaysAreMissing = true
        case .connected(let ice, let dtls): if attempt.step == .negotiating { connected(attempt, ice: ice, dtls: dtls) }
        case .firstFrame:
            attempts[id]?.frameArrived(now)
            if attempt.role == .current { takeOver(id) }
        case .videoMuted(let isMuted):
            attempts[id]?.snapshot.isMutedByService = isMuted
            pauseIfSilent(id)
            holdChanged(since: attempt)
        case .hold(let hold):
            attempts[id]?.snapshot.hold = hold
            holdChanged(since: attempt)
        case .pathLost:
            guard attempt.step == .connected else { return }
            attempts[id]?.pathLost()
            emit(.probeChannel(id))
            if attempt.successor != nil { emit(.schedule(.recovery(id), after: configuration.stallTimeout)) }
        case .pathRecovered: attempts[id]?.pathRecovered(now)
        case .restartFailed: restartFailed(attempt)
        case .lost(let error, let again): rejoin(attempt, after: error, again)
        case .failed(let error):
            attemptFailed(id, attempt.causeOfEnd ?? attempt.causeOfRejoin(else: error))
        case .closedByPeer(let error):
            if let cause = attempt.causeOfEnd { return attemptFailed(id, cause) }
            let error = attempt.causeOfRejoin(else: error)
            attempts[id]?.mediaClosed = error
            emit(.schedule(.mediaClosed(id), after: RecoveryPlan.Channel.mediaClosedDelay))
        case .recovering, .recovered, .stopped: break
        }
    }

    private mutating func offer(_ sdp: String, _ id: AttemptID) {
        guard let candidates = attempts[id]?.offers.begin() else {
            return report(.note("Ignored: an offer while another waits for its answer"))
        }
        if attempts[id]?.offers.isRenegotiating == true {
            let isLost = attempts[id]?.path != .passes
            let limit = isLost ? configuration.stallTimeout : configuration.renegotiationTimeout
            emit(.schedule(.renegotiationAnswer(id), after: limit))
        }
        emit(.send(id, .offer(sdp: sdp)))
        for candidate in candidates { emit(.send(id, .iceCandidate(candidate))) }
    }

    private mutating func connected(_ attempt: Attempt, ice: Duration?, dtls: Duration?) {
        let id = attempt.id
        attempts[id]?.connected(now, ice: ice, dtls: dtls)
        leaveQueue(id)
        confirm(attempt.transport, id)
        hasBeenConnected = true
        limitWait.end()
        emit(.cancel(.limitWaitNotice))
        limit.begin(now: now)
        if attempt.role == .current { limitChanged() }
        emit(.cancel(.mediaConnect(id)))
        pauseIfSilent(id)
        emit(.schedule(.mediaSample(id), after: configuration.mediaSampleInterval))
        emit(.schedule(.stable(id), after: RecoveryPlan.Session.stableAfter))
    }

    /// No media are due while we send none.
    mutating func pauseIfSilent(_ id: AttemptID) {
        guard let attempt = live(id), isSilent(attempt) else { return }
        attempts[id]?.watchdog.pause()
        // No frame comes that could end older attempts.
        if attempt.role == .current, attempt.step == .connected { takeOver(id) }
    }

    // MARK: Losses in a room

    /// Joins the same room again, as its server or its client libraries expect: the service keeps the session while its
    /// control channel lives.
    private mutating func rejoin(_ attempt: Attempt, after error: SessionError, _ again: MediaStart) {
        let id = attempt.id
        if let cause = attempt.causeOfEnd { return attemptFailed(id, cause) }
        let isRepeated = attempt.rejoin.map { now - $0.at < RecoveryPlan.Room.rejoinInterval } ?? false
        guard attempt.step == .connected, !isRepeated else { return attemptFailed(id, error) }
        report(.note("Joins the room again: \(error.message)"))
        attempts[id]?.beginRejoin(now, after: error, watchdog: configuration.watchdog)
        holdChanged(since: attempt)
        emit(.stopMedia(id))
        emit(.startMedia(id, again))
        for timer in [TimerID.mediaSample(id), .stable(id), .recovery(id)] { emit(.cancel(timer)) }
        emit(.schedule(.mediaConnect(id), after: RecoveryPlan.Room.rejoinTimeout))
    }

    /// A room recovers at once; the session does not rely on it for longer than a limit.
    private mutating func recovering(_ attempt: Attempt, _ error: SessionError) {
        attempts[attempt.id]?.interruption = error
        guard attempt.interruption == nil else { return }
        emit(.recover(attempt.id))
        emit(.schedule(.recovery(attempt.id), after: RecoveryPlan.Room.resumeLimit))
    }

    private mutating func recovered(_ id: AttemptID) {
        attempts[id]?.interruption = nil
        emit(.cancel(.recovery(id)))
        if attempts[id]?.role == .current { endSuccessor() }
    }

    mutating func recoveryIsOverdue(_ id: AttemptID) {
        guard let attempt = live(id), let error = attempt.interruption else { return }
        guard attempt.path == .passes else { return attemptFailed(id, attempt.causeOfEnd ?? error) }
        emit(.schedule(.recovery(id), after: RecoveryPlan.Room.resumeLimit))
        beginSuccessor(beside: attempt, after: error)
    }

    /// Sets another session up beside one whose media flow, in case that these end too.
    private mutating func beginSuccessor(beside attempt: Attempt, after error: SessionError) {
        guard attempt.role == .current, attempt.step == .connected, candidate == nil,
            configuration.keepsMediaWhileReconnecting, attempt.successor != .refused
        else { return }
        attempts[attempt.id]?.successor = .expected
        emit(.cancel(.renewal))
        warn(error.adding("The media continue; another session is set up beside them."), attempt.id)
        prompts.beginCandidate()
        dial(as: .candidate)
    }

    private mutating func endSuccessor() {
        guard let current, let successor = current.successor else { return }
        attempts[current.id]?.successor = nil
        if successor == .expected, let candidate { end(candidate.id) }
        limitChanged()
    }

    // MARK: Holds

    /// Announces a hold that lasts. The session continues: another one would meet the same network or the same mute.
    private mutating func holdChanged(since before: Attempt) {
        guard let after = attempts[before.id], after.holdMessage != before.holdMessage else { return }
        let timer = TimerID.held(after.id)
        emit(after.holdMessage == nil ? .cancel(timer) : .schedule(timer, after: RecoveryPlan.Session.holdNotice.first))
    }

    mutating func announceHold(_ id: AttemptID) {
        guard let error = live(id)?.holdMessage else { return }
        warn(error, id)
        emit(.schedule(.held(id), after: RecoveryPlan.Session.holdNotice.next))
    }

    // MARK: Samples

    mutating func sampled(_ traffic: MediaTraffic, _ id: AttemptID) {
        guard attempts[id]?.step == .connected else { return }
        // Only packets can tell if a lost path has media.
        let isHeld = attempts[id].map { $0.snapshot.hold != nil && $0.path == .passes } ?? false
        let before = attempts[id]
        attempts[id]?.watchdog.sample(traffic, isHeld: isHeld, now: now)
        if attempts[id]?.watchdog.isHoldOver == true { attempts[id]?.snapshot.hold = nil }
        if let before { holdChanged(since: before) }
        guard let attempt = attempts[id] else { return }
        let limit = silenceLimit(attempt, hasMedia: traffic.received > 0)
        let isDead = limit.map { attempt.watchdog.silence >= $0 } ?? false
        switch attempt.role {
        case .lingering: if isDead { end(id) }
        case .suspended(var suspension):
            if let last = suspension.lastReceived, traffic.received != last {
                resumeSuspended()
            } else {
                suspension.lastReceived = traffic.received
                attempts[id]?.role = .suspended(suspension)
            }
        case .current, .candidate:
            if let limit, isDead {
                mediaMissing(attempt, for: limit)
            } else if traffic.received > 0,
                attempts[id]?.watchdog.beginsStall(after: configuration.stallTimeout) == true
            {
                mediaStalled(attempt)
            }
        }
    }

    /// Silence after which the attempt ends; nil: never.
    private func silenceLimit(_ attempt: Attempt, hasMedia: Bool) -> Duration? {
        // A service in a room starts only once it has found our track there, so its first media may take longer.
        let first = attempt.transport == .livekit && !hasMedia ? configuration.connectionTimeout : .zero
        guard attempt.watchdog.expectsMedia else {
            return max(attempt.path == .passes ? configuration.generationTimeout : configuration.stallTimeout, first)
        }
        let isHealthy = attempt.role == .current && hasMedia && attempt.path == .passes
        return isHealthy ? configuration.mediaTimeout : max(configuration.stallTimeout, first)
    }

    private mutating func mediaMissing(_ attempt: Attempt, for time: Duration) {
        sendsSmallPackets = true
        guard attempt.watchdog.expectsMedia else { return attemptFailed(attempt.id, .noGeneration(for: time)) }
        let loss: Loss = canSuspend(attempt) ? .path : .connection
        attemptFailed(attempt.id, .noMedia(for: time, attempt.watchdog), loss: loss)
    }

    /// Media are missing on a path that carries packets. Another session would cost more than a pause of the service, so
    /// this one continues until `mediaTimeout`.
    private mutating func mediaStalled(_ attempt: Attempt) {
        warn(.stall(for: configuration.stallTimeout, attempt.watchdog, limit: configuration.mediaTimeout), attempt.id)
        emit(.requestKeyframe(attempt.id))
        restartICE(attempt)
    }

    private mutating func restartICE(_ attempt: Attempt) {
        // A room has its own offers.
        let mayOffer = !configuration.isViewer && attempt.offers.refusalOfRemoteOffer == nil
        if attempt.transport == .livekit || mayOffer { emit(.recover(attempt.id)) }
    }

    /// A lost path that cannot be restored is no longer waited for, whatever arrives on it.
    mutating func restartFailed(_ attempt: Attempt) {
        guard attempt.path != .passes else { return }
        attemptFailed(attempt.id, attempt.causeOfEnd ?? .pathLost)
    }

    /// The media path is lost, but messages arrive: the service may restart ICE with us. A room does so by itself.
    mutating func channelAnswered(_ id: AttemptID) {
        guard let attempt = live(id), attempts[id]?.channelAnswered() == true else { return }
        if attempt.transport == .webrtc { restartICE(attempt) }
    }
}
