// A source that delivers or is about to: a bin of its own alongside others, linked to the selector.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

/// A source that has been chosen for capture.
struct CapturePlan: Sendable {
    enum Kind: Sendable {
        case testPattern(caps: Caps?)
        case description(String, caps: Caps?)
        case camera(Camera, caps: Caps?)
        /// - Parameter audioEntry: takes the camera's audio.
        case live(LiveCamera, audioEntry: Pad?)
    }
    var kind: Kind
    /// Decides about mirroring in mode `auto`.
    var position: CameraPosition

    var camera: Camera? {
        if case .camera(let camera, _) = kind { camera } else { nil }
    }

    var live: LiveCamera? {
        if case .live(let camera, _) = kind { camera } else { nil }
    }

    /// The property to check if its elements do not link, as the end of an error.
    var remedy: String {
        switch kind {
        case .testPattern(_?), .description(_, _?): " Check capture-caps."
        case .description(let text, nil) where text.hasPrefix("/dev/"):
            " Set device=\(text.printable(limit: 100)) for that camera."
        case .description(let text, _) where !text.contains(" "):
            " Give elements, as source='filesrc location=clip.mp4 ! decodebin'."
        default: ""
        }
    }

    /// Name of the source in messages.
    var label: String {
        switch kind {
        case .testPattern: "the test source"
        case .description: "the source"
        case .camera(let camera, _): "the camera '\(camera.name)' (\(camera.id))"
        case .live(let camera, _): camera.settings.label
        }
    }
}

/// Running time of the latest frame of all sources of an element, ns; negative before the first one, and after the
/// pipeline's running time has gone back.
final class LatestFrameTime: Sendable {
    private struct State {
        var clock = RunningClock()
        var time: Int64 = -1
    }
    private let state = Mutex(State())

    func reset() { state.withLock { $0 = State() } }

    /// - Parameter now: the present running time.
    func value(at now: ClockTime?) -> Int64 {
        state.withLock { state in
            if let now, state.clock.follow(now) { state.time = -1 }
            return state.time
        }
    }

    func set(_ time: Int64) { state.withLock { $0.time = time } }
}

// @unchecked: elements, pads and the mutex lock themselves; `silence` belongs to the switch's queue, `offset` to the streaming
// thread.
final class Capture: CameraCapture, @unchecked Sendable {
    let plan: CapturePlan
    var camera: Camera? { plan.camera }
    private let bin: Bin
    private let output: GhostPad
    private var audioOutput: GhostPad?

    private let selectorPad = Mutex<Pad?>(nil)
    private let frames = Atomic<UInt64>(0)
    private let isMarkedLost = Atomic(false)
    private var silence = SilenceWatch()
    private let latest: LatestFrameTime
    /// How far the pad's offset moves the source's time line, ns.
    private var offset: Int64 = 0

    /// - Parameter number: makes the bin's name unique in the element, for logs and graphs.
    init(_ plan: CapturePlan, number: Int, latest: LatestFrameTime) throws(ElementProblem) {
        (self.plan, self.latest) = (plan, latest)
        bin = Bin(name: "capture-\(number)")
        do throws(GStreamerError) {
            let chain = try Self.chain(plan)
            bin.add(chain)
            try bin.linkChain(chain)
            guard let last = chain.last?.staticPad("src") else {
                throw GStreamerError(.badDescription, "it must have exactly one unlinked source pad")
            }
            output = try GhostPad(name: "src", target: last)
        } catch {
            switch error.code {
            case .missingElement:
                throw ElementProblem.missing(error.message)
            default:
                throw ElementProblem(
                    .resourceSettings,
                    "\(plan.label.capitalizedFirst) cannot be created: \(error.message).\(plan.remedy)")
            }
        }
        bin.add(output)
    }

    private static func chain(_ plan: CapturePlan) throws(GStreamerError) -> [Element] {
        var chain: [Element]
        let caps: Caps?
        switch plan.kind {
        case .testPattern(let wanted):
            let source = try Element(factory: "videotestsrc")
            source.set("is-live", true)
            (chain, caps) = ([source], wanted)
        case .description(let text, let wanted):
            (chain, caps) = ([try DescribedSource.bin(text)], wanted)
        case .camera(let camera, let wanted):
            guard let source = camera.device.makeElement() else {
                throw GStreamerError(.stateChange, "its device provider returned no element")
            }
            (chain, caps) = ([source], wanted)
        case .live(let camera, _): (chain, caps) = ([camera.bin], nil)
        }
        guard let caps else { return chain }
        let filter = try Element(factory: "capsfilter")
        filter.set("caps", caps: caps)
        chain.append(filter)
        if caps.first?.name == CameraFormat.jpeg { chain.append(try Element(factory: "jpegdec")) }
        return chain
    }

