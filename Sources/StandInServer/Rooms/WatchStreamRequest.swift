import DecartProtocol
import NIOCore
import NIOHTTP1

/// A viewer's request for a room, `POST …/watch-stream/{room}`.
struct WatchStreamRequest {
    let room: String
    private let isPost: Bool
    private let key: String?

    init?(_ head: HTTPRequestHead) {
        let parts = head.uri.prefix { $0 != "?" }.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count >= 3, parts[parts.count - 2] == "watch-stream", let last = parts.last,
            let room = PercentEncoding.decode(last)
        else { return nil }
        self.room = room
        isPost = head.method == .POST
        key = head.headers.first(name: "x-api-key")
    }

    func answer(_ rooms: RoomBoard, _ keys: KeyPolicy, url: String) -> HTTPAnswer {
        guard isPost else { return HTTPAnswer(405, "rooms to watch are asked for by POST") }
        guard keys.admits(key) else { return HTTPAnswer(401, "invalid api key") }
        guard let room = rooms.room(named: room), let token = rooms.viewerToken(for: room) else {
            return HTTPAnswer(404, "there is no such session")
        }
        let fields = [
            "livekit_url": url, "token": token.reveal(), "room_name": room.identity.name, "session_id": room.sessionID,
        ]
        guard let body = try? JSONText.encode(fields) else { return HTTPAnswer(500, "internal error") }
        var answer = HTTPAnswer(200, "a room to watch")
        answer.contentType = "application/json"
        answer.body = String(decoding: body, as: UTF8.self)
        return answer
    }
}
