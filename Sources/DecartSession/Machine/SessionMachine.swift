// The whole life of a session as a value: events in, actions out. No I/O, clock, task, lock or logger; time and
// randomness are arguments, timers are data. `SessionController` performs the actions.
//
//   idle ─start→ running(attempt): opening → open → awaitingInitialAck → negotiating → connected
//                  │ lost, retries left          ↑
//                  └────────→ backingOff ──retry─┘
//                  │ permanent, or no retries left → failed        stop, at any time → stopped
//
// A session makes attempts; `attempts` has those that live, each with a role (`Attempt.Role`). The machine owns what
// outlives an attempt: the application's requests, limits, back-off, and the transport that was detected.
//
// +Attempts    roles: dial, end, linger, suspend, resume, take over
// +Retry       failures, back-off, the network's changes: when the next attempt begins
// +Connecting  from the open channel to the start of the media path: initial state, room, queue
// +Messages    messages of the service
// +Media       events and samples of the media path
// +Timers      what follows when a timer fires
// +Limits      the end of the session, and its renewal before that
import DecartProtocol

package struct SessionMachine: Sendable {
    enum Phase: Sendable {
        /// `running`: there is a current attempt. `backingOff`: the next one waits for its time.
        case idle, running, backingOff, stopped, failed
    }

    let configuration: SessionConfiguration
    /// The state for the application; changes only in `handle`.
    package internal(set) var snapshot = SessionSnapshot()
    var phase = Phase.idle
    var attempts = AttemptList()
    var lastAttempt: UInt64 = 0
    var lastAttemptReport: AttemptReport?
    var hasBeenConnected = false
    var prompts: SessionPrompts
    var detection: TransportDetection
    var backOff: BackOff
    /// The next retry waits for nothing but its back-off.
    var mayRetryEarly = false
    var limit: SessionLimit
    var limitWait: LimitWait
    /// In all attempts.
    var billedSeconds = 0.0
    /// The application sends no video on purpose.
    private var isMuted = false
    var renewalPace = Self.freshRenewalPace
    /// The application has learnt that the service grants very short sessions.
    var hasWarnedOfShortSessions = false
    var sendsSmallPackets = false
    /// Time and randomness of the event that is handled.
    private(set) var now: Duration = .zero
    private(set) var jitter = 0.0
    private var actions: [SessionAction] = []

    package init(configuration: SessionConfiguration) {
        self.configuration = configuration
        detection = TransportDetection(configuration.transport, known: configuration.knownTransport)
        prompts = SessionPrompts(configuration: configuration)
        backOff = BackOff(maximumDelay: configuration.retry.maximumDelay)
        limit = SessionLimit(configuration.maximumDuration)
        limitWait = LimitWait(configuration.limitWait)
    }

    /// The content once all pending requests are accepted.
    package var wantedContent: SessionContent { prompts.current.wanted }

    /// - Parameters:
    ///   - now: monotonic time since an arbitrary origin.
    ///   - jitter: 0…1 at random; used when a retry is scheduled.
    package mutating func handle(_ event: SessionEvent, now: Duration, jitter: Double = 0) -> [SessionAction] {
        (self.now, self.jitter) = (now, jitter)
        process(event)
        if let candidate {
            pump(candidate.id)
            takeOverIfReady()
        }
        if let current { pump(current.id) }
        for attempt in attempts.all where attempt.isLive && isComplete(attempt) { reportAttempt(attempt, nil) }
        planAcks()
        publish()
        return exchange(&actions, with: [])
    }

    private mutating func process(_ event: SessionEvent) {
        switch event {
        case .start: start()
        case .stop: stop()
        case .update(let update, let id): self.update(update, id)
        case .limit(let allowed):
            limit.set(allowed)
            limitChanged()
        case .extend(let more):
            limit.extend(by: more)
            limitChanged()
        case .timerFired(let timer): fired(timer)
        case .mute(let isMuted):
            self.isMuted = isMuted
            for attempt in attempts.all { pauseIfSilent(attempt.id) }
        case .grant(let id, let granted):
            if live(id) != nil { attempts[id]?.snapshot.granted = granted }
        case .channelOpened(let id, let transport, let upgrade):
            opened(id, transport, upgrade)
        case .channelMessage(let id, let message):
            if suspended?.id == id, resumeSuspended(hasPackets: false) { channelAnswered(id) }
            received(message, id)
        case .channelMalformed(let id, let reason):
            // A malformed message never ends the session.
            if live(id) != nil {
                emit(.cancel(.firstMessage(id)))
                report(.note("Ignored: \(reason)"))
            }
        case .channelClosed(let id, let code, let reason):
            channelGone(id) { attempt in
                var error = attempt.causeOfEnd ?? .closed(code, reason, isConnected: attempt.step == .connected)
                error.retryAfter = attempt.retryAfter
                return error
            }
        case .channelFailed(let id, let error): channelGone(id) { _ in error }
        case .channelSilent(let id, let error): channelSilent(id, error)
        case .channelAnswered(let id):
            if live(id, at: .connected) != nil { channelAnswered(id) }
        case .networkChanged(let lost): networkChanged(lost)
        case .media(let id, let event): media(event, id)
        case .mediaSampled(let id, let traffic): sampled(traffic, id)
        }
    }

    // MARK: Starting and ending

    private mutating func start() {
        guard phase != .running, phase != .backingOff else { return }
        hasBeenConnected = false
        limit.reset()
        limitWait.end()
        (hasWarnedOfShortSessions, sendsSmallPackets) = (false, false)
        renewalPace = Self.freshRenewalPace
        lastAttemptReport = nil
        backOff.reset()
        snapshot = SessionSnapshot()
        dial()
    }

    private mutating func stop() {
        guard phase != .failed else { return }
        finish(.stopped)
    }

    mutating func fail(_ error: SessionError) {
        finish(.failed)
        snapshot.lastError = error
        report(.failed(error))
    }

    /// The session that a viewer shows has ended.
    mutating func endWatching(_ cause: SessionError) {
        finish(.stopped)
        report(.sessionEnded(cause))
    }

    private mutating func finish(_ phase: Phase) {
        for attempt in attempts.all { end(attempt.id) }
        self.phase = phase
        for timer in [TimerID.retry, .limit, .limitWaitNotice] { emit(.cancel(timer)) }
        snapshot.queue = nil
        for result in prompts.current.storeAll(now: now) { report(.promptResult(result)) }
    }

    // MARK: Requests

    private mutating func update(_ update: PromptUpdate, _ id: RequestID) {
        guard !configuration.isViewer else {
            let refusal = PromptResult.Outcome.rejected("A viewer cannot change the prompt or image of a session.")
            return report(
                .promptResult(PromptResult(id: id, text: update.prompt?.text ?? "", outcome: refusal, elapsed: .zero)))
        }
        switch phase {
        case .running, .backingOff:
            for result in prompts.add(update, id: id, now: now) { report(.promptResult(result)) }
        case .idle, .stopped, .failed:
            report(.promptResult(prompts.current.remember(update, id: id)))
        }
    }

    private mutating func pump(_ id: AttemptID) {
        sendInitialStateIfDue(id)
        guard let attempt = live(id), attempt.takesPrompts else { return }
        for message in prompts[attempt.role].nextMessages(now: now) { emit(.send(id, message)) }
    }

    private mutating func planAcks() {
        for (role, timer) in [(Attempt.Role.current, TimerID.acks), (.candidate, .successorAcks)] {
            let isLive = attempts.first(role) != nil
            if let action = prompts.planTimeout(role, timer, isLive: isLive, now: now) { emit(action) }
        }
    }

    mutating func acksAreOverdue(_ role: Attempt.Role) {
        if let attempt = attempts.first(role) { report(prompts[role].expire(now: now), of: attempt) }
    }

    // MARK: Output

    /// True if we send no video on purpose, so no frame comes back either.
    func isSilent(_ attempt: Attempt) -> Bool { isMuted || attempt.snapshot.isMutedByService }

    private var state: SessionState {
        switch phase {
        case .idle: .idle
        case .stopped: .disconnected
        case .failed: .error
        case .running where current?.step == .connected: current?.generation == .running ? .generating : .connected
        case .backingOff, .running: hasBeenConnected ? .reconnecting : .connecting
        }
    }

    private mutating func publish() {
        if let current { snapshot = current.snapshot }
        snapshot.state = state
        snapshot.retries = backOff.count
        snapshot.billedSeconds = billedSeconds
        snapshot.lastAttempt = lastAttemptReport
        snapshot.sendsSmallPackets = sendsSmallPackets
    }

    mutating func emit(_ action: SessionAction) { actions.append(action) }

    mutating func report(_ report: SessionReport) { actions.append(.report(report)) }

    mutating func report(_ results: [PromptResult], of attempt: Attempt) {
        if attempt.role == .candidate { return prompts.hold(results) }
        for result in results { report(.promptResult(result)) }
    }

    /// The session continues in spite of the error.
    mutating func warn(_ error: SessionError, _ id: AttemptID?) {
        if let id { attempts[id]?.snapshot.lastError = error } else { snapshot.lastError = error }
        report(.warning(error))
    }
}
