// Everything that a start of the element needs, derived from the settings.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import Network
import RTP
import Signalling
import WebRTCTransport

/// Everything that one start of the element needs, validated: no wrong property can cause a failure after this.
struct SessionPlan: Sendable {
    /// URL without an API key; each attempt adds the current one.
    var base: ServiceURL
    var model: DecartModel
    /// Further query items of the control channel.
    var options: [Option]
    /// The user's own query items, for the URLs of viewers too.
    var extraItems: [Option]
    /// Read from property, environment or file; nil if only the application or `fetcher` provides keys.
    var key: APIKey?
    /// Backend that issues short-lived keys.
    var fetcher: APIKeyFetcher?
    var trust: TLSTrust
    /// The way of the control channel, of HTTP requests, and of TURN over TCP and TLS.
    var route: NetworkRoute
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
    /// Posted at the start.
    var warnings: [SessionError] = []
    /// A sentence for the user about settings that are valid and hardly meant; posted at the start.
    var note: String?
    /// nil for a viewer, which requests nothing.
    var doubts: Doubts?
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
            base = try Self.base(settings.service)
            model = try DecartModel(named: settings.model)
            let items =
                try settings.service.queryItems.map { items throws(ProtocolError) in
                    try QueryItems.parse(items.reveal())
                } ?? []
            extraItems = items
            options = Self.options(settings).filter { option in !items.contains { $0.name == option.name } }
            trust = settings.service.caFile.map { .only(file: $0) } ?? .system
            let network = try Self.network(settings.network)
            route = try Self.route(settings.network, network.endpoint)
            fetcher = try Self.fetcher(settings.service, trust, route)
            key = try Self.key(settings.service, isRequired: !hasKeyHandler && fetcher == nil)
            // Without a dial there is nothing to refuse.
            if let key, settings.session.autoConnect { try base.check(key) }
            let asked = try Self.content(settings)
            let content = subscribeToken == nil ? asked : SessionContent()
            configuration = SessionConfiguration(
                initial: content, retry: settings.session.retryPolicy,
                connectionTimeout: settings.session.connectionTimeout)
            configuration.keepsMediaWhileReconnecting = true
            configuration.mediaTimeout = settings.session.mediaTimeout > .zero ? settings.session.mediaTimeout : nil
            configuration.maximumDuration = settings.session.maximumDuration
            configuration.limitWait = settings.session.longestLimitWait
            // A viewer's session is another's to renew, and a token that limits sessions opens no second one.
            if subscribeToken == nil, hasKeyHandler || fetcher != nil {
                configuration.renewBefore = settings.session.renewBefore
            }
            configuration.transport = settings.transport
            configuration.requestsPassthrough = settings.content.passthrough
            configuration.sendsFrameTiming = settings.timestamps == .capture
            // The output's format must be fixed before `auto` has found the transport. It is that of a room, which the
            // service uses today.
            let format = try Self.format(settings, model)
            let hasOwnSize = settings.width > 0 || settings.height > 0
            output = settings.resolution == .fullHD && !hasOwnSize ? format.fullHD : format
            size = CurrentFrameSize(width: format.width, height: format.height)
            let access = try MediaAccess(settings, network, route, isLocal: base.isLocal)
            direct = try Self.media(settings, model, .webrtc, access, size)
            room = try Self.media(settings, model, .livekit, access, size)
            configuration.secrets =
                ([key?.reveal()] + access.connection.iceServers.map(\.credential)).compactMap { $0.map { Secret($0) } }
                + (route.proxy?.secrets ?? []) + settings.service.apiKeyHeaders.map(\.value)
            if settings.transport == .auto {
                configuration.knownTransport = KnownServices.transports.value(of: service)
            }
            if let subscribeToken {
                configuration.isViewer = true
                // The token determines the transport, whatever `transport` is set to.
                configuration.transport = subscribeToken.transport == .livekit ? .livekit : .webrtc
                direct.connection.direction = .recvonly
                (direct.isViewer, room.isViewer) = (true, true)
                if !asked.isPassthrough {
                    let text = "A viewer cannot change a session: prompt and reference-image are ignored."
                    warnings.append(SessionError(.invalidInput, text, stage: .configuration))
                }
                return
            }
            var doubts = Doubts(model)
            warnings = doubts.about(settings, items) + doubts.about(asked.prompt, asked.image)
            self.doubts = doubts
            if asked.isPassthrough, !settings.content.passthrough, settings.session.autoConnect {
                note =
                    "No prompt is set: frames come back untransformed, and are billed. Set prompt or reference-image."
            }
            if settings.transport != .webrtc, settings.encoding.codec == .auto, settings.encoding.encoder.isEmpty,
                !VideoCodec.h264.isAvailable
            {
                codecWarning =
                    "No complete H.264 codec is installed, so VP8 is sent although the service prefers H.264. "
                    + "Install \(DebianPackage.list(VideoCodec.h264.encoders)), and "
                    + "\(DebianPackage.list(VideoCodec.h264.decoders))."
            }
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    /// Service for which `auto` remembers the transport.
    var service: ServiceName { ServiceName(url: base.description, model: model.name) }

