// From any raw video to I420 frames of the model's size, on one streaming thread of its own. It knows pictures; it
// must not know sessions. Frames end in `deliver`, which never blocks and never fails, so that no trouble of the
// network reaches upstream.
import GStreamerKit
import Synchronization
import WebRTCTransport

/// A frame as the encoder takes it.
struct EncoderFrame: Sendable {
    let buffer: Buffer
    /// Of this very frame: a change of geometry takes effect between two frames.
    let size: (width: Int, height: Int)
    let runningTime: ClockTime?
}

// @unchecked: elements and pads lock themselves; what changes is in the mutex.
final class InputChain: @unchecked Sendable {
    let gate: InputGate
    private let queue: Element
    private let plain: Element
    private let crop: Element
    private let scale: Element
    private let scaled: Element
    private let flip: Element
    private let sized: Element
    private let end = Pad(name: "raw_out", direction: .sink)
    private let elements: [Element]
    private let muted = MutedInput()
    let processing = ProcessorStage()
    /// Frames come from the input's thread, a processor's and, black ones, from a timer's. Their order is kept.
    private let line = FrameLine<EncoderFrame>()

    private struct State {
        var target = (width: 1280, height: 704)
        var fit = TransformSettings.Fit.crop
        var rotation = ImageRotation.none
        var input: VideoInfo?
        var inputCaps = ""
        /// Before the queue; `input` and `rotation` are behind it.
        var arriving: (info: VideoInfo?, rotation: ImageRotation) = (nil, .none)
        var geometryChanged = true
        /// Smaller than the target while the network is narrow.
        var scale = DegradationLadder.Scale.full
        /// Of the frames that leave now.
        var frameSize = (width: 0, height: 0)
        var segment: Event?
        /// By the rank of the media path; `rawRank` is the fallback's.
        var deliveries: [Int: @Sendable (EncoderFrame) -> Void] = [:]
        var onShape: (@Sendable (_ isPortrait: Bool) -> Void)?
    }
    private let state = Mutex(State())

    /// The delivery of raw pictures for `fallback=passthrough`.
    static let rawRank = -1

    /// What a sink pad may take; the same text stands in the pad template.
    static let caps = "video/x-raw"

    /// Of frames as they are encoded.
    static func encodedCaps(width: Int, height: Int) -> String {
        "video/x-raw, format=(string)I420, width=(int)\(width), height=(int)\(height), "
            + "colorimetry=(string)bt601, pixel-aspect-ratio=(fraction)1/1"
    }

    init(pacing: InputPacing) throws(GStreamerError) {
        gate = InputGate(pacing: pacing)
        queue = try Element(factory: "queue", name: "input-queue")
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        let unify = try Element(factory: "videoconvert", name: "input-unify")
        plain = try Element(factory: "capsfilter", name: "input-plain")
        let deinterlace = try Element(factory: "deinterlace", name: "input-deinterlace")
        // One picture out for one in, from lines of that picture alone: no delay.
        deinterlace.set("fields", "top")
        deinterlace.set("method", "linear")
        crop = try Element(factory: "videocrop", name: "input-crop")
        // Scaling before converting costs half as much when an RGB picture shrinks.
        scale = try Element(factory: "videoscale", name: "input-scale")
        let convert = try Element(factory: "videoconvert", name: "input-convert")
        scaled = try Element(factory: "capsfilter", name: "input-scaled")
        flip = try Element(factory: "videoflip", name: "input-rotate")
        sized = try Element(factory: "capsfilter", name: "input-sized")
        elements = [queue, unify, plain, deinterlace, crop, scale, convert, scaled, flip, sized]
        for element in elements { element.set("qos", false) }
        gate.onLiveness { [queue, processing] isLive in
            queue.set("leaky", isLive ? "downstream" : "no")
            processing.set(live: isLive)
        }
        processing.onPicture { [weak self] processor, frame in
            self?.deliver { muted, processing in
                processing.passes(frame, from: processor) && muted.admits(frame.runningTime) ? frame : nil
            }
        }
    }

    /// What videocrop can cut: it says yes to every other format as well, and then fails.
    static let plainFormats = [
        "I420", "YV12", "Y42B", "Y444", "Y41B", "NV12", "NV21", "YUY2", "UYVY", "YVYU", "AYUV", "RGBx", "BGRx", "xRGB", "xBGR",
        "RGBA", "BGRA", "ARGB", "ABGR", "RGB", "BGR", "RGB16", "RGB15", "GRAY8", "GRAY16_LE", "GRAY16_BE", "v210", "I420_10LE",
        "I420_10BE", "I422_10LE", "I422_10BE", "Y444_10LE", "Y444_10BE", "I420_12LE", "I420_12BE", "I422_12LE", "I422_12BE",
        "Y444_12LE", "Y444_12BE",
    ]

    private static func plainCaps(for input: VideoInfo?) -> String {
        // By way of RGB, for videoconvert 1.22 copies samples from full to limited range when the matrix is the same.
        let isFullRange = input?.isFullRangeYUV ?? false
        return "video/x-raw, format=(string)\(isFullRange ? "BGRx" : "{ \(plainFormats.joined(separator: ", ")) }")"
    }

