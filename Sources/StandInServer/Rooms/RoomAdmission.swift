import DecartProtocol
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// The answer to a request for a room's signalling.
enum RoomAdmission {
    /// Not about rooms at all.
    case other
    case admitted(Room, Visit)
    case refused(HTTPAnswer)

    /// How the participant wants to be served.
    struct Visit: Sendable {
        var isSubscribedToAll: Bool
        /// It wants to go on with a connection that it had.
        var isResume: Bool
        /// Who only watches, by name.
        var viewer: String?
    }

    init(_ head: HTTPRequestHead, rooms: RoomBoard) {
        let path = head.uri.prefix { $0 != "?" }
        let isValidation = path.hasSuffix("/rtc/validate")
        guard path.hasSuffix("/rtc") || isValidation else {
            // One connection for both directions is not served: on this answer clients take the older path.
            let isNewer = path.hasSuffix("/rtc/v1") || path.hasSuffix("/rtc/v1/validate")
            self = isNewer ? .refused(HTTPAnswer(404, "not found")) : .other
            return
        }
        var items: [String: String] = [:]
        for item in PercentEncoding.queryItems(ofTarget: head.uri) where items[item.name] == nil {
            items[item.name] = item.value
        }
        let bearer = head.headers.first(name: "Authorization").flatMap { value in
            value.lowercased().hasPrefix("bearer ") ? String(value.dropFirst(7)) : nil
        }
        guard let token = bearer ?? items["access_token"], let (room, viewer) = rooms.room(for: token),
            !room.faults.withLock({ $0.contains(.room(.tokenRefused)) })
        else {
            self = .refused(HTTPAnswer(401, "invalid token"))
            return
        }
        guard !isValidation else {
            self = .refused(HTTPAnswer(200, "success"))
            return
        }
        func isOn(_ name: String, default value: Bool) -> Bool {
            items[name].map { $0 == "1" || $0 == "true" } ?? value
        }
        self = .admitted(
            room,
            Visit(
                isSubscribedToAll: isOn("auto_subscribe", default: true),
                isResume: isOn("reconnect", default: false), viewer: viewer))
    }
}

enum RoomAddress {
    /// Where the client reaches the room: this stand-in, by the name that the client has for it.
    static func url(host: String?, _ channel: any Channel) -> String {
        let isSecure = (try? channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)) != nil
        let isPlain = host?.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: ":"),
                UInt8(ascii: "["), UInt8(ascii: "]"):
                true
            default: false
            }
        }
        let own = "127.0.0.1:\(channel.localAddress?.port ?? StandInConfiguration.defaultPort)"
        return "\(isSecure ? "wss" : "ws")://\(isPlain == true ? host ?? own : own)"
    }
}
