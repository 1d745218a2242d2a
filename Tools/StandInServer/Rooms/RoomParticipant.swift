// One participant of a room: its `RoomStateMachine` and its media. Both outlive the connection that it signals over, so
// that it can resume with another one. Everything here runs on the stand-in's thread; media events hop onto it.
import DecartProtocol
import Dispatch
import EventLoopThreads
import LiveKitProtocol
import RTP
import Synchronization
import WebRTCTransport

// @unchecked: used on the thread only.
final class RoomParticipant: @unchecked Sendable {
    private static let refreshInterval = Duration.seconds(300)
    /// As with LiveKit's servers, for a participant whose media path has failed. One whose media path lives may resume
    /// at any time.
    private static let resumeTimeout = Duration.seconds(5)

    /// As LiveKit's servers, which report the quality of connections every 5 s.
    private static let firstReport = Duration.seconds(5)

    let identity: String
    private let room: Room
    private let services: SessionServices
    private let thread: NetworkThread
    private let options: RoomAdmission.RoomJoin
    private var machine: RoomStateMachine
    private var media: (any SessionMedia)?
    /// Nil while the signalling connection is lost.
    private var connection: RoomHandler?
    private var removal: NetworkTimer?
    private let timers: ConnectionTimers
    private var isRemoved = false

    init(room: Room, join: RoomAdmission.RoomJoin, services: SessionServices, thread: NetworkThread) {
        identity = room.identity(of: join)
        self.room = room
        self.services = services
        self.thread = thread
        timers = ConnectionTimers(on: thread)
        options = join
        machine = RoomStateMachine(
            .init(
                room: room.identity.joined(by: identity), join: join, options: services.rooms.options,
                watchedTrailers: room.trailers.withLock { $0 }, watchesAudio: room.painter.viewers.hasAudio,
                fillerTrailer: room.fillerTrailer))
    }

    private var isViewer: Bool { options.isViewer }

    // MARK: Connections

    func join(over connection: RoomHandler, _ request: LiveKitJoinRequest?) {
        self.connection = connection
        services.board.update(room.number) {
            if isViewer {
                $0.viewerCount += 1
            } else {
                $0.room.joinCount += 1
                if options.isSingle { $0.room.singleJoinCount += 1 }
            }
        }
        timers.every(Self.refreshInterval) { [self] in
            if let token { perform([.send(.with { $0.refreshToken = token.reveal() })]) }
        }
        timers.after(Self.firstReport) { [self] in perform(machine.report()) }
        let owner = isViewer ? room.owner.withLock { $0 } : nil
        perform(machine.opened(token: token?.reveal() ?? "", owner: owner))
        if let request { perform(machine.joined(request)) }
        for fault in faults.faults { begin(fault, at: fault.at ?? 5) }
    }

    /// The participant signals over another connection from now on.
    func resume(over connection: RoomHandler, _ state: LiveKitSyncState?) {
        let former = self.connection
        self.connection = connection
        former?.reset()
        removal?.cancel()
        if !isViewer { services.board.update(room.number) { $0.room.resumeCount += 1 } }
        perform(machine.resumed(token: token?.reveal() ?? ""))
        if let state {
            perform(machine.received(.with { $0.syncState = state }, now: WallClock.milliseconds))
        }
    }

    func lost(_ connection: RoomHandler) {
        guard self.connection === connection else { return }
        self.connection = nil
        machine.signallingLost()
        // A participant whose media have never connected cannot resume.
        guard !machine.isOver, machine.hasBeenConnected else { return remove() }
        log("has lost its signalling connection, and may resume")
    }

    func received(_ request: LiveKitSignalRequest) {
        if case .offer = request.message, !isViewer { services.board.update(room.number) { $0.room.offerCount += 1 } }
        perform(machine.received(request, now: WallClock.milliseconds))
    }

    func notify(_ notice: RoomNotice) {
        switch notice {
        case .replaced: leave(.disconnect, .duplicateIdentity)
        case .closed: leave(.disconnect, .roomDeleted)
        case .audio(let isThere): perform(machine.audioChanged(isThere))
        case .withdrawOutput: perform(machine.withdrawOutput())
        case .restartOutput(let output): perform(machine.restartOutput(output))
        case .ownerChanged(let owner): if isViewer { perform(machine.ownerChanged(to: owner)) }
        }
    }

