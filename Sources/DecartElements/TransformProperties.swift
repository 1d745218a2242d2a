// Properties and signals of `decarttransform`: the names are the API, the blurbs its documentation.
import DecartProtocol
import DecartSession
import GStreamerKit

enum TransformProperties {
    static let promptProperties: Set<String> = ["prompt", "enrich", "reference-image"]

    static let serviceStatusType = "GstDecartServiceStatus"

    static let signals = [
        SignalSpec(name: "encoder-setup", parameters: [.element]),
        SignalSpec(name: "prompt-result", parameters: [.uint64, .string, .boolean, .string, .uint]),
        // Emitted on the session's thread. A state change to READY waits for it, so a handler must not wait for a
        // thread that changes the state.
        SignalSpec(name: "request-api-key", result: .string),
        SignalSpec(name: "set-prompt", parameters: [.string, .boolean], result: .uint64, isAction: true),
        SignalSpec(name: "set-image", parameters: [.bytes, .string, .boolean], result: .uint64, isAction: true),
        SignalSpec(name: "connect", isAction: true),
        SignalSpec(name: "disconnect", isAction: true),
        SignalSpec(name: "extend-session", parameters: [.uint], isAction: true),
    ]

    static let connectionStateType = "GstDecartConnectionState"
    static let connectionStates: [(value: Int, nick: String, blurb: String)] = SessionState.allCases.enumerated().map {
        ($0, $1.rawValue, $1.summary)
    }

    static let orientations: [(value: Int, nick: String, blurb: String)] = [
        (0, "auto", "As the input is displayed"), (1, "landscape", "Wider than high"), (2, "portrait", "Higher than wide"),
    ]

