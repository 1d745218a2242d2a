// Converts any raw video to I420 frames of the model's size, on a streaming thread of its own. Frames end in `deliver`,
// which never fails and never waits for the network, so that network trouble cannot reach upstream.
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: elements and pads are thread-safe; mutable state is in the mutex.
package final class InputChain: @unchecked Sendable {
    package let gate: InputGate
    package let encoded: EncodedInput
    private let queue: Element
    private let formatFilter: Element
    private let deinterlace: Element
    private let crop: Element
    private let scale: Element
    /// Fixes the size between the scaler and the rotation.
    private let unrotatedSizeFilter: Element
    private let flip: Element
    private let sizeFilter: Element
    private let exit = Pad(name: "raw_out", direction: .sink)
    private let elements: [Element]
    private let blackFrames = BlackFrameSource()
    package let processing = ProcessorStage()
    /// Keeps the order of frames from the input's thread, a processor's thread and, while muted, a timer's thread.
    private let order = FrameLine<EncoderFrame>()
    /// Counts changes of the frames that are sent; the tolerance is above the noise of a camera.
    package let motion = MotionMeter(tolerance: 24)
    /// Time for which the queue's thread has worked.
    let busy = BusyTime()

    private struct State {
        var target = (width: 1280, height: 704)
        var fit = Fit.crop
        var rotation = ImageRotation.none
        var input: VideoInfo?
        /// A frame of these caps was flagged as interlaced, so that the others are not.
        var hasInterlaceFlags = false
        var inputCaps = ""
        var caps: Event?
        /// Caps and rotation in front of the queue; `input` and `rotation` apply behind it.
        var arriving: (info: VideoInfo?, rotation: ImageRotation) = (nil, .none)
        /// Caps of any kind have come.
        var hasCaps = false
        var geometryChanged = true
        /// Route of the frames behind the queue; `scaler` exists for the route `.scaler` only.
        var route = InputRoute.elements
        var scaler: FrameScaler?
        /// Caps and segment of the frames that leave the elements, and of those that pass them by.
        var converted = Shape()
        var direct = Shape()
        /// The caps that the processor has.
        var announced: Event?
        /// Consumers by their media path; `.raw` is the raw fallback.
        var deliveries: [PathID: @Sendable (EncoderFrame) -> Bool] = [:]
        /// Time at which the current frame left the queue.
        var began: Duration?
        var onShape: (@Sendable (_ isPortrait: Bool) -> Void)?
    }
    private let state = StateLock(State())

    private struct Shape {
        var caps: Event?
        var size = (width: 0, height: 0)
    }

    /// Caps of the sink pad's template.
    package static let caps = "video/x-raw; \(InputMemory.templateCaps)"

    /// - Parameter sink: the element's sink pad.
    package init(pacing: InputPacing, sink: Pad) throws(GStreamerError) {
        gate = InputGate(pacing: pacing)
        encoded = EncodedInput(sink: sink)
        queue = try Element(factory: "queue", name: "input-queue")
        queue.set("max-size-buffers", 2)
        queue.set("max-size-bytes", 0)
        queue.set("max-size-time", "0")
        let unify = try Element(factory: "videoconvert", name: "input-unify")
        formatFilter = try Element(factory: "capsfilter", name: "input-plain")
        deinterlace = try Element(factory: "deinterlace", name: "input-deinterlace")
        // One frame out per frame in, from lines of that frame alone: this adds no latency.
        deinterlace.set("fields", "top")
        deinterlace.set("method", "linear")
        crop = try Element(factory: "videocrop", name: "input-crop")
        // Scaling before converting halves the cost when an RGB frame shrinks.
        scale = try Element(factory: "videoscale", name: "input-scale")
        let convert = try Element(factory: "videoconvert", name: "input-convert")
        unrotatedSizeFilter = try Element(factory: "capsfilter", name: "input-scaled")
        flip = try Element(factory: "videoflip", name: "input-rotate")
        sizeFilter = try Element(factory: "capsfilter", name: "input-sized")
        elements = [
            queue, unify, formatFilter, deinterlace, crop, scale, convert, unrotatedSizeFilter, flip, sizeFilter,
        ]
        for element in elements { element.set("qos", false) }
        gate.onLiveness { [queue, processing] isLive in
            queue.set("leaky", isLive ? "downstream" : "no")
            processing.set(live: isLive)
        }
        processing.onFrame { [weak self] processor, frame in
            self?.deliver { blackFrames, processing in
                processing.passes(frame, from: processor) && blackFrames.admits(frame.runningTime) ? frame : nil
            }
        }
    }

    /// Adds the elements to the bin and returns the target for its ghost sink pad.
    package func install(in bin: Bin) throws(GStreamerError) -> Pad {
        let (sink, last) = try bin.addAndLink(elements)
        guard let behindQueue = queue.staticPad("src")?.peer else {
            throw GStreamerError(.linkFailed, "the input queue has no pads")
        }
        // Each change of the geometry would ask upstream to negotiate again. Nothing changes for upstream, and a filter
        // whose caps the application is changing could not.
        sink.addProbe(.upstreamEvent) { item in
            guard case .event(let event) = item, event.kind == .reconfigure else { return .pass }
            return .drop
        }
        // This probe is behind the queue, because caps and tag events must not affect frames that are still queued in
        // front of them. Only this thread applies the geometry, between frames: a half-applied one cannot be
        // negotiated. On the queue's own pad, a caps event could still overtake a frame: see `dropFramesOfOtherCaps`.
        behindQueue.addProbe([.downstreamEvent, .buffer]) { [weak self] item in
            var other: Event?
            switch item {
            case .event(let event):
                other = event.asProgressive(below: VideoInfo.fewestInterlacedRows)
                self?.apply(other ?? event)
            case .buffer(let frame): if self?.begin(frame) == false { return .drop }
            case .query: break
            }
            self?.applyGeometryIfChanged()
            if let other { return .replaceEvent(other) }
            guard case .buffer(let frame) = item, self?.deliverDirectly(frame) == true else { return .pass }
            self?.countBusy()
            return .drop
        }
        exit.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            self.deliver(buffer, self.state.read(\.converted))
            self.countBusy()
            return .ok
        }
        exit.setEventFunction { [weak self] event in
            if let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                self?.state.withLock {
                    $0.converted.caps = event; $0.converted.size = (info.width, info.height)
                }
            }
            return .handled(true)
        }
        // The encoder, and the elements behind the raw fallback and a processor, map frames by their GstVideoMeta.
        exit.setQueryFunction { query in
            guard query.kind == .allocation else { return .forward }
            query.answerFramesMayHaveStrides()
            return .answered
        }
        exit.setActive(true)
        try last.link(exit)
        return sink
    }

    /// Sets the size of the frames that leave and how the input fits into it, at any time.
    /// - Parameter fit: nil: as before.
    package func configure(width: Int, height: Int, fit: Fit?) {
        state.withLock {
            $0.target = (width, height)
            $0.fit = fit ?? $0.fit
            $0.geometryChanged = true
        }
    }

    /// Calls `handler` when a frame is lost: in the leaky queue, which drops the oldest frame of a live input (other
    /// inputs wait), or in a slow processor.
    package func onOverrun(_ handler: @escaping @Sendable () -> Void) {
        // `weak` avoids a cycle: the gate's liveness handler retains the queue.
        queue.connect("overrun") { [weak gate] _ in
            if gate?.isLive == true { handler() }
            return nil
        }
        processing.onDrop(handler)
    }

    /// Adds a consumer: while one media path takes over from another, there are two.
    /// - Parameter deliver: returns false for a frame that it leaves out.
    package func addDelivery(path: PathID, _ deliver: @escaping @Sendable (EncoderFrame) -> Bool) {
        state.withLock { $0.deliveries[path] = deliver }
    }
    package func removeDelivery(path: PathID) { _ = state.withLock { $0.deliveries.removeValue(forKey: path) } }

    /// Sets a handler that is called once, with the first frame that arrives, whether it is sent or not. The argument
    /// is true if the input, as displayed, is higher than wide.
    package func onShape(_ handler: (@Sendable (_ isPortrait: Bool) -> Void)?) {
        state.withLock { $0.onShape = handler }
    }

    /// Called on upstream's thread, in front of the queue.
    package func arrived(_ event: Event) {
        guard let caps = event.caps else { return }
        state.withLock { $0.hasCaps = true }
        gate.set(framerate: caps.first?.fraction("framerate"))
        guard let info = VideoInfo(caps: caps) else { return }
        state.withLock { $0.arriving.info = info }
    }

    /// Notes the size of an encoded input, whose caps may have none.
    package func arrived(_ size: FrameSize) {
        guard let info = OutputFormat(width: size.width, height: size.height).videoInfo else { return }
        state.withLock { $0.arriving.info = info }
    }

    /// Called after a stop: caps and tags of the last stream do not apply to the next start.
    package func reset() {
        gate.reset()
        encoded.reset()
        order.clear()
        state.withLock {
            ($0.rotation, $0.arriving, $0.input) = (.none, (nil, .none), nil)
            ($0.inputCaps, $0.caps, $0.route, $0.scaler) = ("", nil, .elements, nil)
            $0.hasCaps = false
        }
    }

    package func arrived(_ rotation: ImageRotation) { state.withLock { $0.arriving.rotation = rotation } }

    package enum BufferFault {
        /// It has no caps: it is no frame.
        case noCaps
        /// Elements and encoders map frames by their caps alone, and some read behind the end of a shorter one. A frame
        /// that cannot be read has no bytes.
        case short(bytes: Int, needed: Int)
    }

    /// Called on upstream's thread.
    package func fault(of buffer: Buffer) -> BufferFault? {
        let (info, hasCaps) = state.read { ($0.arriving.info, $0.hasCaps) }
        guard hasCaps else { return .noCaps }
        return info?.shortage(ofArriving: buffer).map(BufferFault.short)
    }

    /// Called on upstream's thread for each frame.
    package func frameArrived() {
        guard let handler = state.read(\.onShape) else { return }
        let (info, rotation) = state.read(\.arriving)
        guard let info else { return }
        state.withLock { $0.onShape = nil }
        // The element does not rotate encoded frames.
        handler(info.isShownHigherThanWide != (rotation.swapsSides && !encoded.isOn))
    }

    private func apply(_ event: Event) {
        switch event.kind {
        case .caps:
            guard let caps = event.caps, let info = VideoInfo(caps: caps) else { return }
            let text = caps.description
            state.withLock { state in
                // Setting the crop makes upstream send its caps again; to react to those would loop forever.
                guard state.inputCaps != text else { return }
                state.inputCaps = text
                state.caps = event
                state.input = info
                state.hasInterlaceFlags = false
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

    /// A frame has left the queue.
    /// - Returns: false if it is not of the present caps: it is lost, and counted.
    private func begin(_ frame: Buffer) -> Bool {
        if state.read(\.input)?.shortage(of: frame) != nil {
            gate.countDropped()
            return false
        }
        state.withLock { state in
            state.began = MonotonicTime.now
            guard !state.hasInterlaceFlags, frame.isInterlaced, state.input?.isMixed == true else { return }
            (state.hasInterlaceFlags, state.geometryChanged) = (true, true)
        }
        return true
    }

    private func applyGeometryIfChanged() {
        let changed = state.withLock {
            exchange(&$0.geometryChanged, with: false) ? ($0.target, $0.fit, $0.rotation, $0.input) : nil
        }
        guard let (target, fit, rotation, input) = changed else { return }
        setRoute(to: target, fit, rotation)
        let isUnflagged = state.read { $0.input?.isMixed == true && !$0.hasInterlaceFlags }
        deinterlace.set("mode", isUnflagged ? "interlaced" : "auto")
        if let caps = try? Caps(PlainFormats.caps(for: input, fit)) { formatFilter.set("caps", caps: caps) }
        let before = rotation.swapsSides ? (width: target.height, height: target.width) : target
        let turned = try? Caps(EncoderFrame.caps(width: before.width, height: before.height))
        let final = try? Caps(EncoderFrame.caps(width: target.width, height: target.height))
        // Upstream may ask for caps on its own thread at any of these steps. The size between scaler and rotation stays
        // open until the last step, because a rotation that fits to only one of the two sizes leaves no caps at all,
        // and upstream then ends with "not negotiated".
        if let anySize = try? Caps(EncoderFrame.caps) { unrotatedSizeFilter.set("caps", caps: anySize) }
        scale.set("add-borders", fit == .letterbox)
        flip.set("video-direction", rotation.videoDirection)
        // videoflip 1.22 copies each frame that it does not turn.
        flip.setPassthrough(rotation == .none)
        if let final { sizeFilter.set("caps", caps: final) }
        if let turned { unrotatedSizeFilter.set("caps", caps: turned) }
        let cut = fit == .crop ? input.map { Cropping($0, toFill: before) } ?? Cropping() : Cropping()
        crop.set("left", cut.horizontal)
        crop.set("right", cut.horizontal)
        crop.set("top", cut.vertical)
        crop.set("bottom", cut.vertical)
    }

    /// Decides if the next frames pass the elements by. The elements get the same caps and geometry all the same, so
    /// that they can take over with any frame.
    private func setRoute(to target: (width: Int, height: Int), _ fit: Fit, _ rotation: ImageRotation) {
        let (input, event) = state.read { ($0.input, $0.caps) }
        var route = InputRoute.elements
        var scaler: FrameScaler?
        var caps = event
        if let input, let own = event?.caps {
            route = InputRoute(own, input, target: target, fit: fit, rotation: rotation)
            if case .scaler(let placement) = route {
                let format = OutputFormat(width: target.width, height: target.height, framerate: input.framerate)
                let sent = try? Caps(format.capsText)
                scaler = sent.flatMap(VideoInfo.init(caps:)).flatMap { FrameScaler(input, to: $0, placement) }
                caps = sent.map(Event.caps)
                if scaler == nil { route = .elements }
            }
        }
        state.withLock { ($0.route, $0.scaler, $0.direct.caps, $0.direct.size) = (route, scaler, caps, target) }
    }

    /// Returns false if the frame is to go through the elements.
    private func deliverDirectly(_ frame: Buffer) -> Bool {
        let (route, scaler, shape) = state.read { ($0.route, $0.scaler, $0.direct) }
        switch route {
        case .elements: return false
        case .unchanged: deliver(frame, shape)
        case .scaler:
            // A damaged frame is the elements' to refuse.
            guard let scaled = scaler?.scaled(frame) else { return false }
            deliver(scaled, shape)
        }
        return true
    }

    private func deliver(_ buffer: Buffer, _ shape: Shape) {
        let isNew = state.withLock { exchange(&$0.announced, with: shape.caps) !== shape.caps }
        if isNew, let caps = shape.caps { processing.store(caps: caps) }
        // The sink pad's probe has replaced the time stamp by the running time.
        let time = buffer.pts
        let frame = EncoderFrame(buffer: buffer, size: shape.size, runningTime: time)
        if blackFrames.isOn {
            processing.rest()
        } else if processing.process(frame) {
            return
        }
        deliver { blackFrames, processing in
            guard blackFrames.admits(time) else { return nil }
            processing.passed(frame)
            return frame
        }
    }

    private func countBusy() {
        if let began = state.withLock({ $0.began.take() }) { busy.add(MonotonicTime.now - began) }
    }

    /// Delivers an encoded frame, on upstream's thread.
    package func deliver(encoded frame: EncoderFrame) { deliver { _, _ in frame } }

    private func deliver(_ frame: (BlackFrameSource, ProcessorStage) -> EncoderFrame?) {
        let isTaken = order.pass({ frame(blackFrames, processing) }) { frame in
            var (isLeftOut, isSent) = (false, false)
            // A closed media path may still have its delivery here while another one continues.
            for delivery in state.read(\.deliveries) where gate.isOpen(path: delivery.key) {
                let takes = delivery.value(frame)
                guard delivery.key != .raw else { continue }
                (isLeftOut, isSent) = (isLeftOut || !takes, isSent || takes)
            }
            // The branch of an encoded input counts for itself: it drops frames.
            guard frame.encoded == nil else { return }
            if isSent { gate.countSent() } else if isLeftOut { gate.countRateLimited() }
        }
        if !isTaken { gate.countDropped() }
    }

    /// Replaces the input by black frames from the next frame on.
    package func setMuted(_ isMuted: Bool, element: ElementHandle) {
        guard isMuted else { return blackFrames.stop() }
        blackFrames.start { [weak self] in
            // The element still exists while the gate is open: stopping it closes the gate and then waits for this
            // handler.
            guard let self, self.gate.isOpen else { return }
            let element = element.retained
            let size = self.state.read(\.target)
            let now = element.currentRunningTime
            self.deliver { blackFrames, _ in
                blackFrames.frame(width: size.width, height: size.height, now: now)
            }
        }
    }
}

extension InputChain {
    /// Called when the element stops: returns once no black frame is in flight.
    package func finishMuting() { blackFrames.finish() }
}

extension VideoInfo {
    fileprivate var isShownHigherThanWide: Bool { height &* pixelAspectRatio.1 > width &* pixelAspectRatio.0 }
}

extension ImageRotation {
    /// Name of the event that carries a rotation through the chain.
    package static let eventName = "application/x-decart-rotation"
}

extension ElementProblem {
    /// Buffers came to a sink pad in front of any caps.
    package static func noCaps(on pad: String, medium: String) -> ElementProblem {
        ElementProblem(
            .coreNegotiation,
            "Bytes without caps come to the pad \(pad), and so no \(medium) that the element knows. Put decodebin in front "
                + "of the element, or a demuxer and a decoder; set the property caps of an appsrc.")
    }
}
