// Events and samples of the media path.
import DecartProtocol

extension SessionMachine {
    mutating func media(_ event: MediaEvent, _ id: AttemptID) {
        guard let attempt = attempts[id] else { return }
        switch (attempt.role, event) {
        case (.suspended, .pathRecovered): resumeSuspended()
        case (.suspended, .failed), (.suspended, .closedByPeer), (.lingering, .failed), (.lingering, .closedByPeer):
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
        case .pathLost:
            guard attempt.step == .connected else { return }
            attempts[id]?.pathIsLost = true
            attempts[id]?.channelAnswers = false
            attempts[id]?.watchdog.pathLost()
            emit(.probeChannel(id))
        case .pathRecovered:
            attempts[id]?.pathIsLost = false
            attempts[id]?.recoveredAt = now
            attempts[id]?.watchdog.pathRecovered()
        case .failed(let error):
            attemptFailed(id, attempt.causeOfEnd ?? error)
        case .closedByPeer(let error):
            if let cause = attempt.causeOfEnd { return attemptFailed(id, cause) }
            attempts[id]?.mediaClosed = error
            emit(.schedule(.mediaClosed(id), after: configuration.mediaClosedDelay))
        case .stopped: break
        }
    }

    private mutating func offer(_ sdp: String, _ id: AttemptID) {
        guard let candidates = attempts[id]?.offers.begin() else {
            return report(.note("Ignored: an offer while another waits for its answer"))
        }
        if attempts[id]?.offers.isRenegotiating == true {
            emit(.schedule(.renegotiationAnswer(id), after: configuration.renegotiationTimeout))
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
        limit.begin(now: now)
        if attempt.role == .current { limitChanged() }
        emit(.cancel(.mediaConnect(id)))
        pauseIfSilent(id)
        emit(.schedule(.mediaSample(id), after: configuration.mediaSampleInterval))
        emit(.schedule(.stable(id), after: configuration.stableAfter))
    }

    /// No media are due while we send none.
    mutating func pauseIfSilent(_ id: AttemptID) {
        guard let attempt = live(id), isSilent(attempt) else { return }
        attempts[id]?.watchdog.pause()
        // No frame comes that could end older attempts.
        if attempt.role == .current, attempt.step == .connected { takeOver(id) }
    }

    // MARK: Samples

    mutating func sampled(_ traffic: MediaTraffic, _ id: AttemptID) {
        guard attempts[id]?.step == .connected else { return }
        attempts[id]?.watchdog.sample(traffic, now: now)
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
        guard attempt.watchdog.expectsMedia else { return max(configuration.generationTimeout, first) }
        let isHealthy = attempt.role == .current && hasMedia && !attempt.pathIsLost
        return isHealthy ? configuration.mediaTimeout : max(configuration.stallTimeout, first)
    }

    private mutating func mediaMissing(_ attempt: Attempt, for time: Duration) {
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
        if attempt.transport == .livekit || mayOffer { emit(.restartICE(attempt.id)) }
    }

    /// The media path is lost, but messages arrive: the service may restart ICE with us. A room does so by itself.
    mutating func channelAnswered(_ id: AttemptID) {
        guard let attempt = live(id), attempt.pathIsLost, !attempt.channelAnswers else { return }
        attempts[id]?.channelAnswers = true
        if attempt.transport == .webrtc { restartICE(attempt) }
    }
}
