// The URL of a room's signalling connection.
import DecartProtocol
import LiveKitProtocol

enum RoomURL {
    private static let version = "1.0.0"
    /// The newest version in which servers send nothing that is unknown here.
    private static let protocolVersion = 16

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
            options += [("reconnect", "1"), ("sid", resume.sid), ("reconnect_reason", "\(resume.reason.rawValue)")]
        }
        return try ServiceURL(room: base, token: token, allowInsecure: allowsInsecure, options: options)
    }
}
