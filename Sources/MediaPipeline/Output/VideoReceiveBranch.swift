// The decoder of one media path: turns a connection's RTP into frames for the output, by depayloader, decoder and scaler.
// It sits behind an `ErrorIsolator`, which discards downstream errors, so that the decoder can be rebuilt while RTP keeps
// arriving. It knows pads and elements; it must not know connections.
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: what is outside the mutex belongs to the queue that calls `start`, `rebuild` and `stop`.
package final class VideoReceiveBranch: @unchecked Sendable {
    private let attempt: Int
    private let output: VideoOutput
    private let followsReceived: Bool
    private let frames = Atomic<UInt64>(0)
    private let isolator = ErrorIsolator()

    private struct Target {
        var codec: VideoCodec
        var bin: Bin
        /// The output's sink pad for decoded frames.
        var exit: Pad
        var markers: LatencyMarkers?
    }
    private var target: Target?
    private var rebuilds: [ContinuousClock.Instant] = []

    private struct Shared {
        var format: OutputFormat?
        var sizing: Element?
        /// All elements, starting with the depayloader.
        var elements: [Element] = []
        var decoderOutput: Pad?
        /// An element has failed, and `rebuild` has not removed it yet.
        var hasFailed = false
    }
    private let shared = Mutex(Shared())

    /// - Parameter followsReceived: frames keep the size that they have when they arrive.
    package init(attempt: Int, output: VideoOutput, followsReceived: Bool) {
        self.attempt = attempt
        self.output = output
        self.followsReceived = followsReceived
    }

    /// Decoded frames so far. Any thread.
    package var receivedFrames: UInt64 { frames.load(ordering: .relaxed) }

    /// Size of the decoded frames before scaling. Any thread.
    package var receivedSize: (width: Int, height: Int)? {
        shared.withLock(\.decoderOutput)?.currentCaps.flatMap(VideoInfo.init(caps:)).map { ($0.width, $0.height) }
    }

    /// Builds the decoder.
    /// - Parameters:
    ///   - source: pushes RTP, now or later.
    ///   - markers: finds and covers the latency marker of each decoded frame, before scaling.
    ///   - onFrame: called on the decoder's thread.
    package func start(
        _ codec: VideoCodec, from source: Pad, in bin: Bin, markers: LatencyMarkers?,
        onFrame: @escaping @Sendable (_ isFirst: Bool) -> Void
    ) throws {
        let exit = output.makeInput(attempt: attempt, onFormat: { [weak self] in self?.set(format: $0) }) {
            [weak self] in
            guard let self else { return }
            onFrame(self.frames.wrappingAdd(1, ordering: .relaxed).oldValue == 0)
        }
        target = Target(codec: codec, bin: bin, exit: exit, markers: markers)
        try build()
        try isolator.open(to: source)
    }

    /// Lets no more frames through.
    package func stop() { output.removeInput(attempt: attempt) }

    /// Called after the bin has gone to NULL.
    package func close() {
        shared.withLock { $0 = Shared() }
        isolator.close()
        target?.exit.setActive(false)
        target = nil
    }

    // MARK: Failures

    /// Any thread.
    /// - Returns: nil if the error comes from elsewhere; else true if `rebuild` is to be called, which is so for the
    ///   first of the several errors that one failure may post.
    package func claims(_ error: Message) -> Bool? {
        let elements = shared.withLock(\.elements)
        guard elements.contains(where: { error.isFrom(within: $0) }) else { return nil }
        return shared.withLock { shared in
            defer { shared.hasFailed = true }
            return !shared.hasFailed
        }
    }

    /// Replaces the failed elements and requests the keyframe with which the video continues.
    /// - Returns: false, and does nothing, at the third failure within ten seconds.
    package func rebuild() throws -> Bool {
        let now = ContinuousClock.now
        rebuilds = rebuilds.filter { now - $0 < .seconds(10) } + [now]
        guard rebuilds.count < 3 else { return false }
        takeApart()
        // The old elements are removed, so any failure from now on is a new one.
        shared.withLock { $0.hasFailed = false }
        try build()
        isolator.push(upstream: Event.forceKeyUnitUpstream())
        return true
    }

    // MARK: Elements

    private func build() throws {
        guard let target else { return }
        let decoder = try VideoDecoderBin.make(codec: target.codec)
        var chain: [Element] = [decoder]
        if target.codec == .vp8 {
            // RFC 6386 9.2: VP8 is BT.601, limited range. The decoder sets no colorimetry, and the guess by size may be
            // wrong.
            let colour = try Element(factory: "capssetter")
            colour.set("caps", caps: try Caps("video/x-raw, colorimetry=(string)bt601"))
            chain.append(colour)
        }
        let scale = try Element(factory: "videoscale")
        scale.set("add-borders", true)
        let convert = try Element(factory: "videoconvert")
        let sizing = try Element(factory: "capsfilter")
        chain += [scale, convert, sizing]
        target.bin.add(chain)
        try target.bin.linkChain(chain)
        shared.withLock {
            $0.sizing = sizing
            $0.elements = chain
            $0.decoderOutput = decoder.staticPad("src")
        }
        applyFormat()
        if let markers = target.markers { decoder.staticPad("src").map { read($0, markers) } }
        guard let first = decoder.staticPad("sink"), let last = sizing.staticPad("src") else { return }
        try last.link(target.exit)
        for element in chain.reversed() { element.syncStateWithParent() }
        try isolator.link(to: first)
    }

    private func read(_ decoded: Pad, _ markers: LatencyMarkers) {
        var video: VideoInfo?
        decoded.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
            case .buffer(let buffer): if let video, let other = markers.read(buffer, video) { return .replace(other) }
            case .query: break
            }
            return .pass
        }
    }

    private func takeApart() {
        let elements = shared.withLock { shared in
            defer { (shared.sizing, shared.decoderOutput, shared.elements) = (nil, nil, []) }
            return shared.elements
        }
        isolator.unlink()
        for element in elements {
            element.setLockedState(true)
            element.setState(.null)
        }
        guard let target else { return }
        target.exit.peer?.unlink(target.exit)
        for element in elements { target.bin.remove(element) }
    }

    /// Sets the size of the frames that leave. Any thread.
    private func set(format: OutputFormat) {
        shared.withLock { $0.format = format }
        applyFormat()
    }

    private func applyFormat() {
        let (format, sizing) = shared.withLock { ($0.format, $0.sizing) }
        guard let format, let sizing else { return }
        let size = followsReceived ? "" : ", width=(int)\(format.width), height=(int)\(format.height)"
        let text =
            "video/x-raw, format=(string)I420, colorimetry=(string)bt601, pixel-aspect-ratio=(fraction)1/1\(size)"
        if let caps = try? Caps(text) { sizing.set("caps", caps: caps) }
    }
}