    /// Adds everything to the element's bin and gives the pad that its sink pad stands for.
    func install(in bin: Bin) throws(GStreamerError) -> Pad {
        bin.add(elements)
        try bin.linkChain(elements)
        guard let sink = queue.staticPad("sink"), let source = queue.staticPad("src"), let last = sized.staticPad("src") else {
            throw GStreamerError(.linkFailed, "the input queue has no pads")
        }
        // Behind the queue: what a caps or a tag event changes must not touch frames that are still queued before it.
        // Geometry is applied on this thread only, between frames: half of it set is a size that nobody can negotiate.
        source.addProbe([.downstreamEvent, .buffer]) { [weak self] item in
            if case .event(let event) = item { self?.take(event) }
            self?.applyGeometryIfChanged()
            return .pass
        }
        end.setChainFunction { [weak self] buffer in
            self?.deliver(buffer)
            return .ok
        }
        end.setEventFunction { [weak self] event in
            if event.kind == .segment { self?.state.withLock { $0.segment = event } }
            if let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                self?.state.withLock { $0.frameSize = (info.width, info.height) }
                self?.processing.take(caps: event)
            }
            return .handled(true)
        }
        end.setActive(true)
        try last.link(end)
        return sink
    }

    /// Size of the frames that leave; `fit` may change at any time.
    func configure(width: Int, height: Int, fit: TransformSettings.Fit) {
        state.withLock {
            $0.target = (width, height)
            $0.fit = fit
            $0.geometryChanged = true
        }
    }

    func resize(width: Int, height: Int) {
        state.withLock {
            $0.target = (width, height)
            $0.geometryChanged = true
        }
    }

    /// Smaller pictures for a network that does not carry the full size.
    func setScale(_ scale: DegradationLadder.Scale) {
        state.withLock { state in
            guard state.scale != scale else { return }
            state.scale = scale
            state.geometryChanged = true
        }
    }

    /// Called when the queue gave a frame up: it is leaky for a live input, whose oldest frame gives way. Any other waits.
    func onOverrun(_ handler: @escaping @Sendable () -> Void) {
        // Weakly, for the gate's handler holds the queue.
        queue.connect("overrun") { [weak gate] _ in
            if gate?.isLive == true { handler() }
            return nil
        }
        processing.onDrop(handler)
    }

    /// Frames go to every media path that is there: while one takes over from another there are two.
    func addDelivery(rank: Int, _ deliver: @escaping @Sendable (EncoderFrame) -> Void) {
        state.withLock { $0.deliveries[rank] = deliver }
    }
    func removeDelivery(rank: Int) { _ = state.withLock { $0.deliveries.removeValue(forKey: rank) } }

    /// Told once, with the first frame that arrives, sent or not: whether the input as it is displayed is higher than
    /// wide.
    func onShape(_ handler: (@Sendable (_ isPortrait: Bool) -> Void)?) { state.withLock { $0.onShape = handler } }

    /// Upstream's thread, before the queue.
    func arrived(_ event: Event) {
        guard let info = event.caps.flatMap(VideoInfo.init(caps:)) else { return }
        state.withLock { $0.arriving.info = info }
    }

    /// Before another start: what the last stream's tags said does not count.
    func reset() {
        gate.reset()
        state.withLock { ($0.rotation, $0.arriving, $0.input) = (.none, (nil, .none), nil) }
    }

    func arrived(_ rotation: ImageRotation) { state.withLock { $0.arriving.rotation = rotation } }

    /// Upstream's thread, with each frame.
    func frameArrived() {
        let (arriving, handler) = state.withLock { state in
            defer { if state.arriving.info != nil { state.onShape = nil } }
            return (state.arriving, state.onShape)
        }
        guard let handler, let info = arriving.info else { return }
        handler(info.isShownHigherThanWide != arriving.rotation.swapsSides)
    }

    private func take(_ event: Event) {
        switch event.kind {
        case .caps:
            guard let caps = event.caps, let info = VideoInfo(caps: caps) else { return }
            let text = caps.description
            state.withLock { state in
                // Setting the crop asks upstream for its caps again; to set it again for those would never end.
                guard state.inputCaps != text else { return }
                state.inputCaps = text
                state.input = info
                state.geometryChanged = true
            }
        case .customDownstream:
            guard let structure = event.structure, structure.name == ImageRotation.eventName,
                let rotation = structure.string("rotation").map(ImageRotation.init(tag:))
            else { return }
            state.withLock {
                $0.rotation = rotation
                $0.geometryChanged = true
            }
        default: break
        }
    }

    private func applyGeometryIfChanged() {
        let changed = state.withLock { state in
            defer { state.geometryChanged = false }
            return state.geometryChanged ? (state.target, state.scale, state.fit, state.rotation, state.input) : nil
        }
        guard let (full, factor, fit, rotation, input) = changed else { return }
        let target = (width: factor.applied(to: full.width), height: factor.applied(to: full.height))
        if let caps = try? Caps(Self.plainCaps(for: input)) { plain.set("caps", caps: caps) }
        let before = rotation.swapsSides ? (width: target.height, height: target.width) : target
        let turned = try? Caps(Self.encodedCaps(width: before.width, height: before.height))
        let final = try? Caps(Self.encodedCaps(width: target.width, height: target.height))
        scale.set("add-borders", fit == .letterbox)
        flip.set("video-direction", rotation.videoDirection)
        if let turned { scaled.set("caps", caps: turned) }
        if let final { sized.set("caps", caps: final) }
        let cut = fit == .crop ? input.map { Cropping($0, toFill: before) } ?? Cropping() : Cropping()
        crop.set("left", cut.horizontal)
        crop.set("right", cut.horizontal)
        crop.set("top", cut.vertical)
        crop.set("bottom", cut.vertical)
    }

    private func deliver(_ buffer: Buffer) {
        let (segment, size) = state.withLock { ($0.segment, $0.frameSize) }
        let time = buffer.pts.flatMap { segment?.runningTime(of: $0) }
        let frame = EncoderFrame(buffer: buffer, size: size, runningTime: time)
        if muted.isOn {
            processing.rest()
        } else if processing.take(frame) {
            return
        }
        deliver { muted, processing in
            guard muted.admits(time) else { return nil }
            processing.passed(frame)
            return frame
        }
    }

    private func deliver(_ frame: (MutedInput, ProcessorStage) -> EncoderFrame?) {
        let isTaken = line.pass({ frame(muted, processing) }) { frame in
            // One may still be there whose path is closed, while another's frames go on.
            let deliveries = state.withLock { Array($0.deliveries) }.filter { gate.isOpen(rank: $0.key) }
            if deliveries.contains(where: { $0.key != Self.rawRank }) { gate.countSent() }
            for delivery in deliveries { delivery.value(frame) }
        }
        if !isTaken { gate.countDropped() }
    }

    /// Black in place of the input, from the frame after the present one on.
    func setMuted(_ isMuted: Bool, element: ElementHandle) {
        guard isMuted else { return muted.stop() }
        muted.start { [weak self] in
            // While the gate lets frames pass the element is there: its end shuts the gate and waits for what is done
            // here.
            guard let self, self.gate.lets else { return }
            let element = element.retained
            let (full, scale) = self.state.withLock { ($0.target, $0.scale) }
            let now = element.currentRunningTime
            self.deliver { muted, _ in
                muted.picture(width: scale.applied(to: full.width), height: scale.applied(to: full.height), now: now)
            }
        }
    }
}

