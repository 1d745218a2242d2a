// The element's source pad and the one thread that pushes from it. Decoded frames are queued here and never wait: if
// downstream is slow the oldest one is dropped, so that latency does not accumulate. It knows frames and time; it must
// not know sessions. Raw input reaches it through `takeRaw` only.
import Dispatch
import GStreamerKit
import Synchronization

// @unchecked: the pad is thread-safe; mutable state is in mutexes.
final class VideoOutput: @unchecked Sendable {
    let pad: Pad
    private let element: ElementHandle
    private let log: DebugCategory
    /// Handlers of one media path; a newer path has a higher attempt.
    private struct Input {
        var onFormat: @Sendable (OutputFormat) -> Void
        var onUpstreamEvent: @Sendable (Event) -> Bool
    }

    private struct Frame {
        var buffer: Buffer
        var format: OutputFormat?
    }
    private struct State {
        let identity = StreamIdentity()
        var frames: [Frame] = []
        var events: [Event] = []
        var preferred = OutputFormat(width: 1280, height: 704, framerate: (22, 1))
        var followsReceived = false
        var negotiated: OutputFormat?
        var needsNegotiation = true
        var waits = false
        var announced = false
        var playing = false
        var active = false
        var eos = false
        var ended = false
        /// The `latency` property in ns, counted from a frame's arrival.
        var latency: ClockTime = 0
        /// The latest answer to a latency query.
        var answered: ClockTime?
        var timeline = OutputTimeline()
        var lastTime: ClockTime?
        var discontinuity = true
        var fallback = Fallback.freeze
        /// The last transformed frame, which `freeze` repeats.
        var lastFrame: Buffer?
        var lastFrameTime: ClockTime?
        /// The newest raw frame, for `passthrough` only.
        var rawFrame: Buffer?
        var black: Buffer?
        /// Capacity of the queue: a sink that synchronises holds each frame for the promised latency, so the frames of
        /// that time wait here, and four more.
        var depth: Int {
            let interval = max(1, (negotiated ?? preferred).interval)
            return 4 + Int(clamping: min(timeline.latency(base: latency), 10_000_000_000) / interval)
        }
        /// Latency that is promised downstream. A frame's PTS is the arrival of its first packet; the frame may then
        /// wait for a retransmission in the jitter buffer and takes at most one frame interval to be assembled and
        /// decoded.
        var promisedLatency: ClockTime { latency &+ max(preferred.interval, (negotiated ?? preferred).interval) }
        func moved(_ time: ClockTime) -> ClockTime { timeline.moved(time, base: promisedLatency) }
        /// True if downstream's caps fix another rate than the service's: frames are then dropped and repeated to
        /// match.
        var convertsRate: Bool { negotiated.map { $0.framerate != preferred.framerate } ?? false }
        var counters = OutputCounters()
        var inputs: [Int: Input] = [:]
        /// The newest media path that has shown a frame; frames of older ones are dropped.
        var shownAttempt = -1
    }
    private let state = Mutex(State())
    /// A struct, because a closure stored directly in a `Mutex` gains a reabstraction thunk at each access and keeps
    /// it, which leaks memory with every frame.
    private struct Filling { var mayBegin: @Sendable () -> Bool = { true } }
    private let filling = Mutex(Filling())
    private let work = DispatchSemaphore(value: 0)

    init(pad: Pad, element: ElementHandle, log: DebugCategory) {
        self.pad = pad
        self.element = element
        self.log = log
        pad.setActivateFunction { [weak self] active in
            self?.activate(active)
            return true
        }
        pad.setEventFunction { [weak self] event in self?.upstream(event) ?? .forward }
        pad.setQueryFunction { [weak self] query in self?.answer(query) ?? .forward }
    }

    // MARK: Interface for the element

    var counters: OutputCounters { state.withLock(\.counters) }
    var negotiatedFormat: OutputFormat? { state.withLock(\.negotiated) }
    var timeline: OutputTimeline { state.withLock(\.timeline) }
    var identity: StreamIdentity { state.withLock(\.identity) }