    static let specs: [PropertySpec] = [
        PropertySpec(
            "base-url", nick: "Base URL",
            blurb: "Where the service is: wss:// or https://; ws:// and http:// only for this machine, or with insecure=true",
            .string(default: ServiceURL.defaultBase)),
        PropertySpec(
            "insecure", nick: "Insecure",
            blurb: "Allow an unencrypted base-url to another machine (the API key travels in clear); never relaxes certificate checks",
            .boolean(default: false)),
        PropertySpec(
            "ca-file", nick: "CA file",
            blurb: "PEM file with certificate authorities to trust for base-url in place of the system's (unset = the system's), and for turns: servers besides them",
            .string(default: nil)),
        PropertySpec(
            "api-key", nick: "API key",
            blurb: "API key or short-lived client token; unset = environment DECART_API_KEY, else api-key-file. Cannot be read back",
            .string(default: nil), access: .writeOnly),
        PropertySpec(
            "api-key-file", nick: "API key file",
            blurb: "File that holds the API key, read at each start (unset = none)", .string(default: nil)),
        PropertySpec(
            "api-key-url", nick: "API key URL",
            blurb: "Your own backend: asked by POST for a short-lived key at each attempt, answers {apiKey, expiresAt} (unset = none); queries read back redacted",
            .string(default: nil)),
        PropertySpec(
            "api-key-headers", nick: "API key headers",
            blurb: "Headers for api-key-url as a structure: headers,Authorization=\"Bearer …\". Cannot be read back",
            .structure, access: .writeOnly),
        PropertySpec(
            "model", nick: "Model",
            blurb: "Known names: \(DecartModel.knownNames.joined(separator: ", ")); any other one is a custom model and needs "
                + "width, height and framerate",
            .string(default: DecartModel.defaultName)),
        PropertySpec(
            "transport", nick: "Transport",
            blurb: "How the media travel; max-bitrate, max-framerate, codec and the model's size and rate follow it where they are unset",
            .enumeration(
                type: "GstDecartTransport",
                values: [
                    (0, "auto", "What the service turns out to speak"), (1, "livekit", "A LiveKit room (the live service)"),
                    (2, "webrtc", "A direct connection, negotiated over the control channel"),
                ], default: 0)),
        PropertySpec(
            "resolution", nick: "Resolution",
            blurb: "Resolution to ask the service for; output-size=received, or width and height, let it out of the element",
            .enumeration(
                type: "GstDecartResolution",
                values: [(0, "default", "The model's own"), (1, "720p", "1280x720"), (2, "1080p", "1920x1080")], default: 0)),
        PropertySpec(
            "speed", nick: "Speed", blurb: "Fast costs quality; not every model has it",
            .enumeration(
                type: "GstDecartSpeed", values: [(0, "standard", "The model's own"), (1, "fast", "Lower latency")], default: 0)),
        PropertySpec(
            "width", nick: "Width", blurb: "Width of the picture sent and returned, pixels (0 = the model's)",
            .int(min: 0, max: 8192, default: 0)),
        PropertySpec(
            "height", nick: "Height", blurb: "Height of the picture sent and returned, pixels (0 = the model's)",
            .int(min: 0, max: 8192, default: 0)),
        PropertySpec(
            "framerate", nick: "Frame rate", blurb: "Frames per second of the output (0 = the model's)",
            .int(min: 0, max: 240, default: 0)),
        PropertySpec(
            "orientation", nick: "Orientation",
            blurb:
                "Portrait swaps width and height; auto takes the input's shape when the element starts, and keeps what there is while it runs",
            .enumeration(type: "GstDecartOrientation", values: orientations, default: 0), mutability: .playing),
        PropertySpec(
            "fit", nick: "Fit", blurb: "How an input of another shape is brought to the model's size",
            .enumeration(
                type: "GstDecartFit",
                values: [
                    (0, "crop", "Cut off what is too much on two sides"), (1, "letterbox", "Add black borders"),
                    (2, "stretch", "Change the shape"),
                ], default: 0), mutability: .playing),
        PropertySpec(
            "prompt", nick: "Prompt",
            blurb: "What the picture is turned into, at most 1000 characters; empty without reference-image = passthrough",
            .string(default: ""), mutability: .playing),
        PropertySpec(
            "enrich", nick: "Enrich", blurb: "Let the service elaborate the prompt", .boolean(default: false),
            mutability: .playing),
        PropertySpec(
            "reference-image", nick: "Reference image",
            blurb: "Path of a JPEG, PNG, WebP or TIFF file, at most 10 MiB, sent to the service (unset = none)",
            .string(default: nil), mutability: .playing),
        PropertySpec(
            "stun-server", nick: "STUN server",
            blurb: "stun://host:port (empty = none); the default is never used when the service is on this machine",
            .string(default: TransformSettings.defaultSTUNServer)),
        PropertySpec(
            "turn-servers", nick: "TURN servers",
            blurb: "turn://user:password@host:port?transport=udp|tcp, or turns:// for TLS, each percent-encoded; credentials read back redacted",
            .strings),
        PropertySpec(
            "ice-transport-policy", nick: "ICE transport policy", blurb: "Which network paths may be used",
            .enumeration(
                type: "GstDecartICETransportPolicy",
                values: [(0, "all", "Any path"), (1, "relay", "Only through a TURN server")], default: 0)),
        PropertySpec(
            "single-connection", nick: "Single connection",
            blurb:
                "In a room, one peer connection for both directions instead of two: fewer threads and sockets, and the first picture about as soon. The result must then be in the codec that is sent. For LiveKit servers from 1.10 on; others are asked again for two, which costs a connection more each time. Viewers and direct connections do not heed it",
            .boolean(default: false)),
        PropertySpec(
            "connection-timeout", nick: "Connection timeout",
            blurb: "Seconds for opening the control channel, and again for connecting the media; queue and acknowledgements have their own clocks",
            .uint(min: 1, max: 600, default: 15)),
        PropertySpec(
            "min-bitrate", nick: "Minimum bitrate", blurb: "Lowest video bitrate to send, bit/s",
            .uint(min: 10_000, max: 100_000_000, default: 300_000)),
        PropertySpec(
            "max-bitrate", nick: "Maximum bitrate", blurb: "Highest video bitrate to send, bit/s (0 = the transport's: 2500000, in a room 3500000, VP9 3000000)",
            .uint(min: 0, max: 100_000_000, default: 0)),
        PropertySpec(
            "max-framerate", nick: "Maximum frame rate",
            blurb: "Most frames per second to send; more are dropped, fewer are never duplicated (0 = the transport's: 26, in a room 30)",
            .uint(min: 0, max: 240, default: 0)),
        PropertySpec(
            "codec", nick: "Codec", blurb: "Video codec to negotiate; exactly this one is offered",
            .enumeration(
                type: "GstDecartCodec",
                values: [
                    (0, "auto", "The service's default: VP8, in a room H.264"), (1, "vp8", "VP8"), (2, "h264", "H.264 constrained baseline"),
                    (3, "vp9", "VP9 profile 0"),
                ], default: 0)),
        PropertySpec(
            "encoder", nick: "Encoder",
            blurb: "Encoder to use: an element factory or a bin description (empty = chosen and tuned for live video)",
            .string(default: "")),
        PropertySpec(
            "simulcast", nick: "Simulcast",
            blurb: "In a room, send the picture in three sizes (two below 960 pixels) for the server to choose from; costs two more encoders, and bit rate that the best picture then lacks; not with VP9",
            .boolean(default: false)),
        PropertySpec(
            "latency", nick: "Latency",
            blurb: "Milliseconds that the jitter buffer waits for a missing packet",
            .uint(min: 0, max: 10_000, default: 100)),
        PropertySpec(
            "timestamps", nick: "Timestamps",
            blurb: "What time the returned pictures carry; stats then tells glass-to-glass-time",
            .enumeration(
                type: "GstDecartTimestamps",
                values: [
                    (0, "arrival", "When they came"),
                    (
                        1, "capture",
                        "The running time of the input frame that they show, measured by a mark of 192x32 pixels in one sent frame every 2 s; the output has it covered"
                    ),
                ], default: 0)),
        PropertySpec(
            "min-latency", nick: "Minimum latency",
            blurb:
                "Least latency to report with timestamps=capture, milliseconds (500 = what the service calls a good delay); when the measured delay needs more, more is reported with a LATENCY message",
            .uint(min: 0, max: 60_000, default: 500)),
        PropertySpec(
            "output-size", nick: "Output size", blurb: "Size of the pictures that leave the element",
            .enumeration(
                type: "GstDecartOutputSize",
                values: [
                    (0, "model", "Constant: the model's, or what downstream's caps fix"),
                    (1, "received", "Whatever the service sends; the caps follow it"),
                ], default: 0)),
        PropertySpec(
            "fallback", nick: "Fallback", blurb: "What leaves the element while the service sends nothing",
            .enumeration(
                type: "GstDecartFallback",
                values: [
                    (0, "freeze", "The last transformed picture; black before there is one"),
                    (1, "black", "Black, after half a second"),
                    (2, "passthrough", "The raw input, after half a second: only if it may be seen"),
                    (3, "none", "GAP events"),
                ], default: 0), mutability: .playing),
        PropertySpec(
            "track-name", nick: "Track name",
            blurb:
                "What others know our video track by: its name in a room, and in the msid of a direct connection, there with - for what may not stand in it (unset = in a room camera or screen_share, directly a random one)",
            .string(default: nil)),
        PropertySpec(
            "track-source", nick: "Track source", blurb: "What a room is told that our pictures are",
            .enumeration(
                type: "GstDecartTrackSource", values: [(0, "camera", "A camera's"), (1, "screen", "Of a shared screen")],
                default: 0)),
        PropertySpec(
            "mute-video", nick: "Mute video",
            blurb: "Send black at 5 pictures a second in place of the input; track and session stay",
            .boolean(default: false), mutability: .playing),
        PropertySpec(
            "mute-audio", nick: "Mute audio",
            blurb: "Send silence in place of what audio_sink is given; track and session stay",
            .boolean(default: false), mutability: .playing),
        PropertySpec(
            "publish-audio", nick: "Publish audio",
            blurb:
                "Offer the sound of audio_sink at all; false withdraws the track while connected, true brings it back. The session stays, and audio_src gives silence meanwhile",
            .boolean(default: true), mutability: .playing),
        PropertySpec(
            "publish-video", nick: "Publish video",
            blurb:
                "Offer our pictures at all; false withdraws the track while connected, and nothing is encoded or sent, true brings it back. The session stays, and what leaves the element meanwhile is what fallback says",
            .boolean(default: true), mutability: .playing),
        PropertySpec(
            "processor", nick: "Processor",
            blurb:
                "Works on each picture before it is encoded, and before fallback=passthrough shows it: a gst-launch description that takes and gives raw video, for background blur or overlays (NULL = none). Replaced while playing, the new one takes over with its first picture. One that fails, or gives nothing for 2 s, is bypassed with a warning; set again, it is tried again. Black pictures of mute-video never meet it",
            .string(default: nil), mutability: .playing),
        PropertySpec(
            "auto-connect", nick: "Auto-connect",
            blurb: "Connect when the element starts; otherwise the action signal connect does", .boolean(default: true)),
        PropertySpec(
            "max-retries", nick: "Maximum retries",
            blurb: "How often a lost or failed connection is tried again, after 1, 2, 4, 8, 10 s … (-1 = for ever, 0 = the first failure is final)",
            .int(min: -1, max: 1_000_000, default: 5)),
        PropertySpec(
            "retry-delay-max", nick: "Maximum retry delay", blurb: "Longest wait before a retry, seconds",
            .uint(min: 1, max: 3600, default: 10)),
        PropertySpec(
            "max-session-duration", nick: "Maximum session duration",
            blurb: "Seconds after which a session ends with the error \"session expired\", reconnects included; decart-session-ending is posted up to 30 s before (0 = no limit)",
            .uint(min: 0, max: 2_592_000, default: 0), mutability: .playing),
        PropertySpec(
            "statistics-interval", nick: "Statistics interval",
            blurb: "Milliseconds between element messages with stats (0 = none)",
            .uint(min: 0, max: 86_400_000, default: 0), mutability: .playing),
        PropertySpec(
            "service-status", nick: "Service status", blurb: "What the service says about itself",
            .enumeration(
                type: serviceStatusType,
                values: [(0, "unknown", "Nothing yet"), (1, "entering-queue", "It is busy"), (2, "ready", "Ready")], default: 0),
            access: .readOnly),
        PropertySpec(
            "queue-position", nick: "Queue position", blurb: "Place in the service's queue (-1 = not in a queue)",
            .int(min: -1, max: Int(Int32.max), default: -1), access: .readOnly),
        PropertySpec(
            "queue-size", nick: "Queue size", blurb: "Length of the service's queue (-1 = unknown)",
            .int(min: -1, max: Int(Int32.max), default: -1), access: .readOnly),
        PropertySpec(
            "generation-seconds", nick: "Generation seconds",
            blurb: "Seconds of generation that the service has billed (-1 = none yet)",
            .double(min: -1, max: 1e12, default: -1), access: .readOnly),
        PropertySpec(
            "subscribe-token", nick: "Subscribe token",
            blurb: "What a viewer of this session needs, and all: keep it like a key. NULL before the service says it; notify::session-id tells that it has, notify is not emitted for it",
            .privateString, access: .readOnly),
        PropertySpec(
            "session-duration", nick: "Session duration",
            blurb: "Seconds that the service lets this session last from its connection on, as the client token's constraints say (0 = no limit, or not said); its end is told like that of max-session-duration",
            .uint(min: 0, max: 1_000_000_000, default: 0), access: .readOnly),
        PropertySpec(
            "is-connected", nick: "Is connected", blurb: "connection-state is connected or generating",
            .boolean(default: false), access: .readOnly),
        PropertySpec(
            "is-in-session", nick: "Is in session", blurb: "connection-state is connecting, connected, generating or reconnecting",
            .boolean(default: false), access: .readOnly),
        PropertySpec(
            "connection-state", nick: "Connection state", blurb: "Where the session stands; notify is emitted on change",
            .enumeration(type: connectionStateType, values: connectionStates, default: 0), access: .readOnly),
        PropertySpec(
            "session-id", nick: "Session id", blurb: "The service's name for the session (NULL before it says one)",
            .string(default: nil), access: .readOnly),
        PropertySpec(
            "stats", nick: "Statistics",
            blurb: "application/x-decarttransform-stats: counters, times in ns, bitrates in bit/s, -1 = unknown; safe to read in any state",
            .structure, access: .readOnly),
    ]
}

