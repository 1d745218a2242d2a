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

    /// - Parameters:
    ///   - takesTrailers: The server leaves the trailers of frames (see `FrameTrailer`) in place.
    ///   - join: the request of `single`, which contains all options.
    ///   - resume: resumes a stay of `dual`.
    static func url(
        _ base: String, token: APIKey, allowsInsecure: Bool, takesTrailers: Bool = false,
        join: LiveKitJoinRequest? = nil, resume: RoomResumeRequest? = nil
    ) throws(ProtocolError) -> ServiceURL {
        guard let join else {
            // Servers adapt their behaviour to `sdk`.
            var options = [
                (name: "protocol", value: "\(protocolVersion)"), ("sdk", "cpp"), ("version", version),
                ("auto_subscribe", "0"), ("adaptive_stream", "0"),
            ]
            if takesTrailers { options.append(("capabilities", "CAP_PACKET_TRAILER")) }
            if let resume {
                options += [
                    ("reconnect", "1"), ("sid", resume.sid), ("reconnect_reason", "\(resume.reason.rawValue)"),
                ]
            }
            return try ServiceURL(room: base, token: token, allowInsecure: allowsInsecure, options: options)
        }
        return try ServiceURL(
            room: base, path: "/rtc/v1", token: token, allowInsecure: allowsInsecure,
            options: [("join_request", wrapped(join, takesTrailers))])
    }

    /// Makes the URL that resumes a stay. SyncState follows as a message in both versions: with its descriptions, a URL
    /// would exceed the limits of many proxies.
    func resumeURL(
        _ base: String, token: APIKey, allowsInsecure: Bool, takesTrailers: Bool, _ resume: RoomResumeRequest
    ) throws(ProtocolError) -> ServiceURL {
        guard self == .single else {
            return try Self.url(
                base, token: token, allowsInsecure: allowsInsecure, takesTrailers: takesTrailers, resume: resume)
        }
        let join = LiveKitJoinRequest.with {
            ($0.reconnect, $0.reconnectReason, $0.participantSid) = (true, resume.reason, resume.sid)
        }
        return try Self.url(
            base, token: token, allowsInsecure: allowsInsecure, takesTrailers: takesTrailers, join: join)
    }

    private static func wrapped(_ join: LiveKitJoinRequest, _ takesTrailers: Bool) -> String {
        var join = join
        join.clientInfo = .with {
            ($0.sdk, $0.version, $0.protocol, $0.os) = (.cpp, version, Int32(protocolVersion), "linux")
            if takesTrailers { $0.capabilities = [.capPacketTrailer] }
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
