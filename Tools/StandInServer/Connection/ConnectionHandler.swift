// Drives one `ControlStateMachine`: passes WebSocket messages in and carries its actions out. Everything here runs on the
// connection's thread; media events hop onto it. It knows nothing of HTTP, API keys or GStreamer.
import DecartProtocol
import Dispatch
import EventLoopThreads
import Network
import Synchronization

/// Notice to every connection: performs these steps now.
struct StepNotice: Sendable {
    var sessionID: String?
    var steps: [FaultScript.Step]
}

// @unchecked: used on the connection's thread only.
final class ConnectionHandler: WebSocketHandler, @unchecked Sendable {
    let connection: ClientConnection
    private let request: ConnectionRequest
    let identity: SessionIdentity
    private let services: SessionServices
    private let number: Int
    let journal: SessionJournal
    /// The viewers of this session; on a viewer's connection, the viewers of the session that it watches.
    private let viewers: Viewers
    var machine: ControlStateMachine
    var script: FaultScript
    let timers: ConnectionTimers
    var replay: Replay?
    private var look: Look?
    private var painter: FramePainter?
    private var mediaArePaused = false
    private var media: (any SessionMedia)?
    private var room: Room?
    /// Distinguishes events of the current media from late events of media that were stopped.
    private var mediaGeneration = 0
    /// Limits how long an answer waits for its candidates.
    private var gathering: NetworkTimer?
    /// Enough for host candidates, which are gathered within milliseconds.
    private static let gatheringTimeout = Duration.milliseconds(500)
    private var ticks: NetworkTimer?