extension SessionState {
    var summary: String {
        switch self {
        case .idle: "Not started"
        case .connecting: "Connecting, or in the service's queue"
        case .connected: "Media flows"
        case .generating: "The service generates pictures"
        case .reconnecting: "Lost, trying again"
        case .disconnected: "Ended by the application"
        case .error: "Ended by an error"
        }
    }

    var enumerationValue: Int { SessionState.allCases.firstIndex(of: self) ?? 0 }
}

extension TransformSettings {
    /// Sets the field of a property. Returns false for an unknown name.
    mutating func set(_ name: String, _ value: GValueBox) -> Bool {
        switch name {
        case "base-url": baseURL = value.string ?? ServiceURL.defaultBase
        case "insecure": insecure = value.bool ?? false
        case "ca-file": caFile = value.string
        case "api-key": apiKey = value.string.flatMap { $0.isEmpty ? nil : Secret($0) }
        case "api-key-file": apiKeyFile = value.string
        case "api-key-url": apiKeyURL = value.string.flatMap { $0.isEmpty ? nil : $0 }
        case "api-key-headers":
            let headers = value.structure
            apiKeyHeaders = (headers?.fields ?? []).map { ($0, Secret(headers?.string($0) ?? "")) }
        case "model": model = value.string ?? DecartModel.defaultName
        case "transport": transport = value.int.flatMap(Transport.init) ?? .auto
        case "resolution": resolution = value.int.flatMap(Resolution.init) ?? .standard
        case "speed": speed = value.int.flatMap(Speed.init) ?? .standard
        case "width": width = value.int ?? 0
        case "height": height = value.int ?? 0
        case "framerate": framerate = value.int ?? 0
        case "orientation": orientation = value.int.flatMap(OrientationChoice.init) ?? .auto
        case "fit": fit = value.int.flatMap(Fit.init) ?? .crop
        case "prompt": prompt = value.string ?? ""
        case "enrich": enrich = value.bool ?? false
        case "reference-image": referenceImage = value.string.flatMap { $0.isEmpty ? nil : $0 }
        case "stun-server":
            stunServer = value.string ?? ""
            stunServerIsDefault = stunServer == Self.defaultSTUNServer
        case "turn-servers": turnServers = value.strings ?? []
        case "ice-transport-policy": icePolicy = value.int.flatMap(ICEPolicy.init) ?? .all
        case "single-connection": singleConnection = value.bool ?? false
        case "connection-timeout": connectionTimeout = value.int ?? 15
        case "min-bitrate": minBitrate = value.int ?? 300_000
        case "max-bitrate": maxBitrate = value.int ?? 0
        case "max-framerate": maxFramerate = value.int ?? 0
        case "simulcast": simulcast = value.bool ?? false
        case "codec": codec = value.int.flatMap(Codec.init) ?? .auto
        case "encoder": encoder = value.string ?? ""
        case "latency": latency = value.int ?? 100
        case "timestamps": timestamps = value.int.flatMap(Timestamps.init) ?? .arrival
        case "min-latency": minLatency = value.int ?? 500
        case "output-size": outputSize = value.int.flatMap(OutputSize.init) ?? .model
        case "fallback": fallback = value.int.flatMap(Fallback.init) ?? .freeze
        case "track-name": trackName = value.string.flatMap { $0.isEmpty ? nil : $0 }
        case "track-source": trackSource = value.int.flatMap(TrackSource.init) ?? .camera
        case "mute-video": muteVideo = value.bool ?? false
        case "mute-audio": muteAudio = value.bool ?? false
        case "publish-audio": publishAudio = value.bool ?? true
        case "publish-video": publishVideo = value.bool ?? true
        case "processor": processor = value.string.flatMap { $0.allSatisfy(\.isWhitespace) ? nil : $0 }
        case "statistics-interval": statisticsInterval = value.int ?? 0
        case "auto-connect": autoConnect = value.bool ?? true
        case "max-retries": maxRetries = value.int ?? 5
        case "retry-delay-max": retryDelayMax = value.int ?? 10
        case "max-session-duration": maxSessionDuration = value.int ?? 0
        default: return false
        }
        return true
    }

