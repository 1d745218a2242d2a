// Converts any raw video to I420 frames of the model's size, on a streaming thread of its own. Frames end in `deliver`,
// which never fails and never waits for the network, so that network trouble cannot reach upstream.
package import GStreamerKit
import Synchronization
package import WebRTCTransport

// @unchecked: elements and pads are thread-safe; the rest is locked, or belongs to one thread.
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
    private let order = FrameLine<EncoderFrame, Sources>(Sources())
    private struct Sources: Sendable {
        var black = BlackFrameTimes()
        /// Running time of the last frame of the input that left, processed or not.
        var lastPassed: ClockTime?
    }
    /// Counts changes of the frames that are sent; the tolerance is above the noise of a camera.
    package let motion = MotionMeter(tolerance: 24)
    /// For the thread that delivers the frames, of which there is one at a time (`FrameLine`).
    private var sight = MotionMeter.Sight()
    /// Time for which the queue's thread has worked.
    let busy = BusyTime()

    /// In front of the queue. Only upstream's thread uses this, and the one that starts or stops the element while there is
    /// no other.
    private struct Arrival {
        var info: VideoInfo?
        /// Caps of any kind have come.
        var hasCaps = false
        var tags = TaggedOrientation()
        var onShape: (@Sendable (_ isPortrait: Bool) -> Void)?
    }
    private var arrival = Arrival()

    /// Behind the queue. Only its thread uses this, and `reset` when that has ended.
    private struct Conversion {
        var plan = ConversionPlan()
        /// Caps and size of the frames that leave the elements.
        var converted = ConversionPlan.Shape()
        /// Time at which the current frame left the queue.
        var began: Duration?
        /// Running time of the last frame.
        var latest: ClockTime?
    }
    private var conversion = Conversion()
    private let target = Mutex(ConversionPlan.Target())

    private static let turnEvent = "application/x-decart-rotation"

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
        processing.onFrame = { [weak self] in self?.deliver($1, from: $0) }
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
        behindQueue.addProbe([.downstreamEvent, .buffer]) { [weak self, own = behindQueue.unowned] item in
            guard let self else { return .pass }
            switch item {
            case .event(let event): return take(event, own)
            case .buffer(let frame): return take(frame, own)
            case .query: return .pass
            }
        }
        exit.setChainFunction { [weak self] buffer in
            guard let self else { return .ok }
            deliver(buffer, conversion.converted)
            countBusy()
            return .ok
        }
        exit.setEventFunction { [weak self] event in
            if let self, let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                (conversion.converted.caps, conversion.converted.size) = (event, (info.width, info.height))
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
        target.withLock { $0 = ConversionPlan.Target(width: width, height: height, fit: fit ?? $0.fit) }
    }

    /// Calls `handler` when a frame is lost: in the leaky queue, which drops the oldest frame of a live input (other
    /// inputs wait), or in a slow processor.
    package func onOverrun(_ handler: @escaping @Sendable () -> Void) {
        // `weak` avoids a cycle: the gate's liveness handler retains the queue.
        queue.connect("overrun") { [weak gate] _ in
            if gate?.isLive == true { handler() }
            return nil
        }
        processing.onDrop = handler
    }

    /// Adds a consumer: while one media path takes over from another, there are two. `.raw` is the raw fallback.
    /// - Parameter deliver: returns false for a frame that it leaves out.
    package func addDelivery(path: PathID, _ deliver: @escaping @Sendable (EncoderFrame) -> Bool) {
        order.set(deliver, path: path)
    }
    package func removeDelivery(path: PathID) { order.set(nil, path: path) }

    /// Sets a handler that is called once, with the first frame that arrives, whether it is sent or not. The argument
    /// is true if the input, as displayed, is higher than wide. Call it before the pads are activated.
    package func onShape(_ handler: @escaping @Sendable (_ isPortrait: Bool) -> Void) { arrival.onShape = handler }

    /// Called on upstream's thread, in front of the queue.
    package func arrived(_ event: Event) {
        guard let caps = event.caps else { return }
        arrival.hasCaps = true
        gate.set(framerate: caps.first?.fraction("framerate"))
        if let info = VideoInfo(caps: caps) { arrival.info = info }
    }

    /// Notes the size of an encoded input, whose caps may have none.
    package func arrived(_ size: FrameSize) {
        if let info = OutputFormat(width: size.width, height: size.height).videoInfo { arrival.info = info }
    }

    /// Follows the orientation tags of STREAM_START and TAG: a new upstream source brings other tags, or none. Called on
    /// upstream's thread.
    package func turn(by event: Event) {
        let before = arrival.tags.current
        arrival.tags.update(event)
        if arrival.tags.current != before { sendTurn() }
    }

    /// An event carries the rotation through the queue, in order with the frames.
    private func sendTurn() {
        let rotation = Structure(Self.turnEvent, ("rotation", GValueBox(arrival.tags.current.rawValue)))
        queue.staticPad("sink")?.send(Event.customDownstream(rotation))
    }

    /// Ends the queue's thread, because the frames of an encoded input do not pass it. Called on upstream's thread.
    func rest() {
        queue.setLockedState(true)
        queue.setState(.null)
    }

    /// Starts it again if the element runs. Called on upstream's thread, or after a stop.
    func wake() {
        queue.setLockedState(false)
        queue.syncStateWithParent()
        // Turns of the meantime did not reach it.
        sendTurn()
    }

    /// Called after a stop: caps and tags of the last stream do not apply to the next start.
    package func reset() {
        gate.reset()
        encoded.reset()
        order.clear()
        (conversion.plan, conversion.latest) = (ConversionPlan(), nil)
        arrival = Arrival()
    }

    package enum BufferFault {
        /// It has no caps: it is no frame.
        case noCaps
        /// Elements and encoders map frames by their caps alone, and some read behind the end of a shorter one. A frame
        /// that cannot be read has no bytes.
        case short(bytes: Int, needed: Int)
    }

    /// Called on upstream's thread.
    package func fault(of buffer: Buffer) -> BufferFault? {
        guard arrival.hasCaps else { return .noCaps }
        return arrival.info?.shortage(ofArriving: buffer).map(BufferFault.short)
    }

    /// Called on upstream's thread for each frame.
    package func frameArrived() {
        guard let info = arrival.info, let handler = arrival.onShape.take() else { return }
        // The element does not rotate encoded frames.
        handler(info.isShownHigherThanWide != (arrival.tags.current.swapsSides && !encoded.isOn))
    }

    // MARK: Behind the queue

    private func take(_ event: Event, _ entry: Pad) -> ProbeVerdict {
        switch event.kind {
        case .caps:
            let other = event.asProgressive(below: VideoInfo.fewestInterlacedRows)
            let isForElements = conversion.plan.take(
                caps: other ?? event, isFirst: entry.currentCaps == nil, target.withLock { $0 })
            guard isForElements else { return .drop }
            setUpElements()
            return other.map(ProbeVerdict.replaceEvent) ?? .pass
        case .customDownstream:
            if let structure = event.structure, structure.name == Self.turnEvent,
                let rotation = structure.string("rotation").map(ImageRotation.init(tag:))
            {
                conversion.plan.turn(rotation)
            }
        default: break
        }
        return .pass
    }

    private func take(_ frame: Buffer, _ entry: Pad) -> ProbeVerdict {
        conversion.began = MonotonicTime.now
        switch conversion.plan.take(frame, target.withLock { $0 }) {
        case .lost:
            gate.countDropped()
            return .drop
        case .passesBy(let scaler, let shape):
            // A damaged frame is the elements' to refuse.
            guard let frame = scaler.map({ $0.scaled(frame) }) ?? frame else { break }
            deliver(frame, shape)
            countBusy()
            return .drop
        case .needsElements: break
        }
        if let held = conversion.plan.beginHeld() {
            entry.send(held)
            conversion.plan.endHeld()
        } else {
            setUpElements()
        }
        return .pass
    }

    private func setUpElements() {
        guard let geometry = conversion.plan.takeGeometry() else { return }
        let (target, fit, rotation, input) = (
            geometry.target.size, geometry.target.fit, geometry.rotation, geometry.input
        )
        deinterlace.set("mode", geometry.isUnflagged ? "interlaced" : "auto")
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

    private func deliver(_ buffer: Buffer, _ shape: ConversionPlan.Shape) {
        // The sink pad's probe has replaced the time stamp by the running time.
        let time = buffer.pts
        let frame = EncoderFrame(buffer: buffer, size: shape.size, runningTime: time)
        if blackFrames.isOn {
            processing.rest()
        } else {
            // A new stream or a seek backwards: the times of earlier frames no longer count.
            if let time, let last = conversion.latest, time < last { order.change { $0.lastPassed = nil } }
            conversion.latest = time
            if let caps = shape.caps, processing.process(frame, caps) { return }
        }
        deliver { sources in
            guard sources.black.admits(time, isMuted: blackFrames.isOn, at: MonotonicTime.now) else { return nil }
            sources.lastPassed = time
            return frame
        }
    }

    /// Delivers a processor's frame, on its thread.
    private func deliver(_ frame: EncoderFrame, from processor: Processor) {
        var former: Processor?
        deliver { sources in
            let turn = processing.takesTurn(processor)
            former = turn.former
            guard turn.isCurrent, let time = frame.runningTime, sources.lastPassed.map({ time > $0 }) ?? true
            else { return nil }
            sources.lastPassed = time
            return sources.black.admits(time, isMuted: blackFrames.isOn, at: MonotonicTime.now) ? frame : nil
        }
        if let former { processing.remove([former]) }
    }

    /// Looks at a frame that is sent, on the thread that delivers it.
    func watch(_ frame: Buffer, _ video: VideoInfo) { motion.add(frame, video, now: MonotonicTime.now, to: &sight) }

    private func countBusy() {
        if let began = conversion.began.take() { busy.add(MonotonicTime.now - began) }
    }

    /// Delivers an encoded frame, on upstream's thread.
    package func deliver(encoded frame: EncoderFrame) { deliver { _ in frame } }

    private func deliver(_ frame: (inout Sources) -> EncoderFrame?) {
        let isTaken = order.pass(frame) { frame, consumers in
            var (isLeftOut, isSent) = (false, false)
            let open = gate.snapshot.open
            // A closed media path may still have its consumer here while another one continues.
            for (path, takes) in consumers where open.contains(path) {
                let isUsed = takes(frame)
                guard path != .raw else { continue }
                (isLeftOut, isSent) = (isLeftOut || !isUsed, isSent || isUsed)
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
        blackFrames.start { [weak self] frame in
            // The element still exists while the gate is open: stopping it closes the gate and then waits for this
            // handler.
            guard let self, self.gate.snapshot.isOpen else { return }
            let element = element.retained
            let size = self.target.withLock(\.size)
            guard let black = frame(size.width, size.height) else { return }
            let (running, now) = (element.currentRunningTime, MonotonicTime.now)
            self.deliver { sources in
                guard blackFrames.isOn, let time = sources.black.next(now: running, at: now) else { return nil }
                return EncoderFrame(buffer: black.buffer, size: black.size, runningTime: time)
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

extension ElementProblem {
    /// Buffers came to a sink pad in front of any caps.
    package static func noCaps(on pad: String, medium: String) -> ElementProblem {
        ElementProblem(
            .coreNegotiation,
            "Bytes without caps come to the pad \(pad), and so no \(medium) that the element knows. Put decodebin in front "
                + "of the element, or a demuxer and a decoder; set the property caps of an appsrc.")
    }
}
