// State that a session's control channel shares with the connections to its room.
import DecartProtocol
import LiveKitProtocol
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

    /// Returns the same room for one more stay of a participant.
    func joined(by participant: String) -> RoomIdentity {
        var copy = self
        (copy.participant, copy.participantSID) = (participant, Self.sid("PA"))
        return copy
    }

    static var newViewer: String { "viewer-" + random }

    private static var random: String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Makes a SID; its prefix is its kind (RM, PA, TR).
    static func sid(_ kind: String) -> String { "\(kind)_\(random)" }
}

/// Notice to a participant.
enum RoomNotice: Sendable {
    /// The same participant has joined again.
    case replaced
    /// The session has ended.
    case closed
    /// The watched session has audio now, or no longer.
    case audio(Bool)
    /// The generation has ended, and its track is unpublished.
    case withdrawOutput
    /// The participant's tracks have changed.
    case ownerChanged(LiveKitParticipantInfo)
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
    /// The participant as viewers see it; nil before its first track.
    let owner = Mutex<LiveKitParticipantInfo?>(nil)
    /// Features of the trailers of the session's frames.
    let trailers = Mutex<[LiveKitPacketTrailerFeature]>([])
    /// The participants by identity. One stays for a while without a connection, so that it can resume.
    private let participants = Mutex<[String: RoomParticipant]>([:])
    private let address = Mutex("")
    /// The end of the time in which the room accepts no connection.
    private let closedUntil = Mutex<NIODeadline?>(nil)

    init(sessionID: String, number: Int, painter: FramePainter, faults: FaultPlan) {
        identity = RoomIdentity()
        self.sessionID = sessionID
        self.number = number
        self.painter = painter
        self.faults = Mutex(faults)
    }

    /// The URL by which the client reaches the room.
    var url: String { address.withLock { $0 } }
    func setURL(_ url: String) { address.withLock { $0 = url } }

    func identity(of join: RoomAdmission.RoomJoin) -> String { join.viewer ?? identity.participant }

    // MARK: Participants (on the event loop)

    func participant(_ identity: String) -> RoomParticipant? { participants.withLock { $0[identity] } }

    /// Replaces a participant of the same identity.
    func enter(_ participant: RoomParticipant) {
        let former = participants.withLock { $0.updateValue(participant, forKey: participant.identity) }
        former?.notify(.replaced)
    }

    func leave(_ participant: RoomParticipant) {
        participants.withLock { if $0[participant.identity] === participant { $0[participant.identity] = nil } }
    }

    func change(owner: LiveKitParticipantInfo) {
        self.owner.withLock { $0 = owner }
        notify(.ownerChanged(owner))
    }

    /// Notifies the client and the viewers.
    func notify(_ notice: RoomNotice) {
        for participant in participants.withLock({ Array($0.values) }) { participant.notify(notice) }
    }

    func close() {
        painter.viewers.end()
        notify(.closed)
    }

    // MARK: Signalling

    func resetConnections() {
        for participant in participants.withLock({ Array($0.values) }) { participant.resetConnection() }
    }

    /// Accepts no connection for this time, as behind a load balancer whose server restarts.
    func close(for time: TimeAmount) { closedUntil.withLock { $0 = .now() + time } }

    var acceptsConnections: Bool { closedUntil.withLock { $0.map { $0 <= .now() } ?? true } }
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
