import GStreamerKit
import Synchronization

/// The source of a local video track's frames: a `RealtimeCapture`, a GStreamer bin, or `push` of the application.
public final class VideoSource: Sendable {
    let hub: SampleHub
    private let feed: FeedPipeline?

    /// A source for a `RealtimeCapture` or for `push`.
    public init() { (hub, feed) = (SampleHub(), nil) }

    /// Frames of a GStreamer bin with one raw video output, such as `rtspsrc location=… ! decodebin`. It runs from its
    /// first reader on, a session or `VideoTrack.frames`, until the source is released. What is not live plays in real
    /// time. Throws `DecartError.processingError` if the description cannot be parsed.
    public init(from description: String) throws {
        try Elements.register()
        let pipeline = try Self.pipeline("\(description) ! videoconvert ! video/x-raw,format=(string){I420,RGBA}")
        let start = FirstReader()
        hub = SampleHub(onFirstReader: { start.run() })
        let feed = try FeedPipeline(pipeline, sink: "decart-output", hub: hub)
        start.set { [weak feed] in feed?.start() }
        self.feed = feed
    }

    static func pipeline(_ description: String) throws(DecartError) -> Pipeline {
        do throws(GStreamerError) {
            return try Pipeline(description: "\(description) ! appsink name=decart-output sync=true")
        } catch { throw DecartError(error) }
    }

    /// Gives the readers a frame, which is sent at once. Frames may differ in size and format.
    public func push(_ frame: VideoFrame) { hub.deliver(frame.sample) }
}

/// The action of a hub at its first reader; it is known only after the hub.
final class FirstReader: Sendable {
    private let body = Mutex<(@Sendable () -> Void)?>(nil)
    func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
    func run() { body.withLock { $0 }?() }
}

/// The source of a local audio track: a microphone, a GStreamer bin, or `push` of the application.
public final class AudioSource: Sendable {
    let hub: SampleHub
    private let feed: FeedPipeline?
    private let caps: Caps?

    static let format = "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2"

    /// Audio of a GStreamer bin with one raw audio output; `autoaudiosrc` is the default microphone. As of `VideoSource`,
    /// it runs from its first reader on.
    public init(from description: String) throws {
        try Elements.register()
        let pipeline = try VideoSource.pipeline("\(description) ! audioconvert ! audioresample ! \(Self.format)")
        let start = FirstReader()
        hub = SampleHub(onFirstReader: { start.run() })
        let feed = try FeedPipeline(pipeline, sink: "decart-output", hub: hub)
        start.set { [weak feed] in feed?.start() }
        (self.feed, caps) = (feed, nil)
    }

    /// A source for `push`.
    public init() {
        GStreamerRuntime.initialise()
        (hub, feed, caps) = (SampleHub(), nil, try? Caps(Self.format))
    }

    /// Gives the readers samples of 48 kHz, left and right in turn, which are sent at once.
    public func push(_ samples: [Int16]) {
        hub.deliver(Sample(samples.withUnsafeBytes { Buffer(copying: $0) }, caps: caps))
    }
}

/// Video of this machine or of the service.
public final class VideoTrack: Sendable {
    /// The name that its maker gave the track.
    public let id: String
    let hub: SampleHub
    /// A track keeps its source alive.
    private let source: VideoSource?

    init(source: VideoSource, id: String) { (self.source, hub, self.id) = (source, source.hub, id) }
    init(remote hub: SampleHub, id: String) { (source, self.hub, self.id) = (nil, hub, id) }

    /// The frames that come from now on; each access makes a stream of its own. A slow reader gets the newest frames. The
    /// stream ends with its source, and with the session for a track of the service, at reconnects it does not.
    public var frames: AsyncStream<VideoFrame> { hub.stream(newest: 2) { [self] in frame($0) } }

    /// A stream keeps its track, and so the source.
    private func frame(_ sample: Sample) -> VideoFrame? { VideoFrame(sample) }

    /// Sends the track to a GStreamer bin with one input of raw video, until the result is released: a window, or a file,
    /// such as `vp8enc deadline=1 ! webmmux ! filesink location=video.webm`.
    public func play(_ description: String = "videoconvert ! autovideosink") throws -> TrackOutput {
        try TrackOutput("videoconvert ! \(description)", hub, of: self)
    }
}

