public import Foundation
import Synchronization

/// A session with the service: sends a local stream and gives back the transformed one.
///
/// All methods may be called from any task or thread. The manager ends its session when it is released.
public final class DecartRealtimeManager: Sendable {
    /// The options that it was made with.
    public let options: RealtimeConfiguration
    private let properties: ElementProperties
    private let initialPrompt: DecartPrompt?
    private let hub = StateHub()

    private enum Phase {
        case idle
        case running(RealtimeSession)
    }
    private let phase = Mutex(Phase.idle)

    init(options: RealtimeConfiguration, properties: ElementProperties, prompt: DecartPrompt?) {
        (self.options, self.properties, initialPrompt) = (options, properties, prompt)
    }

    deinit {
        session?.end()
        hub.finish(forGood: true)
    }

    private var session: RealtimeSession? {
        phase.withLock { if case .running(let session) = $0 { session } else { nil } }
    }

    // MARK: State

    /// The states from now on, beginning with the present one unless that is `idle`. Each access makes a stream of its own,
    /// which ends after the `disconnected` of `disconnect`, and when the manager is released.
    public var events: AsyncStream<DecartRealtimeState> { hub.events }

    /// The service's stream after each automatic reconnection: bind the new tracks. It ends as `events` does.
    public var remoteStreamUpdates: AsyncStream<RealtimeMediaStream> { hub.streams.stream() }

    /// Quality, limits, renewals and warnings. It ends as `events` does.
    public var notices: AsyncStream<RealtimeNotice> { hub.notices.stream() }

    /// The present state.
    public var state: DecartRealtimeState { hub.state }

    // MARK: Local media

    /// A source for a `RealtimeCapture`, or for frames of the application.
    public func createVideoSource() -> VideoSource { VideoSource() }

    /// A source that reads a GStreamer bin, such as `rtspsrc location=rtsp://camera ! decodebin`.
    public func videoSource(from description: String) throws -> VideoSource { try VideoSource(from: description) }

    /// A track of a source. One source may have several.
    public func createVideoTrack(source: VideoSource, trackId: String) -> VideoTrack {
        VideoTrack(source: source, id: trackId)
    }

    /// The default microphone; silence where there is none.
    public func createAudioSource() -> AudioSource { (try? AudioSource(from: "autoaudiosrc")) ?? AudioSource() }

    /// A source that reads a GStreamer bin.
    public func audioSource(from description: String) throws -> AudioSource { try AudioSource(from: description) }

    /// A track of an audio source.
    public func createAudioTrack(source: AudioSource, trackId: String) -> AudioTrack {
        AudioTrack(source: source, id: trackId)
    }

    // MARK: Session

    /// Connects, sends the tracks of `localStream`, and returns the service's stream when media flow. Later losses are
    /// reconnected automatically, at most five times; the first attempt is not repeated. Cancelling the task ends the
    /// attempt. After the state `error` or `disconnect`, the manager may connect again.
    ///
    /// Throws `DecartError`, or `CancellationError`.
    public func connect(localStream: RealtimeMediaStream) async throws -> RealtimeMediaStream {
        guard let videoTrack = localStream.videoTrack else {
            throw DecartError.invalidInput("The local stream has no video track.")
        }
        try Task.checkCancellation()
        let session = try RealtimeSession(properties, hasAudio: localStream.audioTrack != nil, host: hub.host)
        // A session that has failed for good makes way.
        let hasFailed = hub.state.connectionState == .error
        let (isFree, failed) = phase.withLock { phase -> (Bool, RealtimeSession?) in
            let former: RealtimeSession? = if case .running(let former) = phase { former } else { nil }
            guard former == nil || hasFailed else { return (false, nil) }
            phase = .running(session)
            return (true, former)
        }
        guard isFree else { throw DecartError.invalidInput("The manager is connected already: disconnect it first.") }
        await failed?.endAndWait()
        hub.begin { [weak session] in session.map(Self.stream) }
        session.start(initialPrompt)
        session.send(videoTrack)
        if let audioTrack = localStream.audioTrack { session.send(audioTrack) }
        let timer = Task { await session.expectInput(within: .seconds(options.connection.connectionTimeout)) }
        defer { timer.cancel() }
        do {
            try await session.connected.value()
        } catch {
            release(session)
            await session.endAndWait()
            hub.failed(error)
            throw error
        }
        return Self.stream(of: session)
    }

    private static func stream(of session: RealtimeSession) -> RealtimeMediaStream {
        RealtimeMediaStream(
            videoTrack: VideoTrack(remote: session.remote, id: "remote-video"),
            audioTrack: AudioTrack(remote: session.remoteAudio, id: "remote-audio"), id: .remoteStream)
    }

    private func release(_ session: RealtimeSession) {
        phase.withLock { phase in if case .running(let other) = phase, other === session { phase = .idle } }
    }

    private func running() throws(DecartError) -> RealtimeSession {
        guard let session else { throw .websocketError("There is no session: connect first.") }
        return session
    }

    /// Changes the prompt, and the reference image if the prompt has one. Returns when the service has acknowledged it.
    ///
    /// Throws `DecartError.processingError` with the service's reason if it refuses, `invalidInput` for an invalid image or
    /// prompt, and `CancellationError`; the request itself is not withdrawn then.
    @discardableResult
    public func setPrompt(_ prompt: DecartPrompt) async throws -> PromptResult {
        try await running().request(.prompt(prompt))
    }

    /// Changes the reference image; nil removes it. Without a `prompt`, the prompt stays as it is.
    ///
    /// Throws as `setPrompt`.
    @discardableResult
    public func setImage(_ image: Data?, prompt: String? = nil, enrich: Bool = false) async throws -> PromptResult {
        try await running().request(.image(image, prompt: prompt, enrich: enrich))
    }

    /// Sends another track in place of the present one, from its next frame on. Does nothing without a session.
    public func replaceVideoTrack(with track: VideoTrack) { session?.send(track) }

    /// Stays connected, but sends nothing and is not billed.
    public func setStandby(_ isOn: Bool) { session?.set("standby", isOn) }

    /// Sends black frames, which are transformed and billed.
    public func setVideoMuted(_ isOn: Bool) { session?.set("mute-video", isOn) }

    /// Sends silence.
    public func setAudioMuted(_ isOn: Bool) { session?.set("mute-audio", isOn) }

    /// Adds to the time of a session that has a limit.
    public func extendSession(bySeconds seconds: Int) { session?.extend(bySeconds: seconds) }

    /// Measurements of the session; nil without one. Read them once a second at most.
    public var statistics: RealtimeStatistics? {
        get async { await session?.statistics() }
    }

    /// Ends the session and returns when it has ended. The streams of `events` end with `disconnected`.
    public func disconnect() async {
        guard let session else { return }
        release(session)
        hub.disconnected()
        await session.endAndWait()
    }
}
