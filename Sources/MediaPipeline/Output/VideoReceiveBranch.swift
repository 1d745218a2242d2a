// The decoder of one media path: turns a connection's RTP into frames for the output, by depayloader, decoder and scaler.
// It sits behind an `ErrorIsolator`, which discards downstream errors, so that the decoder can be rebuilt while RTP keeps
// arriving, also as one of another codec. It knows pads and elements; it must not know connections.
package import GStreamerKit
package import Log
import Synchronization
package import RTP
package import WebRTCTransport

// @unchecked: what is outside the mutex belongs to the queue that calls `start`, `rebuild` and `stop`.
package final class VideoReceiveBranch: @unchecked Sendable {
    private let path: PathID
    private let output: VideoOutput
    private let followsReceived: Bool
    /// Encoded frames leave, and there is no decoder.
    private let encoding: EncodedOutput?
    private let logger: Logger
    private let frames = Atomic<UInt64>(0)
    private let isolator: ErrorIsolator
    private let timer = CodingTimer()

    private struct Target {
        var codec: VideoCodec
        var bin: Bin
        /// The output's sink pad for decoded frames.
        var exit: Pad
        var markers: LatencyMarkers?
    }
    private var target: Target?
    private var rebuilds: [ContinuousClock.Instant] = []
    /// Decoders that failed before they had decoded a frame, and those that have decoded one.
    private var useless: Set<String> = []
    private var proven: Set<String> = []
    private var framesBefore: UInt64 = 0

    private struct Shared: Sendable {
        var sizing: Element?
        /// All elements, starting with the depayloader.
        var elements: [Element] = []
        var decoderOutput: Pad?
        var decoderName: String?
        /// An element has failed, and `rebuild` has not removed it yet.
        var hasFailed = false
    }
    private let shared = Mutex(Shared())
    private var current: Shared { shared.withLock { $0 } }

    /// The codec of the packets, and that of the elements behind them. Any thread. Each of its decisions is carried out with
    /// the lock held.
    private struct Codecs: Sendable {
        private var arriving: VideoCodec?
        private var decoded: VideoCodec?
        private var isChanging = false
        private var onChange: (@Sendable () -> Void)?

        /// Takes the caps of packets that arrive from now on.
        /// - Returns: called, without the lock, to begin the change to their codec.
        mutating func arrive(_ codec: VideoCodec, _ isolator: ErrorIsolator) -> (@Sendable () -> Void)? {
            arriving = codec
            guard decoded != codec || isChanging else {
                isolator.abandon()
                return nil
            }
            isolator.hold()
            defer { isChanging = true }
            return isChanging ? nil : onChange
        }

        /// Takes the codec of the elements that have been built.
        /// - Returns: that of those to build in their place; nil: the packets go on.
        mutating func next(built: VideoCodec?, _ isolator: ErrorIsolator) -> VideoCodec? {
            decoded = built
            guard let arriving, arriving != decoded else {
                isChanging = false
                isolator.release()
                return nil
            }
            return arriving
        }

        mutating func begin(_ codec: VideoCodec, _ change: @escaping @Sendable () -> Void) {
            (decoded, onChange) = (codec, change)
        }
    }
    private let codecs: CodecSlot
    private final class CodecSlot: Sendable { let value = Mutex(Codecs()) }

    /// - Parameter followsReceived: frames keep the size that they have when they arrive.
    package init(
        path: PathID, output: VideoOutput, followsReceived: Bool, encoding: EncodedOutput? = nil, logger: Logger
    ) {
        self.path = path
        self.encoding = encoding
        self.output = output
        self.followsReceived = followsReceived
        self.logger = logger
        let codecs = CodecSlot()
        self.codecs = codecs
        isolator = ErrorIsolator { caps, isolator in
            guard let codec = VideoCodec(packets: caps) else { return }
            codecs.value.withLock { $0.arrive(codec, isolator) }?()
        }
    }

    /// Decoded frames so far. Any thread.
    package var receivedFrames: UInt64 { frames.load(ordering: .relaxed) }

    /// Factory of the decoder; nil before `start`. Any thread.
    package var decoderName: String? { current.decoderName }
    /// Time for which the thread that decodes has worked. Any thread.
    package var busy: BusyTime { isolator.busy }
    /// Frames decoded so far. Any thread.
    package var codingTime: CodingTime { timer.sum }

    /// Size of the decoded frames before scaling. Any thread.
    package var receivedSize: (width: Int, height: Int)? {
        current.decoderOutput?.currentCaps.flatMap(VideoInfo.init(caps:)).map { ($0.width, $0.height) }
    }

    /// Builds the decoder.
    /// - Parameters:
    ///   - source: pushes RTP, now or later.
    ///   - markers: finds and covers the latency marker of each decoded frame, before scaling.
    ///   - onCodec: called on the thread of the packets if they are of another codec from now on: call `changeCodec`.
    ///   - onFrame: called on the decoder's thread.
    package func start(
        _ codec: VideoCodec, from source: Pad, in bin: Bin, markers: LatencyMarkers?,
        onCodec: @escaping @Sendable () -> Void, onFrame: @escaping @Sendable (_ isFirst: Bool) -> Void
    ) throws {
        let exit = output.makeInput(path: path, onFormat: { [weak self] in self?.applyFormat() }) {
            [weak self] in
            guard let self else { return }
            self.logger.log("decoded a frame")
            onFrame(self.frames.wrappingAdd(1, ordering: .relaxed).oldValue == 0)
        }
        target = Target(codec: codec, bin: bin, exit: exit, markers: markers)
        try build()
        codecs.value.withLock { $0.begin(codec, onCodec) }
        try isolator.open(to: source)
    }

    /// Replaces the elements by those of the codec in which the packets arrive now. They wait meanwhile, and the output
    /// keeps its latest frame, so that it goes on with the first keyframe of the new codec.
    package func changeCodec() throws {
        // It may change again while the elements are built.
        while let built = target?.codec,
            let next = codecs.value.withLock({ $0.next(built: built, isolator) })
        {
            removeElements()
            target?.codec = next
            try build()
        }
    }

    /// Lets no more frames through.
    package func stop() { output.removeInput(path: path) }

    /// Called after the bin has gone to NULL.
    package func close() {
        publish(Shared())
        isolator.close()
        target?.exit.setActive(false)
        target = nil
    }

    // MARK: Failures

    /// Any thread.
    /// - Returns: nil if the error comes from elsewhere; else true if `rebuild` is to be called, which is so for the
    ///   first of the several errors that one failure may post.
    package func claims(_ error: Message) -> Bool? {
        shared.withLock { shared in
            guard shared.elements.contains(where: { error.isFrom(within: $0) }) else { return nil }
            return !exchange(&shared.hasFailed, with: true)
        }
    }

    /// Replaces the failed elements and requests the keyframe with which the video continues.
    /// A decoder that has never decoded a frame gives way to the next one.
    /// - Returns: false, and does nothing, at the third failure within ten seconds.
    package func rebuild() throws -> Bool {
        guard target != nil else { return true }
        if !giveUpUselessDecoder() {
            let now = ContinuousClock.now
            rebuilds = rebuilds.filter { now - $0 < .seconds(10) } + [now]
            guard rebuilds.count < 3 else { return false }
        }
        removeElements()
        try build()
        requestKeyframe()
        return true
    }

    package func requestKeyframe() { isolator.push(upstream: Event.forceKeyUnitUpstream()) }

    private func giveUpUselessDecoder() -> Bool {
        guard let target, let name = decoderName else { return false }
        if receivedFrames != framesBefore { proven.insert(name) }
        let others = target.codec.decoderChoices.filter { $0.factory != name && !useless.contains($0.factory) }
        guard !proven.contains(name), !others.isEmpty else { return false }
        useless.insert(name)
        logger.warning("the decoder \(name) failed before its first frame; the next one by rank takes over")
        return true
    }

    // MARK: Elements

    private func build() throws {
        guard let target else { return }
        if let encoding { return try buildReceiver(target, encoding) }
        let choice = try target.codec.startableDecoder(besides: useless) { [logger] name in
            logger.warning("the decoder \(name) does not start; the next one by rank takes over")
        }
        let decoder = try VideoDecoderBin.make(
            codec: target.codec, choice: choice, timer: timer, keepsTrailers: target.markers != nil)
        framesBefore = receivedFrames
        logger.info("decoder: \(choice.factory), \(target.codec.encodingName)")
        var chain: [Element] = [decoder]
        if let colorimetry = try VideoDecoderBin.makeColorimetry(target.codec) { chain.append(colorimetry) }
        let scale = try Element(factory: "videoscale")
        scale.set("add-borders", true)
        let convert = try Element(factory: "videoconvert")
        let sizing = try Element(factory: "capsfilter")
        chain += [scale, convert, sizing]
        publish(
            Shared(
                sizing: sizing, elements: chain, decoderOutput: decoder.staticPad("src"), decoderName: choice.factory))
        applyFormat()
        // H.264 can be interlaced. videoscale would need filters of the same length for both fields.
        scale.staticPad("sink")?.passAsProgressive()
        if let markers = target.markers { decoder.staticPad("src").map { read($0, markers) } }
        try isolator.link(to: try target.bin.insert(chain, before: target.exit))
    }

    private func buildReceiver(_ target: Target, _ encoding: EncodedOutput) throws {
        let receiver = try EncodedVideoBin.makeReceiver(target.codec, h264Format: encoding.h264Format)
        logger.info("no decoder: \(target.codec.encodingName) leaves encoded")
        publish(Shared(elements: [receiver], decoderOutput: receiver.staticPad("src"), decoderName: decoderName))
        try isolator.link(to: try target.bin.insert([receiver], before: target.exit))
    }

    private func read(_ decoded: Pad, _ markers: LatencyMarkers) {
        // Only for the decoder's thread.
        nonisolated(unsafe) var video: VideoInfo?
        decoded.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
            case .buffer(let buffer):
                guard let video else { break }
                // libvpx's decoder can give on a frame of the former size behind the caps of the next one.
                if video.shortage(of: buffer) != nil { return .drop }
                if let other = markers.read(buffer, video) { return .replace(other) }
            case .query: break
            }
            return .pass
        }
    }

    private func removeElements() {
        // An error of elements that are being removed is no failure of the new decoder.
        let elements = shared.withLock { shared in
            shared.hasFailed = true
            return shared.elements
        }
        isolator.unlink()
        target?.bin.takeOut(elements)
        publish(Shared(decoderName: decoderName))
    }

    private func publish(_ next: Shared) {
        // The former elements are released outside of the lock.
        _ = shared.withLock { exchange(&$0, with: next) }
    }

    /// Sets the size of the frames that leave. The session's queue and the output's streaming thread may be here at once, so
    /// each looks again for a format that is newer than the one it has set.
    private func applyFormat() {
        var applied: OutputFormat?
        while let sizing = current.sizing, case let format = output.format, format != applied {
            let sized = EncoderFrame.caps(width: format.width, height: format.height)
            if let caps = try? Caps(followsReceived ? EncoderFrame.caps : sized) { sizing.set("caps", caps: caps) }
            applied = format
        }
    }
}
