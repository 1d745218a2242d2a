// Events and samples of the media path.
import DecartProtocol

extension SessionMachine {
    /// We send no video on purpose, so no frame comes back either.
    var isSilent: Bool { isMuted || snapshot.isMutedByService }

    mutating func fallSilent() {
        guard isSilent else { return }
        attempt?.watchdog.pause()
        // Its successor shows no frame that could end it.
        if attempt?.step == .connected { endPreviousMedia() }
    }

    mutating func media(_ event: MediaEvent, _ id: AttemptID, _ now: Duration, _ jitter: Double) {
        if let previousMedia, previousMedia.id == id {
            switch event {
            case .failed, .closedByPeer: endPreviousMedia()
            default: break
            }
            return
        }
        if suspended?.attempt.id == id {
            switch event {
            case .pathRecovered: resumeSuspended(now)
            case .failed, .closedByPeer: endSuspended()
            default: break
            }
            return
        }
        guard let attempt, attempt.id == id, attempt.step >= .negotiating else { return }
        switch event {
        case .offer(let sdp):
            guard let candidates = self.attempt?.offers.begin() else {
                return report(.note("Ignored: an offer while another waits for its answer"))
            }
            if self.attempt?.offers.isRenegotiating == true {
                emit(.schedule(.renegotiationAnswer(id), after: configuration.renegotiationTimeout))
            }
            emit(.send(id, .offer(sdp: sdp)))
            for candidate in candidates { emit(.send(id, .iceCandidate(candidate))) }
        case .answer(let sdp):
            emit(.send(id, .answer(sdp: sdp)))
        case .candidate(let candidate):
            if self.attempt?.offers.sends(candidate) == true { emit(.send(id, .iceCandidate(candidate))) }
        case .relaysMissing:
            self.attempt?.relaysAreMissing = true
        case .connected(let ice, let dtls):
            if attempt.step == .negotiating { connected(attempt, ice: ice, dtls: dtls, now) }
        case .firstFrame:
            if snapshot.phases.firstFrame == nil { snapshot.phases.firstFrame = now - attempt.startedAt }
            endPreviousMedia()
        case .videoMuted(let isMuted):
            snapshot.isMutedByService = isMuted
            fallSilent()
        case .pathLost:
            guard attempt.step == .connected else { return }
            self.attempt?.pathIsLost = true
            self.attempt?.channelAnswers = false
            emit(.probeChannel(id))
        case .pathRecovered:
            self.attempt?.pathIsLost = false
            self.attempt?.recoveredAt = now
            self.attempt?.watchdog.pathRecovered()
        case .failed(let error):
            attemptFailed(causeOfEnd ?? error, now, jitter)
        case .closedByPeer(let error):
            if let cause = causeOfEnd { return attemptFailed(cause, now, jitter) }
            self.attempt?.mediaClosed = error
            emit(.schedule(.mediaClosed(id), after: configuration.mediaClosedDelay))
        case .stopped:
            break
        }
    }

    mutating func connected(_ attempt: Attempt, ice: Duration?, dtls: Duration?, _ now: Duration) {
        self.attempt?.step = .connected
        leaveQueue()
        confirm(detection.current)
        hasBeenConnected = true
        limitWait.end()
        limit.begin(now: now)
        watchLimit(now)
        planRenewal(now)
        snapshot.lastError = nil
        snapshot.phases.ice = ice
        snapshot.phases.dtls = dtls
        snapshot.phases.connected = now - attempt.startedAt
        emit(.cancel(.mediaConnect(attempt.id)))
        fallSilent()
        emit(.schedule(.mediaSample(attempt.id), after: configuration.mediaSampleInterval))
        emit(.schedule(.stable(attempt.id), after: configuration.stableAfter))
    }

    mutating func sampled(
        _ traffic: MediaTraffic, _ id: AttemptID, _ now: Duration, _ jitter: Double
    ) {
        if previousMedia?.id == id {
            if previousMedia?.watchdog.sample(traffic, now: now) == true { endPreviousMedia() }
            return
        }
        if let suspended, suspended.attempt.id == id {
            if let last = suspended.lastReceived, traffic.received != last {
                resumeSuspended(now)
                return
            }
            self.suspended?.lastReceived = traffic.received
            return
        }
        guard isCurrent(id, at: .connected) else { return }
        // A service in a room starts only once it has found our track there, so its first media may take longer.
        let isFresh = detection.current == .livekit && traffic.received == 0
        let minimum = isFresh ? configuration.connectionTimeout : .zero
        guard attempt?.watchdog.sample(traffic, now: now, minimumTimeout: minimum) == true else { return }
        if attempt?.watchdog.expectsMedia == true {
            let seconds = configuration.mediaTimeout.components.seconds
            let error = SessionError(
                .webRTC, "No media arrived from the service for \(seconds) s while frames were sent.", stage: .media)
            if canSuspend { suspend(error, isGone: false, now, jitter) } else { attemptFailed(error, now, jitter) }
        } else {
            let seconds = configuration.generationTimeout.components.seconds
            let words = "The service ended the generation and started no other while frames were sent for \(seconds) s."
            attemptFailed(SessionError(.server, words, stage: .generation), now, jitter)
        }
    }

    /// Lets the service end the previous session, which may be one too many for the account.
    mutating func closePreviousChannel() {
        if let previousMedia { emit(.closeChannel(previousMedia.id)) }
    }

    mutating func endPreviousMedia() {
        guard let previousMedia else { return }
        closePreviousChannel()
        emit(.cancel(.mediaSample(previousMedia.id)))
        emit(.stopMedia(previousMedia.id))
        self.previousMedia = nil
    }
}
