// How a room is joined: all that the two versions of LiveKit's signalling differ in for us.
import DecartProtocol
import LiveKitProtocol
import SwiftProtobuf
import WebRTCTransport

package enum RoomLink: Sendable, Equatable {
    /// `/rtc`, which every server speaks. Two peer connections: the publisher's is offered by us when the server knows our
    /// track, and again when what we publish changes; the subscriber's by the server whenever what we are subscribed to
    /// changes.
    case dual
    /// `/rtc/v1`. One peer connection, always offered by us: first together with our tracks in the request to join, then when
    /// what we publish changes, and whenever the server says that it has something else to send.
    case single

    /// Whose candidates they are.
    func side(_ stated: LiveKitSignalTarget) -> LiveKitSignalTarget { self == .single ? .publisher : stated }

    /// Which way the media of a kind go over the connection that we offer; nil: not at all.
    func direction(isPublished: Bool, isWanted: Bool) -> MediaDirection? {
        switch (self, isPublished) {
        case (.dual, let isPublished): isPublished ? .sendonly : nil
        case (.single, true): .sendrecv
        case (.single, false): isWanted ? .recvonly : nil
        }
    }

    // MARK: Where

    private static let version = "1.0.0"
    /// The newest that sends nothing which is not known here.
    private static let protocolVersion = 16

    /// - Parameter join: of `single`; all that the request says is in it.
    static func url(
        _ base: String, token: APIKey, allowsInsecure: Bool, join: LiveKitJoinRequest? = nil
    ) throws(ProtocolError) -> ServiceURL {
        guard let join else {
            return try ServiceURL(
                room: base, token: token, allowInsecure: allowsInsecure,
                // The server's habits follow `sdk`.
                options: [
                    ("protocol", "\(protocolVersion)"), ("sdk", "cpp"), ("version", version), ("auto_subscribe", "0"),
                    ("adaptive_stream", "0"),
                ])
        }
        return try ServiceURL(
            room: base, path: "/rtc/v1", token: token, allowInsecure: allowsInsecure, options: [("join_request", wrapped(join))])
    }

    private static func wrapped(_ join: LiveKitJoinRequest) -> String {
        var join = join
        join.clientInfo = .with {
            ($0.sdk, $0.version, $0.protocol, $0.os) = (.cpp, version, Int32(protocolVersion), "linux")
        }
        join.connectionSettings = .with { ($0.autoSubscribe, $0.adaptiveStream) = (false, false) }
        // Messages without required fields: nothing can be wrong with them.
        let wrapped = LiveKitWrappedJoinRequest.with { $0.joinRequest = (try? join.serializedBytes()) ?? $0.joinRequest }
        let digits = Base64.encode((try? wrapped.serializedBytes()) ?? [], alphabet: .url)
        // LiveKit's own servers insist on the padding.
        return digits + String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
    }
}