    /// - Parameters:
    ///   - captureLatency: minimum latency, ns, if frames are to carry their input's running time; nil: their
    ///     arrival's.
    ///   - waits: announces nothing downstream before `prefer` sets the orientation.
    func configure(
        _ preferred: OutputFormat, followsReceived: Bool, latency: ClockTime, captureLatency: ClockTime?, waits: Bool
    ) {
        state.withLock {
            $0.timeline = OutputTimeline(minimumLatency: captureLatency)
            $0.waits = waits
            $0.preferred = preferred
            $0.followsReceived = followsReceived
            $0.latency = latency
            $0.needsNegotiation = true
        }
    }

    func set(fallback: Fallback) {
        state.withLock {
            $0.fallback = fallback
            if fallback != .passthrough { $0.rawFrame = nil }
        }
        work.signal()
    }

    /// Takes a raw frame in the output's size. Called only if the user asked for `passthrough`.
    func takeRaw(_ buffer: Buffer) { state.withLock { if $0.fallback == .passthrough { $0.rawFrame = buffer } } }

    /// Sets the size, once the orientation is known, for what downstream's caps leave open.
    func prefer(width: Int, height: Int) {
        state.withLock {
            ($0.preferred.width, $0.preferred.height) = (width, height)
            $0.waits = false
            $0.needsNegotiation = true
        }
        work.signal()
    }

    /// `mayFill` returns false for an input that waits while nothing is sent. With `timestamps=capture` its timeline
    /// waits too, so gaps in the output are not filled.
    func onFill(_ mayFill: @escaping @Sendable () -> Bool) { filling.withLock { $0.mayBegin = mayFill } }

    /// Sets the delay of a media path's frames, in ns from the input's running time to their arrival. Any thread.
    /// - Returns: true if more latency is needed than was reported.
    func setDelay(_ delay: Int64, attempt: Int) -> Bool {
        defer { work.signal() }
        return state.withLock { $0.timeline.setDelay(delay, attempt: attempt, base: $0.promisedLatency) }
    }

    /// Frames leave in PLAYING only, as from every live source.
    func set(playing: Bool) {
        state.withLock { $0.playing = playing }
        work.signal()
    }

    /// Queues a tag or similar event of the input, which is pushed in order with the frames.
    func forward(_ event: Event) {
        state.withLock { if $0.events.count < 64 { $0.events.append(event) } }
        work.signal()
    }

    /// Pushes EOS after the queued frames.
    func finish() {
        state.withLock { $0.eos = true }
        work.signal()
    }

    /// Makes the sink pad for the decoded frames of one media path. `onFormat` receives the size that they must have,
    /// at once and on each change. The first frame of a path with a higher attempt ends the output of all others.
    func makeInput(
        attempt: Int, onFormat: @escaping @Sendable (OutputFormat) -> Void, onFrame: @escaping @Sendable () -> Void
    ) -> Pad {
        let input = Pad(name: "decoded", direction: .sink)
        let caps = Mutex<OutputFormat?>(nil)
        input.setEventFunction { event in
            if let info = event.caps.flatMap(VideoInfo.init(caps:)) {
                caps.withLock { $0 = OutputFormat(width: info.width, height: info.height, framerate: (0, 1)) }
            }
            return .handled(true)
        }
        input.setChainFunction { [weak self] buffer in
            onFrame()
            self?.submit(buffer, format: caps.withLock { $0 }, attempt: attempt)
            return .ok
        }
        input.setActive(true)
        let format = state.withLock { state in
            state.inputs[attempt] = Input(onFormat: onFormat) { event in
                event.isForceKeyUnit ? input.push(event) : false
            }
            return state.negotiated ?? state.preferred
        }
        onFormat(format)
        return input
    }

    func removeInput(attempt: Int) { _ = state.withLock { $0.inputs.removeValue(forKey: attempt) } }

