// Composes a session: the only place that creates its signalling channels and media transports, which must not know
// each other.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import Signalling
import Synchronization
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
                connectionTimeout: .seconds(settings.connectionTimeout))
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
                openTimeout: .seconds(settings.connectionTimeout), prefersSingle: settings.singleConnection)
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
        media.connection.jitterBufferLatency = .milliseconds(settings.latency)
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

    /// Returns the key that the application just provided, else the configured one.
    private func freshKey(_ answer: String?) throws(SessionError) -> APIKey {
        do throws(ProtocolError) {
            if let answer, !answer.isEmpty { return try APIKey(answer) }
            if let key { return key }
            throw ProtocolError(
                .invalidAPIKey, "The signal request-api-key returned no API key. Return one from its handler.")
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    private static func fetcher(_ settings: TransformSettings, _ trust: TLSTrust) throws(ProtocolError)
        -> APIKeyFetcher?
    {
        guard let text = settings.apiKeyURL else { return nil }
        let url = try BackendURL(text, allowInsecure: settings.insecure)
        let headers = try RequestHeaders(settings.apiKeyHeaders.map { ($0.name, $0.value.reveal()) })
        var configuration = APIKeyFetcher.Configuration()
        configuration.trust = trust
        configuration.userAgent = DecartElements.userAgent
        return APIKeyFetcher(url: url, headers: headers, configuration: configuration)
    }

    /// Makes the control channel of one attempt with the current key: the application's answer, else a fresh key from
    /// the backend, else the configured one.
    /// - Parameter path: the media transport; nil: the service's first messages show which one it uses.
    func makeChannel(
        path: MediaTransportKind?, applicationKey: String?, onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) throws(SessionError) -> any SignallingChannel {
        if let fetcher, applicationKey?.isEmpty ?? true {
            return TokenFetchingChannel(fetcher: fetcher, makeChannel: { channel($0, path, $1) }, onEvent: onEvent)
        }
        return channel(try freshKey(applicationKey), path, onEvent)
    }

    private func channel(
        _ key: APIKey, _ path: MediaTransportKind?, _ onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) -> any SignallingChannel {
        let url: ServiceURL
        switch subscribeToken {
        case .room(let name):
            var configuration = ViewerChannel.Configuration()
            configuration.trust = trust
            configuration.userAgent = DecartElements.userAgent
            return ViewerChannel(
                url: base.watchStream(key: key, room: name), key: key, configuration: configuration, onEvent: onEvent)
        case .direct(let sid, let ip, let port): url = base.subscribe(key: key, sid: sid, ip: ip, port: port)
        case nil:
            let early: [Option] = path == .webrtc ? [] : [("livekit_early_room_info", "true")]
            url = base.stream(key: key, model: model, options: early + options)
        }
        var configuration = WebSocketChannel.Configuration()
        configuration.trust = trust
        configuration.userAgent = DecartElements.userAgent
        return WebSocketChannel(url: url, configuration: configuration, onEvent: onEvent)
    }

    /// Reads the key from the property, else the environment, else the file.
    private static func key(_ settings: TransformSettings, isRequired: Bool) throws(ProtocolError) -> APIKey? {
        if let key = settings.apiKey { return try APIKey(key.reveal()) }
        if let text = Environment.value("DECART_API_KEY"), !text.isEmpty { return try APIKey(text) }
        guard let path = settings.apiKeyFile, !path.isEmpty else {
            guard isRequired else { return nil }
            throw ProtocolError(
                .invalidAPIKey, "No API key: set the environment variable DECART_API_KEY, or the property api-key-file."
            )
        }
        do {
            let bytes = try BoundedFile.read(path: path, maximumSize: 4096)
            return try APIKey(String(decoding: bytes, as: UTF8.self).filter { !$0.isNewline })
        } catch {
            throw ProtocolError(
                .invalidAPIKey, "The file that api-key-file names cannot be read, or contains no valid API key.")
        }
    }

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

extension SessionPlan {
    /// Changes the size of the sent frames, but not their orientation, if `auto` found another transport than expected.
    fileprivate func adapt(to settings: MediaSettings, _ host: MediaHost) {
        let now = size.current
        var format = settings.format
        if (now.height > now.width) != (format.height > format.width) { swap(&format.width, &format.height) }
        guard (format.width, format.height) != now else { return }
        size.set(width: format.width, height: format.height)
        host.input.resize(width: format.width, height: format.height)
    }
}

extension TransformSettings {
    /// An unset maximum depends on transport and codec; VP9 needs a little less. A minimum above the maximum is lowered
    /// to it.
    func bitrateRange(_ transport: MediaTransportKind) -> ClosedRange<Int> {
        let own = transport == .webrtc ? 2_500_000 : videoCodec(transport) == .vp9 ? 3_000_000 : 3_500_000
        let maximum = maxBitrate > 0 ? max(maxBitrate, 10_000) : own
        return min(minBitrate, maximum)...maximum
    }

    /// Keeps the first keyframe from flooding a slow link; a good link reaches the maximum a few seconds later.
    func startBitrate(_ transport: MediaTransportKind) -> Int {
        let range = bitrateRange(transport)
        return min(range.upperBound, max(range.lowerBound, 1_500_000))
    }

    func maxFramerate(_ transport: MediaTransportKind) -> Int {
        maxFramerate > 0 ? maxFramerate : transport == .webrtc ? 26 : 30
    }

    /// Trust for rooms and TURN servers, which may have certificates of any authority: the system's authorities and
    /// `ca-file`.
    var serverTrust: TLSTrust { caFile.map { .systemAnd(file: $0) } ?? .system }

    var trackLabel: TrackLabel { TrackLabel(name: trackName, source: trackSource) }

    var maximumDuration: Duration? { maxSessionDuration > 0 ? .seconds(maxSessionDuration) : nil }

    var retryPolicy: RetryPolicy {
        RetryPolicy(maximumRetries: maxRetries < 0 ? nil : maxRetries, maximumDelay: .seconds(retryDelayMax))
    }

    /// `auto` means the codec of the configured encoder, else the service's default: VP8 over a direct connection,
    /// H.264 in a room if it is installed.
    func videoCodec(_ transport: MediaTransportKind) -> VideoCodec {
        switch codec {
        case .auto: encoderCodec ?? (transport == .livekit && VideoCodec.h264.isAvailable ? .h264 : .vp8)
        case .vp8: .vp8
        case .h264: .h264
        case .vp9: .vp9
        }
    }

    /// Found by name: the name of every encoder in GStreamer contains its codec.
    private var encoderCodec: VideoCodec? {
        VideoCodec.allCases.first { encoder.lowercased().contains($0 == .h264 ? "264" : $0.rawValue) }
    }

    /// All codecs that a session may need.
    var videoCodecs: [VideoCodec] {
        if let subscribeToken = subscribeToken.flatMap({ try? SubscribeToken($0.reveal()) }) {
            return [videoCodec(subscribeToken.transport)]
        }
        let codecs = transport.kinds.map(videoCodec)
        return codecs.first == codecs.last ? Array(codecs.prefix(1)) : codecs
    }
}

extension TransportChoice {
    /// The transports that a session may use, the expected one first.
    var kinds: [MediaTransportKind] {
        switch self {
        case .auto: [.livekit, .webrtc]
        case .livekit: [.livekit]
        case .webrtc: [.webrtc]
        }
    }
}

extension TransformSettings.Resolution {
    var query: String? {
        switch self {
        case .standard: nil
        case .hd: "720p"
        case .fullHD: "1080p"
        }
    }
}

/// One running session of the element: made in READY to PAUSED, ended in PAUSED to READY.
// @unchecked: `media` is locked, the rest is constant.
final class ElementSession: @unchecked Sendable {
    let controller: SessionController
    private let queue: SessionQueue
    private let reporter: SessionReporter
    private let media: MediaSlot
    /// Numbers media paths across all sessions of the process: an element's next session may begin before the last one
    /// is torn down, and their paths must not be confused.
    private static let attempts = Atomic(0)

    /// Current media paths by attempt: two while one takes over from the other.
    private final class MediaSlot: Sendable {
        let all = Mutex<[Int: any ElementMedia]>([:])
        let wantsAudio = Atomic(false)
        let publishesVideo = Atomic(true)
        var newest: (any ElementMedia)? { all.withLock { all in all.max { $0.key < $1.key }?.value } }
    }

    init(
        plan: SessionPlan, host: MediaHost, requestKey: @escaping @Sendable () -> String?,
        onChange: @escaping @Sendable (SessionSnapshot, SessionReporter) -> Void,
        onReport: @escaping @Sendable (SessionReport, SessionReporter) -> Void
    ) {
        // The queue retains the element while work runs: an application may stop and release it in any callback.
        let queue = SessionQueue(label: "decart-session") { [element = host.element] in element.retained }
        self.queue = queue
        let reporter = SessionReporter(scheduler: queue, onChange: onChange, onReport: onReport)
        self.reporter = reporter
        let slot = MediaSlot()
        media = slot
        controller = SessionController(
            configuration: plan.configuration, scheduler: queue,
            makeChannel: { _, path, onEvent throws(SessionError) in
                try plan.makeChannel(path: path, applicationKey: requestKey(), onEvent: onEvent)
            },
            makeMedia: { _, start, onEvent in
                let attempt = Self.attempts.wrappingAdd(1, ordering: .relaxed).newValue
                let settings = plan.media(for: start.transport)
                plan.adapt(to: settings, host)
                let onMediaEvent = { @Sendable (event: MediaEvent) in
                    if event == .stopped { slot.all.withLock { $0[attempt] = nil } }
                    onEvent(event)
                }
                let path = MediaPath(
                    attempt: attempt, host: host, settings: settings, perform: { queue.async($0) },
                    onEvent: onMediaEvent)
                let transport: any ElementMedia =
                    switch start.transport {
                    case .webrtc: PeerMediaTransport(path: path, onEvent: onMediaEvent)
                    case .livekit: RoomMediaTransport(path: path, scheduler: queue, onEvent: onMediaEvent)
                    }
                if slot.wantsAudio.load(ordering: .acquiring) { transport.setAudio(true) }
                if !slot.publishesVideo.load(ordering: .acquiring) { transport.setVideoPublished(false) }
                slot.all.withLock { $0[attempt] = transport }
                return transport
            },
            onChange: { [weak reporter] in reporter?.changed($0) },
            onEvent: { [weak reporter] report in
                if case .transportDetected(let transport) = report {
                    TransportCache.shared.set(transport, of: plan.service)
                }
                reporter?.report(report)
            })
    }

    /// Applies to all media paths, including later ones. Any thread.
    func setAudio(_ isWanted: Bool) {
        media.wantsAudio.store(isWanted, ordering: .releasing)
        queue.async { [media] in
            // Read here so that the newest value counts, whichever call reaches the queue first.
            let isWanted = media.wantsAudio.load(ordering: .acquiring)
            for path in media.all.withLock({ Array($0.values) }) { path.setAudio(isWanted) }
        }
    }

    /// Applies to all media paths, including later ones. Any thread.
    func setVideoPublished(_ isPublished: Bool) {
        media.publishesVideo.store(isPublished, ordering: .releasing)
        queue.async { [media] in
            // Read here so that the newest value counts, whichever call reaches the queue first.
            let isPublished = media.publishesVideo.load(ordering: .acquiring)
            for path in media.all.withLock({ Array($0.values) }) { path.setVideoPublished(isPublished) }
        }
    }

    var statistics: PeerConnectionStatistics? { media.newest?.statistics }

    /// True if the message comes from a media path, which then handles it itself.
    func claims(_ message: Message) -> Bool { media.all.withLock { Array($0.values) }.contains { $0.claims(message) } }

    var receivedSize: (width: Int, height: Int)? { media.newest?.receivedSize }

    /// State of our video track on the newest media path, and its SID in a room.
    var publication: (state: VideoTrackStats.Publication, sid: String?) {
        guard let path = media.newest else { return (.none, nil) }
        guard media.publishesVideo.load(ordering: .acquiring) else { return (.withdrawn, nil) }
        return path.isPublished ? (.published, path.trackSID) : (.publishing, nil)
    }

    /// RIDs of the simulcast layers that are sent now, highest resolution first.
    var sentLayers: [String] { media.newest?.sentLayers ?? [] }

    /// Runs work on the session's queue, after the work that waits there.
    func async(_ work: @escaping @Sendable () -> Void) { queue.async(work) }

    func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) { queue.schedule(after: delay, work) }

    /// Ends the session and returns when its media paths have left the element; the control channel closes on its own.
    /// Drops all work that waits in the session's queue. Called on that queue, from an application's callback, it
    /// returns at once and nothing more is reported: the running work finishes first, then the session is torn down.
    func stop() {
        if queue.isCurrent { reporter.silence() }
        queue.end { [controller, reporter, media] in
            controller.end()
            reporter.flush()
            media.all.withLock { $0.removeAll() }
        }
    }
}
