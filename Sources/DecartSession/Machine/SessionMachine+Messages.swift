// Messages of the service on the control channel.
import DecartProtocol

extension SessionMachine {
    mutating func received(_ message: ServerMessage, _ id: AttemptID) {
        guard let attempt = live(id) else { return }
        emit(.cancel(.firstMessage(id)))
        switch message {
        case .status(let text):
            switch ServiceStatus(statusText: text) {
            case .ready: ready(id)
            case .enteringQueue: queued(id, at: nil)
            case .unknown, .waitingForSession: attempts[id]?.snapshot.serviceStatus = .unknown
            }
        case .queuePosition(let position): queued(id, at: position)
        case .ready:
            directMessageArrived(id)
            ready(id)
        case .sessionID(let identity):
            var known = identity.printable
            // The room may have been named before.
            known.roomName = attempt.snapshot.identity?.roomName
            known.hasFrameTiming = attempt.snapshot.identity?.hasFrameTiming ?? false
            attempts[id]?.snapshot.identity = known
            if identity.serverIP != nil { directMessageArrived(id) }
        case .promptAck(let ack):
            report(prompts[attempt.role].acknowledge(ack, now: now), of: attempt)
            checkInitialState(id)
        case .setImageAck(let ack):
            report(prompts[attempt.role].acknowledge(ack, now: now), of: attempt)
            checkInitialState(id)
        case .turnConfig(var relay):
            guard attempt.step < .negotiating, attempt.relays.count < 8 else { return }
            relay.urls = Array(relay.urls.prefix(8))
            attempts[id]?.relays.append(relay)
        case .answer(let sdp): answered(sdp, attempt)
        case .iceCandidate(let candidate):
            guard attempt.step >= .negotiating else { return }
            // Browsers mark the end of candidates with an empty candidate.
            emit(.applyCandidate(id, candidate.flatMap { $0.candidate.isEmpty ? nil : $0 }))
        case .generationStarted: generationRuns(id)
        case .generationTick(let seconds):
            billed(seconds, attempt)
            generationRuns(id)
        case .generationEnded(let seconds, let reason):
            billed(seconds, attempt)
            generationEnded(id, reason?.printable(limit: 200) ?? "")
        case .error(let text, let word, let retryAfter): serviceError(text, word, retryAfter, attempt)
        case .livekitRoomInfo(let info): roomNamed(info, id)
        case .offer(let sdp):
            // The service renegotiates the direct connection, for example to bring its output track back.
            if let refusal = attempt.offers.refusalOfRemoteOffer { return report(.note("Ignored: \(refusal)")) }
            emit(.applyOffer(id, sdp: sdp))
        case .unknown(let type):
            report(.note("Ignored: unknown message type \(type.printable(limit: 64))"))
        }
    }

    private mutating func answered(_ sdp: String, _ attempt: Attempt) {
        guard attempts[attempt.id]?.offers.answered() == true else {
            return report(.note("Ignored: an answer without an offer"))
        }
        if attempt.offers.isRenegotiating { emit(.cancel(.renegotiationAnswer(attempt.id))) }
        emit(.applyAnswer(attempt.id, sdp: sdp))
    }

    /// Applies `error` to all that is pending: the requests in flight, or the whole attempt before it is connected.
    private mutating func serviceError(
        _ text: String, _ word: String?, _ retryAfter: Double?, _ attempt: Attempt
    ) {
        if word == nil, roomRefused(text, attempt) { return }
        let type = ServiceErrorType(word, text: text)
        var error = SessionError.service(text, type: type, stage: attempt.stage)
        if wantsRoom(text, attempt) { error = error.adding("Set transport=livekit or auto.") }
        error.retryAfter = retryAfter.map { .seconds(min(max($0, 0), 1e6)) }
        attempts[attempt.id]?.retryAfter = error.retryAfter
        let isConnected = attempt.step == .connected
        // No request is at fault when no session is free; each is sent again.
        if error.code == .concurrencyLimit, !isConnected { return attemptFailed(attempt.id, error) }
        let results = prompts[attempt.role].failInFlight(text.printable(limit: 500), now: now)
        report(results, of: attempt)
        let refusesRequests = type == .moderationViolation && !results.isEmpty
        let isStarted = isConnected && attempt.initialState == .accepted
        if isStarted, type == .insufficientCredits || type == .moderationViolation {
            // As when a generation ends for this cause, the session continues until the service closes it.
            guard !refusesRequests else { return }
            if attempt.generation == .running { attempts[attempt.id]?.announcedCause = error.code }
            warn(error.passing, attempt.id)
        } else if error.isPermanent || !isConnected {
            let isPassing = refusesRequests || !configuration.recurs(type, isConnected: isConnected)
            attemptFailed(attempt.id, isPassing ? error.passing : error)
        } else if results.isEmpty {
            warn(error, attempt.id)
        }
    }

    /// - Parameter seconds: of the session or of the generation so far. It is not published when the count begins again.
    private mutating func billed(_ seconds: Double?, _ attempt: Attempt) {
        guard let seconds else { return }
        let count = min(max(seconds, 0), 1e12)
        billedSeconds += count < attempt.billedSeconds ? count : count - attempt.billedSeconds
        attempts[attempt.id]?.billedSeconds = count
        attempts[attempt.id]?.snapshot.generationSeconds = count
    }

    private mutating func generationRuns(_ id: AttemptID) {
        attempts[id]?.generation = .running
        attempts[id]?.announcedCause = nil
        // While we are muted, the message concerns frames that were sent before.
        if let attempt = attempts[id], !isSilent(attempt) { attempts[id]?.watchdog.resume() }
    }

    /// Keeps the session: the service bills by generation, ends one when no frames arrive, and may start another.
    private mutating func generationEnded(_ id: AttemptID, _ reason: String) {
        let code = SessionError.causeOfGenerationEnd(reason)
        attempts[id]?.generation = .ended(code)
        attempts[id]?.snapshot.generationSeconds = nil
        attempts[id]?.watchdog.pause()
        guard let code else {
            // A service ends a generation when no frames arrive. If we send some, they may be lost on the way.
            if let attempt = live(id, at: .connected), !isSilent(attempt) { emit(.suspectPath(id)) }
            return report(.note("The service ended the generation" + (reason.isEmpty ? "" : ": \(reason)")))
        }
        warn(.generation(code, "ended the generation"), id)
    }
}
