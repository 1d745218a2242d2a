import DecartProtocol
import Network

/// A viewer's request for a room, `POST …/watch-stream/{room}`.
enum WatchStreamRequest {
    /// Returns nil for another path.
    static func answer(_ head: HTTPRequestHead, _ rooms: RoomBoard, _ keys: KeyPolicy, url: String) -> HTTPAnswer? {
        let parts = head.path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[parts.count - 2] == "watch-stream", let last = parts.last,
            let name = PercentEncoding.decode(last)
        else { return nil }
        guard head.method == "POST" else { return HTTPAnswer(405, "rooms to watch are asked for by POST") }
        guard keys.admits(head.apiKey) else { return HTTPAnswer(401, "invalid api key") }
        guard let room = rooms.room(named: name), let token = rooms.viewerToken(for: room) else {
            return HTTPAnswer(404, "there is no such session")
        }
        return HTTPAnswer(
            json: .fields([
                "livekit_url": .string(url), "room_name": .string(room.identity.name),
                "session_id": .string(room.sessionID), "token": .string(token.reveal()),
            ]), text: "a room to watch")
    }
}
