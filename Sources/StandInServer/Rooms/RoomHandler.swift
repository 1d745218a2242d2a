// One signalling connection of a room's participant: passes WebSocket frames between the socket and the
// `RoomParticipant`, which outlives it. Everything here runs on the stand-in's only event loop.
import DecartProtocol
import LiveKitProtocol
import NIOCore
import NIOWebSocket
import SwiftProtobuf
import Synchronization

final class RoomHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let room: Room
    private let join: RoomAdmission.RoomJoin
    private let services: RoomServices
    /// Nil if a resume is refused.
    private var participant: RoomParticipant?
    /// Nil once the connection is closed.
    private var context: ChannelHandlerContext?
    private var pings: RepeatedTask?
    private var timers = FaultTimers()
    private var isClosing = false

    init(room: Room, join: RoomAdmission.RoomJoin, services: RoomServices) {
        self.room = room
        self.join = join
        self.services = services
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        pings = context.eventLoop.scheduleRepeatedTask(initialDelay: .seconds(10), delay: .seconds(10)) { _ in
            let (handler, context) = bound.value
            handler.write(.ping, context.channel.allocator.buffer(capacity: 0))
        }
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
        participant.resume(over: self, join.single.flatMap { $0.hasSyncState ? $0.syncState : nil })
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isClosing else { return }
        let frame = unwrapInboundIn(data)
        switch frame.opcode {
        case .binary:
            receive(frame.unmaskedData)
        case .text:
            // LiveKit's own servers also accept protobuf's JSON format.
            log("text frames are not understood")
            close(.unacceptableData)
        case .ping:
            write(.pong, frame.unmaskedData)
        case .connectionClose:
            var data = frame.unmaskedData
            close(data.readSlice(length: min(2, data.readableBytes)) ?? ByteBuffer())
        default:
            break
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ShutdownNotice:
            if let participant { participant.shutDown() } else { closeSoon() }
        case let notice as FaultNotice:
            participant?.take(notice)
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
            close(code)
        } else {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        pings?.cancel()
        timers.cancelAll()
        participant?.lost(self)
        participant = nil
        context.fireChannelInactive()
    }

    // MARK: Signal messages

    private func receive(_ data: ByteBuffer) {
        guard let request = try? LiveKitSignalRequest(serializedBytes: Array(data.readableBytesView)) else {
            log("received a malformed message")
            services.board.update(room.number) { $0.malformedCount += 1 }
            return
        }
        participant?.received(request)
    }

    func send(_ response: LiveKitSignalResponse) {
        guard let bytes: [UInt8] = try? response.serializedBytes() else { return }
        write(.binary, ByteBuffer(bytes: bytes))
    }

    // MARK: Outgoing frames

    private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer) {
        guard !isClosing, let context else { return }
        guard context.channel.isWritable else {
            log("the client does not read")
            return context.close(promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data)), promise: nil)
    }

    /// Closes after 50 ms, so that the leave message goes out first, as LiveKit's servers do.
    func closeSoon() {
        guard let context else { return }
        let number = timers.number()
        let timer = context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(50)) {
            self.close(.normalClosure)
        }
        timers.add(timer, number)
    }

    /// Closes with a TCP reset.
    func reset() {
        guard let context else { return }
        isClosing = true
        Reset.close(context.channel)
    }

    private func close(_ code: WebSocketErrorCode) {
        guard let context else { return }
        var data = context.channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: code)
        close(data)
    }

    private func close(_ data: ByteBuffer) {
        write(.connectionClose, data)
        isClosing = true
        context?.close(promise: nil)
    }

    private func log(_ words: String) {
        services.media.log("session \(room.number), room: \(words)")
    }
}
