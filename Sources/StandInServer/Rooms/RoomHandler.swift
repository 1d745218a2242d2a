// One signalling connection of a room's participant: passes WebSocket frames between the socket and the
// `RoomParticipant`, which outlives it. Everything here runs on the stand-in's only event loop.
import DecartProtocol
import LiveKitProtocol
import NIOCore
import NIOWebSocket
import Synchronization

final class RoomHandler: WebSocketHandler {
    private let room: Room
    private let join: RoomAdmission.RoomJoin
    private let services: SessionServices
    /// Nil if a resume is refused.
    private var participant: RoomParticipant?
    /// Nil once the connection is closed.
    private var context: ChannelHandlerContext?
    private let timers = ConnectionTimers()
    var isClosing = false

    init(room: Room, join: RoomAdmission.RoomJoin, services: SessionServices) {
        self.room = room
        self.join = join
        self.services = services
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        timers.every(.seconds(10), on: context.eventLoop) { [self] _ in write(.ping, ByteBuffer(), context) }
        room.setURL(RoomAddress.url(host: join.host, context.channel))
        if join.isResume { resume() } else { enter(context) }
    }

    private func enter(_ context: ChannelHandlerContext) {
        log("joined")
        let participant = RoomParticipant(room: room, join: join, services: services, eventLoop: context.eventLoop)
        self.participant = participant
        room.enter(participant)
        participant.join(over: self, join.single)
    }

    private func resume() {
        let isRefused = room.faults.withLock { $0.contains(.room(.resumeRefused)) }
        guard !room.faults.withLock({ $0.contains(.room(.resumeSilent)) }) else { return log("ignores a resume") }
        guard let participant = room.participant(room.identity(of: join)), !isRefused else {
            log("cannot resume")
            send(
                .with {
                    $0.leave = .with { ($0.action, $0.canReconnect, $0.reason) = (.reconnect, true, .stateMismatch) }
                })
            return closeSoon()
        }
        log("resumes at \(LogText.clean(join.path))")
        self.participant = participant
        participant.resume(over: self, join.single?.$syncState)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ShutdownNotice:
            if let participant { participant.shutDown() } else { closeSoon() }
        case let notice as FaultNotice:
            participant?.receive(notice: notice)
        case let idle as IdleStateHandler.IdleStateEvent where idle == .read:
            log("the client sent nothing, not even a pong")
            context.close(promise: nil)
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        timers.cancelAll()
        participant?.lost(self)
        participant = nil
        context.fireChannelInactive()
    }

    // MARK: Signal messages

    func receive(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
        guard opcode == .binary else {
            // LiveKit's own servers also accept protobuf's JSON format.
            log("text frames are not understood")
            return close(.unacceptableData, context)
        }
        guard let request = try? LiveKitSignalRequest(serializedBytes: Array(data.readableBytesView)) else {
            log("received a malformed message")
            services.board.update(room.number) { $0.malformedCount += 1 }
            return
        }
        participant?.received(request)
    }

    func send(_ response: LiveKitSignalResponse) {
        guard let context else { return }
        write(.binary, ByteBuffer(bytes: response.serializedBytes()), context)
    }

    /// Closes after 50 ms, so that the leave message goes out first, as LiveKit's servers do.
    func closeSoon() {
        guard let context else { return }
        timers.after(.milliseconds(50), on: context.eventLoop) { [self] in close(.normalClosure, context) }
    }

    /// Closes with a TCP reset.
    func reset() {
        guard let context else { return }
        isClosing = true
        Reset.close(context.channel)
    }

    func log(_ text: String) {
        services.media.log("session \(room.number), room: \(text)")
    }
}