    func resetConnection() { connection?.reset() }

    func shutDown() { leave(.reconnect, .serverShutdown) }

    private func leave(_ action: LiveKitLeaveRequest.Action, _ reason: LiveKitDisconnectReason) {
        perform(machine.leave(action, reason: reason))
    }

    private func remove() {
        guard !isRemoved else { return }
        isRemoved = true
        room.leave(self)
        if isViewer { services.board.update(room.number) { $0.viewerCount -= 1 } }
        removal?.cancel()
        timers.cancelAll()
        services.media.stop(media.take())
        log("left")
    }

    private func removeUnlessResumed() {
        removal?.cancel()
        removal = thread.later(after: Self.resumeTimeout) { [weak self] in self?.remove() }
    }

    private var token: Secret? { services.rooms.token(for: room, identity: identity, isViewer: isViewer) }

    // MARK: Actions

    private func perform(_ actions: [RoomStateMachine.Action]) {
        for action in actions { perform(action) }
    }

    private func perform(_ action: RoomStateMachine.Action) {
        switch action {
        case .send(let response):
            if case .trackPublished(let published) = response.message {
                let track = published.track
                if track.type == .video { room.trailers.withLock { $0 = track.packetTrailerFeatures } }
                services.board.update(room.number) { $0.trackTexts.add("\(track.source) \(track.name) \(track.sid)") }
            }
            connection?.send(response)
        case .startMedia: startMedia()
        case .media(.addCandidate) where hasFault(.noCandidates): break
        case .media(let request): media?.perform(request)
        case .ownerChanged(let owner):
            room.change(owner: owner)
            let muted = owner.tracks.filter(\.muted)
            room.painter.setMuted(muted.contains { $0.type == .video })
            services.board.update(room.number) { $0.room.mutedTracks = muted.map(\.sid) }
        case .awaitResume: removeUnlessResumed()
        case .close:
            guard let connection else { return remove() }
            connection.closeSoon()
        }
    }

    // MARK: Media

    private func startMedia() {
        services.media.group.enter()
        var tracks = RoomTracks(
            codec: room.codec, participantSID: room.identity.inferenceSID, isSingle: options.isSingle,
            takesTrailers: options.takesTrailers && services.rooms.options.carriesTrailers)
        tracks.trailersHaveTimeAlone = services.rooms.options.trailersHaveTimeAlone
        tracks.fillerTrailer = room.fillerTrailer
        tracks.allowedCodecs = services.rooms.options.allowedNames
        tracks.hidesCandidates = hasFault(.noCandidates)
        let onEvent = { @Sendable [weak self, thread] (event: MediaSessionEvent) in
            thread.async { [weak self] in
                if let self, self.media != nil { self.received(event) }
            }
        }
        media =
            isViewer
            ? services.media.engine.makeViewer(of: room.painter.viewers, room: tracks, onEvent: onEvent)
            : services.media.engine.makeMedia(
                painter: room.painter, faults: faults, room: tracks, onEvent: onEvent)
    }

    private func received(_ event: MediaSessionEvent) {
        switch event {
        case .answered(let sdp, let lines):
            perform(machine.mediaAnswered(sdp, lines))
            let hasAudio = lines.receiving.contains(.audio)
            if !isViewer, room.painter.viewers.set(hasAudio: hasAudio) { room.notify(.audio(hasAudio)) }
        case .offered(let sdp, let mids): perform(machine.mediaOffered(sdp, mids))
        case .bound(let bindings): perform(machine.mediaBound(bindings))
        case .started(let track): perform(machine.mediaStarted(track))
        case .localCandidate(let candidate, let side):
            if !hasFault(.noCandidates) { perform(machine.mediaFound(candidate, side)) }
        case .logged(let line):
            log(line)
        case .connected(let side):
            log("\(side) connected")
            perform(machine.mediaConnected(side))
        case .streamArrived(let rid):
            log("stream \(rid) of a simulcast")
            services.board.update(room.number) { $0.streamTexts.add(rid) }
        case .failed(let reason):
            log("media failed: \(LogText.clean(reason))")
            if !isViewer { services.board.update(room.number) { $0.mediaFailure = reason } }
            perform(machine.mediaFailed())
        }
    }

