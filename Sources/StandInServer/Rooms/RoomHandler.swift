// Drives one `RoomStateMachine`: passes WebSocket frames in and carries its actions out. Everything here runs on the
// connection's event loop; media events hop onto it.
import DecartProtocol
import Dispatch
import LiveKitProtocol
import NIOCore
import NIOWebSocket
import SwiftProtobuf
import Synchronization

final class RoomHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private static let refreshInterval = TimeAmount.minutes(5)

    private let room: Room
    private let join: RoomAdmission.RoomJoin
    private let services: ConnectionServices
    private var machine: RoomStateMachine
    private var media: (any RoomMedia)?
    private var timers: [RepeatedTask] = []
    private var faultTimers = FaultTimers()
    private var isClosing = false

    init(room: Room, join: RoomAdmission.RoomJoin, services: ConnectionServices) {
        self.room = room
        self.join = join
        self.services = services
        machine = RoomStateMachine(
            room: join.viewer.map { room.identity.viewed(by: $0) } ?? room.identity,
            autoSubscribe: join.autoSubscribe, isViewer: join.viewer != nil, isSingle: join.single != nil,
            ice: services.roomICE)
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        log(join.isResume ? "asks to resume" : "joined")
        services.faults.uncount()
        guard !join.isResume else { return perform(machine.openedToResume(), context) }
        if isViewer {
            room.painter.viewers.enter(context.channel)
            services.board.update(room.number) { $0.viewerCount += 1 }
        } else {
            room.enter(context.channel)
            services.board.update(room.number) {
                $0.roomJoinCount += 1
                if join.single != nil { $0.singleJoinCount += 1 }
            }
        }
        every(.seconds(10), context) { handler, context in
            handler.write(.ping, context.channel.allocator.buffer(capacity: 0), context)
        }
        every(Self.refreshInterval, context) { handler, context in
            guard let token = handler.token else { return }
            handler.perform([.send(.with { $0.refreshToken = token.reveal() })], context)
        }
        perform(machine.opened(token: token?.reveal() ?? ""), context)
        if let request = join.single { perform(machine.joined(request), context) }
        for fault in faults.faults { begin(fault, at: fault.at ?? 5, context) }
    }

    private var isViewer: Bool { join.viewer != nil }

    private var token: Secret? {
        services.rooms.token(for: room, identity: join.viewer ?? room.identity.participant, isViewer: isViewer)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing else { return }
        let frame = unwrapInboundIn(data)
        switch frame.opcode {
        case .binary:
            receive(frame.unmaskedData, context)
        case .text:
            // LiveKit's own servers also accept protobuf's JSON format.
            log("text frames are not understood")
            close(.unacceptableData, context)
        case .ping:
            write(.pong, frame.unmaskedData, context)
        case .connectionClose:
            var data = frame.unmaskedData
            close(data.readSlice(length: min(2, data.readableBytes)) ?? ByteBuffer(), context)
        default:
            break
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case RoomNotice.replaced:
            perform(machine.leave(.disconnect, reason: .duplicateIdentity), context)
        case RoomNotice.withdrawOutput:
            perform(machine.withdrawOutput(), context)
        case RoomNotice.restartOutput(let output):
            perform(machine.restartOutput(output), context)
        case RoomNotice.closed, is SessionEnded:
            perform(machine.leave(.disconnect, reason: .roomDeleted), context)
        case is ShutdownNotice:
            perform(machine.leave(.reconnect, reason: .serverShutdown), context)
        case let notice as FaultNotice where !isViewer && notice.sessionID.map({ $0 == room.sessionID }) ?? true:
            media?.add(notice.faults)
            for fault in notice.faults { begin(fault, at: fault.at ?? 0, context) }
        case let idle as IdleStateHandler.IdleStateEvent where idle == .read:
            log("the client sent nothing, not even a pong")
            context.close(promise: nil)
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Do not log the error's own text: it may quote what the peer sent.
        if let code = FrameRules.closeCode(for: error) {
            close(code, context)
        } else {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        room.leave(context.channel)
        if isViewer, !join.isResume { services.board.update(room.number) { $0.viewerCount -= 1 } }
        for timer in timers { timer.cancel() }
        faultTimers.cancelAll()
        stopMedia()
        log("left")
        context.fireChannelInactive()
    }

    private func every(
        _ interval: TimeAmount, _ context: ChannelHandlerContext,
        _ body: @escaping (RoomHandler, ChannelHandlerContext) -> Void
    ) {
        let bound = NIOLoopBound((self, context, body), eventLoop: context.eventLoop)
        timers.append(
            context.eventLoop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { _ in
                let (handler, context, body) = bound.value
                body(handler, context)
            })
    }

    // MARK: Signal messages

    private func receive(_ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard let request = try? LiveKitSignalRequest(serializedBytes: Array(data.readableBytesView)) else {
            log("received a malformed message")
            services.board.update(room.number) { $0.malformedCount += 1 }
            return
        }
        perform(machine.received(request, now: WallClock.milliseconds), context)
    }

    private func perform(_ actions: [RoomStateMachine.Action], _ context: ChannelHandlerContext) {
        for action in actions { perform(action, context) }
    }

    private func perform(_ action: RoomStateMachine.Action, _ context: ChannelHandlerContext) {
        switch action {
        case .send(let response):
            if case .trackPublished(let published) = response.message {
                let track = published.track
                services.board.update(room.number) { $0.note(track: "\(track.source) \(track.name) \(track.sid)") }
            }
            guard let bytes: [UInt8] = try? response.serializedBytes() else { return }
            write(.binary, ByteBuffer(bytes: bytes), context)
        case .startMedia: startMedia(context)
        case .receiveOffer(let sdp): media?.receive(offer: sdp)
        case .receiveAnswer(let sdp): media?.receive(answer: sdp)
        case .addCandidate(let candidate, let side):
            if !hasFault(.noCandidates) { media?.addRemoteCandidate(candidate, side) }
        case .moveVideo: media?.moveVideo()
        case .offer(let tracks): media?.offer(tracks)
        case .close: closeSoon(context)
        }
    }

    // MARK: Media

    private func startMedia(_ context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        services.mediaGroup.enter()
        let msid = "\(room.identity.inferenceSID)|camera \(room.identity.trackSID)"
        let onEvent = { @Sendable (event: RoomMediaEvent) in
            eventLoop.execute {
                let (handler, context) = bound.value
                if handler.media != nil { handler.received(event, context) }
            }
        }
        media =
            isViewer
            ? services.engine.makeRoomViewer(of: room.painter.viewers, msid: msid, onEvent: onEvent)
            : services.engine.makeRoom(
                painter: room.painter, faults: faults, msid: msid,
                // Audio and video share a stream ID, so that the client synchronises them.
                audioMSID: "\(room.identity.inferenceSID)|camera \(room.identity.audioTrackSID)",
                isSingle: join.single != nil, onEvent: onEvent)
    }

    private func received(_ event: RoomMediaEvent, _ context: ChannelHandlerContext) {
        switch event {
        case .answered(let sdp, let lines):
            perform(machine.mediaAnswered(sdp, lines), context)
        case .offered(let sdp):
            perform(machine.mediaOffered(sdp), context)
        case .localCandidate(let candidate, let side):
            if !hasFault(.noCandidates) { perform(machine.mediaFound(candidate, side), context) }
        case .connected(let side):
            log("\(side) connected")
            perform(machine.mediaConnected(side), context)
        case .streamArrived(let rid):
            log("stream \(rid) of a simulcast")
            services.board.update(room.number) { $0.note(stream: rid) }
        case .failed(let words):
            log("media failed: \(LogText.clean(words))")
            if !isViewer { services.board.update(room.number) { $0.mediaFailure = words } }
            perform(machine.mediaFailed(), context)
        }
    }

    private func stopMedia() {
        guard let media else { return }
        self.media = nil
        media.stop { [mediaGroup = services.mediaGroup] in mediaGroup.leave() }
    }

    // MARK: Faults

    /// The session's faults; a viewer has none.
    private var faults: FaultPlan { isViewer ? FaultPlan() : room.faults.withLock { $0 } }

    private func hasFault(_ kind: FaultKind.Room) -> Bool { faults.contains(.room(kind)) }

    private func begin(_ fault: Fault, at seconds: Double, _ context: ChannelHandlerContext) {
        guard case .room(let kind) = fault.kind, kind.actsByTheClock else { return }
        let number = faultTimers.number()
        let timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(seconds: seconds)) {
            self.faultTimers.fired(number)
            self.commit(kind, context)
        }
        faultTimers.add(timer, number)
    }

    private func commit(_ kind: FaultKind.Room, _ context: ChannelHandlerContext) {
        log("fault: \(FaultKind.room(kind).name)")
        // Remove the fault: it acts once, and the participant reconnects.
        room.faults.withLock { plan in plan.faults.removeAll { $0.kind == .room(kind) } }
        switch kind {
        case .leaveDisconnect: perform(machine.leave(.disconnect, reason: .participantRemoved), context)
        case .leaveResume: perform(machine.leave(.resume, reason: .connectionTimeout), context)
        case .leaveReconnect: perform(machine.leave(.reconnect, reason: .serverShutdown), context)
        case .restart:
            stopMedia()
            Reset.close(context.channel)
        case .slowInfo, .tokenRefused, .noCandidates: break
        }
    }

    // MARK: Outgoing frames

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard !isClosing else { return }
        guard context.channel.isWritable else {
            log("the client does not read")
            return context.close(promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data)), promise: nil)
    }

    /// Closes after 50 ms, so that the leave message goes out first, as LiveKit's servers do.
    private func closeSoon(_ context: ChannelHandlerContext) {
        let number = faultTimers.number()
        let timer = context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(50)) {
            self.close(.normalClosure, context)
        }
        faultTimers.add(timer, number)
    }

    private func close(_ code: WebSocketErrorCode, _ context: ChannelHandlerContext) {
        var data = context.channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: code)
        close(data, context)
    }

    private func close(_ data: ByteBuffer, _ context: ChannelHandlerContext) {
        write(.connectionClose, data, context)
        isClosing = true
        context.close(promise: nil)
    }

    private func log(_ words: String) {
        services.log("session \(room.number), room: \(words)")
    }
}