    func media(for transport: MediaTransportKind) -> MediaSettings { transport == .webrtc ? direct : room }

    /// Settings for the transport that is expected until the service shows which one it uses.
    var expected: MediaSettings { media(for: configuration.transport == .webrtc ? .webrtc : .livekit) }

    private static func media(
        _ settings: TransformSettings, _ model: DecartModel, _ transport: MediaTransportKind, _ access: MediaAccess,
        _ size: CurrentFrameSize
    ) throws(ProtocolError) -> MediaSettings {
        let format = try format(settings, model, transport)
        let encoding = settings.encoding
        let codec = encoding.videoCodec(transport)
        let limits = Self.limits(settings, format, transport, size)
        var media = MediaSettings(
            transport: transport,
            video: VideoSendSettings(
                size: size, framerate: limits.framerate, bitrate: limits.startBitrate, encoder: encoding.encoder),
            connection: access.connection, servers: access.servers, openTimeout: settings.session.connectionTimeout,
            format: format, followsReceived: settings.outputSize == .received)
        media.video.degradation = encoding.degradation.preference
        // No simulcast with VP9, which has layers of its own (SVC).
        media.video.simulcast = encoding.simulcast && transport == .livekit && codec != .vp9
        media.connection.codec = codec
        media.sendsAudioDiscontinuously = settings.sending.audioDTX
        media.sharesScreen = settings.sending.track == .screenShare
        media.take(limits)
        media.connection.adaptsBitrate = encoding.congestionControl == .auto
        media.connection.maximumReceiveBitrate = max(limits.bitrates.upperBound, 2_500_000)
        return media
    }

    private static func limits(
        _ settings: TransformSettings, _ format: VideoFormat, _ transport: MediaTransportKind, _ size: CurrentFrameSize
    ) -> VideoLimits {
        let framerate = settings.sentFramerate(transport, format)
        return VideoLimits(
            framerate: framerate, bitrates: settings.encoding.bitrateRange(transport),
            startBitrate: settings.encoding.startBitrate(transport, size.current, framerate))
    }

    /// The limits by changed settings; nil: the model's frame rate is unknown.
    func limits(_ settings: TransformSettings, _ transport: MediaTransportKind) -> VideoLimits? {
        (try? Self.format(settings, model, transport)).map { Self.limits(settings, $0, transport, size) }
    }

    fileprivate static func network(_ settings: TransformSettings.Network) throws(ProtocolError) -> ICENetwork {
        func refuse(_ reason: String) -> ProtocolError { ProtocolError(.invalidOptions, reason) }
        var network = ICENetwork()
        if let text = settings.rtpPortRange {
            let ports = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
            guard ports.count == 2, let first = ports[0], let last = ports[1], first > 0, first <= last else {
                throw refuse("rtp-port-range must be two ports from 1 to 65535, the lower one first, as 50000-50100.")
            }
            network.ports = first...last
        }
        if let text = settings.localAddress {
            guard let endpoint = LocalEndpoint(text) else {
                throw refuse(
                    "local-address is neither an address nor the name of an interface. "
                        + "Set for example 192.0.2.7 or eth0; link-local addresses cannot be used.")
            }
            network.endpoint = endpoint
        }
        return network
    }

