// From the open channel to the start of the media path: initial state, room, queue.
//
// There are two media paths. A direct connection is offered once the initial state is acknowledged. A room is joined as
// soon as the service names it, possibly before the ack. `auto` requests a room and detects from the replies, or from
// their absence, which path the service supports.
//
// A viewer (`isViewer`) knows its path from its token, requests nothing, and only negotiates or joins.
import DecartProtocol
import Recovery

extension SessionMachine {
    mutating func opened(_ id: AttemptID, _ transport: Duration?, _ upgrade: Duration?) {
        guard live(id, at: .opening) != nil else { return }
        attempts[id]?.opened(now, transport, upgrade)
        emit(.cancel(.opening(id)))
        // A viewer's service may be silent until the session has something to show.
        if !configuration.isViewer {
            emit(.schedule(.firstMessage(id), after: RecoveryPlan.Session.firstMessageNotice))
        }
        if let suspended, suspended.suspension?.isGone == false {
            // Packets pass, so those of the suspended attempt arrive now, or its service is gone.
            emit(.sampleMedia(suspended.id))
            emit(.schedule(.takeover(id), after: RecoveryPlan.Session.takeoverDelay))
        } else {
            proceed(id)
        }
    }

    /// Requests a room and the status of the service.
    mutating func proceed(_ id: AttemptID) {
        endSuspended()
        guard let attempt = attempts[id] else { return }
        if attempt.transport != .webrtc, !configuration.isViewer { requestRoom(attempt) }
        // A service that is known to have rooms needs no wait for its status.
        if configuration.statusTimeout > .zero, attempt.transport != .livekit {
            emit(.schedule(.statusTimeout(id), after: configuration.statusTimeout))
        } else {
            beginInitialState(id)
        }
    }

    // MARK: Initial state

    mutating func beginInitialState(_ id: AttemptID) {
        guard suspended == nil else { return }
        emit(.cancel(.statusTimeout(id)))
        attempts[id]?.step = .awaitingInitialAck
        if configuration.isViewer {
            // A viewer sends no initial state: the owner of the session decides what it shows.
            attempts[id]?.initialState = .accepted
            offerIfDue(id)
        }
        sendInitialStateIfDue(id)
    }

    /// Lets `pump` send the initial state once it may go out. Passthrough waits: in a room until our track is
    /// published, with `auto` until the path is known.
    mutating func sendInitialStateIfDue(_ id: AttemptID) {
        guard let attempt = live(id), !configuration.isViewer, attempt.step >= .awaitingInitialAck,
            attempt.initialState == .unsent, !attempt.isQueued,
            attempt.transport == .webrtc || attempt.step == .connected || !prompts[attempt.role].wanted.isPassthrough
        else { return }
        attempts[id]?.initialState = .sent(at: now)
        prompts[attempt.role].beginChannel(now: now)
        emit(.schedule(.initialAck(id), after: configuration.initialAckTimeout))
    }

    /// Offers, waits or gives up, after each ack of the initial state.
    mutating func checkInitialState(_ id: AttemptID) {
        guard let attempt = live(id), case .sent(let sentAt) = attempt.initialState else { return }
        switch prompts[attempt.role].initialState(now: now) {
        case .pending:
            break
        case .accepted:
            emit(.cancel(.initialAck(id)))
            attempts[id]?.snapshot.phases.initialAck = now - sentAt
            attempts[id]?.initialState = .accepted
            offerIfDue(id)
        case .refused(let reason):
            // Send no offer: the service would return untransformed frames.
            attemptFailed(id, .refusedStart(reason))
        }
    }

    private mutating func offerIfDue(_ id: AttemptID) {
        guard let attempt = live(id, at: .awaitingInitialAck), attempt.transport == .webrtc,
            attempt.initialState == .accepted
        else { return }
        startMedia(id, .negotiate(relays: attempt.relays))
    }

    private mutating func startMedia(_ id: AttemptID, _ start: MediaStart) {
        attempts[id]?.step = .negotiating
        leaveQueue(id)
        attempts[id]?.mediaStartedAt = now
        emit(.startMedia(id, start))
        emit(.schedule(.mediaConnect(id), after: configuration.connectionTimeout))
    }

    // MARK: Rooms

    mutating func confirm(_ transport: MediaTransportKind?, _ id: AttemptID) {
        attempts[id]?.isTransportPresumed = false
        if detection.store(transport) { report(.transportDetected(transport)) }
    }

    private mutating func requestRoom(_ attempt: Attempt) {
        attempts[attempt.id]?.roomRequestedAt = now
        let join = LiveKitJoin(
            passthrough: configuration.requestsPassthrough || prompts[attempt.role].wanted.isPassthrough,
            frameTiming: configuration.sendsFrameTiming ? true : nil)
        emit(.send(attempt.id, .livekitJoin(join)))
        emit(.schedule(.roomInfo(attempt.id), after: configuration.roomInfoTimeout))
    }

