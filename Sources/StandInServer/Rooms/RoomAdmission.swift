import DecartProtocol
import LiveKitProtocol
import NIOCore
import NIOHTTP1
import NIOSSL
import SwiftProtobuf
import Synchronization

/// The decision on a request for a room's signalling.
enum RoomAdmission {
    /// The request is not about rooms.
    case other
    case admitted(Room, RoomJoin)
    case refused(HTTPAnswer)

    /// The options of a participant's connection.
    struct RoomJoin: Sendable {
        var autoSubscribe: Bool
        /// The participant wants to resume a former connection.
        var isResume: Bool
        /// Identity of a viewer; nil: the session's own client.
        var viewer: String?
        /// Host that the client uses for the stand-in.
        var host: String?
        var path: String
        /// The join request, if the participant uses a single connection for both directions.
        var single: LiveKitJoinRequest?
        /// The client takes frames with a trailer (`FrameTrailer`).
        var takesTrailers = false
        /// Firefox does not show a track's ID to its page: the stream's ID has to name the track.
        var isFirefox = false
    }

    private enum Path: String, CaseIterable {
        case dual = "/rtc"
        case dualValidation = "/rtc/validate"
        case single = "/rtc/v1"
        case singleValidation = "/rtc/v1/validate"

        var isSingle: Bool { self == .single || self == .singleValidation }
        var isValidation: Bool { self == .dualValidation || self == .singleValidation }
    }

    /// A client falls back to the older path with two connections on this answer.
    private static let notSingle = RoomAdmission.refused(HTTPAnswer(404, "not found"))

    init(_ head: HTTPRequestHead, _ rooms: RoomBoard) {
        let target = head.uri.prefix { $0 != "?" }
        guard let path = Path.allCases.first(where: { target.hasSuffix($0.rawValue) }) else {
            self = .other
            return
        }
        guard !path.isSingle || rooms.options.servesSingleConnections else {
            self = Self.notSingle
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
        guard room.acceptsConnections else {
            self = .refused(HTTPAnswer(503, "the signalling server restarts"))
            return
        }
        guard !path.isValidation else {
            self = .refused(HTTPAnswer(200, "success"))
            return
        }
        guard !path.isSingle else {
            self = viewer == nil ? Self.single(items["join_request"] ?? "", room, head) : Self.notSingle
            return
        }
        func isOn(_ name: String, default value: Bool) -> Bool {
            items[name].map { $0 == "1" || $0 == "true" } ?? value
        }
        self = .admitted(
            room,
            RoomJoin(
                autoSubscribe: isOn("auto_subscribe", default: true),
                isResume: isOn("reconnect", default: false), viewer: viewer,
                host: head.headers.first(name: "Host"), path: String(target),
                takesTrailers: (items["capabilities"] ?? "").split(separator: ",").contains("CAP_PACKET_TRAILER"),
                isFirefox: head.headers.first(name: "User-Agent")?.contains("Firefox/") == true))
    }

    /// Bytes; the limit of LiveKit's own servers.
    private static let maximumJoinRequest = 1 << 20

    private static func single(_ text: String, _ room: Room, _ head: HTTPRequestHead) -> RoomAdmission {
        // LiveKit's own servers require the padding.
        guard !text.isEmpty, text.utf8.count % 4 == 0, let bytes = Base64.decode(text, alphabet: .url),
            let wrapped = try? LiveKitWrappedJoinRequest(serializedBytes: bytes)
        else { return .refused(HTTPAnswer(400, "cannot decode the join request")) }
        let plain: [UInt8]? =
            switch wrapped.compression {
            case .none: Array(wrapped.joinRequest)
            case .gzip: Gzip.decompressed(Array(wrapped.joinRequest), limit: maximumJoinRequest)
            case .UNRECOGNIZED: nil
            }
        guard let plain, let join = try? LiveKitJoinRequest(serializedBytes: plain) else {
            return .refused(HTTPAnswer(400, "cannot decode the join request"))
        }
        return .admitted(
            room,
            RoomJoin(
                autoSubscribe: join.connectionSettings.autoSubscribe, isResume: join.reconnect,
                host: head.headers.first(name: "Host"), path: String(head.uri.prefix { $0 != "?" }), single: join,
                takesTrailers: join.clientInfo.capabilities.contains(.capPacketTrailer)))
    }
}

enum RoomAddress {
    /// Returns the URL of this stand-in by the host name that the client uses for it.
    static func url(host: String?, _ channel: any Channel) -> String {
        let isSecure = (try? channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)) != nil
        let isPlain = host?.utf8.allSatisfy { $0.isAlphanumeric(or: ".-:[]") }
        let own = "127.0.0.1:\(channel.localAddress?.port ?? 0)"
        return "\(isSecure ? "wss" : "ws")://\(isPlain == true ? host ?? own : own)"
    }
}
