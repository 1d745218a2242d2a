// Everything that a start of the element needs, derived from the settings.
import DecartProtocol
import DecartSession
import ICE
import MediaPipeline
import Signalling
import WebRTCTransport

/// Everything that one start of the element needs, validated: no wrong property can cause a failure after this.
struct SessionPlan: Sendable {
    /// URL without an API key; each attempt adds the current one.
    var base: ServiceURL
    var model: DecartModel
    /// Further query items of the control channel.
    var options: [Option]
    /// Read from property, environment or file; nil if only the application or `fetcher` provides keys.
    var key: APIKey?
    /// Backend that issues short-lived keys.
    var fetcher: APIKeyFetcher?
    var trust: TLSTrust
    var configuration: SessionConfiguration
    /// Another session to watch; nil: the element starts a session of its own.
    var subscribeToken: SubscribeToken?
    /// Media settings for a direct connection and for a room.
    var direct: MediaSettings
    var room: MediaSettings
    /// Size of the frames that are sent, for any transport.
    var size: CurrentFrameSize
    /// Warns that `codec=auto` lacks the codec that the service prefers.
    var codecWarning: String?
    /// Warns of properties that a viewer ignores.
    var viewerWarning: String?
    /// Format of the output, unless downstream's caps fix another one.
    var output: VideoFormat
}

