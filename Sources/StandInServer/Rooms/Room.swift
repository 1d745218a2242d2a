// State that a session's control channel shares with the connections to its room.
import DecartProtocol
import NIOCore
import Synchronization

/// The names and SIDs of one room.
struct RoomIdentity: Sendable, Equatable {
    let name: String
    let sid = Self.sid("RM")
    private(set) var participant: String
    private(set) var participantSID = Self.sid("PA")
    /// Clients subscribe to tracks of participants whose identity begins with `inference-server-`.
    let inferenceServer: String
    let inferenceSID = Self.sid("PA")
    let trackSID = Self.sid("TR")
    let audioTrackSID = Self.sid("TR")

    init() {
        name = "room-" + Self.random
        participant = "client-" + Self.random
        inferenceServer = "inference-server-" + Self.random
    }

    /// Returns the same room as a viewer joins it, under the viewer's own identity.
    func viewed(by viewer: String) -> RoomIdentity {
        var copy = self
        (copy.participant, copy.participantSID) = (viewer, Self.sid("PA"))
        return copy
    }

    static var newViewer: String { "viewer-" + random }

    private static var random: String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Makes a SID; its prefix is its kind (RM, PA, TR).
    static func sid(_ kind: String) -> String { "\(kind)_\(random)" }
}

/// User event to the connection of a participant.
enum RoomNotice: Sendable {
    /// Another connection has replaced this one.
    case replaced
    /// The session has ended.
    case closed
    /// The generation has ended, and its track is unpublished.
    case withdrawOutput
    /// The generation has restarted, and the output comes back in this way.
    case restartOutput(Fault.Output)
}

final class Room: Sendable {
    let identity: RoomIdentity
    let sessionID: String
    /// Number of the session on the board.
    let number: Int
    let painter: FramePainter
    /// Faults of the session.
    let faults: Mutex<FaultPlan>
    private let member = Mutex<(any Channel)?>(nil)

    init(sessionID: String, number: Int, painter: FramePainter, faults: FaultPlan) {
        identity = RoomIdentity()
        self.sessionID = sessionID
        self.number = number
        self.painter = painter
        self.faults = Mutex(faults)
    }

    /// Replaces the present participant, if any: a room has one at a time.
    func enter(_ channel: any Channel) {
        let former = member.withLock { member in
            defer { member = channel }
            return member
        }
        former?.pipeline.fireUserInboundEventTriggered(RoomNotice.replaced)
    }

    func leave(_ channel: any Channel) {
        painter.viewers.leave(channel)
        member.withLock { if $0 === channel { $0 = nil } }
    }

    /// Notifies the participant and the viewers.
    func notify(_ notice: RoomNotice) {
        member.withLock { $0 }?.pipeline.fireUserInboundEventTriggered(notice)
        painter.viewers.notify(notice)
    }

    func close() {
        painter.viewers.end()
        let former = member.withLock { $0.take() }
        former?.pipeline.fireUserInboundEventTriggered(RoomNotice.closed)
    }
}

/// The open rooms and their tokens.
final class RoomBoard: Sendable {
    private let rooms = Mutex<[String: Room]>([:])
    private let tokens = RoomTokens()

    func add(_ room: Room) { rooms.withLock { $0[room.identity.name] = room } }

    /// Closes the room and invalidates its tokens.
    func remove(_ room: Room) {
        rooms.withLock { $0[room.identity.name] = nil }
        room.close()
    }

    func room(named name: String) -> Room? { rooms.withLock { $0[name] } }

    func token(for room: Room) -> Secret? { token(for: room, identity: room.identity.participant, isViewer: false) }

    /// Makes a token for a new viewer identity at each call.
    func viewerToken(for room: Room) -> Secret? { token(for: room, identity: RoomIdentity.newViewer, isViewer: true) }

    /// - Parameter isViewer: The token allows subscribing but not publishing.
    func token(for room: Room, identity: String, isViewer: Bool) -> Secret? {
        tokens.token(
            for: RoomTokens.Grant(room: room.identity.name, identity: identity, isViewer: isViewer),
            now: WallClock.seconds)
    }

    /// Returns nil if the token is not ours or its room is gone.
    /// - Returns: The room, and the viewer's identity if the token is a viewer's.
    func room(for token: String) -> (room: Room, viewer: String?)? {
        guard let grant = tokens.grant(in: token, now: WallClock.seconds), let room = room(named: grant.room) else {
            return nil
        }
        if grant.isViewer { return (room, grant.identity) }
        return room.identity.participant == grant.identity ? (room, nil) : nil
    }
}