/// Audio of this machine or of the service.
public final class AudioTrack: Sendable {
    /// The name that its maker gave the track.
    public let id: String
    let hub: SampleHub
    private let source: AudioSource?

    init(source: AudioSource, id: String) { (self.source, hub, self.id) = (source, source.hub, id) }
    init(remote hub: SampleHub, id: String) { (source, self.hub, self.id) = (nil, hub, id) }

    /// Samples of 48 kHz, left and right in turn, as they come; each access makes a stream of its own.
    public var samples: AsyncStream<[Int16]> {
        hub.stream(newest: 16) { [self] in pcm($0) }
    }

    private func pcm(_ sample: Sample) -> [Int16]? {
        sample.buffer.withBytes { bytes in
            (0..<bytes.count / 2).map { bytes.loadUnaligned(fromByteOffset: $0 * 2, as: Int16.self) }
        }
    }

    /// Sends the track to a GStreamer bin with one input of raw audio, until the result is released.
    public func play(_ description: String = "autoaudiosink") throws -> TrackOutput {
        try TrackOutput("audioconvert ! audioresample ! \(description)", hub, of: self)
    }
}

/// A bin that takes a track. It ends when it is released.
public final class TrackOutput: Sendable {
    private let input: OutputInput
    private let player: FeedPipeline
    private let ended = Promise<Void>()
    private let hub: SampleHub
    /// An output keeps its track, and so the source.
    private let track: any Sendable
    private let reader: Int

    init(_ description: String, _ hub: SampleHub, of track: any Sendable) throws {
        let pipeline: Pipeline
        do throws(GStreamerError) {
            pipeline = try Pipeline(description: "appsrc name=decart-input ! \(description)")
            input = OutputInput(try pipeline.appSource(named: "decart-input"))
        } catch { throw DecartError(error) }
        player = FeedPipeline(playing: pipeline, ended: ended)
        (self.hub, self.track) = (hub, track)
        reader = hub.add(SampleHub.Reader(take: { [input] in input.push($0) }, end: { [input] _ in input.end() }))
        player.start { [input] in input.start() }
    }

    deinit { hub.remove(reader) }

    /// Ends the output and waits until the bin has written everything, as a file needs it. Throws the bin's error.
    public func finish() async throws {
        hub.remove(reader)
        input.end()
        try await ended.value()
        await player.stop()
    }
}

/// The input of an output's bin. What comes before the bin has started waits, because `appsrc` refuses it until then: the
/// first frames, and the end of an output that is finished at once.
private final class OutputInput: Sendable {
    private static let limit = 30
    private struct Waiting {
        var samples: [Sample] = []
        var isEnded = false
    }
    private let source: AppSource
    /// nil: the bin has started.
    private let waiting = Mutex<Waiting?>(Waiting())

    init(_ source: AppSource) {
        self.source = source
        source.beLive(limit: Self.limit)
    }

    func push(_ sample: Sample) {
        let waits = waiting.withLock { waiting in
            waiting?.samples.append(sample)
            if let count = waiting?.samples.count, count > Self.limit { waiting?.samples.removeFirst() }
            return waiting != nil
        }
        if !waits { source.push(sample) }
    }

    func end() {
        let waits = waiting.withLock { waiting in
            waiting?.isEnded = true
            return waiting != nil
        }
        if !waits { source.end() }
    }

    func start() {
        waiting.withLock { waiting in
            for sample in waiting?.samples ?? [] { source.push(sample) }
            if waiting?.isEnded == true { source.end() }
            waiting = nil
        }
    }
}

/// Video and audio that belong together.
public struct RealtimeMediaStream: Sendable {
    /// The side that a stream comes from.
    public enum StreamId: String, Sendable { case localStream = "stream-local", remoteStream = "stream-remote" }

    /// The video; nil if the stream has none.
    public let videoTrack: VideoTrack?
    /// The audio; nil if the stream has none.
    public let audioTrack: AudioTrack?
    /// The side that the stream comes from.
    public let id: StreamId

    /// The ID of what is sent is `.localStream`.
    public init(videoTrack: VideoTrack? = nil, audioTrack: AudioTrack? = nil, id: StreamId) {
        (self.videoTrack, self.audioTrack, self.id) = (videoTrack, audioTrack, id)
    }
}
