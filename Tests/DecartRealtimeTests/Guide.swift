// The blocks of the service's Swift guide, as an application on Linux writes them. Nothing but Foundation and the product
// is imported; the tests run the blocks and judge what they leave.
import DecartRealtime
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// An application's view of a session: SwiftUI's view model, for a terminal or another toolkit.
@MainActor final class SessionModel {
    private(set) var states: [DecartRealtimeConnectionState] = []
    private(set) var remoteTrack: VideoTrack?
    private(set) var localTrack: VideoTrack?
    private(set) var message: String?
    private let configuration: DecartConfiguration
    private let model: ModelDefinition
    private var manager: DecartRealtimeManager?
    private var capture: RealtimeCapture?
    private var tasks: [Task<Void, Never>] = []

    init(_ configuration: DecartConfiguration, model: ModelDefinition) {
        (self.configuration, self.model) = (configuration, model)
    }

    func connect(prompt: String) async {
        do {
            let client = DecartClient(decartConfiguration: configuration)
            let manager = try client.createRealtimeManager(
                options: RealtimeConfiguration(model: model, initialPrompt: DecartPrompt(text: prompt)))
            self.manager = manager
            let events = manager.events
            let updates = manager.remoteStreamUpdates
            tasks = [
                Task { [weak self] in
                    for await state in events { self?.states.append(state.connectionState) }
                },
                Task { [weak self] in
                    for await stream in updates { self?.remoteTrack = stream.videoTrack }
                },
            ]
            let source = manager.createVideoSource()
            let track = manager.createVideoTrack(source: source, trackId: "video0")
            let capture = RealtimeCapture(model: model, videoSource: source, mirror: .auto)
            try await capture.startCapture()
            self.capture = capture
            localTrack = track
            remoteTrack = try await manager.connect(
                localStream: RealtimeMediaStream(videoTrack: track, id: .localStream)
            ).videoTrack
        } catch {
            message = error.localizedDescription
        }
    }

    func update(prompt: String) async {
        do { try await manager?.setPrompt(DecartPrompt(text: prompt)) } catch { message = error.localizedDescription }
    }

    func switchCamera() async {
        do { try await capture?.switchCamera() } catch { message = error.localizedDescription }
    }

    func disconnect() async {
        await manager?.disconnect()
        await capture?.stopCapture()
        for task in tasks { await task.value }
        (manager, capture, remoteTrack, localTrack) = (nil, nil, nil, nil)
    }
}

enum Guide {
    /// Block 1, the quick start. `watch` looks at the remote track after each prompt.
    static func quickStart(
        _ configuration: DecartConfiguration, watch: (VideoTrack, String) async throws -> Void
    ) async throws {
        let model = Models.realtime(.lucyRestyle2)
        let client = DecartClient(decartConfiguration: configuration)
        let manager = try client.createRealtimeManager(
            options: RealtimeConfiguration(
                model: model, initialPrompt: DecartPrompt(text: "Noir", enrich: true)))

        let videoSource = manager.createVideoSource()
        let videoTrack = manager.createVideoTrack(source: videoSource, trackId: "video0")
        let capture = RealtimeCapture(
            model: model, videoSource: videoSource, orientation: .portrait, initialPosition: .front, mirror: .auto)
        try await capture.startCapture()

        let localStream = RealtimeMediaStream(videoTrack: videoTrack, id: .localStream)
        let remoteStream = try await manager.connect(localStream: localStream)
        if let track = remoteStream.videoTrack { try await watch(track, "Noir") }

        try await manager.setPrompt(DecartPrompt(text: "Anime style", enrich: true))
        if let track = remoteStream.videoTrack { try await watch(track, "Anime style") }

        await manager.disconnect()
        await capture.stopCapture()
    }

    /// Block 2: a short-lived key of one's own server.
    static func temporaryKey(from server: URL, key: String) async throws -> String {
        struct Token: Decodable { let apiKey, expiresAt: String }
        var request = URLRequest(url: server)
        request.httpMethod = "POST"
        request.setValue(key, forHTTPHeaderField: "X-API-KEY")
        let (data, _) = try await URLSession.shared.data(for: request)
        return try JSONDecoder().decode(Token.self, from: data).apiKey
    }

    /// Block 4: a manager with all options of connection and media.
    static func configured(
        _ configuration: DecartConfiguration, _ model: ModelDefinition, prompt: DecartPrompt?
    ) throws -> DecartRealtimeManager {
        let options = RealtimeConfiguration(
            model: model, initialPrompt: prompt,
            connection: .init(iceServers: ["stun:stun.l.google.com:19302"], connectionTimeout: 15),
            media: .init(
                video: .init(
                    maxBitrate: 2_500_000, minBitrate: 300_000, maxFramerate: 26, preferredCodec: "VP8")))
        return try DecartClient(decartConfiguration: configuration).createRealtimeManager(options: options)
    }

    /// Block 6: prompts while it runs.
    static func prompts(_ manager: DecartRealtimeManager, image: Data) async throws {
        try await manager.setPrompt(DecartPrompt(text: "Cyberpunk city", enrich: true))
        try await manager.setPrompt(DecartPrompt(text: "Noir"))
        try await manager.setPrompt(DecartPrompt(text: "Lego", referenceImageData: image, enrich: true))
    }

    /// Block 7: a line for each state.
    static func describe(_ state: DecartRealtimeState) -> String {
        let text =
            switch state.connectionState {
            case .idle: "Idle"
            case .connecting: "Connecting"
            case .connected: "Connected"
            case .generating: "Generating"
            case .reconnecting: "Reconnecting"
            case .disconnected: "Disconnected"
            case .error: "Error"
            }
        let service =
            switch state.serviceStatus {
            case .unknown: ""
            case .enteringQueue: ", queue \(state.queuePosition ?? 0) of \(state.queueSize ?? 0)"
            case .ready: ", ready"
            }
        return "\(text)\(service), \(state.generationTick ?? 0) s, \(state.sessionId ?? "no session")"
    }

    /// Block 10: the errors.
    static func describe(_ body: () async throws -> Void) async -> (code: String, text: String)? {
        do {
            try await body()
            return nil
        } catch let error as DecartError {
            let text =
                switch error {
                case .invalidAPIKey: "invalid key"
                case .invalidBaseURL(let url): "invalid URL \(url ?? "")"
                case .webRTCError(let reason): "WebRTC: \(reason)"
                case .websocketError(let reason): "WebSocket: \(reason)"
                case .connectionTimeout: "timeout"
                case .serverError(let reason): "server: \(reason)"
                case .processingError(let reason): "processing: \(reason)"
                case .invalidInput(let reason): "input: \(reason)"
                case .modelNotFound(let name): "model: \(name)"
                case .networkError(let cause): "network: \(cause.localizedDescription)"
                case .queueError(let reason): "queue: \(reason)"
                }
            return (error.errorCode, text)
        } catch {
            return ("", error.localizedDescription)
        }
    }
}
