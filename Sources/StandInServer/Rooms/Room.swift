// What the control channel of a session and the connection to its room share.
import DecartProtocol
import NIOCore
import Synchronization

/// Names in one room.
struct RoomIdentity: Sendable, Equatable {
    let name: String
    let sid = Self.sid("RM")
    private(set) var participant: String
    private(set) var participantSID = Self.sid("PA")
    /// Clients take tracks of participants whose identity begins so.
    let inferenceServer: String
    let inferenceSID = Self.sid("PA")
    let trackSID = Self.sid("TR")
    let audioTrackSID = Self.sid("TR")

    init() {
        name = "room-" + Self.random
        participant = "client-" + Self.random
        inferenceServer = "inference-server-" + Self.random
    }

    /// The same room for a viewer.
    func viewed(by viewer: String) -> RoomIdentity {
        var copy = self
        (copy.participant, copy.participantSID) = (viewer, Self.sid("PA"))
        return copy
    }

    static var newViewer: String { "viewer-" + random }

    private static var random: String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Kinds are told by their beginning: RM_, PA_, TR_.
    static func sid(_ kind: String) -> String { "\(kind)_\(random)" }
}

/// Sent through the pipeline of a participant's connection.
enum RoomNotice: Sendable {
    /// Another connection has taken the place.
    case replaced
    /// The session has ended.
    case closed
    /// The generation has ended, and the output leaves the room with it …
    case withdrawOutput
    /// … and has started again.
    case restartOutput(Fault.Output)
}

final class Room: Sendable {
    let identity: RoomIdentity
    let sessionID: String
    /// The number of the session on the board.
    let number: Int
    let painter: FramePainter
    /// Those of the session.
    let faults: Mutex<FaultPlan>
    private let member = Mutex<(any Channel)?>(nil)

    init(sessionID: String, number: Int, painter: FramePainter, faults: FaultPlan) {
        identity = RoomIdentity()
        self.sessionID = sessionID
        self.number = number
        self.painter = painter
        self.faults = Mutex(faults)
    }

    /// One participant at a time: who comes later takes the place.
    func enter(_ channel: any Channel) {
        let former = member.withLock { member in
            defer { member = channel }
            return member
        }
        former?.pipeline.fireUserInboundEventTriggered(RoomNotice.replaced)
    }

    func leave(_ channel: any Channel) {
        painter.audience.leave(channel)
        member.withLock { if $0 === channel { $0 = nil } }
    }

    /// The participant and its viewers.
    func tell(_ notice: RoomNotice) {
        member.withLock { $0 }?.pipeline.fireUserInboundEventTriggered(notice)
        painter.audience.tell(notice)
    }

    func close() {
        painter.audience.end()
        let former = member.withLock { $0.take() }
        former?.pipeline.fireUserInboundEventTriggered(RoomNotice.closed)
    }
}

/// The open rooms, and their tokens.
final class RoomBoard: Sendable {
    private let rooms = Mutex<[String: Room]>([:])
    private let tokens = RoomTokens()

    func add(_ room: Room) { rooms.withLock { $0[room.identity.name] = room } }

    /// Its tokens open nothing from now on.
    func remove(_ room: Room) {
        rooms.withLock { $0[room.identity.name] = nil }
        room.close()
    }

    func room(named name: String) -> Room? { rooms.withLock { $0[name] } }

    func token(for room: Room) -> Secret? { token(for: room, identity: room.identity.participant, isViewer: false) }

    /// Each time for another viewer.
    func viewerToken(for room: Room) -> Secret? { token(for: room, identity: RoomIdentity.newViewer, isViewer: true) }

    /// - Parameter isViewer: takes and does not publish.
    func token(for room: Room, identity: String, isViewer: Bool) -> Secret? {
        tokens.token(
            for: RoomTokens.Grant(room: room.identity.name, identity: identity, isViewer: isViewer),
            now: WallClock.seconds)
    }

    /// Nil: no token of ours, or of a room that is gone.
    /// - Returns: with the viewer's name, where it is one.
    func room(for token: String) -> (room: Room, viewer: String?)? {
        guard let grant = tokens.grant(in: token, now: WallClock.seconds), let room = room(named: grant.room) else {
            return nil
        }
        if grant.isViewer { return (room, grant.identity) }
        return room.identity.participant == grant.identity ? (room, nil) : nil
    }
}
