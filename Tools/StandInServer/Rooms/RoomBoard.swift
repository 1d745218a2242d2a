import DecartProtocol
import Synchronization

/// The open rooms and their tokens.
final class RoomBoard: Sendable {
    let options: RoomOptions
    private let rooms = Mutex<[String: Room]>([:])
    private let tokens = RoomTokens()

    init(_ options: RoomOptions) { self.options = options }

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