    /// - Parameter onFirst: called on the streaming thread, before the first frame is forwarded.
    /// - Parameter onEnd: called at EOS of the source; false drops the event.
    func attach(
        to element: ElementHandle, selector: Element, onFirst: @escaping @Sendable (Capture) -> Void,
        onEnd: @escaping @Sendable (Capture) -> Bool
    ) throws(GStreamerError) {
        // Unretained: the pad owns the probe, so a reference would be a cycle.
        let own = output.unowned
        output.splitBufferLists()
        output.addProbe([.buffer, .downstreamEvent]) { [weak self] item in
            guard let self else { return .drop }
            switch item {
            case .buffer(let buffer):
                guard self.isInTime(buffer, own, element.unowned) else { return .drop }
                if self.frames.wrappingAdd(1, ordering: .relaxed).oldValue == 0 { onFirst(self) }
                return .pass
            case .event(let event): return event.kind == .eos && !onEnd(self) ? .drop : .pass
            case .query: return .pass
            }
        }
        // Locked, or a parent that is changing its state would start the bin before it is linked.
        bin.setLockedState(true)
        element.unowned.add(bin)
        guard let pad = selector.requestPad("sink_%u") else {
            throw GStreamerError(.linkFailed, "the selector has no pad for another source")
        }
        selectorPad.withLock { $0 = pad }
        try output.link(pad)
        if case .live(let camera, let entry?) = plan.kind, let source = camera.bin.staticPad("audio_src") {
            let pad = try GhostPad(name: "audio_src", target: source)
            bin.add(pad)
            try pad.link(entry)
            audioOutput = pad
        }
        bin.setLockedState(false)
    }

    /// A source that is not live starts at its own time zero, even if the pipeline has been playing for long or had frames
    /// of another source: moves its time line to the present, with the pad's offset. The frame that shows this is dropped,
    /// because it still has its old time.
    private func isInTime(_ buffer: Buffer, _ pad: Pad, _ element: Element) -> Bool {
        guard let running = buffer.pts.flatMap({ pad.stickySegment?.runningTime(of: $0) }) else { return true }
        let (time, present) = (Int64(clamping: running), element.currentRunningTime)
        let last = latest.value(at: present)
        if plan.camera == nil, !hasDelivered, offset == 0, let now = present.map(Int64.init(clamping:)),
            time <= last || time < now &- 2_000_000_000
        {
            offset = max(now, last) &- time
            pad.setOffset(offset)
            return false
        }
        latest.set(time &+ offset)
        return true
    }

    func start() -> Bool {
        guard bin.syncStateWithParent() else { return false }
        plan.live?.begin()
        return true
    }

    /// Makes the selector forward this capture, once a frame that the one before it pushes is through: behind the caps of
    /// this one, elements would misread it.
    func activate(_ selector: Element, after last: Capture?) {
        guard let pad = selectorPad.withLock({ $0 }) else { return }
        let activate = { selector.set("active-pad", GValueBox(object: pad)) }
        if let before = last?.selectorPad.withLock({ $0 }) { before.betweenPushes(activate) } else { activate() }
    }

    func remove(from parent: Bin, selector: Element) {
        plan.live?.stop()
        if let audioOutput, let entry = audioOutput.peer { audioOutput.unlink(entry) }
        parent.takeOut([bin])
        if let pad = selectorPad.withLock({ $0.take() }) { selector.releaseRequestPad(pad) }
    }

    func posted(_ message: Message) -> Bool { message.isFrom(within: bin) }

    /// Marks the capture as lost.
    func lose() { isMarkedLost.store(true, ordering: .relaxed) }
    var isLost: Bool { isMarkedLost.load(ordering: .relaxed) }
    var hasDelivered: Bool { frames.load(ordering: .relaxed) > 0 }

    /// Call once a second.
    /// - Returns: true once, when the frames have stopped.
    func hasStopped(isDue: Bool) -> Bool { silence.add(count: frames.load(ordering: .relaxed), isDue: isDue) }
}