    /// Chooses the transport that `auto` has detected, from the service's messages or from their absence.
    mutating func choose(_ transport: MediaTransportKind, _ id: AttemptID) {
        guard detection.isAutomatic, let attempt = live(id), attempt.step < .negotiating,
            attempt.transport != transport
        else { return }
        attempts[id]?.snapshot.transport = transport
        emit(.cancel(.roomInfo(id)))
        report(.note("The service uses \(transport == .livekit ? "a LiveKit room" : "a direct connection")"))
        offerIfDue(id)
    }

    mutating func roomNamed(_ info: LiveKitRoomInfo, _ id: AttemptID) {
        guard let attempt = live(id) else { return }
        if attempt.step < .connected { confirm(.livekit, id) }
        if attempt.transport == nil { choose(.livekit, id) }
        guard attempts[id]?.transport == .livekit, attempt.step < .negotiating else {
            // Too late, for example after the timeout has chosen a direct connection; the next attempt joins a room.
            return report(.note("Ignored: a room that is not waited for"))
        }
        if let name = info.sessionID ?? attempt.snapshot.identity?.id ?? info.roomName {
            attempts[id]?.snapshot.identity =
                SessionIdentity(
                    id: name, roomName: info.roomName, hasFrameTiming: configuration.sendsFrameTiming
                ).printable
        }
        emit(.cancel(.roomInfo(id)))
        leaveQueue(id)
        attempts[id]?.roomNamed(now)
        if attempt.step == .open { beginInitialState(id) }
        startMedia(id, .room(url: info.url, token: info.token))
    }

    /// Handles a message that only direct connections have.
    mutating func directMessageArrived(_ id: AttemptID) {
        guard let attempt = live(id), attempt.transport == nil || attempt.isTransportPresumed else { return }
        confirm(.webrtc, id)
        choose(.webrtc, id)
    }

    /// Handles an `error` that rejects our `livekit_join`. Returns true if it was one.
    mutating func roomRefused(_ text: String, _ attempt: Attempt) -> Bool {
        guard attempt.roomRequestedAt != nil, text.lowercased().contains("livekit"),
            attempt.step < .negotiating || attempt.transport == .webrtc
        else { return false }
        switch configuration.transport {
        case .auto:
            confirm(.webrtc, attempt.id)
            choose(.webrtc, attempt.id)
        case .livekit:
            attemptFailed(attempt.id, .noRooms(text))
        case .webrtc:
            return false
        }
        return true
    }

    /// The service has rooms only, and `transport` permits none.
    func wantsRoom(_ text: String, _ attempt: Attempt) -> Bool {
        configuration.transport == .webrtc && !configuration.isViewer && attempt.step < .connected
            && text.lowercased().contains("livekit")
    }

    // MARK: Queue

    mutating func queued(_ id: AttemptID, at position: QueuePosition?) {
        guard let attempt = live(id), attempt.step < .connected else { return }
        if let position { attempts[id]?.snapshot.queue = position }
        attempts[id]?.snapshot.serviceStatus = .enteringQueue
        guard !attempt.isQueued else { return }
        attempts[id]?.queuedAt = now
        // No timeout runs while the service serves other clients, but that of media: a service queues before the offer.
        for timer in [TimerID.statusTimeout(id), .initialAck(id), .roomInfo(id)] { emit(.cancel(timer)) }
        prompts[attempt.role].pauseTimeouts()
    }

    /// Leaves the queue when the service proceeds without announcing it.
    mutating func leaveQueue(_ id: AttemptID) {
        guard live(id)?.isQueued == true else { return }
        attempts[id]?.serviceIsReady(now)
        resendAfterQueue(id)
    }

    private mutating func resendAfterQueue(_ id: AttemptID) {
        guard let attempt = attempts[id] else { return }
        prompts[attempt.role].resendAfterQueue()
        guard case .sent = attempt.initialState else { return }
        attempts[id]?.initialState = .sent(at: now)
        emit(.schedule(.initialAck(id), after: configuration.initialAckTimeout))
    }

    mutating func ready(_ id: AttemptID) {
        guard let attempt = live(id) else { return }
        attempts[id]?.serviceIsReady(now)
        if attempt.isQueued, attempt.roomRequestedAt != nil, attempt.transport != .webrtc, attempt.step < .negotiating {
            emit(.schedule(.roomInfo(id), after: configuration.roomInfoTimeout))
        }
        if attempt.step == .open { beginInitialState(id) } else if attempt.isQueued { resendAfterQueue(id) }
    }
}
