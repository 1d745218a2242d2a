// One attempt to connect: the control channel, the media path and the timers that its `AttemptID` names.
import DecartProtocol

struct Attempt: Sendable {
    /// There is at most one attempt of each role. An older attempt makes way for a newer one; see `takeOver`.
    ///
    /// | role | events that count | ends |
    /// |---|---|---|
    /// | current | all | when it fails, or a candidate takes over |
    /// | candidate | all | when it fails, or with the session |
    /// | lingering | frames, end of the media path | when a newer attempt shows a frame, or its frames stop |
    /// | suspended | packets, end of channel or media path | before a newer attempt sends its initial state, or after a timeout |
    enum Role: Sendable, Equatable {
        /// The attempt that the application sees as the session.
        case current
        /// The next session, set up beside the current one before the service's limit ends that. It takes over with its
        /// first frame, or earlier if the current attempt is lost.
        case candidate
        /// The channel is lost but frames still arrive. A silent channel stays open as long, because the service ends the
        /// media when the channel ends.
        case lingering
        /// Neither media nor messages arrive. Nothing is closed: the attempt is current again if packets pass.
        case suspended(Suspension)
    }

    struct Suspension: Sendable, Equatable {
        /// The path's address is gone: nothing can arrive.
        let isGone: Bool
        var lastReceived: UInt64?
    }

    enum Step: Int, Sendable, Comparable {
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

    enum InitialState: Sendable, Equatable {
        case unsent
        case sent(at: Duration)
        /// Also the state of a viewer, which sends none.
        case accepted
    }

    enum Generation: Sendable, Equatable {
        /// The service has not reported a generation; some services never do.
        case unknown
        case running
        /// The session and its connections continue. A code is a cause that the user must learn about.
        case ended(DecartErrorCode?)
    }

    /// How the next session is prepared before the service's limit ends this one.
    enum Renewal: Sendable, Equatable {
        case none
        /// A candidate is due, or being set up.
        case expected
        /// No session could be set up beside this one: another one begins at its end. Carries the earliest
        /// time of its dial.
        case atEnd(notBefore: Duration?)
    }

    let id: AttemptID
    var role: Role
    let startedAt: Duration
    /// The state for the application while this attempt is the current one.
    var snapshot: SessionSnapshot
    var step = Step.opening
    /// The transport is that of earlier attempts or sessions; nothing in this attempt has confirmed it.
    var isTransportPresumed: Bool
    var initialState = InitialState.unsent
    var relays: [TURNConfig] = []
    /// No TURN server gave a relay candidate.
    var relaysAreMissing = false
    var offers = OfferAnswerState()
    var generation = Generation.unknown
    /// A cause that an `error` has named in a running generation, until a later message about that.
    var announcedCause: DecartErrorCode?
    /// The wait before the next attempt that the last `error` requested: the service may close the session after it.
    var retryAfter: Duration?
    /// The service has put the attempt into its queue; nil: it is not in the queue.
    var queuedAt: Duration?
    /// `livekit_join` was sent, or the queue was left since.
    var roomRequestedAt: Duration?
    var mediaStartedAt: Duration?
    var isReported = false
    /// As last reported.
    var billedSeconds = 0.0
    var watchdog: MediaWatchdog
    /// The channel was opened, or the queue left: the service may count the time of the session from here.
    var admittedAt: Duration?
    var renewal = Renewal.none
    /// Another session is set up because this one's room cannot be reached; nil: there is no need.
    enum Successor: Sendable, Equatable { case expected, failed, refused }
    var successor: Successor?
    /// Why nothing can be agreed with the room at present.
    var interruption: SessionError?
    /// The last time that the room was joined again, and why.
    private(set) var rejoin: (at: Duration, cause: SessionError)?
    /// Set once the service has closed the media path.
    var mediaClosed: SessionError?
    enum Path: Sendable, Equatable {
        case passes
        /// Packets do not pass in one direction, or in both. The control channel may have answered since then.
        case lost(channelAnswers: Bool)
    }
    private(set) var path = Path.passes
    /// Packets have arrived again since this time.
    private(set) var recoveredAt: Duration?

    var transport: MediaTransportKind? { snapshot.transport }
    var isQueued: Bool { queuedAt != nil }

    /// True if prompts may be sent on the channel.
    var takesPrompts: Bool { initialState != .unsent && !isQueued }

    /// The end that the service has set for this connection, at the earliest.
    var serviceEnd: SessionLimit.End? { step == .connected ? SessionLimit.end(admittedAt, snapshot.granted) : nil }

    /// True if the service's time is up or almost up: its clock may be ahead of ours.
    func isSpent(now: Duration) -> Bool {
        serviceEnd.map { now >= $0.at - min(.seconds(5), $0.length / 10) } ?? false
    }

    /// True if the channel is lost but frames still arrive.
    func canLinger(after error: SessionError) -> Bool {
        step == .connected && error.stage != .media && mediaClosed == nil && watchdog.expectsMedia
            && watchdog.silence == .zero
    }

