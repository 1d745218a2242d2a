// The properties and signals of `decarttransform`. Names are the contract; docs/PROPERTIES.md says more than a blurb
// holds.
import DecartProtocol
import DecartSession
import MediaPipeline
import GStreamerKit

extension TransformSettings: PropertyStorage {
    typealias Owner = DecartTransform
}

enum TransformProperties {
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
        settings.specs + SessionSnapshot.properties.specs + QualityJudge.Verdict.properties.specs
        + BitrateSteering.properties.specs + [
            PropertySpec(
                "stats", nick: "Statistics",
                blurb: "Counters, times in ns, bitrates in bit/s; -1 = unknown. Readable in any state",
                .structure, access: .readOnly)
        ]

    static let settings = PropertyTable<TransformSettings>([
        // MARK: Service
        Property(
            PropertySpec(
                "base-url", nick: "Base URL",
                blurb:
                    "Service URL; ws:// and http:// only for this machine or with insecure=true (NULL = DECART_BASE_URL)",
                .string(default: ServiceURL.defaultBase)),
            get: { GValueBox(URLRedaction.redacted($0.service.baseURL)) },
            set: { $0.service.ownBaseURL = $1.string }),
        .boolean(
            "insecure", \.service.insecure, nick: "Insecure",
            blurb: "Allow an unencrypted base-url to another machine (the API key travels in clear)"),
        .optionalString(
            "ca-file", \.service.caFile, nick: "CA file",
            blurb: "PEM file with certificate authorities for base-url and turns: servers (unset = the system's)",
            isUnset: { _ in false }),
        .secret(
            "api-key", \.service.apiKey, nick: "API key",
            blurb: "API key or client token (unset = environment DECART_API_KEY, then api-key-file); write-only"),
        .optionalString(
            "api-key-file", \.service.apiKeyFile, nick: "API key file",
            blurb: "File that holds the API key, read at each start (unset = none)", isUnset: { _ in false }),
        .optionalString(
            "api-key-url", \.service.apiKeyURL, nick: "API key URL",
            blurb: "Your backend, requested by POST for a short-lived key at each attempt (unset = none)",
            shown: URLRedaction.redacted),
        Property(
            PropertySpec(
                "api-key-headers", nick: "API key headers",
                blurb: "Header fields for api-key-url: headers,Authorization=\"Bearer …\"; write-only", .structure,
                access: .writeOnly),
            set: { settings, value in
                let headers = value.structure
                settings.service.apiKeyHeaders = (headers?.fields ?? []).map { ($0, Secret(headers?.string($0) ?? "")) }
            }),
        .string(
            "model", \.model, nick: "Model",
            blurb:
                "\(DecartModel.currentNames.joined(separator: ", ")), or a custom one with width, height and framerate"
        ),
        .enumeration(
            "transport", \.transport, nick: "Transport",
            blurb: "How media travel; codec, bitrate and frame rate follow it where they are unset"),
        .enumeration(
            "resolution", \.resolution, nick: "Resolution",
            blurb: "Resolution to request from the service, and of the output unless width or height is set"),
        .secret(
            "query-items", \.service.queryItems, nick: "Query items",
            blurb: "Further query items of the service's URL: \"a=b&c=d\", percent-encoded (unset = none)",
            isReadable: true),
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
            blurb: "Frames per second of the output, and to send at most (0 = the model's, at most 26 directly)"
        ).playing { $0.applyLimits() },
        .enumeration(
            "orientation", \.orientation, nick: "Orientation",
            blurb: "Portrait swaps width and height; auto takes the input's shape when the element starts"
        ).playing { $0.applyOrientation() },
        .enumeration(
            "fit", \.fit, nick: "Fit", blurb: "How an input of another aspect ratio is brought to the model's size"
        ).playing { if !$0.warnOfRawProperty("fit") { $0.applyGeometry() } },

        // MARK: Prompt
        .string(
            "prompt", \.content.prompt, nick: "Prompt",
            blurb: "Prompt, at most 64 KiB; the service may take less (empty without reference-image = passthrough)"
        ).playing { $0.promptChanged("prompt") },
        .boolean(
            "enrich", \.content.enrich, nick: "Enrich", blurb: "Let the service elaborate the prompt"
        ).playing { $0.promptChanged("enrich") },
        .boolean(
            "passthrough", \.content.passthrough, nick: "Passthrough",
            blurb: "Ask a room for unchanged frames until the service has taken the first prompt or image"),
        .optionalString(
            "reference-image", \.content.referenceImageText, nick: "Reference image",
            blurb:
                "Path or data: URL of a JPEG, PNG, WebP or TIFF file, or the ID of an uploaded file, file_… (unset = none)",
            shown: SessionImage.shown
        ).playing { $0.promptChanged("reference-image") },

        // MARK: Connection
        .string(
            "stun-server", \.network.stunServer, empty: "", nick: "STUN server",
            blurb: "stun://host:port (empty = none); the default is not used if the service is on this machine",
            shown: URLRedaction.redacted),
        .strings(
            "turn-servers", \.network.turnServers, nick: "TURN servers",
            blurb: "turn://user:password@host:port?transport=udp|tcp or turns:// (TLS), each percent-encoded",
            shown: URLRedaction.redacted),
        .enumeration(
            "ice-transport-policy", \.network.icePolicy, nick: "ICE transport policy",
            blurb: "Which candidate pairs may be used"),
        .optionalString(
            "rtp-port-range", \.network.rtpPortRange, nick: "RTP port range",
            blurb: "UDP ports of media, 50000-50100; a session takes up to four of them (unset = any port)"),
        .optionalString(
            "local-address", \.network.localAddress, nick: "Local address",
            blurb: "Address or interface of this host for media, control channel and key requests (unset = all)"),
        .optionalString(
            "http-proxy", \.network.httpProxy, nick: "HTTP proxy",
            blurb: "http://[user:password@]host:port for control channel, keys, TURN over TCP and TLS (unset = none)",
            shown: URLRedaction.redacted),
        .duration(
            "connection-timeout", \.session.connectionTimeout, of: .seconds(1), in: 1...600, nick: "Connection timeout",
            blurb: "Seconds for opening the control channel, and again for connecting the media, in each attempt"),
        .duration(
            "media-timeout", \.session.mediaTimeout, of: .seconds(1), in: 0...600, nick: "Media timeout",
            blurb: "Seconds without media on a working connection after which another session begins (0 = never)"),

        // MARK: Encoding
        .uint(
            "min-bitrate", \.encoding.minBitrate, in: 10_000...100_000_000, nick: "Minimum bitrate",
            blurb: "Lowest video bitrate to send, bit/s"
        ).playing { $0.applyLimits() },
        .uint(
            "max-bitrate", \.encoding.maxBitrate, in: 0...100_000_000, nick: "Maximum bitrate",
            blurb: "Highest video bitrate to send, bit/s (0 = 2500000; in a room 3500000, with VP9 3000000)"
        ).playing { $0.applyLimits() },
        .enumeration(
            "congestion-control", \.encoding.congestionControl, nick: "Congestion control",
            blurb: "Adapts the video bitrate to the network; off is for networks with bandwidth to spare"),
        .enumeration(
            "degradation-preference", \.encoding.degradation, nick: "Degradation preference",
            blurb: "What gives way when the network does not carry the video"),
        .enumeration(
            "codec", \.encoding.codec, nick: "Codec", blurb: "Video codec to send; only this one is offered"),
        .string(
            "encoder", \.encoding.encoder, nick: "Encoder",
            blurb: "Element factory or bin description of the encoder (empty = chosen and tuned for live video)"),
        .boolean(
            "simulcast", \.encoding.simulcast, nick: "Simulcast",
            blurb: "In a room, send three sizes (two below 960 pixels); needs two more encoders; not with VP9"),

        // MARK: Output
        .int(
            "latency", \.latency, in: -1...10_000, nick: "Latency",
            blurb: "Milliseconds from the arrival of a frame to its display (-1 = as few as the network allows)"),
        .enumeration(
            "timestamps", \.timestamps, nick: "Timestamps",
            blurb: "Timestamps of returned frames; with capture, stats has glass-to-glass-time"),
        .enumeration(
            "output-size", \.outputSize, nick: "Output size", blurb: "Size of the frames that leave the element"),
        .enumeration(
            "fallback", \.fallback, nick: "Fallback",
            blurb: "What leaves the element while the service sends no frames"
        ).playing { if !$0.warnOfRawProperty("fallback") { $0.applyFallback() } },

        .duration(
            "keyframe-interval", \.keyframeInterval, of: .seconds(1), in: 0...3600, nick: "Keyframe interval",
            blurb: "Seconds after which an encoded output requests a keyframe from the service (0 = never)"
        ).playing { $0.applyKeyframeInterval() },

        // MARK: Tracks
        .boolean(
            "mute-video", \.sending.muteVideo, nick: "Mute video",
            blurb: "Send black frames instead of the input; track and session stay. standby sends nothing"
        ).playing { $0.applyMute(by: \.sending.muteVideo) },
        .boolean(
            "mute-audio", \.sending.muteAudio, nick: "Mute audio",
            blurb: "Send silence instead of the input of audio_sink; track and session stay"
        ).playing { $0.applyAudioMute() },
        .boolean(
            "audio-dtx", \.sending.audioDTX, nick: "Audio DTX",
            blurb: "Send hardly any packets in silence of a raw audio_sink (discontinuous transmission)"
        ),
        .boolean(
            "publish-audio", \.sending.publishAudio, nick: "Publish audio",
            blurb: "Offer the audio track; false withdraws it, the session stays and audio_src has silence"
        ).playing { $0.updatePublishedAudio() },
        .boolean(
            "publish-video", \.sending.publishVideo, nick: "Publish video",
            blurb: "Offer the video track; false withdraws it, the session stays and fallback leaves the element"
        ).playing { $0.updatePublishedVideo() },
        .enumeration(
            "track", \.sending.track, nick: "Track", blurb: "Name and source as which a room's video track is published"
        ),
        .optionalString(
            "processor", \.processor, nick: "Processor",
            blurb: "Bin description that processes each raw frame before it is encoded (NULL = none)",
            isUnset: { $0.allSatisfy(\.isWhitespace) }
        ).playing { $0.applyProcessor() },

        // MARK: Session
        .boolean(
            "standby", \.sending.standby, nick: "Standby",
            blurb: "Stay connected but send no media: nothing is generated or billed, and fallback leaves the element"
        ).playing { $0.applyMute(by: \.sending.standby) },
        .boolean(
            "auto-connect", \.session.autoConnect, nick: "Auto-connect",
            blurb: "Connect when the element starts; otherwise the action signal connect does"),
        .int(
            "max-retries", \.session.maxRetries, in: -1...1_000_000, nick: "Maximum retries",
            blurb: "Retries of a lost or failed connection, after 1, 2, 4, 8 s … (-1 = unlimited, 0 = none)"),
        .duration(
            "max-retry-delay", \.session.maxRetryDelay, of: .seconds(1), in: 1...3600, nick: "Maximum retry delay",
            blurb: "Longest wait before a retry, seconds; the first one is a second, each next one twice as long"),
        .duration(
            "max-session-duration", \.session.maxSessionDuration, of: .seconds(1), in: 0...2_592_000,
            nick: "Maximum session duration",
            blurb: "Seconds until the session ends with \"session expired\", reconnects included (0 = no limit)"
        ).playing { $0.applyDuration() },
        .duration(
            "renew-before", \.session.renewBefore, of: .seconds(1), in: 0...86_400, nick: "Renew before",
            blurb: "Seconds before a token's limit at which a fresh key opens the next session beside it (0 = never)"),
        .int(
            "limit-wait", \.session.limitWait, in: -1...Int(Int32.max), nick: "Limit wait",
            blurb: "Seconds to wait for one of the account's sessions to end if all are in use (-1 = for ever)"),
    ])
}

extension Property {
    /// "" counts as unset.
    static func secret(
        _ name: String, _ path: Path<Secret?>, nick: String, blurb: String, isReadable: Bool = false
    ) -> Property {
        let get: Getter = { $0[keyPath: path].map { GValueBox($0.reveal()) } }
        return Property(
            PropertySpec(
                name, nick: nick, blurb: blurb, isReadable ? .privateString : .string(default: nil),
                access: isReadable ? .readWrite : .writeOnly),
            get: isReadable ? get : nil,
            set: { $0[keyPath: path] = $1.string.flatMap { $0.isEmpty ? nil : Secret($0) } })
    }
}