    fileprivate static func route(
        _ settings: TransformSettings.Network, _ endpoint: LocalEndpoint?
    ) throws(ProtocolError) -> NetworkRoute {
        NetworkRoute(
            proxy: try settings.httpProxy.map { text throws(ProtocolError) in try ProxyURL(text) },
            source: endpoint.map { endpoint in
                NetworkRoute.Source(absence: endpoint.absence) { endpoint.addresses() }
            })
    }

    private static func base(_ service: TransformSettings.Service) throws(ProtocolError) -> ServiceURL {
        do throws(ProtocolError) {
            return try ServiceURL(base: service.baseURL, allowInsecure: service.insecure)
        } catch {
            guard service.ownBaseURL == nil else { throw error }
            throw ProtocolError(error.code, "\(error.message) The URL is that of the environment, DECART_BASE_URL.")
        }
    }

    private static func options(_ settings: TransformSettings) -> [Option] {
        var options: [Option] = []
        if settings.timestamps == .capture { options.append(("pixel_latency", "1")) }
        if settings.resolution != .standard { options.append(("resolution", settings.resolution.rawValue)) }
        if settings.speed == .fast { options.append(("speed", "fast")) }
        return options
    }

    typealias Option = (name: String, value: String)

    private static func content(_ settings: TransformSettings) throws(ProtocolError) -> SessionContent {
        let image = try settings.content.referenceImage?.image()
        let prompt =
            settings.content.prompt.isEmpty ? nil : try Prompt(settings.content.prompt, enrich: settings.content.enrich)
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
                    + "Use one of \(DecartModel.currentNames.joined(separator: ", ")), "
                    + "or set width, height and framerate.")
        }
        // I420 halves both sides for chroma, so odd sizes are rounded up.
        let even = VideoFormat(width: (width + 1) & ~1, height: (height + 1) & ~1, framerate: framerate)
        return even.oriented(settings.orientation == .portrait ? .portrait : .landscape)
    }

    fileprivate static func servers(
        _ settings: TransformSettings.Network, isLocal: Bool
    ) throws(ProtocolError) -> [ICEServer] {
        var servers: [ICEServer] = []
        do throws(ICEServerError) {
            if !settings.stunServer.isEmpty, !(isLocal && settings.stunServerIsDefault) {
                servers.append(try ICEServer(url: settings.stunServer))
            }
            for url in settings.turnServers { servers.append(try ICEServer(url: url)) }
        } catch {
            throw ProtocolError(.invalidOptions, "stun-server or turn-servers: \(error)")
        }
        return servers
    }
}

extension MediaAccess {
    init(_ settings: TransformSettings, isLocal: Bool) throws(ProtocolError) {
        let network = try SessionPlan.network(settings.network)
        let route = try SessionPlan.route(settings.network, network.endpoint)
        try self.init(settings, network, route, isLocal: isLocal)
    }

    fileprivate init(
        _ settings: TransformSettings, _ network: ICENetwork, _ route: NetworkRoute, isLocal: Bool
    ) throws(ProtocolError) {
        servers = ServerAccess(
            trust: settings.service.serverTrust, route: route, allowsInsecure: settings.service.insecure,
            refusesLocal: !isLocal)
        connection = PeerConnectionConfiguration()
        connection.iceTransportPolicy = settings.network.icePolicy == .relay ? .relay : .all
        connection.iceServers = try SessionPlan.servers(settings.network, isLocal: isLocal)
        connection.network = network
        if !isLocal { connection.permitsRemote = { !HTTPURL.isLocal(host: $0) } }
        connection.openTunnel = servers.tunnelOpener
    }
}
