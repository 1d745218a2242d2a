// The URL of a room's signalling connection.
import DecartProtocol
import LiveKitProtocol
import Network

enum RoomURL {
    static let version = "1.0.0"
    /// The newest version in which servers send nothing that is unknown here.
    static let protocolVersion = 16

    /// - Parameters:
    ///   - takesTrailers: The server leaves the trailers of frames (see `FrameTrailer`) in place.
    ///   - request: our tracks and their offer, which only one connection takes, or the parameters of a resume. SyncState
    ///     follows as a message: with its descriptions, a URL would exceed the limits of many proxies.
    static func make(
        _ base: String, token: Secret, allowsInsecure: Bool, takesTrailers: Bool = false,
        for request: LiveKitJoinRequest = .init(), usesOneConnection: Bool = false
    ) throws(ProtocolError) -> ServiceURL {
        try ServiceURL(
            room: base, path: usesOneConnection ? "/rtc/v1" : "/rtc", token: APIKey(token.reveal()),
            allowInsecure: allowsInsecure,
            options: usesOneConnection
                ? packed(request, takesTrailers) : TwoConnections.query(request, takesTrailers))
    }

    private static func packed(
        _ request: LiveKitJoinRequest, _ takesTrailers: Bool
    ) -> [(name: String, value: String)] {
        var request = request
        // Servers adapt their behaviour to `sdk`.
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
        return [("join_request", text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4))]
    }
}
