// Joins a room: holds all differences between the two versions of LiveKit's signalling that matter here.
import DecartProtocol
import LiveKitProtocol
import SwiftProtobuf
import WebRTCTransport

package enum PeerConnectionMode: Sendable, Equatable {
    /// `/rtc`, which every server supports, with two peer connections. We make the publisher's offer when the server
    /// knows our track, and again when our media change. The server makes the subscriber's offer whenever our
    /// subscriptions change.
    case dual
    /// `/rtc/v1`, with one peer connection on which only we make offers: the first in the join request, together with
    /// our tracks; later ones when our media change, and when the server announces that it has more to send.
    case single

    /// Returns the peer connection to which a candidate belongs.
    func side(_ stated: LiveKitSignalTarget) -> LiveKitSignalTarget { self == .single ? .publisher : stated }

    /// Returns the direction of a kind of media on the connection that we offer; nil: none is offered.
    func direction(isPublished: Bool, isWanted: Bool) -> MediaDirection? {
        switch (self, isPublished) {
        case (.dual, let isPublished): isPublished ? .sendonly : nil
        case (.single, true): .sendrecv
        case (.single, false): isWanted ? .recvonly : nil
        }
    }

    // MARK: URL

    private static let version = "1.0.0"
    /// The newest version in which servers send nothing that is unknown here.
    private static let protocolVersion = 16

    /// - Parameter join: the request of `single`, which contains all options.
    static func url(
        _ base: String, token: APIKey, allowsInsecure: Bool, join: LiveKitJoinRequest? = nil
    ) throws(ProtocolError) -> ServiceURL {
        guard let join else {
            return try ServiceURL(
                room: base, token: token, allowInsecure: allowsInsecure,
                // Servers adapt their behaviour to `sdk`.
                options: [
                    ("protocol", "\(protocolVersion)"), ("sdk", "cpp"), ("version", version), ("auto_subscribe", "0"),
                    ("adaptive_stream", "0"),
                ])
        }
        return try ServiceURL(
            room: base, path: "/rtc/v1", token: token, allowInsecure: allowsInsecure,
            options: [("join_request", wrapped(join))])
    }

    private static func wrapped(_ join: LiveKitJoinRequest) -> String {
        var join = join
        join.clientInfo = .with {
            ($0.sdk, $0.version, $0.protocol, $0.os) = (.cpp, version, Int32(protocolVersion), "linux")
        }
        join.connectionSettings = .with { ($0.autoSubscribe, $0.adaptiveStream) = (false, false) }
        // Encoding cannot fail: the messages have no required fields.
        let wrapped = LiveKitWrappedJoinRequest.with {
            $0.joinRequest = (try? join.serializedBytes()) ?? $0.joinRequest
        }
        let digits = Base64.encode((try? wrapped.serializedBytes()) ?? [], alphabet: .url)
        // LiveKit's own servers require the padding.
        return digits + String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
    }
}