    init(
        _ connection: ClientConnection, request: ConnectionRequest, rules: ControlStateMachine.Rules, plan: FaultPlan,
        services: SessionServices, viewers: Viewers? = nil, replay: ReplayScript? = nil
    ) {
        self.connection = connection
        timers = ConnectionTimers(on: connection.thread)
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

    // MARK: Connection

    func opened() {
        log(isViewer ? "opened, to watch" : "opened, model \(LogText.clean(request.model))")
        if isViewer {
            viewers.enter(connection)
            countViewer(1)
        } else {
            services.viewers.add(viewers, of: identity.id)
        }
        journal.noteEvent("opened")
        if !script.plan.faults.isEmpty { log("faults: \(script.plan.faults.map(\.kind.name).joined(separator: ", "))") }
        if let answer = request.limitAnswer { return refuse(answer) }
        if services.isStrict, let text = request.unknownItem { return refuse(text) }
        if let seconds = request.maximumDuration {
            later(
                Double(seconds), [.endGeneration(reason: "timeout"), .close(code: 1000, reason: "session limit")])
        }
        perform(script.opened(withoutMessages(machine.opened())))
        advanceReplay()
    }

    /// The account's sessions are all in use.
    private func refuse(_ answer: LimitAnswer) {
        let text = LimitAnswer.text
        log("refused: \(text)")
        if answer == .error { send(.error(text)) }
        perform([.close(code: FaultKind.CloseCode.tryAgainLater.rawValue, reason: "")])
    }

    /// The client sends what no SDK of Decart sends.
    private func refuse(_ text: String) {
        log("refused: \(text)")
        send(.error(text))
        connection.close(code: 1008)
    }

    private var isViewer: Bool { request.viewedSessionID != nil }

    private func countViewer(_ change: Int) {
        let session = services.board.records.first { $0.sessionID == request.viewedSessionID }
        if let session { services.board.update(session.number) { $0.viewerCount += change } }
    }

    func receive(notice: any Sendable) {
        switch notice {
        case is ShutdownNotice:
            perform(machine.stopped())
            connection.close(code: 1001)
        case let notice as FaultNotice:
            receive(notice: notice)
        case let notice as StepNotice:
            if notice.sessionID.map({ $0 == identity.id }) ?? true { perform(notice.steps) }
        case is SessionEnded:
            perform(machine.closed())
            connection.close(code: 1000, reason: "the session has ended")
        default: break
        }
    }

    func ended() {
        perform(machine.closed())
        if isViewer {
            viewers.leave(connection)
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
    }

    // MARK: Control messages

    func receive(binary bytes: [UInt8]) { malformed("binary frames are not understood", size: bytes.count) }

    func receive(text bytes: [UInt8]) {
        if services.isStrict, let value = try? JSONValue(decoding: bytes), let text = StrictRules.unknown(in: value) {
            return refuse(text)
        }
        let message: ClientMessage
        do {
            message = try ClientMessage(decoding: bytes)
        } catch {
            return malformed(error.message, size: bytes.count)
        }
        log("received \(LogText.clean(message.type))")
        journal.note(message)
        let actions = machine.received(message)
        services.board.update(number) {
            $0.note(message)
            $0.offeredBeforeState = machine.offeredBeforeState
        }
        perform(actions)
        replayReceived(message)
    }

    private func malformed(_ text: String, size: Int) {
        log("received a malformed frame")
        journal.noteMalformed(size: size, text)
        services.board.update(number) { $0.malformedCount += 1 }
        perform(machine.receivedMalformed(text))
    }

    func perform(_ actions: [ControlStateMachine.Action]) {
        perform(script.applyFaults(withoutMessages(actions)))
        advanceReplay()
    }

    func perform(_ action: ControlStateMachine.Action) {
        switch action {
        case .send(let message): send(message)
        case .setLook(let look): setLook(look)
        case .openRoom: openRoom()
        case .startMedia(let offer): startMedia(offer: offer)
        case .media(let request): media?.perform(request)
        case .awaitCandidates: boundGathering()
        case .stopMedia: stopMedia()
        case .pauseMedia(let output): pauseMedia(output)
        case .restartMedia(let output): restartMedia(output)
        case .awaitFrame(let output):
            painter?.awaitFrame()
            if output.isWithdrawn { room?.notify(.withdrawOutput) }
        case .startTicks: startTicks()
        case .stopTicks: ticks?.cancel()
        }
    }

    private func send(_ message: ServerMessage) {
        guard !connection.isClosing, let bytes = try? message.encoded() else { return }
        log("sent \(message.type)")
        if !connection.isMute { journal.note(message) }
        services.board.update(number) { $0.note(message) }
        connection.send(.text, bytes)
    }

    private func setLook(_ look: Look) {
        log("look: \(look)")
        self.look = look
        services.board.begin(look, of: number)
        painter?.setLook(look)
    }

    private func startTicks() {
        ticks?.cancel()
        ticks = connection.thread.later(after: .seconds(1)) { [self] in
            startTicks()
            perform(machine.secondPassed(frameCount: painter?.counts.painted ?? 0))
        }
    }

    private func boundGathering() {
        gathering?.cancel()
        gathering = connection.thread.later(after: Self.gatheringTimeout) { [self] in
            perform(machine.candidatesOverdue())
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
    private func openRoom() {
        let painter = makePainter { [self, thread = connection.thread] starts in
            guard starts else { return }
            thread.async { [self] in
                if self.room != nil { perform(machine.framesArrive()) }
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
            url: RoomAddress.url(host: request.host, connection), token: token, roomName: room.identity.name,
            sessionID: identity.id)
        perform(machine.roomOpened(info))
    }

    private func startMedia(offer: String) {
        mediaGeneration += 1
        let generation = mediaGeneration
        // Delivers an event to the machine only while this media is the current one.
        let update:
            @Sendable (@escaping @Sendable (inout ControlStateMachine) -> [ControlStateMachine.Action]) -> Void = {
                [self, thread = connection.thread] event in
                thread.async { [self] in
                    guard mediaGeneration == generation, media != nil else { return }
                    perform(event(&machine))
                }
            }
        let onEvent = {
            @Sendable [board = services.board, number, log = services.media.log] (event: MediaSessionEvent) in
            switch event {
            case .answered(let sdp, _): update { $0.mediaAnswered(sdp) }
            case .offered(let sdp, _): update { $0.mediaOffered(sdp) }
            case .localCandidate(let candidate, _): update { $0.mediaFound(candidate) }
            case .connected, .streamArrived, .bound, .started: break
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
