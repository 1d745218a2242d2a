import DecartProtocol
import EventLoopThreads
import LiveKitProtocol
import Network
import Synchronization

/// The decision on a request for a room's signalling.
enum RoomAdmission {
    case admitted(Room, RoomJoin)
    case refused(HTTPAnswer)

    /// The options of a participant's connection.
    struct RoomJoin: Sendable {
        /// Tracks need no subscription request.
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

        /// The participant publishes nothing; the video track exists from the beginning.
        var isViewer: Bool { viewer != nil }
        /// One connection serves both directions; the participant makes all offers.
        var isSingle: Bool { single != nil }
    }

    /// A client falls back to the older path with two connections on this answer.
    private static let notSingle = HTTPAnswer(404, "not found")

    /// Returns nil unless the path ends with `/rtc` or `/rtc/v1`, or one of them and `/validate`.
    init?(_ head: HTTPRequestHead, _ rooms: RoomBoard) {
        let isValidation = head.path.hasSuffix("/validate")
        let path = isValidation ? head.path.dropLast("/validate".count) : head.path
        let isSingle = path.hasSuffix("/rtc/v1")
        guard isSingle || path.hasSuffix("/rtc") else { return nil }
        do throws(HTTPAnswer) {
            guard !isSingle || rooms.options.servesSingleConnections else { throw Self.notSingle }
            let items = PercentEncoding.firstQueryItems(ofTarget: head.target)
            let bearer = head.fields.first("Authorization").flatMap { value in
                value.lowercased().hasPrefix("bearer ") ? String(value.dropFirst(7)) : nil
            }
            guard let token = bearer ?? items["access_token"], let (room, viewer) = rooms.room(for: token),
                !room.faults.withLock({ $0.contains(.room(.tokenRefused)) })
            else { throw HTTPAnswer(401, "invalid token") }
            guard room.acceptsConnections else { throw HTTPAnswer(503, "the signalling server restarts") }
            guard !isValidation else { throw HTTPAnswer(200, "success") }
            let single = try isSingle ? Self.joinRequest(items["join_request"] ?? "") : nil
            func isOn(_ name: String, default value: Bool) -> Bool {
                items[name].map { $0 == "1" || $0 == "true" } ?? value
            }
            let capabilities = (items["capabilities"] ?? "").split(separator: ",")
            self = .admitted(
                room,
                RoomJoin(
                    autoSubscribe: single?.connectionSettings.autoSubscribe ?? isOn("auto_subscribe", default: true),
                    isResume: single?.reconnect ?? isOn("reconnect", default: false), viewer: viewer,
                    host: head.host, path: String(head.path), single: single,
                    takesTrailers: single?.clientInfo.capabilities.contains(.capPacketTrailer)
                        ?? capabilities.contains("CAP_PACKET_TRAILER")))
        } catch {
            self = .refused(error)
        }
    }

    /// Bytes; the limit of LiveKit's own servers.
    private static let maximumJoinRequest = 1 << 20

    private static func joinRequest(_ text: String) throws(HTTPAnswer) -> LiveKitJoinRequest {
        // LiveKit's own servers require the padding.
        if !text.isEmpty, text.utf8.count % 4 == 0, let bytes = Base64.decode(text, alphabet: .url),
            let wrapped = try? LiveKitWrappedJoinRequest(serializedBytes: bytes)
        {
            let plain: [UInt8]? =
                switch wrapped.compression {
                case .none: wrapped.joinRequest
                case .gzip: Gzip.decompressed(wrapped.joinRequest, limit: maximumJoinRequest)
                case .unrecognized: nil
                }
            if let plain, let join = try? LiveKitJoinRequest(serializedBytes: plain) { return join }
        }
        throw HTTPAnswer(400, "cannot decode the join request")
    }
}

enum RoomAddress {
    /// Returns the URL of this stand-in by the host name that the client uses for it.
    static func url(host: String?, _ connection: ClientConnection) -> String {
        let isPlain = host?.utf8.allSatisfy { $0.isAlphanumeric(or: ".-:[]") }
        let own = "127.0.0.1:\(connection.localAddress?.port ?? 0)"
        return "\(connection.isSecure ? "wss" : "ws")://\(isPlain == true ? host ?? own : own)"
    }
}