    func value(_ name: String) -> GValueBox? {
        switch name {
        case "base-url": GValueBox(URLRedaction.redacted(baseURL))
        case "insecure": GValueBox(insecure)
        case "ca-file": GValueBox(caFile)
        case "api-key-file": GValueBox(apiKeyFile)
        case "api-key-url": GValueBox(apiKeyURL.map(URLRedaction.redacted))
        case "model": GValueBox(model)
        case "transport": GValueBox(enumeration: "GstDecartTransport", transport.rawValue)
        case "resolution": GValueBox(enumeration: "GstDecartResolution", resolution.rawValue)
        case "speed": GValueBox(enumeration: "GstDecartSpeed", speed.rawValue)
        case "width": GValueBox(int: width)
        case "height": GValueBox(int: height)
        case "framerate": GValueBox(int: framerate)
        case "orientation": GValueBox(enumeration: "GstDecartOrientation", orientation.rawValue)
        case "fit": GValueBox(enumeration: "GstDecartFit", fit.rawValue)
        case "prompt": GValueBox(prompt)
        case "enrich": GValueBox(enrich)
        case "reference-image": GValueBox(referenceImage)
        case "stun-server": GValueBox(URLRedaction.redacted(stunServer))
        case "turn-servers": GValueBox(strings: turnServers.map(URLRedaction.redacted))
        case "ice-transport-policy": GValueBox(enumeration: "GstDecartICETransportPolicy", icePolicy.rawValue)
        case "single-connection": GValueBox(singleConnection)
        case "connection-timeout": GValueBox(uint: connectionTimeout)
        case "min-bitrate": GValueBox(uint: minBitrate)
        case "max-bitrate": GValueBox(uint: maxBitrate)
        case "max-framerate": GValueBox(uint: maxFramerate)
        case "simulcast": GValueBox(simulcast)
        case "codec": GValueBox(enumeration: "GstDecartCodec", codec.rawValue)
        case "encoder": GValueBox(encoder)
        case "latency": GValueBox(uint: latency)
        case "timestamps": GValueBox(enumeration: "GstDecartTimestamps", timestamps.rawValue)
        case "min-latency": GValueBox(uint: minLatency)
        case "output-size": GValueBox(enumeration: "GstDecartOutputSize", outputSize.rawValue)
        case "fallback": GValueBox(enumeration: "GstDecartFallback", fallback.rawValue)
        case "track-name": GValueBox(trackName)
        case "track-source": GValueBox(enumeration: "GstDecartTrackSource", trackSource.rawValue)
        case "mute-video": GValueBox(muteVideo)
        case "mute-audio": GValueBox(muteAudio)
        case "publish-audio": GValueBox(publishAudio)
        case "publish-video": GValueBox(publishVideo)
        case "processor": GValueBox(processor)
        case "statistics-interval": GValueBox(uint: statisticsInterval)
        case "auto-connect": GValueBox(autoConnect)
        case "max-retries": GValueBox(int: maxRetries)
        case "retry-delay-max": GValueBox(uint: retryDelayMax)
        case "max-session-duration": GValueBox(uint: maxSessionDuration)
        default: nil
        }
    }
}

