// The control channel of a session and the API key that opens it.
import DecartProtocol
import DecartSession
import GStreamerKit
import Log
import RTP
import Signalling
import WebRTCTransport

extension SessionPlan {
    /// Makes the control channel of one attempt with the current key: the application's answer, else a fresh key from
    /// the backend, else the configured one.
    /// - Parameters:
    ///   - path: the media transport; nil: the service's first messages show which one it uses.
    ///   - serverCodec: the codec that the service should send in a room.
    ///   - early: a connection to the service that stands already.
    func makeChannel(
        path: MediaTransportKind?, serverCodec: VideoCodec, applicationKey: String?, early: EarlyConnection?,
        logger: Logger, onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) throws(SessionError) -> any SignallingChannel {
        let answer = applicationKey.flatMap { $0.isEmpty ? nil : $0 }
        let key = fetcher == nil || answer != nil ? try freshKey(answer) : nil
        let age = key?.secondsSinceExpiry(now: UnixClock.seconds)
        if let key, age == nil { return channel(key, path, serverCodec, early, logger, onEvent) }
        guard let fetcher else {
            // The application may have another one for the next attempt; the configured one stays the same.
            throw .expiredToken(
                age ?? 0, "Set another one, or api-key-url, which gives a new one for each session.",
                isPermanent: answer == nil)
        }
        return TokenFetchingChannel(
            fetcher: fetcher,
            makeChannel: { key, onEvent throws(SessionError) in
                if let age = key.secondsSinceExpiry(now: UnixClock.seconds) {
                    throw .expiredToken(age, "api-key-url must return a new one for each request.", isPermanent: false)
                }
                return channel(key, path, serverCodec, early, logger, onEvent)
            }, onEvent: onEvent)
    }

    private func channel(
        _ key: APIKey, _ path: MediaTransportKind?, _ serverCodec: VideoCodec, _ early: EarlyConnection?,
        _ logger: Logger, _ onEvent: @escaping @Sendable (SignallingEvent) -> Void
    ) -> any SignallingChannel {
        let url: ServiceURL
        switch subscribeToken {
        case .room(let name, _):
            return ViewerChannel(
                url: base.watchStream(key: key, room: name, options: extraItems), key: key,
                configuration: HTTPConfiguration(trust: trust, route: route, userAgent: DecartElements.userAgent),
                onEvent: onEvent)
        case .direct(let sid, let ip, let port):
            url = base.subscribe(key: key, sid: sid, ip: ip, port: port, options: extraItems)
        case nil:
            let asked = path == .webrtc ? [] : roomOptions(serverCodec)
            url = base.stream(key: key, model: model, options: asked + options + extraItems)
        }
        var configuration = WebSocketChannel.Configuration()
        configuration.trust = trust
        configuration.route = route
        configuration.userAgent = DecartElements.userAgent
        configuration.early = early
        configuration.logger = logger
        return WebSocketChannel(url: url, configuration: configuration, onEvent: onEvent)
    }

    /// The service sends H.264 unless another codec is named (DecartAI/sdk, pull request 139).
    private func roomOptions(_ serverCodec: VideoCodec) -> [Option] {
        let name = "livekit_server_codec"
        let isDefault = serverCodec == .h264 || extraItems.contains { $0.name == name }
        return [("livekit_early_room_info", "true")] + (isDefault ? [] : [(name, serverCodec.rawValue)])
    }

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

    /// Reads the key from the property, else the environment, else the file.
    static func key(_ service: TransformSettings.Service, isRequired: Bool) throws(ProtocolError) -> APIKey? {
        if let key = service.apiKey { return try APIKey(key.reveal()) }
        if let text = Environment.value("DECART_API_KEY") { return try APIKey(text) }
        guard let path = service.apiKeyFile, !path.isEmpty else {
            guard isRequired else { return nil }
            throw ProtocolError(
                .invalidAPIKey, "No API key: set the environment variable DECART_API_KEY, or the property api-key-file."
            )
        }
        return try key(inFile: path)
    }

    private static func key(inFile path: String) throws(ProtocolError) -> APIKey {
        // A name without a folder may be the key itself, which no text may show.
        let file =
            path.contains("/")
            ? "The file '\(path.printable(limit: 200))' of api-key-file" : "The file that api-key-file names"
        let text: String
        do {
            let bytes = try BoundedFile.read(path: path, maximumSize: 4096)
            text = String(decoding: bytes, as: UTF8.self).trimmingWhitespace()
        } catch {
            let reason =
                switch error {
                case .notRegular: "is not a regular file"
                case .tooLarge: "is larger than 4096 bytes"
                case .system(let reason): "cannot be read: \(reason)"
                }
            throw ProtocolError(.invalidAPIKey, "\(file) \(reason).")
        }
        guard !text.isEmpty else { throw ProtocolError(.invalidAPIKey, "\(file) is empty. Put the key into it.") }
        guard !text.contains(where: \.isNewline) else {
            throw ProtocolError(.invalidAPIKey, "\(file) has several lines. Put the key alone into it.")
        }
        do {
            return try APIKey(text)
        } catch {
            throw ProtocolError(.invalidAPIKey, "\(file) has no valid API key. \(error.message)")
        }
    }

    static func fetcher(
        _ service: TransformSettings.Service, _ trust: TLSTrust, _ route: NetworkRoute
    ) throws(ProtocolError) -> APIKeyFetcher? {
        guard let text = service.apiKeyURL else { return nil }
        let url = try HTTPURL(backend: text, allowInsecure: service.insecure)
        let headers = try RequestHeaders(service.apiKeyHeaders.map { ($0.name, $0.value.reveal()) })
        return APIKeyFetcher(
            url: url, headers: headers,
            configuration: HTTPConfiguration(trust: trust, route: route, userAgent: DecartElements.userAgent))
    }
}
