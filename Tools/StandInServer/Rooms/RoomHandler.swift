// One signalling connection of a room's participant: passes WebSocket frames between the socket and the
// `RoomParticipant`, which outlives it. Everything here runs on the stand-in's thread.
import DecartProtocol
import LiveKitProtocol
import Network
import Synchronization

// @unchecked: used on the connection's thread only.
final class RoomHandler: WebSocketHandler, @unchecked Sendable {
    private let connection: ClientConnection
    private let room: Room
    private let join: RoomAdmission.RoomJoin
    private let services: SessionServices
    /// Nil if a resume is refused.
    private var participant: RoomParticipant?
    private let timers: ConnectionTimers

    init(_ connection: ClientConnection, room: Room, join: RoomAdmission.RoomJoin, services: SessionServices) {
        self.connection = connection
        timers = ConnectionTimers(on: connection.thread)
        self.room = room
        self.join = join
        self.services = services
    }

    // MARK: Connection

    func opened() {
        room.url.withLock { $0 = RoomAddress.url(host: join.host, connection) }
        if join.isResume { resume() } else { enter() }
    }

    private func enter() {
        guard room.hasPlace(for: room.identity(of: join)) else {
            log("is full")
            return refuse(.disconnect, .joinFailure)
        }
        log("joined")
        let participant = RoomParticipant(room: room, join: join, services: services, thread: connection.thread)
        self.participant = participant
        room.enter(participant)
        participant.join(over: self, join.single)
    }

    private func resume() {
        let isRefused = room.faults.withLock { $0.contains(.room(.resumeRefused)) }
        guard !room.faults.withLock({ $0.contains(.room(.resumeSilent)) }) else { return log("ignores a resume") }
        guard let participant = room.participant(room.identity(of: join)), !isRefused else {
            log("cannot resume")
            return refuse(.reconnect, .stateMismatch)
        }
        log("resumes at \(LogText.clean(join.path))")
        self.participant = participant
        participant.resume(over: self, join.single?.$syncState)
    }

    private func refuse(_ action: LiveKitLeaveRequest.Action, _ reason: LiveKitDisconnectReason) {
        send(
            .with {
                $0.leave = .with { ($0.action, $0.canReconnect, $0.reason) = (action, action == .reconnect, reason) }
            })
        closeSoon()
    }

    func receive(notice: any Sendable) {
        switch notice {
        case is ShutdownNotice:
            if let participant { participant.shutDown() } else { closeSoon() }
        case let notice as FaultNotice:
            participant?.receive(notice: notice)
        default: break
        }
    }

    func ended() {
        timers.cancelAll()
        participant?.lost(self)
        participant = nil
    }

    // MARK: Signal messages

    func receive(text: [UInt8]) {
        // LiveKit's own servers also accept protobuf's JSON format.
        log("text frames are not understood")
        connection.close(code: 1003)
    }

    func receive(binary: [UInt8]) {
        guard let request = try? LiveKitSignalRequest(serializedBytes: binary) else {
            log("received a malformed message")
            services.board.update(room.number) { $0.malformedCount += 1 }
            return
        }
        participant?.received(request)
    }

    func send(_ response: LiveKitSignalResponse) {
        connection.send(.binary, response.serializedBytes())
    }

    /// Closes after 50 ms, so that the leave message goes out first, as LiveKit's servers do.
    func closeSoon() {
        timers.after(.milliseconds(50)) { [self] in connection.close(code: 1000) }
    }

    /// Closes with a TCP reset.
    func reset() { connection.reset() }

    func log(_ text: String) {
        services.media.log("session \(room.number), room: \(text)")
    }
}