    private func submit(_ buffer: Buffer, format: OutputFormat?, attempt: Int) {
        state.withLock { state in
            state.counters.received &+= 1
            guard state.active, state.playing, attempt >= state.shownAttempt else { return }
            // If `waits` is still set, the input has sent nothing: these are our muted (black) frames coming back. Do
            // not wait for an orientation any longer.
            state.waits = false
            if attempt > state.shownAttempt {
                state.shownAttempt = attempt
                state.frames.removeAll()
                state.discontinuity = true
            }
            state.frames.append(Frame(buffer: buffer, format: format))
            if state.frames.count > state.depth {
                state.frames.removeFirst()
                state.counters.droppedLate &+= 1
                state.discontinuity = true
            }
        }
        work.signal()
    }

    // MARK: Pad functions

    private func activate(_ active: Bool) {
        if active {
            state.withLock {
                let (preferred, follows, latency, timeline, waits, fallback) = (
                    $0.preferred, $0.followsReceived, $0.latency, $0.timeline, $0.waits, $0.fallback
                )
                $0 = State()
                ($0.preferred, $0.followsReceived, $0.latency, $0.timeline, $0.waits, $0.fallback) = (
                    preferred, follows, latency, timeline, waits, fallback
                )
                $0.active = true
            }
            pad.startTask { [weak self] in self?.loop() }
        } else {
            state.withLock {
                $0.active = false
                $0.frames.removeAll()
                ($0.lastFrame, $0.rawFrame, $0.black) = (nil, nil, nil)
            }
            work.signal()
            pad.stopTask()
        }
    }

    private func upstream(_ event: Event) -> EventHandling {
        switch event.kind {
        case .reconfigure:
            state.withLock { $0.needsNegotiation = true }
            work.signal()
            return .handled(true)
        case .seek: return .handled(false)
        case .latency, .qos:
            // Both refer to the output's timeline; the input has its own.
            return .handled(true)
        case .flushStart, .flushStop: return .handled(true)
        default:
            let input = state.withLock { state in state.inputs.max { $0.key < $1.key }?.value }
            return .handled(input?.onUpstreamEvent(event) ?? false)
        }
    }

    private func answer(_ query: QueryRef) -> QueryHandling {
        switch query.kind {
        case .latency:
            // No maximum: nothing here limits how much downstream may buffer.
            let minimum = state.withLock { state in
                let minimum = state.timeline.latency(base: state.promisedLatency)
                state.answered = minimum
                return minimum
            }
            query.answerLatency(live: true, minimum: minimum, maximum: nil)
            return .answered
        case .seeking:
            query.answerNotSeekable()
            return .answered
        case .position:
            guard let time = state.withLock(\.lastTime) else { return .refused }
            query.answerPosition(time)
            return .answered
        case .duration: return .refused
        default: return .forward
        }
    }

    // MARK: The pad's streaming thread

    private enum Step {
        case wait(until: DispatchTime)
        case stop
        case negotiate
        case announce([Event])
        case push(Buffer)
        case gap(at: ClockTime, ClockTime)
        case changeFormat(OutputFormat)
        case eos
    }

    private func loop() {
        switch nextStep() {
        case .wait(let deadline): _ = work.wait(timeout: deadline)
        case .stop: pad.pauseTask()
        case .negotiate: negotiate()
        case .changeFormat(let format): apply(format)
        case .announce(let events): for event in events { pad.push(event) }
        case .push(let buffer): push(buffer)
        case .gap(let time, let duration):
            announceIfNeeded()
            pad.push(Event.gap(at: time, duration: duration))
        case .eos:
            announceIfNeeded()
            pad.push(Event.eos())
            state.withLock { $0.ended = true }
            pad.pauseTask()
        }
    }