extension InputChain {
    /// The element stops: returns when no black frame is on its way any more.
    func finishMuting() { muted.finish() }
}

extension VideoInfo {
    fileprivate var isShownHigherThanWide: Bool { height &* pixelAspectRatio.1 > width &* pixelAspectRatio.0 }
}

/// Pixels to take off each side so that the rest has the target's shape; even, for subsampled chroma.
struct Cropping: Equatable {
    var horizontal = 0
    var vertical = 0

    init() {}

    init(_ input: VideoInfo, toFill target: (width: Int, height: Int)) {
        let (numerator, denominator) = input.pixelAspectRatio
        self.init(
            width: input.width, height: input.height, pixelAspectRatio: (numerator, denominator), target: target)
    }

    init(width: Int, height: Int, pixelAspectRatio: (Int, Int), target: (width: Int, height: Int)) {
        guard width > 0, height > 0, target.width > 0, target.height > 0, pixelAspectRatio.0 > 0, pixelAspectRatio.1 > 0
        else { return }
        let ratio = Double(pixelAspectRatio.0) / Double(pixelAspectRatio.1)
        let wanted = Double(target.width) / Double(target.height)
        let actual = Double(width) * ratio / Double(height)
        if actual > wanted {
            let kept = Double(height) * wanted / ratio
            horizontal = max(0, min((width - 1) / 2, Int((Double(width) - kept) / 4) * 2))
        } else {
            let kept = Double(width) * ratio / wanted
            vertical = max(0, min((height - 1) / 2, Int((Double(height) - kept) / 4) * 2))
        }
    }
}

/// What an `image-orientation` tag asks for, in videoflip's terms.
enum ImageRotation: String, Sendable, CaseIterable {
    case none = "rotate-0"
    case right = "rotate-90"
    case half = "rotate-180"
    case left = "rotate-270"
    case flipped = "flip-rotate-0"
    case flippedRight = "flip-rotate-90"
    case flippedHalf = "flip-rotate-180"
    case flippedLeft = "flip-rotate-270"

    static let eventName = "application/x-decart-rotation"

    init(tag: String) { self = ImageRotation(rawValue: tag) ?? .none }

    var swapsSides: Bool {
        switch self {
        case .right, .left, .flippedRight, .flippedLeft: true
        default: false
        }
    }

    /// As gst_video_orientation_from_tag maps them.
    var videoDirection: String {
        switch self {
        case .none: "identity"
        case .right: "90r"
        case .half: "180"
        case .left: "90l"
        case .flipped: "horiz"
        case .flippedRight: "ur-ll"
        case .flippedHalf: "vert"
        case .flippedLeft: "ul-lr"
        }
    }
}