extension SessionPlan {
    /// Validates the settings; the error says what the user has to change.
    /// - Parameter hasKeyHandler: true if the application handles `request-api-key`.
    init(_ settings: TransformSettings, hasKeyHandler: Bool) throws(SessionError) {
        do throws(ProtocolError) {
            // Checked first, so that a wrong token is reported before any other fault.
            subscribeToken = try settings.subscribeToken.map { token throws(ProtocolError) in
                try SubscribeToken(token.reveal())
            }
            base = try ServiceURL(base: settings.baseURL, allowInsecure: settings.insecure)
            model = try DecartModel(named: settings.model)
            options = try Self.options(settings, model)
            trust = settings.caFile.map { .only(file: $0) } ?? .system
            fetcher = try Self.fetcher(settings, trust)
            key = try Self.key(settings, isRequired: !hasKeyHandler && fetcher == nil)
            let asked = try Self.content(settings, model)
            let content = subscribeToken == nil ? asked : SessionContent()
            configuration = SessionConfiguration(
                initial: content, retry: settings.retryPolicy,
                connectionTimeout: settings.connectionTimeout)
            configuration.keepsMediaWhileReconnecting = true
            configuration.maximumDuration = settings.maximumDuration
            configuration.transport = settings.transport
            // The output's format must be fixed before `auto` has found the transport. It is that of a room, which the
            // service uses today.
            let format = try Self.format(settings, model)
            output = format
            size = CurrentFrameSize(width: format.width, height: format.height)
            let servers = try Self.servers(settings, isLoopback: base.isLoopback)
            direct = try Self.media(settings, model, .webrtc, servers, size)
            room = try Self.media(settings, model, .livekit, servers, size)
            room.room = RoomAccess(
                trust: settings.serverTrust, allowsInsecure: settings.insecure,
                openTimeout: settings.connectionTimeout, prefersSingle: settings.singleConnection)
            if settings.transport == .auto {
                configuration.knownTransport = TransportCache.shared.transport(of: service)
            }
            if let subscribeToken {
                configuration.isViewer = true
                // The token determines the transport, whatever `transport` is set to.
                configuration.transport = subscribeToken.transport == .livekit ? .livekit : .webrtc
                direct.connection.direction = .recvonly
                (direct.isViewer, room.isViewer) = (true, true)
                if !asked.isPassthrough {
                    viewerWarning = "A viewer cannot change a session: prompt and reference-image are ignored."
                }
            } else if settings.transport != .webrtc, settings.codec == .auto, settings.encoder.isEmpty,
                !VideoCodec.h264.isAvailable
            {
                codecWarning =
                    "No complete H.264 codec is installed, so VP8 is sent although the service prefers H.264. "
                    + "Install \(VideoCodec.h264.encoders.joined(separator: " or ")), and "
                    + "\(VideoCodec.h264.decoders.joined(separator: " or "))."
            }
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    /// Service for which `auto` remembers the transport.
    var service: TransportCache.Service { TransportCache.Service(url: base.description, model: model.name) }

    func media(for transport: MediaTransportKind) -> MediaSettings { transport == .webrtc ? direct : room }

    /// Settings for the transport that is expected until the service shows which one it uses.
    var expected: MediaSettings { media(for: configuration.transport == .webrtc ? .webrtc : .livekit) }

    private static func media(
        _ settings: TransformSettings, _ model: DecartModel, _ transport: MediaTransportKind, _ servers: [ICEServer],
        _ size: CurrentFrameSize
    ) throws(ProtocolError) -> MediaSettings {
        let format = try format(settings, model, transport)
        let range = settings.bitrateRange(transport)
        var media = MediaSettings(
            video: VideoSendSettings(
                size: size, framerate: min(format.framerate, settings.maxFramerate(transport)),
                bitrate: settings.startBitrate(transport), encoder: settings.encoder),
            format: format, followsReceived: settings.outputSize == .received)
        media.label = settings.trackLabel
        // No simulcast with VP9, which has layers of its own (SVC).
        media.video.simulcast = settings.simulcast && transport == .livekit && settings.videoCodec(transport) != .vp9
        media.connection.codec = settings.videoCodec(transport)
        media.connection.bitrateRange = range
        media.connection.startBitrate = settings.startBitrate(transport)
        media.connection.iceTransportPolicy = settings.icePolicy == .relay ? .relay : .all
        media.connection.jitterBufferLatency = settings.latency
        media.connection.maximumReceiveBitrate = max(range.upperBound, 2_500_000)
        media.connection.iceServers = servers
        media.connection.openTunnel = RelayTunnels.opener(trusting: settings.serverTrust)
        return media
    }

    private static func options(_ settings: TransformSettings, _ model: DecartModel) throws(ProtocolError) -> [Option] {
        var options: [Option] = []
        if settings.timestamps == .capture { options.append(("pixel_latency", "1")) }
        if let resolution = settings.resolution.query { options.append(("resolution", resolution)) }
        if settings.speed == .fast {
            guard model.supportsFastSpeed else {
                throw ProtocolError(.invalidOptions, "The model \(model.name) does not support speed=fast.")
            }
            options.append(("speed", "fast"))
        }
        return options
    }

    typealias Option = (name: String, value: String)

    private static func content(_ settings: TransformSettings, _ model: DecartModel) throws(ProtocolError)
        -> SessionContent
    {
        let image = try settings.referenceImage?.image(for: model)
        let prompt = settings.prompt.isEmpty ? nil : try Prompt(settings.prompt, enrich: settings.enrich)
        return SessionContent(prompt: prompt, image: image)
    }

    /// Format of the output, and of the sent frames unless `auto` finds another transport than expected.
    static func format(_ settings: TransformSettings, _ model: DecartModel) throws(ProtocolError) -> VideoFormat {
        try format(settings, model, settings.transport == .webrtc ? .webrtc : .livekit)
    }

    private static func format(
        _ settings: TransformSettings, _ model: DecartModel, _ transport: MediaTransportKind
    ) throws(ProtocolError) -> VideoFormat {
        let own = model.format(for: transport)
        let width = settings.width > 0 ? settings.width : own?.width
        let height = settings.height > 0 ? settings.height : own?.height
        guard let width, let height, let framerate = settings.framerate > 0 ? settings.framerate : own?.framerate else {
            throw ProtocolError(
                .modelNotFound,
                "The frame size and rate of the model \(model.name) are unknown. "
                    + "Use one of \(DecartModel.knownNames.joined(separator: ", ")), "
                    + "or set width, height and framerate.")
        }
        // I420 halves both sides for chroma, so odd sizes are rounded up.
        let even = VideoFormat(width: (width + 1) & ~1, height: (height + 1) & ~1, framerate: framerate)
        return even.oriented(settings.orientation == .portrait ? .portrait : .landscape)
    }

    private static func servers(_ settings: TransformSettings, isLoopback: Bool) throws(ProtocolError) -> [ICEServer] {
        var servers: [ICEServer] = []
        do throws(ICEServerError) {
            if !settings.stunServer.isEmpty, !(isLoopback && settings.stunServerIsDefault) {
                servers.append(try ICEServer(url: settings.stunServer))
            }
            for url in settings.turnServers { servers.append(try ICEServer(url: url)) }
        } catch {
            throw ProtocolError(.invalidOptions, "stun-server or turn-servers: \(error)")
        }
        return servers
    }
}
