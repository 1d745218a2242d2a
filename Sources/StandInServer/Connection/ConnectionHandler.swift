// Drives one `ControlStateMachine`: passes WebSocket frames in and carries its actions out. Everything here runs on the
// connection's event loop; media events hop onto it. It knows nothing of HTTP, API keys or GStreamer.
import DecartProtocol
import Dispatch
import NIOCore
import NIOWebSocket
import Synchronization

/// User event to every connection: performs these steps now.
struct StepNotice: Sendable {
    var sessionID: String?
    var steps: [FaultScript.Step]
}

final class ConnectionHandler: WebSocketHandler {
    private let request: ConnectionRequest
    let identity: SessionIdentity
    private let services: SessionServices
    private let number: Int
    let journal: SessionJournal
    /// The viewers of this session; on a viewer's connection, the viewers of the session that it watches.
    private let viewers: Viewers
    var machine: ControlStateMachine
    var script: FaultScript
    let timers = ConnectionTimers()
    var isMute = false
    var ignoresPings = false
    var replay: Replay?
    private var look: Look?
    private var painter: FramePainter?
    private var mediaArePaused = false
    private var media: (any SessionMedia)?
    private var room: Room?
    /// Distinguishes events of the current media from late events of media that were stopped.
    private var mediaGeneration = 0
    /// Limits how long an answer waits for its candidates.
    private var gathering: Scheduled<Void>?
    /// Enough for host candidates, which are gathered within milliseconds.
    private static let gatheringTimeout = TimeAmount.milliseconds(500)
    private var ticks: RepeatedTask?
    var isClosing = false

    init(
        request: ConnectionRequest, rules: ControlStateMachine.Rules, plan: FaultPlan, services: SessionServices,
        viewers: Viewers? = nil, replay: ReplayScript? = nil
    ) {
        self.request = request
        self.replay = replay.map(Replay.init)
        identity = rules.identity
        self.services = services
        script = FaultScript(plan)
        machine = ControlStateMachine(rules: rules)
        machine.limitAccepted(to: plan.acceptedCount)
        number = services.board.add(sessionID: rules.identity.id, request: request)
        journal = SessionJournal(services.journal, number: number, id: rules.identity.id)
        self.viewers = viewers ?? Viewers()
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        log(isViewer ? "opened, to watch" : "opened, model \(LogText.clean(request.model))")
        if isViewer {
            viewers.enter(context.channel)
            countViewer(1)
        } else {
            services.viewers.add(viewers, of: identity.id)
        }
        journal.noteEvent("opened")
        timers.every(.seconds(10), on: context.eventLoop) { [self] _ in write(.ping, ByteBuffer(), context) }
        if !script.plan.faults.isEmpty { log("faults: \(script.plan.faults.map(\.kind.name).joined(separator: ", "))") }
        if let answer = request.limitAnswer { return refuse(answer, context) }
        if services.isStrict, let text = request.unknownItem { return refuse(text, context) }
        if let seconds = request.maximumDuration {
            later(
                Double(seconds), [.endGeneration(reason: "timeout"), .close(code: 1000, reason: "session limit")],
                context)
        }
        perform(script.opened(withoutMessages(machine.opened())), context)
        advanceReplay(context)
    }

    /// The account's sessions are all in use.
    private func refuse(_ answer: LimitAnswer, _ context: ChannelHandlerContext) {
        let text = LimitAnswer.text
        log("refused: \(text)")
        if answer == .error { send(.error(text), context) }
        perform([.close(code: FaultKind.CloseCode.tryAgainLater.rawValue, reason: "")], context)
    }

    /// The client sends what no SDK of Decart sends.
    private func refuse(_ text: String, _ context: ChannelHandlerContext) {
        log("refused: \(text)")
        send(.error(text), context)
        close(.policyViolation, context)
    }

    private var isViewer: Bool { request.viewedSessionID != nil }

