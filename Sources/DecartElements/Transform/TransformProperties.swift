// The properties and signals of `decarttransform`. Names are the contract; docs/PROPERTIES.md says more than a blurb
// holds.
import DecartProtocol
import DecartSession
import GStreamerKit

enum TransformProperties {
    static let promptProperties: Set<String> = ["prompt", "enrich", "reference-image"]

    static let signals = [
        SignalSpec(name: "encoder-setup", parameters: [.element]),
        SignalSpec(name: "prompt-result", parameters: [.uint64, .string, .boolean, .string, .uint]),
        // Emitted on the session's thread, for which NULL waits: a handler must not wait for a thread that sets the
        // state.
        SignalSpec(name: "request-api-key", result: .string),
        SignalSpec(name: "set-prompt", parameters: [.string, .boolean], result: .uint64, isAction: true),
        SignalSpec(name: "set-image", parameters: [.bytes, .string, .boolean], result: .uint64, isAction: true),
        SignalSpec(name: "connect", isAction: true),
        SignalSpec(name: "disconnect", isAction: true),
        SignalSpec(name: "extend-session", parameters: [.uint], isAction: true),
    ]

    static let specs =
        settings.specs + SessionSnapshot.properties.specs + [
            PropertySpec(
                "stats", nick: "Statistics",
                blurb: "Counters, times in ns, bitrates in bit/s; -1 = unknown. Readable in any state",
                .structure, access: .readOnly)
        ]