    /// The message about a hold, or about a network that leaves nothing to decode; nil: there is neither.
    var holdMessage: SessionError? {
        switch snapshot.hold {
        case .pausedByNetwork: .pausedByNetwork
        case .mutedBySender: .mutedBySender
        case nil: snapshot.isMutedByService ? .mutedByRoom : watchdog.isStarvedByLoss ? .starvedByLoss : nil
        }
    }

    var isLive: Bool { role == .current || role == .candidate }

    var suspension: Suspension? { if case .suspended(let suspension) = role { suspension } else { nil } }

    /// The part of the connection to which an `error` of the service applies.
    var stage: SessionError.Stage {
        switch step {
        case _ where isQueued: .queue
        case .opening, .open, .awaitingInitialAck: .initialState
        case .negotiating: .media
        case .connected: .generation
        }
    }

    mutating func connected(_ now: Duration, ice: Duration?, dtls: Duration?) {
        step = .connected
        snapshot.lastError = nil
        (snapshot.phases.ice, snapshot.phases.dtls) = (ice, dtls)
        snapshot.phases.connected = now - startedAt
        snapshot.phases.media = mediaStartedAt.map { now - $0 }
    }

    mutating func opened(_ now: Duration, _ transport: Duration?, _ upgrade: Duration?) {
        step = .open
        admittedAt = now
        snapshot.phases.opened = now - startedAt
        (snapshot.phases.transport, snapshot.phases.upgrade) = (transport, upgrade)
    }

    mutating func roomNamed(_ now: Duration) { snapshot.phases.room = roomRequestedAt.map { now - $0 } }

    /// The service proceeds, or the queue is left.
    mutating func serviceIsReady(_ now: Duration) {
        snapshot.queue = nil
        snapshot.serviceStatus = .ready
        guard let since = queuedAt.take() else { return }
        admittedAt = now
        snapshot.phases.queue = (snapshot.phases.queue ?? .zero) + (now - since)
        // The service has begun to answer the request now.
        if roomRequestedAt != nil { roomRequestedAt = now }
    }

    /// The room is lost, and is joined again: its media begin again.
    mutating func beginRejoin(_ now: Duration, after cause: SessionError, watchdog: MediaWatchdog) {
        step = .negotiating
        rejoin = (now, cause)
        snapshot.hold = nil
        snapshot.isMutedByService = false
        (path, recoveredAt, mediaClosed, interruption) = (.passes, nil, nil, nil)
        self.watchdog = watchdog
        if case .ended = generation { self.watchdog.pause() }
    }

    /// The error for a room that could not be joined again: why it was lost says more.
    func causeOfRejoin(else error: SessionError) -> SessionError {
        guard step == .negotiating, let rejoin, !error.isPermanent else { return error }
        return rejoin.cause
    }

    mutating func frameArrived(_ now: Duration) {
        if snapshot.phases.firstFrame == nil { snapshot.phases.firstFrame = now - startedAt }
    }

    mutating func pathLost() {
        path = .lost(channelAnswers: false)
        watchdog.pathLost()
    }

    mutating func pathRecovered(_ now: Duration) {
        (path, recoveredAt) = (.passes, now)
        watchdog.pathRecovered()
    }

    /// - Returns: true for the first answer since the path was lost.
    mutating func channelAnswered() -> Bool {
        guard path == .lost(channelAnswers: false) else { return false }
        path = .lost(channelAnswers: true)
        return true
    }

    /// Ends the suspension.
    /// - Parameter hasPackets: false if only messages pass so far.
    mutating func resume(_ now: Duration, hasPackets: Bool, watchdog: MediaWatchdog) {
        role = .current
        (path, recoveredAt) = (hasPackets ? .passes : .lost(channelAnswers: false), now)
        self.watchdog = watchdog
        if case .ended = generation { self.watchdog.pause() }
    }

    /// The error for a service that closes the session now, after it has named the cause. The media path may close before
    /// the channel. Permanent, because a new session would end the same way.
    var causeOfEnd: SessionError? {
        var code = announcedCause
        if case .ended(let cause?) = generation { code = cause }
        guard let code else { return nil }
        return SessionError.generation(code, "ended the generation and closed the session").permanent
    }
}

/// The attempts of a session that have not ended, oldest first.
struct AttemptList: Sendable {
    private(set) var all: [Attempt] = []

    mutating func append(_ attempt: Attempt) { all.append(attempt) }

    func first(_ role: Attempt.Role) -> Attempt? { all.first { $0.role == role } }

    subscript(id: AttemptID) -> Attempt? {
        get { all.first { $0.id == id } }
        set {
            guard let index = all.firstIndex(where: { $0.id == id }) else { return }
            if let newValue { all[index] = newValue } else { all.remove(at: index) }
        }
    }
}

extension TimerID {
    static func all(of id: AttemptID) -> [TimerID] {
        [
            .opening(id), .statusTimeout(id), .firstMessage(id), .initialAck(id), .roomInfo(id), .mediaConnect(id),
            .mediaClosed(id),
            .renegotiationAnswer(id), .mediaSample(id), .stable(id), .held(id), .recovery(id), .suspension(id),
            .takeover(id),
        ]
    }
}
