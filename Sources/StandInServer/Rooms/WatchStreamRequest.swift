import DecartProtocol
import NIOCore
import NIOHTTP1

/// A viewer's request for a room, `POST …/watch-stream/{room}`.
struct WatchStreamRequest {
    private let room: String
    private let head: HTTPRequestHead

    init?(_ head: HTTPRequestHead) {
        let parts = head.path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[parts.count - 2] == "watch-stream", let last = parts.last,
            let room = PercentEncoding.decode(last)
        else { return nil }
        (self.room, self.head) = (room, head)
    }

    func answer(_ rooms: RoomBoard, _ keys: KeyPolicy, url: String) -> HTTPAnswer {
        guard head.method == .POST else { return HTTPAnswer(405, "rooms to watch are asked for by POST") }
        guard keys.admits(head.apiKey) else { return HTTPAnswer(401, "invalid api key") }
        guard let room = rooms.room(named: room), let token = rooms.viewerToken(for: room) else {
            return HTTPAnswer(404, "there is no such session")
        }
        return HTTPAnswer(
            json: .fields([
                "livekit_url": .string(url), "room_name": .string(room.identity.name),
                "session_id": .string(room.sessionID), "token": .string(token.reveal()),
            ]), text: "a room to watch")
    }
}
