// Turns RTP into frames: depayloader, decoder, scaler. It sits behind an `ErrorIsolator`, which discards downstream
// errors, so that the chain can be rebuilt while RTP keeps arriving. It knows pads and elements; it must not know
// connections or sessions.
import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: fields belong to the session's queue, except those in the mutex.
final class ReceiveChain: @unchecked Sendable {
    private let codec: VideoCodec
    private let bin: Bin
    /// The output's sink pad for decoded frames.
    private var exit: Pad?
    private let isolator = ErrorIsolator()
    private let followsReceived: Bool
    private let markers: LatencyMarkers?

    private struct Shared {
        var format: OutputFormat?
        var sizing: Element?
        /// All elements, starting with the depayloader.
        var elements: [Element] = []
        var decoderOutput: Pad?
    }
    private let shared = Mutex(Shared())

    /// - Parameter markers: finds and covers the latency marker of each decoded frame, before scaling.
    init(codec: VideoCodec, bin: Bin, followsReceived: Bool, markers: LatencyMarkers?) {
        self.markers = markers
        self.codec = codec
        self.bin = bin
        self.followsReceived = followsReceived
    }

    func start(from source: Pad, to exit: Pad) throws {
        self.exit = exit
        try build()
        try isolator.open(to: source)
    }

    /// Sets the size of the frames that leave. Any thread.
    func set(format: OutputFormat) {
        shared.withLock { $0.format = format }
        applyFormat()
    }

    /// True if an element of the chain posted the message. Any thread.
    func isSource(of message: Message) -> Bool {
        shared.withLock(\.elements).contains { message.isFrom(within: $0) }
    }

    /// Size of the decoded frames before scaling. Any thread.
    var receivedSize: (width: Int, height: Int)? {
        shared.withLock(\.decoderOutput)?.currentCaps.flatMap(VideoInfo.init(caps:)).map { ($0.width, $0.height) }
    }

    /// Replaces the failed elements and requests the keyframe with which the video continues.
    /// - Parameter apart: called after the old elements are removed; any failure from then on is a new one.
    func rebuild(_ apart: () -> Void) throws {
        takeApart()
        apart()
        try build()
        isolator.push(upstream: Event.forceKeyUnitUpstream())
    }

    /// Called after the bin has gone to NULL.
    func stop() {
        shared.withLock { $0 = Shared() }
        isolator.close()
    }

    private func build() throws {
        let decoder = try VideoDecoderBin.make(codec: codec)
        var chain: [Element] = [decoder]
        if codec == .vp8 {
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
        bin.add(chain)
        try bin.linkChain(chain)
        shared.withLock {
            $0.sizing = sizing
            $0.elements = chain
            $0.decoderOutput = decoder.staticPad("src")
        }
        applyFormat()
        if let markers { decoder.staticPad("src").map { read($0, markers) } }
        guard let first = decoder.staticPad("sink"), let last = sizing.staticPad("src"), let exit else { return }
        try last.link(exit)
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
        if let exit { exit.peer?.unlink(exit) }
        for element in elements { bin.remove(element) }
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