    // MARK: Faults

    /// The session's faults; a viewer has none.
    private var faults: FaultPlan { isViewer ? FaultPlan() : room.faults.withLock { $0 } }

    private func hasFault(_ kind: FaultKind.RoomFault) -> Bool { faults.contains(.room(kind)) }

    func receive(notice: FaultNotice) {
        guard !isViewer, notice.sessionID.map({ $0 == room.sessionID }) ?? true else { return }
        media?.add(notice.faults)
        for fault in notice.faults { begin(fault, at: fault.at ?? 0) }
    }

    private func begin(_ fault: Fault, at seconds: Double) {
        guard case .room(let kind) = fault.kind, fault.kind.keys.contains(.at) else { return }
        timers.after(Duration(seconds: seconds)) { [self] in commit(kind, fault) }
    }

    private func commit(_ kind: FaultKind.RoomFault, _ fault: Fault) {
        log("fault: \(FaultKind.room(kind).name)")
        // Remove the fault: it acts once, and the participant reconnects.
        room.faults.withLock { plan in plan.faults.removeAll { $0.kind == .room(kind) } }
        switch kind {
        case .leaveDisconnect: leave(.disconnect, .participantRemoved)
        case .leaveResume: leave(.resume, .connectionTimeout)
        case .leaveReconnect: leave(.reconnect, .serverShutdown)
        case .leaveMigrate:
            let url = room.url.withLock { $0 } + "/region-2"
            let region = LiveKitRegionInfo.with { ($0.region, $0.url) = ("region-2", url) }
            perform(machine.leave(.resume, reason: .migration, regions: [region]))
        case .muteVideo:
            perform(machine.muteVideo(true))
            guard let seconds = fault.for else { return }
            timers.after(Duration(seconds: seconds)) { [self] in perform(machine.muteVideo(false)) }
        case .restart:
            let connection = connection
            remove()
            connection?.reset()
        case .cut: cut(fault)
        case .pause: hold(fault) { [self] in perform(machine.pauseOutput($0)) }
        case .muteOutput: hold(fault) { [self] in perform(machine.muteOutput($0)) }
        case .secondTrack, .secondServer:
            perform(machine.addExtra(bySecondServer: kind == .secondServer))
            guard let seconds = fault.for else { return }
            timers.after(Duration(seconds: seconds)) { [self] in perform(machine.removeExtra()) }
        case .codecChange: media?.perform(.changeCodec(OutputCodec((fault.codec ?? .vp8).rawValue)))
        case .alertFirst:
            media?.perform(.close)
            timers.after(.milliseconds(100)) { [self] in leave(.disconnect, .participantRemoved) }
        case .migrate:
            media?.perform(.close)
            let connection = connection
            remove()
            connection?.closeSoon()
        case .slowInfo, .tokenRefused, .noCandidates, .resumeRefused, .resumeSilent: break
        }
    }

    /// Sends no video for a while, and announces it before and after.
    private func hold(_ fault: Fault, _ announce: @escaping (Bool) -> Void) {
        announce(true)
        var silence = Fault(.media(.silent))
        (silence.at, silence.for) = (0, fault.for)
        media?.add([silence])
        guard let seconds = fault.for else { return }
        timers.after(Duration(seconds: seconds)) { [self] in
            announce(false)
            media?.perform(.requestKeyframe)
        }
    }

    /// Cuts the signalling connections of the client and the viewers, `n` times; the media continue.
    private func cut(_ fault: Fault) {
        if let time = fault.for { room.close(for: Duration(seconds: time)) }
        room.resetConnections()
        guard let count = fault.n, count > 1 else { return }
        var next = fault
        next.n = count - 1
        begin(next, at: fault.interval ?? 1)
    }

    private func log(_ text: String) {
        services.media.log("session \(room.number), room: \(text)")
    }
}