    private func nextStep() -> Step {
        let now = element.unowned.currentRunningTime
        let mayFill = filling.withLock(\.mayBegin)()
        return state.withLock { state in
            guard state.active, !state.ended else { return .stop }
            if state.needsNegotiation, !state.waits || state.eos { return .negotiate }
            if state.waits, !state.eos { return .wait(until: .distantFuture) }
            if state.announced, !state.events.isEmpty {
                defer { state.events.removeAll() }
                return .announce(state.events)
            }
            guard state.playing else { return state.eos ? .eos : .wait(until: .distantFuture) }
            if let frame = state.frames.first, state.eos || state.timeline.hasDelay(attempt: state.shownAttempt) {
                if state.followsReceived, let format = frame.format, let current = state.negotiated,
                    format.width != current.width || format.height != current.height
                {
                    return .changeFormat(
                        OutputFormat(width: format.width, height: format.height, framerate: current.framerate))
                }
                let place = place(frame.buffer, state)
                if place == .later, let last = state.lastFrame { return .push(stamp(last, &state, isRepeat: true)) }
                state.frames.removeFirst()
                defer { state.timeline.frameLeft(interval: (state.negotiated ?? state.preferred).interval) }
                if place != .nowhere { return .push(stamp(frame.buffer, &state)) }
                state.lastFrame = frame.buffer
                return .wait(until: .now())
            }
            if state.eos { return .eos }
            if state.timeline.isCapture, !mayFill { return .wait(until: .distantFuture) }
            return fill(&state, now: now.map(state.moved))
        }
    }

    private enum Place { case here, later, nowhere }

    /// Places a frame on the grid of downstream's rate: at the next point; later, so that the last frame is repeated
    /// there; or nowhere, if the point nearest to it is taken.
    private func place(_ frame: Buffer, _ state: borrowing State) -> Place {
        guard state.convertsRate, let last = state.lastTime, let time = frame.pts.map(state.moved) else { return .here }
        let interval = (state.negotiated ?? state.preferred).interval
        let next = last &+ interval
        if time &+ interval / 2 < next { return .nowhere }
        // The last frame is not repeated after a gap.
        guard let shown = state.lastFrameTime, next < shown &+ 500_000_000 else { return .here }
        return time > next &+ interval / 2 ? .later : .here
    }

    /// Returns what stands in for a missing frame, and when. Frames carry their arrival time and may be as late as the
    /// promised latency, so a gap is filled only when that is almost over.
    private func fill(_ state: inout State, now: ClockTime?) -> Step {
        guard let now else { return .wait(until: .now() + .milliseconds(20)) }
        let interval = (state.negotiated ?? state.preferred).interval
        // 145 ms at most, so that downstream never waits 200 ms.
        let slack = min(state.latency, 100_000_000) &+ min(interval, 45_000_000)
        // The first frame is due at once: a due time that moved along with `now` would never be reached.
        let next = state.lastTime.map { $0 &+ interval } ?? (now > slack ? now &- slack : 0)
        let due = next &+ slack
        guard due <= now else {
            return .wait(until: .now() + .nanoseconds(Int(clamping: min(due &- now, 1_000_000_000))))
        }
        // Frames missed during a stall of downstream are not made up for.
        let time = max(next, now > slack &+ interval ? now &- slack &- interval : 0)
        state.lastTime = time
        guard let frame = fallbackFrame(&state, now: now), let buffer = frame.copyOfMetadata() else {
            return .gap(at: time, interval)
        }
        state.counters.fallbackFrames &+= 1
        buffer.pts = time
        buffer.dts = nil
        buffer.duration = interval
        buffer.isDiscontinuous = state.discontinuity
        state.discontinuity = false
        return .push(buffer)
    }

    private func fallbackFrame(_ state: inout State, now: ClockTime) -> Buffer? {
        // `black` and `passthrough` repeat the last frame in a short gap too: a lost packet must not flash.
        let short = state.lastFrameTime.map { now < $0 &+ 500_000_000 } ?? false
        switch state.fallback {
        case .none: return nil
        case .freeze: return state.lastFrame ?? black(&state)
        case .black: return short ? state.lastFrame : black(&state)
        case .passthrough: return short ? state.lastFrame : state.rawFrame ?? black(&state)
        }
    }

    private func black(_ state: inout State) -> Buffer? {
        if state.black == nil, let caps = try? Caps((state.negotiated ?? state.preferred).capsText) {
            state.black = VideoInfo(caps: caps).flatMap(Buffer.blackI420)
        }
        return state.black
    }