    private func countViewer(_ change: Int) {
        let session = services.board.records.first { $0.sessionID == request.viewedSessionID }
        if let session { services.board.update(session.number) { $0.viewerCount += change } }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ShutdownNotice:
            perform(machine.stopped(), context)
            close(.goingAway, context)
        case let notice as FaultNotice:
            receive(notice: notice, context)
        case let notice as StepNotice:
            if notice.sessionID.map({ $0 == identity.id }) ?? true { perform(notice.steps, context) }
        case is SessionEnded:
            perform(machine.closed(), context)
            close(.normalClosure, reason: "the session has ended", context)
        case let idle as IdleStateHandler.IdleStateEvent where idle == .read:
            log("the client sent nothing, not even a pong")
            context.close(promise: nil)
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        perform(machine.closed(), context)
        if isViewer {
            viewers.leave(context.channel)
            countViewer(-1)
        } else {
            services.viewers.remove(identity.id)
        }
        endReplay()
        timers.cancelAll()
        log("closed after \(painter?.counts.painted ?? 0) frames")
        journal.noteEvent("closed")
        services.board.setPainter(nil, of: number)
        services.board.update(number) {
            $0.isOpen = false
            $0.endedAt = .now
            $0.isGenerating = false
        }
        context.fireChannelInactive()
    }

    // MARK: Control messages

    func receive(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard opcode == .text else {
            return malformed("binary frames are not understood", size: data.readableBytes, context)
        }
        let bytes = Array(data.readableBytesView)
        if services.isStrict, let value = try? JSONValue(decoding: bytes), let text = StrictRules.unknown(in: value) {
            return refuse(text, context)
        }
        let message: ClientMessage
        do {
            message = try ClientMessage(decoding: bytes)
        } catch {
            return malformed(error.message, size: data.readableBytes, context)
        }
        log("received \(LogText.clean(message.type))")
        journal.note(message)
        let actions = machine.received(message)
        services.board.update(number) {
            $0.note(message)
            $0.offeredBeforeState = machine.offeredBeforeState
        }
        perform(actions, context)
        replayReceived(message, context)
    }

    private func malformed(_ text: String, size: Int, _ context: ChannelHandlerContext) {
        log("received a malformed frame")
        journal.noteMalformed(size: size, text)
        services.board.update(number) { $0.malformedCount += 1 }
        perform(machine.receivedMalformed(text), context)
    }

    func perform(_ actions: [ControlStateMachine.Action], _ context: ChannelHandlerContext) {
        perform(script.applyFaults(withoutMessages(actions)), context)
        advanceReplay(context)
    }

    func perform(_ action: ControlStateMachine.Action, _ context: ChannelHandlerContext) {
        switch action {
        case .send(let message): send(message, context)
        case .setLook(let look): setLook(look)
        case .openRoom: openRoom(context)
        case .startMedia(let offer): startMedia(offer: offer, context)
        case .media(let request): media?.perform(request)
        case .awaitCandidates: boundGathering(context)
        case .stopMedia: stopMedia()
        case .pauseMedia(let output): pauseMedia(output)
        case .restartMedia(let output): restartMedia(output)
        case .awaitFrame(let output):
            painter?.awaitFrame()
            if output.isWithdrawn { room?.notify(.withdrawOutput) }
        case .startTicks: startTicks(context)
        case .stopTicks: ticks?.cancel()
        }
    }

    private func send(_ message: ServerMessage, _ context: ChannelHandlerContext) {
        guard !isClosing, let bytes = try? message.encoded() else { return }
        log("sent \(message.type)")
        if !isMute { journal.note(message) }
        services.board.update(number) { $0.note(message) }
        write(.text, ByteBuffer(bytes: bytes), context)
    }

    private func setLook(_ look: Look) {
        log("look: \(look)")
        self.look = look
        services.board.begin(look, of: number)
        painter?.setLook(look)
    }

    private func startTicks(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        ticks?.cancel()
        ticks = context.eventLoop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { _ in
            let (handler, context) = bound.value
            let count = handler.painter?.counts.painted ?? 0
            handler.perform(handler.machine.secondPassed(frameCount: count), context)
        }
    }

    private func boundGathering(_ context: ChannelHandlerContext) {
        gathering?.cancel()
        gathering = context.eventLoop.assumeIsolated().scheduleTask(in: Self.gatheringTimeout) { [self] in
            perform(machine.candidatesOverdue(), context)
        }
    }

    // MARK: Media