    static let settings = PropertyTable<TransformSettings>([
        // MARK: Service
        .string(
            "base-url", \.baseURL, nick: "Base URL",
            blurb: "Service URL: wss:// or https://; ws:// and http:// only for this machine or with insecure=true",
            shown: URLRedaction.redacted),
        .boolean(
            "insecure", \.insecure, nick: "Insecure",
            blurb: "Allow an unencrypted base-url to another machine (the API key travels in clear)"),
        .optionalString(
            "ca-file", \.caFile, nick: "CA file",
            blurb: "PEM file with certificate authorities for base-url and turns: servers (unset = the system's)",
            isUnset: { _ in false }),
        .secret(
            "api-key", \.apiKey, nick: "API key",
            blurb: "API key or client token (unset = environment DECART_API_KEY, then api-key-file); write-only"),
        .optionalString(
            "api-key-file", \.apiKeyFile, nick: "API key file",
            blurb: "File that holds the API key, read at each start (unset = none)", isUnset: { _ in false }),
        .optionalString(
            "api-key-url", \.apiKeyURL, nick: "API key URL",
            blurb: "Your backend, requested by POST for a short-lived key at each attempt (unset = none)",
            shown: URLRedaction.redacted),
        Property(
            PropertySpec(
                "api-key-headers", nick: "API key headers",
                blurb: "Header fields for api-key-url: headers,Authorization=\"Bearer …\"; write-only", .structure,
                access: .writeOnly),
            set: { settings, value in
                let headers = value.structure
                settings.apiKeyHeaders = (headers?.fields ?? []).map { ($0, Secret(headers?.string($0) ?? "")) }
            }),
        .string(
            "model", \.model, nick: "Model",
            blurb: "\(DecartModel.knownNames.joined(separator: ", ")), or a custom one with width, height and framerate"
        ),
        .enumeration(
            "transport", \.transport, nick: "Transport",
            blurb: "How media travel; codec, bitrate and frame rate follow it where they are unset"),
        .enumeration(
            "resolution", \.resolution, nick: "Resolution",
            blurb: "Resolution to request from the service; output-size decides what leaves the element"),
        .enumeration(
            "speed", \.speed, nick: "Speed", blurb: "Speed to request from the service; not every model has both"),

        // MARK: Video format
        .int(
            "width", \.width, in: 0...8192, nick: "Width",
            blurb: "Width of sent and returned frames, pixels (0 = the model's)"),
        .int(
            "height", \.height, in: 0...8192, nick: "Height",
            blurb: "Height of sent and returned frames, pixels (0 = the model's)"),
        .int(
            "framerate", \.framerate, in: 0...240, nick: "Frame rate",
            blurb: "Frames per second of the output (0 = the model's)"),
        .enumeration(
            "orientation", \.orientation, nick: "Orientation",
            blurb: "Portrait swaps width and height; auto takes the input's shape when the element starts",
            mutability: .playing),
        .enumeration(
            "fit", \.fit, nick: "Fit", blurb: "How an input of another aspect ratio is brought to the model's size",
            mutability: .playing),

        // MARK: Prompt
        .string(
            "prompt", \.prompt, nick: "Prompt",
            blurb: "Prompt, at most 1000 characters (empty without reference-image = passthrough)", mutability: .playing
        ),
        .boolean(
            "enrich", \.enrich, nick: "Enrich", blurb: "Let the service elaborate the prompt", mutability: .playing),
        .optionalString(
            "reference-image", \.referenceImagePath, nick: "Reference image",
            blurb: "Path of a JPEG, PNG, WebP or TIFF file, at most 10 MiB, sent to the service (unset = none)",
            mutability: .playing),

        // MARK: Connection
        .string(
            "stun-server", \.stunServer, empty: "", nick: "STUN server",
            blurb: "stun://host:port (empty = none); the default is not used if the service is on this machine",
            shown: URLRedaction.redacted),
        .strings(
            "turn-servers", \.turnServers, nick: "TURN servers",
            blurb: "turn://user:password@host:port?transport=udp|tcp or turns:// (TLS), each percent-encoded",
            shown: URLRedaction.redacted),
        .enumeration(
            "ice-transport-policy", \.icePolicy, nick: "ICE transport policy",
            blurb: "Which candidate pairs may be used"),
        .boolean(
            "single-connection", \.singleConnection, nick: "Single connection",
            blurb: "In a room, use one peer connection for both directions (LiveKit servers from 1.10 on)"),
        .duration(
            "connection-timeout", \.connectionTimeout, of: .seconds(1), in: 1...600, nick: "Connection timeout",
            blurb: "Seconds for opening the control channel, and again for connecting the media"),

        // MARK: Encoding
        .uint(
            "min-bitrate", \.minBitrate, in: 10_000...100_000_000, nick: "Minimum bitrate",
            blurb: "Lowest video bitrate to send, bit/s"),
        .uint(
            "max-bitrate", \.maxBitrate, in: 0...100_000_000, nick: "Maximum bitrate",
            blurb: "Highest video bitrate to send, bit/s (0 = 2500000; in a room 3500000, with VP9 3000000)"),
        .uint(
            "max-framerate", \.maxFramerate, in: 0...240, nick: "Maximum frame rate",
            blurb: "Frames per second to send at most; excess frames are dropped (0 = 26, in a room 30)"),
        .enumeration(
            "codec", \.codec, nick: "Codec", blurb: "Video codec to negotiate; only this one is offered"),
        .string(
            "encoder", \.encoder, nick: "Encoder",
            blurb: "Element factory or bin description of the encoder (empty = chosen and tuned for live video)"),
        .boolean(
            "simulcast", \.simulcast, nick: "Simulcast",
            blurb: "In a room, send three sizes (two below 960 pixels); needs two more encoders; not with VP9"),

        // MARK: Output
        .duration(
            "latency", \.latency, of: .milliseconds(1), in: 0...10_000, nick: "Latency",
            blurb: "Milliseconds that the jitter buffer waits for a missing packet"),
        .enumeration(
            "timestamps", \.timestamps, nick: "Timestamps",
            blurb: "Timestamps of returned frames; with capture, stats has glass-to-glass-time"),
        .duration(
            "min-latency", \.minLatency, of: .milliseconds(1), in: 0...60_000, nick: "Minimum latency",
            blurb: "Least latency to report with timestamps=capture, milliseconds; the measured delay may raise it"),
        .enumeration(
            "output-size", \.outputSize, nick: "Output size", blurb: "Size of the frames that leave the element"),
        .enumeration(
            "fallback", \.fallback, nick: "Fallback",
            blurb: "What leaves the element while the service sends no frames",
            mutability: .playing),

        // MARK: Tracks
        .optionalString(
            "track-name", \.trackName, nick: "Track name",
            blurb: "Name of the video track: in a room its name, otherwise in the msid (unset = by track-source)"),
        .enumeration(
            "track-source", \.trackSource, nick: "Track source",
            blurb: "Source of the video track as announced in a room"),
        .boolean(
            "mute-video", \.muteVideo, nick: "Mute video",
            blurb: "Send black frames, 5 a second, instead of the input; track and session stay", mutability: .playing),
        .boolean(
            "mute-audio", \.muteAudio, nick: "Mute audio",
            blurb: "Send silence instead of the input of audio_sink; track and session stay", mutability: .playing),
        .boolean(
            "publish-audio", \.publishAudio, nick: "Publish audio",
            blurb: "Offer the audio track; false withdraws it, the session stays and audio_src has silence",
            mutability: .playing),
        .boolean(
            "publish-video", \.publishVideo, nick: "Publish video",
            blurb: "Offer the video track; false withdraws it, the session stays and fallback leaves the element",
            mutability: .playing),
        .optionalString(
            "processor", \.processor, nick: "Processor",
            blurb: "Bin description that processes each raw frame before it is encoded (NULL = none)",
            mutability: .playing, isUnset: { $0.allSatisfy(\.isWhitespace) }),

        // MARK: Session
        .boolean(
            "auto-connect", \.autoConnect, nick: "Auto-connect",
            blurb: "Connect when the element starts; otherwise the action signal connect does"),
        .int(
            "max-retries", \.maxRetries, in: -1...1_000_000, nick: "Maximum retries",
            blurb: "Retries of a lost or failed connection, after 1, 2, 4, 8, 10 s … (-1 = unlimited, 0 = none)"),
        .duration(
            "retry-delay-max", \.retryDelayMax, of: .seconds(1), in: 1...3600, nick: "Maximum retry delay",
            blurb: "Longest wait before a retry, seconds"),
        .duration(
            "max-session-duration", \.maxSessionDuration, of: .seconds(1), in: 0...2_592_000,
            nick: "Maximum session duration",
            blurb: "Seconds until the session ends with \"session expired\", reconnects included (0 = no limit)",
            mutability: .playing),
        .duration(
            "statistics-interval", \.statisticsInterval, of: .milliseconds(1), in: 0...86_400_000,
            nick: "Statistics interval",
            blurb: "Milliseconds between element messages with stats (0 = none)", mutability: .playing),
    ])
}

extension Property {
    /// Write-only; "" counts as unset.
    fileprivate static func secret(_ name: String, _ path: Path<Secret?>, nick: String, blurb: String) -> Property {
        Property(
            PropertySpec(name, nick: nick, blurb: blurb, .string(default: nil), access: .writeOnly),
            set: { $0[keyPath: path] = $1.string.flatMap { $0.isEmpty ? nil : Secret($0) } })
    }
}