    /// Makes timestamps strictly increasing, whatever the network did, and on the grid if downstream fixes another
    /// rate.
    private func stamp(_ frame: Buffer, _ state: inout State, isRepeat: Bool = false) -> Buffer {
        let interval = (state.negotiated ?? state.preferred).interval
        let buffer = frame.copyOfMetadata() ?? frame
        let next = state.lastTime.map { $0 &+ interval }
        var time = isRepeat ? next ?? 0 : buffer.pts.map(state.moved) ?? next ?? 0
        if let last = state.lastTime, let next {
            if state.convertsRate, time < next &+ interval { time = next }
            if time <= last { time = last &+ interval / 8 }
            if time &- last > 5 &* interval { state.discontinuity = true }
        }
        buffer.pts = time
        buffer.dts = nil
        buffer.duration = interval
        buffer.isDiscontinuous = state.discontinuity
        state.discontinuity = false
        state.lastTime = time
        state.lastFrame = frame
        if !isRepeat { state.lastFrameTime = time }
        return buffer
    }

    private func push(_ buffer: Buffer) {
        announceIfNeeded()
        state.withLock { $0.counters.pushed &+= 1 }
        switch pad.push(buffer) {
        case .ok: break
        case .flushing, .eos: pad.pauseTask()
        case let flow:
            log(.warning, element.unowned, "downstream refused a frame: \(flow)")
            pad.push(Event.eos())
            pad.pauseTask()
            element.unowned.postError(
                ElementProblem(
                    flow == .notNegotiated ? .coreNegotiation : .streamFailed, "Internal data stream error.",
                    debug: "streaming stopped, reason \(flow)"))
        }
    }

    private func announceIfNeeded() {
        let first = state.withLock { state in
            defer { state.announced = true }
            return !state.announced
        }
        guard first else { return }
        let identity = state.withLock(\.identity)
        pad.push(Event.streamStart(id: identity.id, groupID: identity.groupID))
        if let format = state.withLock(\.negotiated), let caps = try? Caps(format.capsText) {
            pad.push(Event.caps(caps))
        }
        pad.push(Event.timeSegment())
    }

    /// Takes size and rate from downstream's caps where they fix them, else from `preferred`.
    private func negotiate() {
        let preferred = state.withLock { state in
            state.needsNegotiation = false
            return state.preferred
        }
        guard let ours = try? Caps(Self.templateCaps) else { return }
        let allowed = pad.queryPeerCaps(filter: ours).intersection(ours)
        guard !allowed.isEmpty,
            let fixed = allowed.fixated(
                width: preferred.width, height: preferred.height,
                framerate: (preferred.framerate.0, preferred.framerate.1)),
            let info = VideoInfo(caps: fixed)
        else {
            element.unowned.postError(
                ElementProblem(
                    .coreNegotiation,
                    "Downstream does not accept I420 video. Put videoconvert behind the element.",
                    debug: "downstream allows \(allowed)"))
            state.withLock { $0.ended = true }
            return
        }
        let rate = info.framerate.0 > 0 ? info.framerate : preferred.framerate
        apply(OutputFormat(width: info.width, height: info.height, framerate: rate))
    }

    private func apply(_ format: OutputFormat) {
        let (changed, announced, isDelayedOtherwise, inputs) = state.withLock { state in
            let changed = state.negotiated != format
            state.negotiated = format
            if changed { (state.black, state.lastFrame, state.rawFrame) = (nil, nil, nil) }
            let isDelayedOtherwise =
                state.answered.map { $0 != state.timeline.latency(base: state.promisedLatency) } ?? false
            return (changed, state.announced, isDelayedOtherwise, Array(state.inputs.values))
        }
        guard changed else { return }
        if isDelayedOtherwise { element.unowned.post(Message.latency(element.unowned)) }
        log(
            .info, element.unowned,
            "output is \(format.width)x\(format.height) at \(format.framerate.0)/\(format.framerate.1)")
        if announced {
            if let caps = try? Caps(format.capsText) { pad.push(Event.caps(caps)) }
        } else {
            announceIfNeeded()
        }
        for input in inputs { input.onFormat(format) }
    }

    static let templateCaps =
        "video/x-raw, format=(string)I420, width=(int)[ 1, 8192 ], height=(int)[ 1, 8192 ], framerate=(fraction)[ 0/1, 1000/1 ]"
}