    private func makePainter(onFrame: @escaping @Sendable (_ starts: Bool) -> Void) -> FramePainter {
        FramePainter(
            look: look, carriesLatencyMarker: request.wantsLatencyMarker && services.answersLatencyMarker,
            isFullHD: request.resolution == "1080p", delay: services.media.delay, viewers: viewers
        ) { [board = services.board] starts in
            board.wake()
            onFrame(starts)
        }
    }

    private func setPainter(_ painter: FramePainter, over transport: MediaTransportKind) {
        self.painter = painter
        painter.setPaused(mediaArePaused)
        services.board.setPainter(painter, of: number)
        services.board.update(number) { $0.transport = transport }
    }

    /// The session owns the painter, so that it survives the client's reconnections to the room.
    private func openRoom(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let painter = makePainter { starts in
            guard starts else { return }
            eventLoop.execute {
                let (handler, context) = bound.value
                if handler.room != nil { handler.perform(handler.machine.framesArrive(), context) }
            }
        }
        setPainter(painter, over: .livekit)
        let room = Room(
            sessionID: identity.id, number: number, painter: painter,
            codec: services.rooms.options.codec.codec(requested: request.serverCodec), faults: script.plan)
        self.room = room
        services.rooms.add(room)
        guard let token = services.rooms.token(for: room) else { return }
        let info = LiveKitRoomInfo(
            url: RoomAddress.url(host: request.host, context.channel), token: token, roomName: room.identity.name,
            sessionID: identity.id)
        perform(machine.roomOpened(info), context)
    }

    private func startMedia(offer: String, _ context: ChannelHandlerContext) {
        mediaGeneration += 1
        let generation = mediaGeneration
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        // Delivers an event to the machine only while this media is the current one.
        let update:
            @Sendable (@escaping @Sendable (inout ControlStateMachine) -> [ControlStateMachine.Action]) -> Void = {
                event in
                eventLoop.execute {
                    let (handler, context) = bound.value
                    guard handler.mediaGeneration == generation, handler.media != nil else { return }
                    handler.perform(event(&handler.machine), context)
                }
            }
        let onEvent = {
            @Sendable [board = services.board, number, log = services.media.log] (event: MediaSessionEvent) in
            switch event {
            case .answered(let sdp, _): update { $0.mediaAnswered(sdp) }
            case .offered(let sdp): update { $0.mediaOffered(sdp) }
            case .localCandidate(let candidate, _): update { $0.mediaFound(candidate) }
            case .connected, .streamArrived: break
            case .logged(let line): log("session \(number): \(line)")
            case .failed(let reason):
                log("session \(number): media failed: \(LogText.clean(reason))")
                board.update(number) { $0.mediaFailure = reason }
                update { $0.mediaFailed(reason) }
            }
        }
        if isViewer {
            media = services.media.engine.makeViewer(of: viewers, room: nil, onEvent: onEvent)
        } else {
            let painter = makePainter { starts in if starts { update { $0.framesArrive() } } }
            setPainter(painter, over: .webrtc)
            media = services.media.engine.makeMedia(
                painter: painter, faults: script.plan, room: nil, onEvent: onEvent)
        }
        services.media.group.enter()
        media?.perform(.receiveOffer(offer))
    }

    func addMediaFaults(_ faults: [Fault]) {
        media?.add(faults)
        room?.faults.withLock { $0 = FaultPlan(faults) + $0 }
    }

    private func pauseMedia(_ output: Fault.Output) {
        mediaArePaused = true
        painter?.setPaused(true)
        if output.isWithdrawn { room?.notify(.withdrawOutput) }
    }

    private func restartMedia(_ output: Fault.Output) {
        mediaArePaused = false
        painter?.setPaused(false)
        room?.notify(.restartOutput(output))
        media?.perform(.restart(output))
    }

    private func stopMedia() {
        gathering?.cancel()
        if let room { services.rooms.remove(room) }
        room = nil
        let stopped = media.take()
        if stopped != nil, !isViewer { viewers.end() }
        services.media.stop(stopped)
    }

    func willClose(code: UInt16?) { journal.noteClose(.sent, code: code) }
    func receivedClose(code: UInt16?) { journal.noteClose(.received, code: code) }

    func log(_ text: String) {
        services.media.log("session \(number): \(text)")
    }
}
