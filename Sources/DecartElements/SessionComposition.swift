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
    var url: ServiceURL
    var trust: TLSTrust
    var configuration: SessionConfiguration
    var media: MediaSettings
}

extension SessionPlan {
    /// Checks the settings; throws what the user has to change. `format` is the size that is sent.
    init(_ settings: TransformSettings, isPortrait: Bool) throws(SessionError) {
        do throws(ProtocolError) {
            let base = try ServiceURL(base: settings.baseURL, allowInsecure: settings.insecure)
            let model = try DecartModel(named: settings.model)
            let key = try Self.key(settings)
            url = base.stream(key: key, model: model)
            let content = try Self.content(settings, model)
            configuration = SessionConfiguration(
                initial: content, retry: RetryPolicy(maximumRetries: 0),
                connectionTimeout: .seconds(settings.connectionTimeout))
            trust = settings.caFile.map { .only(file: $0) } ?? .system
            let format = try Self.format(settings, model, isPortrait: isPortrait)
            media = MediaSettings(
                width: format.width, height: format.height, framerate: min(format.framerate, settings.maxFramerate),
                bitrate: max(settings.minBitrate, settings.maxBitrate), encoder: settings.encoder,
                followsReceived: settings.outputSize == .received)
            media.connection.codec = settings.videoCodec
            media.connection.iceTransportPolicy = settings.icePolicy == .relay ? .relay : .all
            media.connection.jitterBufferLatency = .milliseconds(settings.latency)
            media.connection.maximumReceiveBitrate = max(settings.maxBitrate, 2_500_000)
            media.connection.iceServers = try Self.servers(settings, isLoopback: base.isLoopback)
        } catch {
            throw SessionError(error.code, error.message, stage: .configuration, isPermanent: true)
        }
    }

    /// The property, else the environment, else the file.
    private static func key(_ settings: TransformSettings) throws(ProtocolError) -> APIKey {
        if let key = settings.apiKey { return try APIKey(key.reveal()) }
        if let text = Environment.value("DECART_API_KEY"), !text.isEmpty { return try APIKey(text) }
        guard let path = settings.apiKeyFile, !path.isEmpty else {
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

    static func format(_ settings: TransformSettings, _ model: DecartModel, isPortrait: Bool) throws(ProtocolError) -> VideoFormat {
        let own = model.format(for: .webrtc)
        let width = settings.width > 0 ? settings.width : own?.width
        let height = settings.height > 0 ? settings.height : own?.height
        guard let width, let height, let framerate = settings.framerate > 0 ? settings.framerate : own?.framerate else {
            throw ProtocolError(
                .modelNotFound, "\(model.name) is not a model known here: set width, height and framerate for it.")
        }
        // I420 halves both sides; odd sizes are rounded up.
        let even = VideoFormat(width: (width + 1) & ~1, height: (height + 1) & ~1, framerate: framerate)
        return even.oriented(isPortrait ? .portrait : .landscape)
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

    private final class MediaSlot: Sendable {
        let current = Mutex<PeerMediaTransport?>(nil)
    }

    init(
        plan: SessionPlan, host: MediaHost, onChange: @escaping @Sendable (SessionSnapshot) -> Void,
        onReport: @escaping @Sendable (SessionReport) -> Void
    ) {
        queue = DispatchQueue(label: "decart-session")
        queue.setSpecific(key: isOnQueue, value: true)
        let slot = MediaSlot()
        media = slot
        controller = SessionController(
            configuration: plan.configuration, queue: queue,
            makeChannel: { _, onEvent in
                var configuration = WebSocketChannel.Configuration()
                configuration.trust = plan.trust
                configuration.userAgent = DecartElements.userAgent
                return WebSocketChannel(url: plan.url, configuration: configuration, onEvent: onEvent)
            },
            makeMedia: { _, onEvent in
                let transport = PeerMediaTransport(host: host, settings: plan.media, onEvent: onEvent)
                slot.current.withLock { $0 = transport }
                return transport
            },
            onChange: onChange, onEvent: onReport)
    }

    var statistics: PeerConnectionStatistics? { media.current.withLock { $0 }?.statistics }

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
        media.current.withLock { $0 = nil }
    }
}