extension SessionSnapshot {
    /// Value of a read-only property that shows the session; nil for any other name.
    func value(_ name: String) -> GValueBox? {
        switch name {
        case "connection-state": GValueBox(enumeration: TransformProperties.connectionStateType, state.enumerationValue)
        case "session-id": GValueBox(sessionID)
        case "service-status":
            GValueBox(
                enumeration: TransformProperties.serviceStatusType,
                ServiceStatus.allCases.firstIndex(of: serviceStatus) ?? 0)
        case "queue-position": GValueBox(int: queue?.position ?? -1)
        case "queue-size": GValueBox(int: queue?.size ?? -1)
        case "generation-seconds": GValueBox(double: generationSeconds ?? -1)
        case "subscribe-token": GValueBox(try? subscribeToken?.encoded())
        case "session-duration": GValueBox(uint: Int(clamping: granted?.components.seconds ?? 0))
        case "is-connected": GValueBox(state.isConnected)
        case "is-in-session": GValueBox(state.isInSession)
        default: nil
        }
    }

    /// Names of the properties that differ.
    func changes(since before: SessionSnapshot) -> [String] {
        var names: [String] = []
        if state != before.state { names.append("connection-state") }
        if state.isConnected != before.state.isConnected { names.append("is-connected") }
        if state.isInSession != before.state.isInSession { names.append("is-in-session") }
        if serviceStatus != before.serviceStatus { names.append("service-status") }
        if queue?.position != before.queue?.position { names.append("queue-position") }
        if queue?.size != before.queue?.size { names.append("queue-size") }
        if generationSeconds != before.generationSeconds { names.append("generation-seconds") }
        if sessionID != before.sessionID { names.append("session-id") }
        if granted != before.granted { names.append("session-duration") }
        return names
    }
}

/// Removes credentials and queries from URL text, even if it is malformed.
enum URLRedaction {
    static func redacted(_ text: String) -> String {
        // Text without "://", such as turn:host, has no scheme to keep: all of it up to the last "@" is redacted.
        let schemeEnd = text.range(of: "://") ?? text.startIndex..<text.startIndex
        var rest = text[schemeEnd.upperBound...]
        if let at = rest.lastIndex(of: "@") { rest = "redacted@" + rest[rest.index(after: at)...] }
        if let query = rest.firstIndex(of: "?") {
            let items = rest[rest.index(after: query)...]
            // `transport` of a TURN URL is no secret and useful to read.
            let shown = items.split(separator: "&").allSatisfy { $0.hasPrefix("transport=") }
            if !shown { rest = rest[...query] + "redacted" }
        }
        return String(text[..<schemeEnd.upperBound] + rest)
    }
}

extension String {
    fileprivate func range(of other: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(other) { return start..<index(start, offsetBy: other.count) }
            start = index(after: start)
        }
        return nil
    }
}
