// From RTP to pictures: depayloader, decoder, scaling. It stands behind a pair of bare pads that swallow whatever goes
// wrong after them, for an error that reached the jitter buffer would stop it for good; so the chain can be made anew
// while packets come. It knows pads and elements; it must not know connections or sessions.
import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: fields belong to the session's queue, but for what is in the mutex.
final class ReceiveChain: @unchecked Sendable {
    private let codec: VideoCodec
    private let bin: Bin
    /// The decoded pictures' way out.
    private var exit: Pad?
    private let outside = Pad(name: "packets_in", direction: .sink)
    private let inside = Pad(name: "packets_out", direction: .source)
    private let followsReceived: Bool
    private let marks: PictureMarks?

    private struct Shared {
        var format: OutputFormat?
        var sizing: Element?
        /// From the depayloader on.
        var elements: [Element] = []
        var decoderOutput: Pad?
    }
    private let shared = Mutex(Shared())

    /// - Parameter marks: reads each decoded picture, before it is scaled.
    init(codec: VideoCodec, bin: Bin, followsReceived: Bool, marks: PictureMarks?) {
        self.marks = marks
        self.codec = codec
        self.bin = bin
        self.followsReceived = followsReceived
        outside.setChainFunction { [own = inside.unowned] buffer in
            _ = own.push(buffer)
            return .ok
        }
        outside.setEventFunction { [own = inside.unowned] event in
            own.push(event)
            return .handled(true)
        }
        inside.setEventFunction { [own = outside.unowned] event in .handled(own.push(event)) }
        outside.setActive(true)
        inside.setActive(true)
    }

    func start(from source: Pad, to exit: Pad) throws {
        self.exit = exit
        try build()
        try source.link(outside)
    }

    /// Decoded pictures are to leave in this size; any thread.
    func set(format: OutputFormat) {
        shared.withLock { $0.format = format }
        applyFormat()
    }

    /// Whether the message is from an element of the chain; any thread.
    func isSource(of message: Message) -> Bool {
        shared.withLock(\.elements).contains { message.isFrom(within: $0) }
    }

    /// Size of the decoded pictures before they are scaled; any thread.
    var receivedSize: (width: Int, height: Int)? {
        shared.withLock(\.decoderOutput)?.currentCaps.flatMap(VideoInfo.init(caps:)).map { ($0.width, $0.height) }
    }

    /// New elements in place of those that failed; the pictures go on with the next key frame, which is asked for.
    /// - Parameter apart: called in between: what fails from then on is new.
    func rebuild(_ apart: () -> Void) throws {
        takeApart()
        apart()
        try build()
        outside.push(Event.forceKeyUnitUpstream())
    }

    /// Before the bin is taken down.
    func stop() {
        shared.withLock { $0 = Shared() }
        outside.setActive(false)
        inside.setActive(false)
    }

    private func build() throws {
        let decoder = try VideoDecoderBin.make(codec: codec)
        var chain: [Element] = [decoder]
        if codec == .vp8 {
            // RFC 6386 9.2: VP8 is BT.601, limited range. The decoder says nothing, and the guess by size may be wrong.
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
        if let marks { decoder.staticPad("src").map { read($0, marks) } }
        guard let first = decoder.staticPad("sink"), let last = sizing.staticPad("src"), let exit else { return }
        try last.link(exit)
        for element in chain.reversed() { element.syncStateWithParent() }
        try inside.link(first)
    }

    private func read(_ pictures: Pad, _ marks: PictureMarks) {
        var video: VideoInfo?
        pictures.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
            case .buffer(let buffer): if let video, let other = marks.read(buffer, video) { return .replace(other) }
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
        if let first = inside.peer { inside.unlink(first) }
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
        let text = "video/x-raw, format=(string)I420, colorimetry=(string)bt601, pixel-aspect-ratio=(fraction)1/1\(size)"
        if let caps = try? Caps(text) { sizing.set("caps", caps: caps) }
    }
}
