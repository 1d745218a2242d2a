// The whole life of a session as a value: events in, actions out. No I/O, clock, task, lock or logger; `now` and
// randomness are arguments, timers are data. `SessionController` performs the actions.
//
//   idle ─start→ running(attempt): opening → open → awaitingInitialAck → negotiating → connected
//                  │ lost, retries left          ↑
//                  └────────→ backingOff ──retry─┘
//                  │ permanent, or no retries left → failed        stop, at any time → stopped
//
// There are two media paths. A direct connection is offered once the initial state is acknowledged. A room is joined as
// soon as the service names it, possibly before the ack. `auto` requests a room and detects from the replies, or from
// their absence, which path the service supports.
//
// A viewer (`isViewer`) knows its path from its token, requests nothing, and only negotiates or joins.
//
// The first connection and a lost one fail in the same way: only `attemptFailed` decides whether to retry. If no
// retries are allowed, the session fails at once.
import DecartProtocol

package struct SessionMachine: Sendable {
    enum Phase: Sendable {
        case idle
        case running(Attempt)
        case backingOff(next: AttemptID)
        case stopped
        case failed
    }

    /// One attempt, from opening the channel to the end of its connection.
    struct Attempt: Sendable {
        enum Step: Int, Sendable, Comparable {
            /// The channel is being opened.
            case opening
            /// The channel is open; the service may report that there is a queue.
            case open
            /// The initial state is in flight, and nothing is offered before its ack. Or the machine waits for a room.
            case awaitingInitialAck
            /// The media path is being established.
            case negotiating
            case connected

            static func < (left: Step, right: Step) -> Bool { left.rawValue < right.rawValue }
        }

        let id: AttemptID
        let startedAt: Duration
        var step = Step.opening
        /// `livekit_join` was sent.
        var hasRequestedRoom = false
        /// The initial state was sent, or may be sent.
        var initialStateSent = false
        /// The initial state was accepted.
        var initialStateAcked = false
        var isQueued = false
        var initialStateSentAt: Duration = .zero
        var relays: [TURNConfig] = []
        /// No TURN server gave a relay candidate.
        var relaysAreMissing = false
        var offers = OfferExchange()
        enum Generation: Sendable, Equatable {
            /// The service has not reported a generation; some services never do.
            case unknown
            case running
            /// The session and its connections continue. A code is a cause that the user must learn about.
            case ended(DecartErrorCode?)
        }
        var generation = Generation.unknown
        var watchdog: MediaWatchdog
        /// Set once the service has closed the media path.
        var mediaClosed: SessionError?
        /// Nothing arrives on the media path any more.
        var pathIsLost = false
        /// The control channel has answered since the path was lost.
        var channelAnswers = false
        /// Packets have arrived again since this time.
        var recoveredAt: Duration?

        /// The channel is lost but frames still arrive: the next session is set up alongside this media path, and
        /// switches at its first frame.
        func canKeepMedia(after error: SessionError, _ configuration: SessionConfiguration) -> Bool {
            configuration.keepsMediaWhileReconnecting && step == .connected && error.stage != .media
                && mediaClosed == nil && watchdog.expectsMedia && watchdog.silence == .zero
        }

        /// True if prompts may be sent on the channel.
        var takesPrompts: Bool { initialStateSent && !isQueued }

    }

    /// The previous media path, until the next path shows a frame. Its channel is closed with it, because the service ends
    /// the media when the channel ends.
    struct PreviousMedia: Sendable {
        let id: AttemptID
        var watchdog: MediaWatchdog
    }

    /// An attempt whose path is lost: neither media nor messages arrive. Nothing of it is closed. It goes on if packets
    /// pass again before the next attempt, which is made beside it, sends its initial state.
    struct Suspended: Sendable {
        var attempt: Attempt
        let snapshot: SessionSnapshot
        let limit: SessionLimit
        var lastReceived: UInt64?
        /// The path's address is gone: nothing can arrive.
        let isGone: Bool
    }

    let configuration: SessionConfiguration
    /// The state for the application; changes only in `handle`.
    package internal(set) var snapshot = SessionSnapshot()
    var phase = Phase.idle
    var prompts: PromptTracker
    var backOff: BackOff
    var lastAttempt: UInt64 = 0
    var hasBeenConnected = false
    var detection: TransportDetection
    var previousMedia: PreviousMedia?
    var suspended: Suspended?
    /// The next retry waits for nothing but its back-off.
    var mayRetryEarly = false
    var earlyRetries = 0
    static let maximumEarlyRetries = 5
    private static let retransmissionTime = Duration.seconds(10)
    var limit: SessionLimit
    var limitWait: LimitWait
    var renewal = SessionRenewal()
    /// The application sends no video on purpose.
    var isMuted = false
    var ackDeadline: Duration?
    var actions: [SessionAction] = []

    package init(configuration: SessionConfiguration) {
        self.configuration = configuration
        detection = TransportDetection(configuration.transport, known: configuration.knownTransport)
        prompts = PromptTracker(configuration: configuration)
        backOff = BackOff(maximumDelay: configuration.retry.maximumDelay)
        limit = SessionLimit(configuration.maximumDuration)
        limitWait = LimitWait(configuration.limitWait)
    }

    /// The content once all pending requests are accepted.
    package var wantedContent: SessionContent { prompts.wanted }

    /// - Parameters:
    ///   - now: monotonic time since an arbitrary origin.
    ///   - jitter: 0…1 at random; used when a retry is scheduled.
    package mutating func handle(_ event: SessionEvent, now: Duration, jitter: Double = 0) -> [SessionAction] {
        if renewal.owns(event) {
            successorHandles(event, now, jitter)
        } else {
            handleOwn(event, now, jitter)
            // The application's requests apply to both sessions while one takes over from the other.
            if event.isRequest { successorHandles(event, now, jitter) }
        }
        pump(now)
        planAcks(now)
        snapshot.state = state
        defer { actions = [] }
        return actions
    }

    private mutating func handleOwn(_ event: SessionEvent, _ now: Duration, _ jitter: Double) {
        switch event {
        case .start: start(now)
        case .stop: stop(now)
        case .update(let update, let id): self.update(update, id, now)
        case .limit(let allowed):
            limit.set(allowed)
            watchLimit(now)
            planRenewal(now)
        case .extend(let more):
            limit.extend(by: more)
            watchLimit(now)
            planRenewal(now)
        case .timerFired(let timer): fired(timer, now, jitter)
        case .mute(let isMuted):
            self.isMuted = isMuted
            fallSilent()
        case .grant(let id, let granted):
            guard isCurrent(id) else { break }
            snapshot.granted = granted
            limit.grant(granted)
        case .channelOpened(let id, let transport, let upgrade):
            if isCurrent(id) { opened(transport, upgrade, now) }
        case .channelMessage(let id, let message):
            if suspended?.attempt.id == id, resumeSuspended(now) {
                // Only messages pass so far.
                attempt?.pathIsLost = true
                channelAnswered()
            }
            received(message, on: id, now, jitter)
        case .channelMalformed(let id, let reason):
            // A malformed message never ends the session.
            if isCurrent(id) { report(.note("Ignored: \(reason)")) }
        case .channelClosed(let id, let code, let reason):
            if isCurrent(id) { attemptFailed(causeOfEnd ?? closeError(code, reason), now, jitter) }
            if suspended?.attempt.id == id { endSuspended() }
        case .channelFailed(let id, let error):
            if isCurrent(id) { attemptFailed(error, now, jitter) }
            if suspended?.attempt.id == id { endSuspended() }
        case .channelSilent(let id, let error):
            // TCP retransmits late after a loss: its timer has doubled meanwhile.
            guard isCurrent(id),
                now - (attempt?.recoveredAt ?? now - Self.retransmissionTime)
                    >= Self.retransmissionTime
            else { break }
            if canSuspend { suspend(error, isGone: false, now, jitter) } else { attemptFailed(error, now, jitter) }
        case .channelAnswered(let id):
            if isCurrent(id, at: .connected) { channelAnswered() }
        case .networkChanged(let lost):
            networkChanged(lost, now, jitter)
        case .media(let id, let event): media(event, id, now, jitter)
        case .mediaSampled(let id, let traffic): sampled(traffic, id, now, jitter)
        }
    }

    // MARK: Starting and ending

    private mutating func start(_ now: Duration) {
        switch phase {
        case .running, .backingOff: return
        case .idle, .stopped, .failed: break
        }
        hasBeenConnected = false
        limit.reset()
        limitWait.end()
        renewal.reset()
        backOff.reset()
        snapshot = SessionSnapshot()
        begin(now)
    }

    mutating func begin(_ now: Duration) {
        lastAttempt &+= 1
        let id = AttemptID(lastAttempt)
        phase = .running(Attempt(id: id, startedAt: now, watchdog: makeWatchdog()))
        detection.beginAttempt()
        snapshot.transport = detection.current
        snapshot.serviceStatus = limitWait.isWaiting ? .waitingForSession : .unknown
        snapshot.queue = nil
        snapshot.identity = nil
        snapshot.generationSeconds = nil
        snapshot.granted = nil
        snapshot.isMutedByService = false
        snapshot.phases = ConnectPhases()
        let timeout = attemptTimeout(configuration.retryOpenTimeout)
        emit(.openChannel(id, detection.current, timeout: timeout))
        // The channel keeps this timeout itself and knows the cause best. The timer guards against a channel that does
        // not.
        emit(.schedule(.opening(id), after: timeout + .seconds(1)))
    }

    func makeWatchdog() -> MediaWatchdog {
        var watchdog = MediaWatchdog(
            timeout: configuration.mediaTimeout, idleTimeout: configuration.generationTimeout,
            interval: configuration.mediaSampleInterval)
        // No media are due before we send some.
        if isSilent { watchdog.pause() }
        return watchdog
    }

    /// Returns the user's timeout for the first attempt, and a shorter one for later attempts.
    private func attemptTimeout(_ retryLimit: Duration) -> Duration {
        backOff.count == 0 && !hasBeenConnected
            ? configuration.connectionTimeout : min(configuration.connectionTimeout, retryLimit)
    }

    private mutating func stop(_ now: Duration) {
        endAttempt(keepingMedia: false)
        endPreviousMedia()
        endSuspended()
        if case .failed = phase { return }
        phase = .stopped
        finish(now)
    }

    mutating func fail(_ error: SessionError, _ now: Duration) {
        endPreviousMedia()
        endSuspended()
        phase = .failed
        snapshot.lastError = error
        finish(now)
        report(.failed(error))
    }

    private mutating func finish(_ now: Duration) {
        endRenewal(now)
        emit(.cancel(.limit))
        snapshot.queue = nil
        for result in prompts.cancelAll(now: now) { report(.promptResult(result)) }
    }

    /// Ends an attempt that failed or whose connection was lost: the only place that decides whether to retry.
    /// - Parameter suspends: keeps the attempt for the case that packets pass again; true: its address is gone.
    mutating func attemptFailed(
        _ error: SessionError, _ now: Duration, _ jitter: Double, suspends isGone: Bool? = nil
    ) {
        guard let attempt else { return }
        let isFull = error.code == .concurrencyLimit
        if detection.isPresumed, !isFull, attempt.step > .opening, attempt.step < .connected, detection.forget() {
            report(.transportDetected(nil))
        }
        if continueAfterLoss(error, now) || waitForSession(error, now, jitter) { return }
        var error = error
        if limit.isSpent(now: now), !error.isPermanent { error = Self.expired("\(error.message)") }
        let retries = backOff.count
        let isExhausted = configuration.retry.maximumRetries.map { retries >= $0 } ?? false
        let willRetry = !error.isPermanent && !isExhausted && !renewal.isSuccessor
        if willRetry, let isGone {
            suspendAttempt(isGone)
        } else {
            endAttempt(keepingMedia: willRetry && attempt.canKeepMedia(after: error, configuration))
        }
        guard willRetry else {
            if isExhausted, !error.isPermanent, retries > 0 {
                error.message += " Gave up after \(retries) \(retries == 1 ? "retry" : "retries")."
            }
            fail(error, now)
            return
        }
        mayRetryEarly = error.retryAfter == nil
        let delay =
            max(backOff.next(jitter: jitter), min(error.retryAfter ?? .zero, .seconds(60))) * (isGone == true ? 0 : 1)
        phase = .backingOff(next: AttemptID(lastAttempt &+ 1))
        snapshot.lastError = error
        snapshot.retries = backOff.count
        snapshot.queue = nil
        emit(.schedule(.retry, after: delay))
        report(.warning(error))
    }

    /// Ends channel, media and timers of the current attempt, or the wait for a retry.
    mutating func endAttempt(keepingMedia: Bool) {
        if case .backingOff = phase { emit(.cancel(.retry)) }
        guard let attempt else { return }
        let id = attempt.id
        let timers: [TimerID] = [
            .opening(id), .statusTimeout(id), .initialAck(id), .roomInfo(id), .mediaConnect(id), .stable(id),
            .renegotiationAnswer(id), .takeover(id), .mediaClosed(id),
        ]
        for timer in timers { emit(.cancel(timer)) }
        emit(.cancel(.renewal))
        if keepingMedia {
            endPreviousMedia()
            previousMedia = PreviousMedia(id: id, watchdog: attempt.watchdog)
        } else {
            emit(.closeChannel(id))
            emit(.cancel(.mediaSample(id)))
            if attempt.step >= .negotiating { emit(.stopMedia(id)) }
        }
        limit.suspend()
        renewal.forget()
        phase = .idle
    }

    // MARK: Opening and the initial state

    private mutating func opened(_ transport: Duration?, _ upgrade: Duration?, _ now: Duration) {
        guard let attempt, attempt.step == .opening else { return }
        self.attempt?.step = .open
        snapshot.phases.transport = transport
        snapshot.phases.upgrade = upgrade
        emit(.cancel(.opening(attempt.id)))
        if let suspended, !suspended.isGone {
            // Packets pass, so those of the suspended attempt arrive now, or its service is gone.
            emit(.sampleMedia(suspended.attempt.id))
            emit(.schedule(.takeover(attempt.id), after: configuration.takeoverDelay))
            return
        }
        endSuspended()
        goOnAfterOpening(now)
    }

    private mutating func goOnAfterOpening(_ now: Duration) {
        guard let attempt else { return }
        if detection.current != .webrtc, !configuration.isViewer { requestRoom() }
        // A service that is known to have rooms needs no wait for its status.
        if configuration.statusTimeout > .zero, detection.current != .livekit {
            emit(.schedule(.statusTimeout(attempt.id), after: configuration.statusTimeout))
        } else {
            beginInitialState(now)
        }
    }

    private mutating func beginInitialState(_ now: Duration) {
        guard let attempt, suspended == nil else { return }
        emit(.cancel(.statusTimeout(attempt.id)))
        self.attempt?.step = .awaitingInitialAck
        if configuration.isViewer {
            // A viewer sends no initial state: the owner of the session decides what it shows.
            self.attempt?.initialStateAcked = true
            offerIfDue()
        }
        sendInitialStateIfDue(now)
    }

    /// Lets `pump` send the initial state once it may go out. Passthrough waits: in a room until our track is
    /// published, with `auto` until the path is known.
    private mutating func sendInitialStateIfDue(_ now: Duration) {
        guard let attempt, !configuration.isViewer, attempt.step >= .awaitingInitialAck, !attempt.initialStateSent,
            !attempt.isQueued,
            detection.current == .webrtc || attempt.step == .connected || !prompts.wanted.isPassthrough
        else { return }
        self.attempt?.initialStateSent = true
        self.attempt?.initialStateSentAt = now
        prompts.beginChannel(now: now)
        emit(.schedule(.initialAck(attempt.id), after: configuration.initialAckTimeout))
    }

    /// Offers, waits or gives up, after each ack of the initial state.
    private mutating func checkInitialState(_ now: Duration, _ jitter: Double) {
        guard let attempt, attempt.initialStateSent, !attempt.initialStateAcked else { return }
        switch prompts.initialState(now: now) {
        case .pending:
            break
        case .accepted:
            emit(.cancel(.initialAck(attempt.id)))
            snapshot.phases.initialAck = now - attempt.initialStateSentAt
            self.attempt?.initialStateAcked = true
            offerIfDue()
        case .refused(let words):
            // Send no offer: the service would return untransformed frames.
            var error = SessionError.service(words, stage: .initialState)
            error.isPermanent = true
            attemptFailed(error, now, jitter)
        }
    }

    private mutating func offerIfDue() {
        guard let attempt, detection.current == .webrtc, attempt.step == .awaitingInitialAck, attempt.initialStateAcked
        else { return }
        startMedia(.negotiate(relays: attempt.relays))
    }

    private mutating func startMedia(_ start: MediaStart) {
        guard let attempt else { return }
        self.attempt?.step = .negotiating
        leaveQueue()
        emit(.startMedia(attempt.id, start))
        emit(.schedule(.mediaConnect(attempt.id), after: attemptTimeout(configuration.retryMediaTimeout)))
    }

    // MARK: Rooms

    mutating func confirm(_ transport: MediaTransportKind?) {
        if detection.confirm(transport) { report(.transportDetected(transport)) }
    }

    private mutating func requestRoom() {
        guard let attempt else { return }
        self.attempt?.hasRequestedRoom = true
        let join = LiveKitJoin(
            passthrough: prompts.wanted.isPassthrough, frameTiming: configuration.sendsFrameTiming ? true : nil)
        emit(.send(attempt.id, .livekitJoin(join)))
        emit(.schedule(.roomInfo(attempt.id), after: configuration.roomInfoTimeout))
    }

    /// Chooses the transport that `auto` has detected, from the service's messages or from their absence.
    private mutating func choose(_ transport: MediaTransportKind) {
        guard let attempt, attempt.step < .negotiating, detection.choose(transport) else { return }
        snapshot.transport = transport
        emit(.cancel(.roomInfo(attempt.id)))
        report(.note("The service speaks \(transport.rawValue)"))
        offerIfDue()
    }

    private mutating func roomNamed(_ info: LiveKitRoomInfo, _ now: Duration) {
        guard let attempt else { return }
        if attempt.step < .connected { confirm(.livekit) }
        if detection.current == nil { choose(.livekit) }
        guard detection.current == .livekit, attempt.step < .negotiating else {
            // Too late, for example after the timeout has chosen a direct connection; the next attempt joins a room.
            report(.note("Ignored: a room that is not waited for"))
            return
        }
        if let id = info.sessionID ?? snapshot.identity?.id ?? info.roomName {
            snapshot.identity = SessionIdentity(id: id, roomName: info.roomName).printable
        }
        emit(.cancel(.roomInfo(attempt.id)))
        if attempt.step == .open { beginInitialState(now) }
        startMedia(.room(url: info.url, token: info.token))
    }

    /// Handles a message that only direct connections have.
    private mutating func directMessageArrived() {
        guard detection.current == nil || detection.isPresumed else { return }
        confirm(.webrtc)
        choose(.webrtc)
    }

    /// Handles an `error` that rejects our `livekit_join`. Returns true if it was one.
    private mutating func roomRefused(_ words: String, _ now: Duration, _ jitter: Double) -> Bool {
        guard let attempt, attempt.hasRequestedRoom, words.lowercased().contains("livekit"),
            attempt.step < .negotiating || detection.current == .webrtc
        else { return false }
        switch configuration.transport {
        case .auto:
            confirm(.webrtc)
            choose(.webrtc)
        case .livekit:
            attemptFailed(
                SessionError(
                    .server,
                    "The service has no LiveKit rooms; set transport=webrtc or auto. It reported: "
                        + words.printable(limit: 500),
                    stage: .media, isPermanent: true), now, jitter)
        case .webrtc:
            return false
        }
        return true
    }

    // MARK: Queue

    private mutating func queued(at position: QueuePosition?) {
        guard let attempt, attempt.step < .connected else { return }
        if let position { snapshot.queue = position }
        snapshot.serviceStatus = .enteringQueue
        guard !attempt.isQueued else { return }
        self.attempt?.isQueued = true
        // No timeout runs while the service serves other clients.
        let timers: [TimerID] = [
            .statusTimeout(attempt.id), .initialAck(attempt.id), .roomInfo(attempt.id), .mediaConnect(attempt.id),
        ]
        for timer in timers { emit(.cancel(timer)) }
        prompts.pauseTimeouts()
    }

    /// Leaves the queue when the service proceeds without announcing it.
    mutating func leaveQueue() {
        guard let attempt, attempt.isQueued else { return }
        self.attempt?.isQueued = false
        snapshot.queue = nil
        snapshot.serviceStatus = .ready
        resendAfterQueue()
    }

    private mutating func resendAfterQueue() {
        prompts.resendAfterQueue()
        guard let attempt, attempt.initialStateSent, !attempt.initialStateAcked else { return }
        emit(.schedule(.initialAck(attempt.id), after: configuration.initialAckTimeout))
    }

    private mutating func ready(_ now: Duration) {
        guard let attempt else { return }
        snapshot.serviceStatus = .ready
        snapshot.queue = nil
        let wasQueued = attempt.isQueued
        self.attempt?.isQueued = false
        if wasQueued, attempt.hasRequestedRoom, detection.current != .webrtc, attempt.step < .negotiating {
            emit(.schedule(.roomInfo(attempt.id), after: configuration.roomInfoTimeout))
        }
        switch attempt.step {
        case .opening, .connected:
            break
        case .open:
            beginInitialState(now)
        case .awaitingInitialAck where wasQueued:
            self.attempt?.initialStateSentAt = now
            resendAfterQueue()
        case .negotiating where wasQueued:
            resendAfterQueue()
            emit(.schedule(.mediaConnect(attempt.id), after: attemptTimeout(configuration.retryMediaTimeout)))
        case .awaitingInitialAck, .negotiating:
            break
        }
    }

    // MARK: Messages

    private mutating func received(
        _ message: ServerMessage, on id: AttemptID, _ now: Duration, _ jitter: Double
    ) {
        guard isCurrent(id) else { return }
        switch message {
        case .status(let text):
            switch ServiceStatus(statusText: text) {
            case .ready: ready(now)
            case .enteringQueue: queued(at: nil)
            case .unknown, .waitingForSession: snapshot.serviceStatus = .unknown
            }
        case .queuePosition(let position):
            queued(at: position)
        case .ready:
            directMessageArrived()
            ready(now)
        case .sessionID(let identity):
            snapshot.identity = identity.printable
            if identity.serverIP != nil { directMessageArrived() }
        case .promptAck(let ack):
            for result in prompts.acknowledge(ack, now: now) { report(.promptResult(result)) }
            checkInitialState(now, jitter)
        case .setImageAck(let ack):
            for result in prompts.acknowledge(ack, now: now) { report(.promptResult(result)) }
            checkInitialState(now, jitter)
        case .turnConfig(let relay):
            guard let attempt, attempt.step < .negotiating, attempt.relays.count < 8 else { return }
            self.attempt?.relays.append(relay)
        case .answer(let sdp):
            answered(sdp, id)
        case .iceCandidate(let candidate):
            guard let attempt, attempt.step >= .negotiating else { return }
            // Browsers mark the end of candidates with an empty candidate.
            emit(.applyCandidate(id, candidate.flatMap { $0.candidate.isEmpty ? nil : $0 }))
        case .generationStarted:
            generationRuns()
        case .generationTick(let seconds):
            if let seconds { snapshot.generationSeconds = seconds }
            generationRuns()
        case .generationEnded(let seconds, let reason):
            if let seconds { snapshot.generationSeconds = seconds }
            generationEnded(reason)
        case .error(let words):
            serviceError(words, now, jitter)
        case .livekitRoomInfo(let info):
            roomNamed(info, now)
        case .offer(let sdp):
            offered(sdp, id)
        case .unknown(let type):
            report(.note("Ignored: unknown message type \(type.printable(limit: 64))"))
        }
    }

    /// Applies `error` to all that is pending: the requests in flight, or the whole attempt before it is connected.
    private mutating func serviceError(_ words: String, _ now: Duration, _ jitter: Double) {
        if roomRefused(words, now, jitter) { return }
        guard let attempt else { return }
        let stage: SessionError.Stage =
            switch attempt.step {
            case _ where attempt.isQueued: .queue
            case .opening, .open, .awaitingInitialAck: .initialState
            case .negotiating: .media
            case .connected: .generation
            }
        let error = SessionError.service(words, stage: stage)
        // No request is at fault when the account's sessions are all in use; each is sent again.
        if error.code == .concurrencyLimit, attempt.step < .connected { return attemptFailed(error, now, jitter) }
        let results = prompts.failInFlight(words.printable(limit: 500), now: now)
        for result in results { report(.promptResult(result)) }
        if error.isPermanent || attempt.step < .connected {
            attemptFailed(error, now, jitter)
        } else if results.isEmpty {
            snapshot.lastError = error
            report(.warning(error))
        }
    }

    private mutating func generationRuns() {
        attempt?.generation = .running
        // While we are muted, the message concerns frames that were sent before.
        if !isSilent { attempt?.watchdog.resume() }
    }

    /// Keeps the session: the service bills by generation, ends one when no frames arrive, and may start another.
    private mutating func generationEnded(_ reason: String?) {
        let words = reason?.printable(limit: 200) ?? ""
        let code: DecartErrorCode? =
            if words.lowercased().contains("credit") {
                .insufficientCredits
            } else if words.lowercased().contains("moderation") {
                .moderationViolation
            } else {
                nil
            }
        attempt?.generation = .ended(code)
        attempt?.watchdog.pause()
        guard let code else {
            return report(.note("The service ended the generation" + (words.isEmpty ? "" : ": \(words)")))
        }
        let error = Self.generationError(code, "ended the generation")
        snapshot.lastError = error
        report(.warning(error))
    }

    /// The error for a service that closes the session now, after it has ended the generation for a named cause. The
    /// media path may close before the channel. Permanent, because a new session would end the same way.
    var causeOfEnd: SessionError? {
        guard case .ended(let code?)? = attempt?.generation else { return nil }
        var error = Self.generationError(code, "ended the generation and closed the session")
        error.isPermanent = true
        return error
    }

    private static func generationError(_ code: DecartErrorCode, _ deed: String) -> SessionError {
        let words =
            code == .insufficientCredits
            ? "The service \(deed): the account is out of credits. Top up the account's credits."
            : "The service \(deed) because of its content moderation. Change the prompt, the reference image or the "
                + "input."
        return SessionError(code, words, stage: .generation)
    }

    private mutating func answered(_ sdp: String, _ id: AttemptID) {
        let isLater = attempt?.offers.isRenegotiating == true
        guard attempt?.offers.answered() == true else { return report(.note("Ignored: an answer without an offer")) }
        if isLater { emit(.cancel(.renegotiationAnswer(id))) }
        emit(.applyAnswer(id, sdp: sdp))
    }

    /// The service renegotiates the direct connection, for example to bring its output track back.
    private mutating func offered(_ sdp: String, _ id: AttemptID) {
        if let refusal = attempt?.offers.refusalOfRemoteOffer { return report(.note("Ignored: \(refusal)")) }
        emit(.applyOffer(id, sdp: sdp))
    }

    private func closeError(_ code: Int?, _ reason: String) -> SessionError {
        let words = reason.printable(limit: 123)
        let details = [code.map(String.init), words.isEmpty ? nil : words].compactMap(\.self).joined(separator: ": ")
        // A service that closes a running session with 1013 restarts, or is overloaded.
        let isFull = (code == 1013 && (attempt?.step ?? .opening) < .connected) || ConcurrencyLimitText.matches(words)
        return SessionError(
            PermanentErrorText.concernsKey(words) ? .invalidAPIKey : isFull ? .concurrencyLimit : .webSocket,
            "The service closed the connection" + (details.isEmpty ? "." : " (\(details)).")
                + (isFull ? SessionError.concurrencyRemedy(after: ".") : ""),
            stage: .channel, isPermanent: PermanentErrorText.matches(words))
    }

    // MARK: Prompts

    private mutating func update(_ update: PromptUpdate, _ id: RequestID, _ now: Duration) {
        guard !configuration.isViewer else {
            let refusal = PromptResult.Outcome.rejected("A viewer cannot change the prompt or image of a session.")
            return report(
                .promptResult(PromptResult(id: id, text: update.prompt?.text ?? "", outcome: refusal, elapsed: .zero)))
        }
        switch phase {
        case .running, .backingOff:
            for result in prompts.add(update, id: id, now: now) { report(.promptResult(result)) }
        case .idle, .stopped, .failed:
            report(.promptResult(prompts.remember(update, id: id)))
        }
    }

    private mutating func pump(_ now: Duration) {
        sendInitialStateIfDue(now)
        guard let attempt, attempt.takesPrompts else { return }
        for message in prompts.nextMessages(now: now) { emit(.send(attempt.id, message)) }
    }

    private mutating func planAcks(_ now: Duration) {
        var deadline: Duration?
        if attempt != nil { deadline = prompts.nextDeadline }
        guard deadline != ackDeadline else { return }
        ackDeadline = deadline
        if let deadline {
            emit(.schedule(.acks, after: max(deadline - now, .zero)))
        } else {
            emit(.cancel(.acks))
        }
    }

    // MARK: Timers

    private mutating func fired(_ timer: TimerID, _ now: Duration, _ jitter: Double) {
        switch timer {
        case .retry:
            if case .backingOff = phase { begin(now) }
        case .limit:
            watchLimit(now, mayEnd: true)
        case .renewal:
            renew(now)
        case .successorAcks:
            break
        case .acks:
            ackDeadline = nil
            guard attempt != nil else { return }
            for result in prompts.expire(now: now) { report(.promptResult(result)) }
        case .opening(let id):
            guard isCurrent(id, at: .opening) else { return }
            attemptFailed(
                timeout("The service could not be reached in time. Check base-url and the network", stage: .connect),
                now, jitter)
        case .statusTimeout(let id):
            guard isCurrent(id, at: .open), attempt?.isQueued == false else { return }
            beginInitialState(now)
        case .initialAck(let id):
            guard isCurrent(id), attempt?.initialStateAcked == false else { return }
            attemptFailed(
                timeout("The service did not acknowledge the first prompt and image in time", stage: .initialState),
                now, jitter)
        case .roomInfo(let id):
            guard let attempt, attempt.id == id, attempt.step < .negotiating else { return }
            if detection.current == .livekit {
                attemptFailed(
                    timeout(
                        "The service did not send a room in time. Set transport=webrtc if it has no rooms",
                        stage: .media), now, jitter)
            } else {
                choose(.webrtc)
            }
        case .mediaConnect(let id):
            guard isCurrent(id, at: .negotiating) else { return }
            let advice =
                attempt?.relaysAreMissing == true
                ? "No TURN server gave a relay: check its address, user and password, which must be percent-encoded in "
                    + "turn-servers and may have expired"
                : "Check that UDP passes, or set turn-servers"
            attemptFailed(
                timeout("The media connection was not established in time. \(advice)", stage: .media), now, jitter)
        case .mediaClosed(let id):
            guard isCurrent(id), let error = attempt?.mediaClosed else { return }
            attemptFailed(causeOfEnd ?? error, now, jitter)
        case .renegotiationAnswer(let id):
            guard isCurrent(id), attempt?.offers.rollback() == true else { return }
            emit(.rollbackOffer(id))
            report(
                .warning(
                    timeout(
                        "The service did not answer a later offer in time; the media stay as they were", stage: .media))
            )
        case .mediaSample(let id):
            guard previousMedia?.id == id || suspended?.attempt.id == id || isCurrent(id, at: .connected) else {
                return
            }
            emit(.schedule(timer, after: configuration.mediaSampleInterval))
            emit(.sampleMedia(id))
        case .stable(let id):
            guard isCurrent(id, at: .connected) else { return }
            backOff.reset()
            earlyRetries = 0
            snapshot.retries = 0
        case .suspension(let id):
            if suspended?.attempt.id == id { endSuspended() }
        case .takeover(let id):
            guard isCurrent(id, at: .open) else { return }
            endSuspended()
            // In the queue, `ready` goes on.
            guard attempt?.isQueued == false else { return }
            goOnAfterOpening(now)
            if isCurrent(id, at: .open), snapshot.serviceStatus == .ready { beginInitialState(now) }
        }
    }

    /// - Parameter mayEnd: false in the middle of another event, which then ends the session by the timer.
    mutating func watchLimit(_ now: Duration, mayEnd: Bool = false) {
        switch phase {
        case .running, .backingOff: break
        case .idle, .stopped, .failed: return
        }
        switch limit.verdict(now: now, isRenewed: renewal.isExpected) {
        case nil: emit(.cancel(.limit))
        case .wait(let time): emit(.schedule(.limit, after: time))
        case .announce(let left):
            report(.ending(left: left))
            watchLimit(now)
        case .over(let allowed):
            guard mayEnd else { return emit(.schedule(.limit, after: .zero)) }
            if continueAfterEnd(now) { return }
            endAttempt(keepingMedia: false)
            fail(
                Self.expired(
                    "The session reached its limit of \(allowed.components.seconds) s, set by max-session-duration or "
                        + "by the client token."), now)
        }
    }

    static func expired(_ words: String) -> SessionError {
        SessionError(.server, "Session expired: \(words)", stage: .generation, isPermanent: true)
    }

    private func timeout(_ what: String, stage: SessionError.Stage) -> SessionError {
        SessionError(.connectionTimeout, "\(what).", stage: stage)
    }

    // MARK: Helpers

    private var state: SessionState {
        switch phase {
        case .idle: .idle
        case .stopped: .disconnected
        case .failed: .error
        case .backingOff: hasBeenConnected ? .reconnecting : .connecting
        case .running(let attempt):
            if attempt.step == .connected {
                attempt.generation == .running ? .generating : .connected
            } else {
                hasBeenConnected ? .reconnecting : .connecting
            }
        }
    }

    /// The attempt of `.running`; nil in other phases.
    var attempt: Attempt? {
        get { if case .running(let attempt) = phase { attempt } else { nil } }
        set { if let newValue { phase = .running(newValue) } }
    }

    func isCurrent(_ id: AttemptID, at step: Attempt.Step? = nil) -> Bool {
        guard let attempt, attempt.id == id else { return false }
        return step.map { $0 == attempt.step } ?? true
    }

    mutating func emit(_ action: SessionAction) {
        actions.append(action)
    }

    mutating func report(_ report: SessionReport) {
        actions.append(.report(report))
    }
}
