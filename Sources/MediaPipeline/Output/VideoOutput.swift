// The element's source pad for video. Decoded frames are queued here and never wait: if downstream is slow the oldest
// one is dropped, so that latency does not accumulate. `OutputScheduler` decides what leaves, and when. Raw input
// reaches the pad through `setRaw` only.
package import GStreamerKit
import WebRTCTransport

// @unchecked: `stream` belongs to one thread, `handlers` is set before there is any; the rest locks itself.
package final class VideoOutput: @unchecked Sendable {
    private let source: LiveSourcePad
    private let element: ElementHandle
    private let log: DebugCategory

    /// Handlers of one media path.
    private struct Input {
        var onFormat: @Sendable () -> Void
        var onUpstreamEvent: @Sendable (Event) -> Bool
    }

    private struct Frame: Sendable {
        let buffer: Buffer
        /// The caps of an encoded frame; nil: the output's format.
        var caps: Caps?
    }

    private struct State {
        var scheduler: OutputScheduler<Frame>
        /// nil: raw frames leave.
        var encoding: EncodedOutput?
        let identity = StreamIdentity()
        /// Tags and the like, pushed in order with the frames.
        var events: [Event] = []
        /// The latest answer to a latency query.
        var answered: ClockTime?
        /// Output times at which downstream wants keyframes.
        var keyframeTimes: Set<ClockTime> = []
        /// Keyed by the media path.
        var inputs: [PathID: Input] = [:]

        /// That of the newest media path.
        var newestInput: Input? { inputs.max { $0.key < $1.key }?.value }

        /// Takes downstream's request for a keyframe.
        /// - Returns: true if it waits for its time.
        mutating func defersKeyframe(to time: ClockTime?, _ now: ClockTime?) -> Bool {
            guard let time, let now, time > scheduler.moved(now) else { return false }
            if keyframeTimes.count < 16 { keyframeTimes.insert(time) }
            return true
        }

        /// Takes the requests whose time has come.
        /// - Returns: the time to the next one, ns.
        mutating func takeDueKeyframes(_ now: ClockTime?) -> (isDue: Bool, left: ClockTime?) {
            guard !keyframeTimes.isEmpty, let now = now.map({ scheduler.moved($0) }) else { return (false, nil) }
            let later = keyframeTimes.filter { $0 > now }
            defer { keyframeTimes = later }
            return (later.count < keyframeTimes.count, later.min().map { min($0 &- now, 1_000_000_000) })
        }
    }
    private let state: StateLock<State>
    /// What has left. Only for the pad's streaming thread, and for `activate` before that starts.
    private struct Stream {
        /// STREAM_START, CAPS and SEGMENT have left.
        var isAnnounced = false
        var black: Buffer?
        /// The negotiated format with memory for frames of it, and true if downstream takes frames with strides of their
        /// own.
        var layout: (video: VideoInfo, pool: BufferPool)?
        var takesStrides = false
        /// Downstream has not been asked yet, because no frame of the format has passed.
        var needsLayout = false
        /// Caps of the encoded frame that left last.
        var encodedCaps: Caps?
    }
    private var stream = Stream()
    /// Counts changes of decoded frames. An encoder refines a repeated frame at first only, so a small tolerance is enough.
    package let motion = MotionMeter(tolerance: 2)
    /// The playout delay of the element.
    package let playout = Playout()

    package struct Handlers: Sendable {
        /// Returns false for an input that waits while nothing is sent. With `timestamps=capture` its timeline waits too, so
        /// gaps in the output are not filled.
        package var mayFill: @Sendable () -> Bool = { true }
        /// Called on the streaming thread when downstream has enough.
        package var onEnd: @Sendable () -> Void = {}
        /// Called with an event of downstream that is not for this stream.
        package var onUpstreamEvent: @Sendable (Event) -> Bool = { _ in false }
    }
    /// Set before the pad is activated.
    package var handlers = Handlers()

    package init(pad: Pad, element: ElementHandle, log: DebugCategory) {
        self.element = element
        self.log = log
        source = LiveSourcePad(pad, element: element, log: log)
        state = StateLock(State(scheduler: OutputScheduler(playout: playout)))
        source.setHandlers(
            LiveSourcePad.Handlers(
                onActive: { [weak self] in self?.activate($0) }, turn: { [weak self] in self?.turn() },
                latency: { [weak self] in self?.answerLatency() },
                position: { [weak self] in self?.current.position },
                onUpstreamEvent: { [weak self] in self?.upstream($0) ?? false }))
    }

    // MARK: Interface for the element

    private struct Snapshot: Sendable {
        var counters: OutputCounters
        /// Size and rate negotiated with downstream; nil before.
        var negotiated: OutputFormat?
        /// The same; before, the preferred one.
        var format: OutputFormat
        var timeline: OutputTimeline
        var identity: StreamIdentity
        var encoding: EncodedOutput?
        /// Time of the last frame that left.
        var position: ClockTime?
        var isEndingOrEnded: Bool
    }
    /// Any thread.
    private var current: Snapshot {
        state.read { state in
            Snapshot(
                counters: state.scheduler.counters, negotiated: state.scheduler.negotiated,
                format: state.scheduler.format, timeline: state.scheduler.timeline, identity: state.identity,
                encoding: state.encoding, position: state.scheduler.lastTime,
                isEndingOrEnded: state.scheduler.isEndingOrEnded)
        }
    }

    package var counters: OutputCounters { current.counters }
    var negotiatedFormat: OutputFormat? { current.negotiated }
    var format: OutputFormat { current.format }
    /// The time line of the frames, which audio follows. Called on the threads that deliver the service's audio, the
    /// streaming thread of the audio's source pad, and any thread that queries that pad's latency.
    package var timeline: OutputTimeline { current.timeline }
    package var identity: StreamIdentity { current.identity }
    /// nil: raw frames leave.
    package var encoding: EncodedOutput? { current.encoding }

    /// Reads from downstream's caps if encoded frames are to leave: if no raw ones may. Call it before `configure`.
    package func readDownstream() {
        let allowed = (try? Caps(Self.templateCaps)).map { source.pad.queryPeerCaps(filter: $0) }
        let encoding = source.pad.isLinked ? allowed.flatMap(EncodedOutput.init(downstream:)) : nil
        state.withLock { $0.encoding = encoding }
    }

    /// Time for which sinks hold a frame, ns.
    package var pipelineLatency: ClockTime { source.pipelineLatency }

    /// Call before the pad is activated.
    /// - Parameter change: sets what the settings decide; runs with the lock held, so it must not call out.
    package func configure(_ change: (inout OutputConfiguration) -> Void) {
        playout.reset()
        state.withLock { state in
            var configuration = state.scheduler.configuration
            change(&configuration)
            configuration.isEncoded = state.encoding != nil
            // The size of encoded frames is the service's.
            if configuration.isEncoded { configuration.waits = false }
            state.scheduler = OutputScheduler(
                configuration, counters: state.scheduler.counters, playout: playout)
        }
    }

    /// Lets the streaming thread look again, unless nothing of what it waits for has changed.
    @discardableResult private func handle(_ event: OutputScheduler<Frame>.Event, wakes: Bool = true) -> Bool {
        defer { if wakes { source.wake() } }
        return state.withLock { $0.scheduler.handle(event) }
    }

    /// Sets the longest time between two keyframes of an encoded output; zero: they come as they are. Any thread.
    package func set(keyframeInterval interval: Duration) { handle(.keyframeInterval(interval), wakes: false) }

    package func set(fallback: Fallback) { handle(.fallback(fallback)) }

    /// Sets the latest raw frame, in the output's size. Called only if the user asked for `passthrough`, on whichever
    /// thread delivers the input's frames (`FrameLine`), one at a time: the streaming thread of the input's queue, a
    /// processor's, `decart-muted`, or upstream's if encoded frames follow.
    func setRaw(_ buffer: Buffer, _ format: OutputFormat) {
        handle(.raw(Frame(buffer: buffer), format), wakes: false)
    }

    /// Turns the size that downstream's caps leave open, once the orientation is known.
    package func orient(portrait: Bool) { handle(.portrait(portrait)) }

    /// Changes the frame rate that downstream's caps leave open.
    package func prefer(framerate: Int) { handle(.framerate(framerate)) }

    /// Gives the sinks in PAUSED what they wait for, because the input is not live: see `OutputScheduler.preroll`.
    package func preroll() { handle(.preroll) }

    /// Sets the delay of a media path's frames, in ns from the input's running time to their arrival. Any thread.
    /// - Returns: true if more latency is needed than was reported.
    func setDelay(_ delay: Int64, path: PathID) -> Bool { handle(.delay(delay, path)) }

    /// Frames leave in PLAYING only, as from every live source.
    package func set(playing: Bool) { handle(.playing(playing)) }

    /// Queues a tag or similar event of the input, which is pushed in order with the frames. Called on upstream's
    /// streaming thread.
    package func forward(_ event: Event) {
        state.withLock { if $0.events.count < 64 { $0.events.append(event) } }
        source.wake()
    }

    /// Pushes EOS after the queued frames.
    package func finish() { handle(.ending) }

    /// Passes an event at once, past the frames. Any thread.
    package func push(_ event: Event) { source.pad.push(event) }

    /// Resumes after `finish`, as after a flush of the input.
    package func resume() {
        guard current.isEndingOrEnded else { return }
        source.resume { handle(.resumed, wakes: false) }
    }

    /// Makes the sink pad for the decoded frames of one media path. The first frame of a path with a higher number ends
    /// the output of all others. Called on the session's queue.
    /// - Parameters:
    ///   - onFormat: called on the source pad's streaming thread when `format`, whose size the frames must have, has changed.
    ///   - onFrame: called on the decoder's thread.
    package func makeInput(
        path: PathID, onFormat: @escaping @Sendable () -> Void, onFrame: @escaping @Sendable () -> Void
    ) -> Pad {
        let input = Pad(name: "decoded", direction: .sink)
        // Only for the decoder's thread.
        nonisolated(unsafe) var video: VideoInfo?
        nonisolated(unsafe) var caps: Caps?
        nonisolated(unsafe) var requests = Throttle(.milliseconds(300))
        nonisolated(unsafe) var keyframes = KeyframeInterval()
        nonisolated(unsafe) var sight = MotionMeter.Sight()
        input.setEventFunction { event in
            guard let own = event.caps else { return .handled(true) }
            (video, caps) = (VideoInfo(caps: own), own.first?.name == "video/x-raw" ? nil : own)
            return .handled(true)
        }
        input.setChainFunction { [weak self, own = input.unowned] buffer in
            onFrame()
            let format = video.map { OutputFormat(width: $0.width, height: $0.height) }
            if let video, caps == nil { self?.motion.add(buffer, video, now: MonotonicTime.now, to: &sight) }
            let frame = Frame(buffer: buffer, caps: caps)
            let time = self?.element.unowned.currentRunningTime
            let isDelta = caps != nil && buffer.isDeltaUnit
            let (isMissing, interval) =
                self?.state.withLock { state in
                    let isMissing = state.scheduler.enqueue(
                        frame, arrival: buffer.pts, format: format, path: path, isDelta: isDelta, now: time)
                    return (isMissing, state.scheduler.configuration.keyframeInterval)
                } ?? (false, .zero)
            self?.source.wake()
            let now = MonotonicTime.now
            let isLate = caps != nil && keyframes.add(isKeyframe: !isDelta, interval: interval, now: now)
            if isMissing || isLate, requests.allows(at: now) { own.push(Event.forceKeyUnitUpstream()) }
            return .ok
        }
        // A decoder that may use strides of its own does not copy each frame. `stamped` copies for a downstream that takes
        // none.
        input.setQueryFunction { query in
            guard query.kind == .allocation else { return .forward }
            query.answerFramesMayHaveStrides()
            return .answered
        }
        input.setActive(true)
        state.withLock { state in
            state.inputs[path] = Input(onFormat: onFormat) { event in
                // A new event: that of an RTP session downstream has its SSRC.
                event.isForceKeyUnit ? input.push(Event.forceKeyUnitUpstream()) : false
            }
        }
        return input
    }

    package func removeInput(path: PathID) { _ = state.withLock { $0.inputs.removeValue(forKey: path) } }

    // MARK: Pad functions

    private func activate(_ active: Bool) {
        if active { stream = Stream() }
        state.withLock { state in
            if active {
                let configuration = state.scheduler.configuration
                let (counters, isPlaying) = (state.scheduler.counters, state.scheduler.isPlaying)
                state = State(
                    scheduler: OutputScheduler(configuration, counters: counters, playout: playout),
                    encoding: state.encoding)
                // An application may deactivate the pad and activate it again in PLAYING.
                (state.scheduler.isActive, state.scheduler.isPlaying) = (true, isPlaying)
            } else {
                state.scheduler.deactivate()
            }
        }
    }

    private func upstream(_ event: Event) -> Bool {
        if event.passesUpstream { return handlers.onUpstreamEvent(event) }
        if event.kind == .reconfigure {
            handle(.renegotiate)
            return true
        }
        let (time, now) = (event.keyframeTime, element.unowned.currentRunningTime)
        let (isLater, input) = state.withLock { state in (state.defersKeyframe(to: time, now), state.newestInput) }
        guard !isLater else {
            source.wake()
            return true
        }
        return input?.onUpstreamEvent(event) ?? false
    }

    private func answerLatency() -> ClockTime {
        state.withLock { state in
            let latency = state.scheduler.latency
            state.answered = latency
            return latency
        }
    }

    // MARK: The pad's streaming thread

    private func turn() {
        let now = element.unowned.currentRunningTime
        let pipelineLatency = source.pipelineLatency
        let mayFill = handlers.mayFill()
        let (events, step, keyframes, input) = state.withLock { state in
            state.scheduler.pipelineLatency = pipelineLatency
            let keyframes = state.takeDueKeyframes(now)
            let input = keyframes.isDue ? state.newestInput : nil
            // Before the announcement there is no stream that a tag could belong to.
            guard stream.isAnnounced, state.scheduler.isActive, !state.scheduler.hasEnded, !state.events.isEmpty else {
                return ([Event](), state.scheduler.next(now: now, mayFill: mayFill), keyframes, input)
            }
            return (exchange(&state.events, with: []), .wait(0), keyframes, input)
        }
        // The service makes a keyframe at once, so a request for later has waited here.
        _ = input?.onUpstreamEvent(Event.forceKeyUnitUpstream())
        for event in events { source.pad.push(event) }
        switch step {
        case .wait(let time): source.wait(atMost: keyframes.left.map { min($0, time ?? $0) } ?? time)
        case .stop: source.wait(atMost: nil)
        case .negotiate: negotiate()
        case .segment: if stream.isAnnounced { source.pad.push(Event.timeSegment()) }
        case .changeFormat(let format): apply(format)
        case .push(.frame(let frame), let stamp): push(frame, stamp)
        case .push(.black, let stamp): push(black().map { Frame(buffer: $0) }, stamp)
        case .gap(let time, let duration): pushGap(at: time, duration)
        case .endOfStream:
            announceIfNeeded()
            source.pad.push(Event.eos())
        }
    }

    private func black() -> Buffer? {
        stream.black = stream.black ?? format.videoInfo.flatMap(Buffer.blackI420)
        return stream.black
    }

    /// The frame itself stays as it is, because it may be repeated.
    private func stamped(_ frame: Frame, _ stamp: OutputScheduler<Frame>.Stamp) -> Buffer? {
        let source: Buffer? =
            if frame.caps == nil, !stream.takesStrides, let layout = stream.layout {
                frame.buffer.inDefaultLayout(layout.video, from: layout.pool)
            } else {
                frame.buffer
            }
        let buffer = source?.copyOfMetadata()
        buffer?.pts = stamp.time
        // WebRTC sends frames in the order in which they are shown. Muxers ask for both times.
        buffer?.dts = frame.caps == nil ? nil : stamp.time
        buffer?.duration = stamp.duration
        buffer?.isDiscontinuous = stamp.isDiscontinuous
        return buffer
    }

    private func push(_ frame: Frame?, _ stamp: OutputScheduler<Frame>.Stamp) {
        guard let frame, let buffer = stamped(frame, stamp) else { return pushGap(at: stamp.time, stamp.duration) }
        announceIfNeeded(frame.caps)
        let remedy = frame.caps == nil ? "videoconvert" : "a parser or decoder"
        let duty = source.push(buffer, from: .video, remedy: remedy)
        if duty == .goOn { return learnLayout() }
        handle(.pushed(duty), wakes: false)
        if duty == .end { handlers.onEnd() }
    }

    private func pushGap(at time: ClockTime, _ duration: ClockTime) {
        announceIfNeeded()
        source.pushGap(at: time, duration)
    }

    /// - Parameter encodedCaps: the caps of an encoded frame that follows.
    private func announceIfNeeded(_ encodedCaps: Caps? = nil) {
        let isChanged = encodedCaps != nil && encodedCaps != stream.encodedCaps
        if let encodedCaps { stream.encodedCaps = encodedCaps }
        if !exchange(&stream.isAnnounced, with: true) {
            let current = current
            source.announce(
                current.identity.id, current.identity.groupID,
                caps: encodedCaps?.description ?? current.negotiated?.capsText)
        } else if isChanged, let encodedCaps {
            source.pad.push(Event.caps(encodedCaps))
        }
    }

    /// Takes size and rate from downstream's caps where they fix them, else from the configuration.
    private func negotiate() {
        let (preferred, isEncoded) = state.withLock { ($0.scheduler.beginNegotiation(), $0.encoding != nil) }
        guard !isEncoded, let raw = try? Caps(Self.rawCaps), let ours = try? Caps(Self.rawCaps + Self.pixels) else {
            return
        }
        let wanted = source.pad.queryPeerCaps(filter: raw)
        let allowed = wanted.intersection(ours)
        guard !allowed.isEmpty,
            let fixed = allowed.fixated(
                width: preferred.width, height: preferred.height,
                framerate: (preferred.framerate.0, preferred.framerate.1)),
            let info = VideoInfo(caps: fixed)
        else {
            element.unowned.postError(
                ElementProblem(
                    .coreNegotiation,
                    wanted.isEmpty
                        ? "Downstream does not accept I420 video. Put videoconvert behind the element."
                        : "Downstream wants '\(wanted)', not square pixels with colorimetry bt601. "
                            + "Put videoconvert behind the element.",
                    debug: "downstream allows \(wanted), the element has \(ours)"))
            handle(.pushed(.fail), wakes: false)
            return
        }
        apply(OutputFormat(width: info.width, height: info.height, framerate: info.framerate))
    }

    /// Asks downstream, behind the first frame that it takes, how frames may lie in memory: in front of one, a queue whose
    /// thread waits in PAUSED would not answer.
    private func learnLayout() {
        guard exchange(&stream.needsLayout, with: false), let format = negotiatedFormat,
            let caps = try? Caps(format.capsText)
        else { return }
        stream.takesStrides = source.pad.peerTakesStrides(caps)
    }

    private func apply(_ format: OutputFormat) {
        let change = state.withLock { state -> (needsLatency: Bool, inputs: [Input])? in
            guard state.scheduler.setFormat(format) else { return nil }
            return (state.answered.map { $0 != state.scheduler.latency } ?? false, Array(state.inputs.values))
        }
        guard let change else { return }
        (stream.black, stream.takesStrides, stream.needsLayout) = (nil, false, true)
        stream.layout = format.videoInfo.flatMap { video in BufferPool(size: video.size).map { (video, $0) } }
        if change.needsLatency { element.unowned.post(Message.latency(element.unowned)) }
        log(
            .info, element.unowned,
            "output is \(format.width)x\(format.height) at \(format.framerate.0)/\(format.framerate.1)")
        if !stream.isAnnounced {
            announceIfNeeded()
        } else if let caps = try? Caps(format.capsText) {
            source.pad.push(Event.caps(caps))
        }
        for input in change.inputs { input.onFormat() }
    }

    package static let templateCaps = "\(rawCaps); \(EncodedInput.caps)"
    private static let rawCaps =
        "video/x-raw, format=(string)I420, width=(int)[ 1, 8192 ], height=(int)[ 1, 8192 ], framerate=(fraction)[ 0/1, 1000/1 ]"
    /// The fields that all frames have in common; `OutputFormat` adds size and frame rate.
    private static let pixels =
        ", pixel-aspect-ratio=(fraction)1/1, interlace-mode=(string)progressive, colorimetry=(string)bt601"
}
