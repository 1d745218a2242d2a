import GStreamerKit

/// The properties of `decarttransform` for a configuration.
struct ElementProperties: Sendable {
    private let texts: [(name: String, value: String)]
    private let turnServers: [String]

    init(_ configuration: DecartConfiguration, _ options: RealtimeConfiguration) throws(DecartError) {
        let (model, connection, video) = (options.model, options.connection, options.media.video)
        guard model.isKnown || (model.width > 0 && model.height > 0 && model.fps > 0) else {
            throw .modelNotFound("The model \(model.name) is unknown. Give a ModelDefinition with its size and rate.")
        }
        let codec = video.preferredCodec.lowercased()
        guard ["vp8", "h264", "vp9", "auto"].contains(codec) else {
            throw .invalidInput("preferredCodec is \(video.preferredCodec), but must be VP8, H264, VP9 or auto.")
        }
        guard (1.0...600).contains(connection.connectionTimeout) else {
            throw .invalidInput("connectionTimeout must lie between 1 and 600 seconds.")
        }
        guard (0...100_000_000).contains(video.maxBitrate), (10_000...100_000_000).contains(video.minBitrate),
            video.maxBitrate == 0 || video.minBitrate <= video.maxBitrate
        else {
            throw .invalidInput("minBitrate must lie between 10,000 and maxBitrate, and that below 100,000,000 bit/s.")
        }
        guard video.maxFramerate > 0 else { throw .invalidInput("maxFramerate must be positive.") }
        var texts = [
            ("api-key", configuration.apiKey), ("model", model.name), ("codec", codec),
            ("connection-timeout", "\(Int(connection.connectionTimeout.rounded()))"),
            ("max-bitrate", "\(video.maxBitrate)"), ("min-bitrate", "\(video.minBitrate)"),
            ("ice-transport-policy", connection.rtcConfiguration.iceTransportPolicy.rawValue),
            ("transport", connection.rtcConfiguration.transport.rawValue),
            // Frames of the service only, as a remote track has them.
            ("fallback", "none"),
        ]
        if let url = configuration.baseURL { texts.append(("base-url", url)) }
        if !model.isKnown { texts += [("width", "\(model.width)"), ("height", "\(model.height)")] }
        if !model.isKnown || video.maxFramerate < model.fps {
            texts.append(("framerate", "\(min(model.fps, video.maxFramerate))"))
        }
        var (stun, turn): (String?, [String]) = (nil, [])
        for server in connection.iceServers {
            guard let colon = server.firstIndex(of: ":") else { throw Self.badServer }
            let scheme = server[..<colon].lowercased()
            let rest = server[server.index(after: colon)...].drop { $0 == "/" }
            switch scheme {
            case "stun": stun = stun ?? "stun://\(rest)"
            case "turn", "turns": turn.append("\(scheme)://\(rest)")
            default: throw Self.badServer
            }
        }
        texts.append(("stun-server", stun ?? ""))
        (self.texts, turnServers) = (texts, turn)
    }

    private static var badServer: DecartError {
        .invalidInput("An ICE server must begin with stun:, turn: or turns:, and have a host.")
    }

    func apply(to element: Element) {
        for (name, value) in texts { element.set(name, value) }
        if !turnServers.isEmpty { element.set("turn-servers", GValueBox(strings: turnServers)) }
    }
}
