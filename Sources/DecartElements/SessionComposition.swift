// The only place where signalling, session and media meet.
import DecartProtocol
import DecartSession
import Dispatch
import GStreamerKit
import ICE
import Signalling
import Synchronization
import WebRTCTransport

/// Everything about one start of the element, checked: nothing here can fail for a wrong property any more.
struct SessionPlan: Sendable {
    /// Without a key; each attempt adds the one that counts then.
    var base: ServiceURL
    var model: DecartModel
    /// From property, environment or file; nil when only the application hands keys out.
    var key: APIKey?
    /// A backend that hands short-lived keys out.
    var fetcher: APIKeyFetcher?
    var trust: TLSTrust
    var configuration: SessionConfiguration
    var media: MediaSettings
    /// What leaves the element, unless downstream's caps fix something else.
    var output: VideoFormat
}

extension SessionPlan {
    /// Checks the settings; throws what the user has to change.
    /// - Parameter hasKeyHandler: the application answers `request-api-key`.
    init(_ settings: TransformSettings, hasKeyHandler: Bool) throws(SessionError) {
        do throws(ProtocolError) {
            base = try ServiceURL(base: settings.baseURL, allowInsecure: settings.insecure)
            model = try DecartModel(named: settings.model)
            trust = settings.caFile.map { .only(file: $0) } ?? .system
            fetcher = try Self.fetcher(settings, trust)
            key = try Self.key(settings, isRequired: !hasKeyHandler && fetcher == nil)
            let content = try Self.content(settings, model)
            configuration = SessionConfiguration(
                initial: content, retry: settings.retryPolicy,
                connectionTimeout: .seconds(settings.connectionTimeout))
            configuration.keepsMediaWhileReconnecting = true
            let format = try Self.format(settings, model)
            output = format
            media = MediaSettings(
                size: PictureSize(width: format.width, height: format.height), framerate: min(format.framerate, settings.maxFramerate),
                bitrate: settings.startBitrate, encoder: settings.encoder,
                followsReceived: settings.outputSize == .received)
            media.connection.codec = settings.videoCodec
            media.connection.bitrateRange = settings.bitrateRange
            media.connection.startBitrate = settings.startBitrate
            media.connection.iceTransportPolicy = settings.icePolicy == .relay ? .relay : .all
            media.connection.jitterBufferLatency = .milliseconds(settings.latency)
            media.connection.maximumReceiveBitrate = max(settings.maxBitrate, 2_500_000)
            media.connection.iceServers = try Self.servers(settings, isLoopback: base.isLoopback)
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    /// What the application just handed out, else what is configured.
    private func freshKey(_ answer: String?) throws(SessionError) -> APIKey {
        do throws(ProtocolError) {
            if let answer, !answer.isEmpty { return try APIKey(answer) }
            if let key { return key }
            throw ProtocolError(.invalidAPIKey, "The application gave no API key when it was asked for one.")
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    private static func fetcher(_ settings: TransformSettings, _ trust: TLSTrust) throws(ProtocolError) -> APIKeyFetcher? {
        guard let text = settings.apiKeyURL else { return nil }
        let url = try BackendURL(text, allowInsecure: settings.insecure)
        let headers = try RequestHeaders(settings.apiKeyHeaders.map { ($0.name, $0.value.reveal()) })
        var configuration = APIKeyFetcher.Configuration()
        configuration.trust = trust
        configuration.userAgent = DecartElements.userAgent
        return APIKeyFetcher(url: url, headers: headers, configuration: configuration)
    }

    /// The control channel of one attempt, with the key that counts now: the application's answer, else a fresh one
    /// from the backend, else the configured one.
    func makeChannel(
        applicationKey: String?, onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) throws(SessionError) -> any SignallingChannel {
        let (base, model, trust) = (base, model, trust)
        let open = { @Sendable (key: APIKey, onEvent: @escaping @Sendable (SignallingEvent) -> Void) -> any SignallingChannel in
            var configuration = WebSocketChannel.Configuration()
            configuration.trust = trust
            configuration.userAgent = DecartElements.userAgent
            return WebSocketChannel(url: base.stream(key: key, model: model), configuration: configuration, onEvent: onEvent)
        }
        if let fetcher, applicationKey?.isEmpty ?? true {
            return FreshKeyChannel(fetcher: fetcher, makeChannel: open, onEvent: onEvent)
        }
        return open(try freshKey(applicationKey), onEvent)
    }

    /// The property, else the environment, else the file.
    private static func key(_ settings: TransformSettings, isRequired: Bool) throws(ProtocolError) -> APIKey? {
        if let key = settings.apiKey { return try APIKey(key.reveal()) }
        if let text = Environment.value("DECART_API_KEY"), !text.isEmpty { return try APIKey(text) }
        guard let path = settings.apiKeyFile, !path.isEmpty else {
            guard isRequired else { return nil }
            throw ProtocolError(
                .invalidAPIKey, "No API key: set the environment variable DECART_API_KEY, or the property api-key-file.")
        }
        do {
            let bytes = try BoundedFile.read(path: path, maximumSize: 4096)
            return try APIKey(String(decoding: bytes, as: UTF8.self).filter { !$0.isNewline })
        } catch {
            throw ProtocolError(.invalidAPIKey, "The file that api-key-file names holds no API key, or cannot be read.")
        }
    }

    private static func content(_ settings: TransformSettings, _ model: DecartModel) throws(ProtocolError) -> SessionContent {
        var image: ReferenceImage?
        if let path = settings.referenceImage {
            guard model.supportsReferenceImage else {
                throw ProtocolError(.invalidOptions, "The model \(model.name) takes no reference image.")
            }
            image = try ReferenceImage(path: path)
        }
        let prompt = settings.prompt.isEmpty ? nil : try Prompt(settings.prompt, enrich: settings.enrich)
        return SessionContent(prompt: prompt, image: image)
    }

    static func format(_ settings: TransformSettings, _ model: DecartModel) throws(ProtocolError) -> VideoFormat {
        let own = model.format(for: .webrtc)
        let width = settings.width > 0 ? settings.width : own?.width
        let height = settings.height > 0 ? settings.height : own?.height
        guard let width, let height, let framerate = settings.framerate > 0 ? settings.framerate : own?.framerate else {
            throw ProtocolError(
                .modelNotFound, "\(model.name) is not a model known here: set width, height and framerate for it.")
        }
        // I420 halves both sides; odd sizes are rounded up.
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

extension TransformSettings {
    /// A minimum above the maximum gives way.
    var bitrateRange: ClosedRange<Int> { min(minBitrate, maxBitrate)...maxBitrate }
    /// The first key frame must not flood a slow link; a good one is at its maximum a few seconds later.
    var startBitrate: Int { min(maxBitrate, max(minBitrate, 1_500_000)) }

    var retryPolicy: RetryPolicy {
        RetryPolicy(maximumRetries: maxRetries < 0 ? nil : maxRetries, maximumDelay: .seconds(retryDelayMax))
    }

    /// `auto` is what the service speaks by default over a direct connection.
    var videoCodec: VideoCodec {
        switch codec {
        case .auto, .vp8: .vp8
        case .h264: .h264
        case .vp9: .vp9
        }
    }
}

/// One running session of the element: made on the way up, ended on the way down.
// @unchecked: `media` is locked, the rest is constant.
final class ElementSession: @unchecked Sendable {
    let controller: SessionController
    private let queue: DispatchQueue
    private let isOnQueue = DispatchSpecificKey<Bool>()
    private let media: MediaSlot

    /// The media paths that are there, by rank: two while one takes over from the other.
    private final class MediaSlot: Sendable {
        let all = Mutex<[Int: PeerMediaTransport]>([:])
        var newest: PeerMediaTransport? { all.withLock { all in all.max { $0.key < $1.key }?.value } }
    }

    init(
        plan: SessionPlan, host: MediaHost, requestKey: @escaping @Sendable () -> String?, onChange: @escaping @Sendable (SessionSnapshot) -> Void,
        onReport: @escaping @Sendable (SessionReport) -> Void
    ) {
        let queue = DispatchQueue(label: "decart-session")
        self.queue = queue
        queue.setSpecific(key: isOnQueue, value: true)
        let slot = MediaSlot()
        media = slot
        controller = SessionController(
            configuration: plan.configuration, queue: queue,
            makeChannel: { _, onEvent throws(SessionError) in
                try plan.makeChannel(applicationKey: requestKey(), onEvent: onEvent)
            },
            makeMedia: { attempt, onEvent in
                let rank = Int(clamping: attempt.number)
                let transport = PeerMediaTransport(
                    rank: rank, host: host, settings: plan.media, perform: { queue.async(execute: $0) }
                ) { event in
                    if event == .stopped { slot.all.withLock { $0[rank] = nil } }
                    onEvent(event)
                }
                slot.all.withLock { $0[rank] = transport }
                return transport
            },
            onChange: onChange, onEvent: onReport)
    }

    var statistics: PeerConnectionStatistics? { media.newest?.statistics }

    /// Whether the message is of the media path, which deals with it itself.
    func takesOver(_ message: Message) -> Bool { media.all.withLock { Array($0.values) }.contains { $0.takesOver(message) } }

    var receivedSize: (width: Int, height: Int)? { media.newest?.receivedSize }

    /// Runs on the session's queue, after what is there already.
    func async(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    func after(_ delay: DispatchTimeInterval, _ work: @escaping @Sendable () -> Void) {
        queue.asyncAfter(deadline: .now() + delay, execute: work)
    }

    /// Ends the session and returns when its media path is gone from the element; the control channel closes on its
    /// own. At once when called on the session's own queue, where what was begun is finished first anyway.
    func stop() {
        controller.stop()
        if DispatchQueue.getSpecific(key: isOnQueue) != true { queue.sync {} }
        media.all.withLock { $0.removeAll() }
    }
}
