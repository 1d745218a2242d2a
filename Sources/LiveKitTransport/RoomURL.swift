// The URL of a room's signalling connection.
import DecartProtocol
import LiveKitProtocol
import Network

enum RoomURL {
    private static let version = "1.0.0"
    /// The newest version in which servers send nothing that is unknown here.
    private static let protocolVersion = 16

    /// For two connections.
    /// - Parameters:
    ///   - takesTrailers: The server leaves the trailers of frames (see `FrameTrailer`) in place.
    ///   - resume: resumes a stay. SyncState follows as a message: with its descriptions, a URL would exceed the limits
    ///     of many proxies.
    static func make(
        _ base: String, token: APIKey, allowsInsecure: Bool, takesTrailers: Bool = false,
        resume: RoomResumeRequest? = nil
    ) throws(ProtocolError) -> ServiceURL {
        // Servers adapt their behaviour to `sdk`.
        var options = [
            (name: "protocol", value: "\(protocolVersion)"), ("sdk", "cpp"), ("version", version),
            ("auto_subscribe", "0"), ("adaptive_stream", "0"),
        ]
        if takesTrailers { options.append(("capabilities", "CAP_PACKET_TRAILER")) }
        if let resume {
            options += [("reconnect", "1"), ("sid", resume.sid), ("reconnect_reason", "\(resume.reason.varint)")]
        }
        return try ServiceURL(room: base, token: token, allowInsecure: allowsInsecure, options: options)
    }

    /// For one connection: the request holds our tracks and their offer, or the parameters of a resume.
    static func make(
        _ base: String, token: APIKey, allowsInsecure: Bool, takesTrailers: Bool, joining request: LiveKitJoinRequest
    ) throws(ProtocolError) -> ServiceURL {
        var request = request
        request.clientInfo = .with {
            ($0.sdk, $0.version, $0.protocol) = (.cpp, version, Int32(protocolVersion))
            if takesTrailers { $0.capabilities = [.capPacketTrailer] }
        }
        request.connectionSettings = .with { $0.autoSubscribe = false }
        let bytes = request.serializedBytes()
        // Many proxies limit a URL to 8 KiB.
        let packed = Gzip.compressed(bytes)
        let wrapped = LiveKitWrappedJoinRequest.with {
            $0.compression = packed == nil ? .none : .gzip
            $0.joinRequest = packed ?? bytes
        }
        let text = Base64.encode(wrapped.serializedBytes(), alphabet: .url)
        // Servers require the padding.
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        return try ServiceURL(
            room: base, path: "/rtc/v1", token: token, allowInsecure: allowsInsecure,
            options: [(name: "join_request", value: text + padding)])
    }
}

extension LiveKitJoinRequest {
    init(_ resume: RoomResumeRequest) {
        self.init()
        (reconnect, participantSid) = (true, resume.sid)
        reconnectReason = resume.reason
    }
}
