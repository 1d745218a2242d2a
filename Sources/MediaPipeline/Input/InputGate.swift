// Decides for each input frame, on upstream's thread, whether it enters the element, and at what running time. A live
// input never waits here. One that is not live waits for the session and then for the clock; the gate drops its frames
// for the rate limit, and one a second while there is no session. Live is what says so in a LATENCY query, stamps its
// buffers with the clock (`do-timestamp`), or is found to follow the clock.
import Dispatch
package import GStreamerKit
import Synchronization
import WebRTCTransport

package struct InputCounters: Sendable {
    package var framesIn: UInt64 = 0
    /// Frames lost because no media path took them.
    package var droppedWithoutSession: UInt64 = 0
    /// Frames lost because the element was not in PLAYING, or flushed.
    package var droppedNotPlaying: UInt64 = 0
    /// Frames lost because the input queue, the encoder or a processor was busy.
    package var droppedBusy: UInt64 = 0
    /// Frames of an encoded input lost because no keyframe had come or its rate was too high.
    package var droppedToKeyframe: UInt64 = 0
    /// Frames dropped by the rate limit: `max-framerate`, or less while the network is congested or the CPU
    /// busy.
    package var framesRateLimited: UInt64 = 0
    /// Frames lost because their memory is smaller than their caps say.
    package var droppedIncomplete: UInt64 = 0
    package var framesSent: UInt64 = 0

    package init() {}

    /// Frames lost before the encoder.
    package var framesDropped: UInt64 {
        droppedWithoutSession &+ droppedNotPlaying &+ droppedBusy &+ droppedToKeyframe &+ droppedIncomplete
    }

    mutating func dropClosed(hasSession: Bool) {
        if hasSession { droppedNotPlaying &+= 1 } else { droppedWithoutSession &+= 1 }
    }
}

package final class InputGate: Sendable {
    private struct State {
        /// The media paths that take frames; a raw fallback counts as one.
        var open: Set<PathID> = []
        var playing = false
        /// The application withholds its frames on purpose, so that their loss is not reported.
        var isWithheld = false
        var flushing = false
        /// The element stops. Unlike `flushing`, no event from upstream clears this: a pad can be deactivated only
        /// while no thread waits here.
        var isStopping = false
        /// The pad is being removed, for which the same holds.
        var isClosing = false

        var refuses: Bool { flushing || isStopping || isClosing }
        var isOpen: Bool { !open.isEmpty && playing && !refuses }

        /// Liveness of the source, learnt with the first frame of a stream; an input that follows the clock becomes live
        /// later.
        var isLive: Bool?
        var streamID: String?
        /// The input counts as live because it was found to follow the clock.
        var isFollower = false
        var follower = ClockFollower()
        /// Set for an input that another program paces, or may: one through a pipe.
        var probe: PaceProbe?
        var segment: Event?
        var timeline = InputTimeline()
        /// Nominal time between two frames without a duration of their own; nil: unknown.
        var step: ClockTime?
        var rate = RateLimit()
        /// Frames a second: the most that are sent, and the most that the CPU carries by the judgement of each media path.
        var maximumRate = 0
        var carriedRates: [PathID: Int] = [:]
        /// Running time of the latest frame, passed or not.
        var latest: ClockTime?
        /// Later frames of an encoded input depend on each frame, so the rate limit drops none.
        var isEncoded = false
        var wait: ClockWait?
        var counters = InputCounters()

        mutating func setLimit() {
            let rates = [maximumRate] + Array(carriedRates.values)
            rate.set(framesPerSecond: rates.filter { $0 > 0 }.min())
        }
    }
    private let state = StateLock(State())
    private let changed = DispatchSemaphore(value: 0)
    private let pacing: InputPacing

    package init(pacing: InputPacing) { self.pacing = pacing }

    package func setMaximumRate(framesPerSecond: Int) {
        state.withLock { state in
            state.maximumRate = framesPerSecond
            state.setLimit()
        }
    }

    /// Lowers the rate to what the CPU carries while this path is open; nil: it carries all frames.
    func setCarriedRate(framesPerSecond: Int?, path: PathID) {
        state.withLock { state in
            state.carriedRates[path] = framesPerSecond
            state.setLimit()
        }
    }

    package func set(encoded: Bool) { state.withLock { $0.isEncoded = encoded } }

    package var counters: InputCounters { state.withLock(\.counters) }

    func isOpen(path: PathID) -> Bool { state.withLock { $0.open.contains(path) } }

    /// True if a media path takes frames, the element plays, and no flush or stop is in progress.
    var isOpen: Bool { state.withLock(\.isOpen) }

    /// Running time of the frame that was not admitted just now, if only a media path is missing. On upstream's thread.
    package var timeToHold: ClockTime? {
        state.withLock { $0.open.isEmpty && $0.playing && !$0.refuses && !$0.isWithheld ? $0.latest : nil }
    }

    /// Adds a media path; the gate is open while there is one.
    package func open(path: PathID) {
        let isFirst = state.withLock { state in
            defer { state.open.insert(path) }
            return !state.isOpen
        }
        if isFirst { pacing.reset() }
        changed.signal()
    }

    package func close(path: PathID) { _ = state.withLock { $0.open.remove(path) } }

    /// Frames pass in PLAYING only.
    package func set(playing: Bool) { change { $0.playing = playing } }

    package var isPlaying: Bool { state.withLock(\.playing) }

    /// A frame waits for its time, so that no other one can come.
    package var isHolding: Bool { state.withLock { $0.wait != nil } }

    /// A frame may wait on the clock that the element had before, which need not run any longer.
    package func clockChanged() { change { _ in } }

    /// True while the element stops or the pad is removed: a flush that ends then must not let frames in again.
    package var isLeaving: Bool { state.withLock { $0.isStopping || $0.isClosing } }

    /// Drops the frames that no media path takes without a report while this is set.
    package func set(withheld: Bool) { state.withLock { $0.isWithheld = withheld } }

    /// Time between two frames, as their durations or the caps say; nil: unknown.
    package var step: ClockTime? { state.withLock(\.step) }

    /// Wakes the threads that wait here; every frame is refused until the flush ends.
    package func set(flushing: Bool) {
        change { state in
            state.flushing = flushing
            if !flushing {
                state.rate.restart()
                state.segment = nil
            }
        }
        if !flushing { pacing.reset() }
    }

    /// Wakes a waiting streaming thread and refuses every frame until `prepare`. The element calls this before it
    /// deactivates its pads.
    package func stop() { change { $0.isStopping = true } }

    /// Does the same before the pad is removed, until `renew`.
    package func close() { change { $0.isClosing = true } }

    /// Called before the pads are activated.
    package func prepare() {
        change {
            ($0.isStopping, $0.flushing) = (false, false)
            $0.rate.restart()
        }
        pacing.reset()
    }

    private func change(_ body: (inout State) -> Void) {
        let wait = state.withLock { state in
            body(&state)
            return state.wait
        }
        wait?.cancel()
        changed.signal()
    }

    /// Called after the pads are deactivated.
    func reset() {
        state.withLock {
            let kept = $0
            $0 = State()
            ($0.open, $0.isWithheld, $0.isStopping, $0.isClosing) =
                (kept.open, kept.isWithheld, kept.isStopping, kept.isClosing)
            ($0.maximumRate, $0.carriedRates) = (kept.maximumRate, kept.carriedRates)
            $0.setLimit()
            $0.counters = kept.counters
        }
        pacing.reset()
    }

    /// Called for a new pad, whose source may be another.
    package func renew() {
        state.withLock {
            ($0.isLive, $0.segment, $0.flushing, $0.isClosing) = (nil, nil, false, false)
            $0.probe = nil
            ($0.timeline, $0.follower) = (InputTimeline(), ClockFollower())
        }
        pacing.reset()
    }

    package func set(segment: Event) { state.withLock { $0.segment = segment } }

    /// Applies a STREAM_START. Another stream may come from a source of the other kind; the same one again, as after a
    /// seek, keeps its liveness.
    /// - Returns: true if it is another stream.
    @discardableResult package func apply(streamStart event: Event) -> Bool {
        let id = event.streamID
        return state.withLock { state in
            guard id == nil || id != state.streamID else { return false }
            (state.streamID, state.isLive, state.isFollower, state.follower) = (id, nil, false, ClockFollower())
            state.probe = nil
            return true
        }
    }

    /// Sets the nominal frame rate of new caps; 30 frames a second without one.
    package func set(framerate: (Int, Int)?) {
        let (frames, seconds) = framerate ?? (0, 1)
        let isKnown = frames > 0 && seconds > 0
        let step = isKnown ? Double(seconds) / Double(frames) : 1.0 / 30
        state.withLock { $0.step = ClockTime(min(step, 10) * 1_000_000_000) }
    }

    func countRateLimited() { state.withLock { $0.counters.framesRateLimited &+= 1 } }
    func countSent() { state.withLock { $0.counters.framesSent &+= 1 } }
    func countDroppedToKeyframe() { state.withLock { $0.counters.droppedToKeyframe &+= 1 } }
    /// Counts a frame that a busy queue, encoder or processor lost.
    package func countDropped() { state.withLock { $0.counters.droppedBusy &+= 1 } }
    package func countIncomplete() {
        state.withLock {
            $0.counters.framesIn &+= 1
            $0.counters.droppedIncomplete &+= 1
        }
    }
    /// Counts a frame that no media path took.
    func countUntaken() { state.withLock { $0.counters.dropClosed(hasSession: !$0.open.isEmpty) } }

    package func runningTime(of buffer: Buffer) -> ClockTime? {
        let segment = state.withLock(\.segment)
        return buffer.pts.flatMap { segment?.runningTime(of: $0) }
    }

    package enum Admission: Equatable {
        /// With the running time that the frame has in the element.
        case passes(ClockTime?)
        case dropped, refused
    }

    /// A frame at the gate.
    private struct Arrival {
        let at: Duration
        /// The element's running time.
        let present: ClockTime?
        /// Running time by the frame's own time stamp.
        let upstream: ClockTime?
        /// Time to the next frame; nil: unknown.
        let step: ClockTime?
        /// Running time that the frame has in the element.
        var time: ClockTime?

        var lead: Int64? {
            guard let upstream, let present else { return nil }
            return Int64(clamping: upstream) &- Int64(clamping: present)
        }
    }

    /// Called on upstream's thread. `pad` is the element's sink pad; `element` provides the clock.
    /// - Returns: `dropped` if a live frame is lost, `refused` if a flush, the rate limit or the application takes it, or
    ///   if an input that is not live has waited for a second.
    package func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Admission {
        let (known, step) = state.withLock { state in
            state.counters.framesIn &+= 1
            return (state.isLive, buffer.duration ?? state.step)
        }
        var frame = Arrival(
            at: MonotonicTime.now, present: element.currentRunningTime, upstream: runningTime(of: buffer), step: step)
        let isLive = (known ?? learnLiveness(pad)) && !hasOvertaken(frame)
        frame.time = state.withLock { state in
            guard let step else { return frame.upstream }
            return state.timeline.next(
                frame.upstream, arrival: frame.at, isLive: isLive, step: step, present: frame.present)
        }
        state.withLock { $0.latest = frame.time }
        if isLive { return admitLive(at: frame.time) }
        defer { state.withLock { $0.follower.returns(at: MonotonicTime.now) } }
        return admitPaced(frame, pad: pad, element: element)
    }

    private func admitLive(at time: ClockTime?) -> Admission {
        state.withLock { state in
            guard state.isOpen else {
                state.counters.dropClosed(hasSession: !state.open.isEmpty)
                return state.refuses || state.isWithheld ? .refused : .dropped
            }
            return Self.isDue(time, &state) ? .passes(time) : .refused
        }
    }

    /// Sets a handler that is called with the first frame of each stream, before the frame is forwarded, and when an
    /// input is found to follow the clock, or not to.
    func onLiveness(_ handler: @escaping @Sendable (Bool) -> Void) { livenessHandler.withLock { $0 = handler } }
    private let livenessHandler = Mutex<(@Sendable (Bool) -> Void)?>(nil)

    /// Sets a handler that is called while a frame of an input that is not live waits in PAUSED.
    package func onPreroll(_ handler: @escaping @Sendable () -> Void) { prerollHandler.withLock { $0 = handler } }
    private let prerollHandler = Mutex<(@Sendable () -> Void)?>(nil)

    /// An unknown source counts as live, so that it is never blocked.
    package var isLive: Bool { state.withLock { $0.isLive ?? true } }

    private func learnLiveness(_ pad: Pad) -> Bool {
        let isMarked = pad.queryPeerLatency()?.live ?? true
        let isLive = isMarked || pad.upstreamSource?.bool("do-timestamp") == true
        let isPipe = !isLive && pad.isBehindPipe
        state.withLock { $0.probe = isPipe ? PaceProbe() : nil }
        return set(live: isLive, isFollower: false)
    }

    @discardableResult private func set(live: Bool, isFollower: Bool) -> Bool {
        state.withLock { state in
            (state.isLive, state.isFollower, state.follower) = (live, isFollower, ClockFollower())
        }
        livenessHandler.withLock { $0 }?(live)
        return live
    }

    /// Returns true if an input that was found to follow the clock runs ahead of it: from here on it waits again.
    private func hasOvertaken(_ frame: Arrival) -> Bool {
        let overtakes = state.withLock { state -> Bool in
            guard state.isFollower else { return false }
            // The frames of a pipe have no stamps, or those of a parser, which counts.
            if state.probe != nil { return state.follower.rushes(at: frame.at, step: frame.step ?? 33_000_000) }
            return frame.lead.map { state.follower.overtakes(lead: $0) } ?? false
        }
        if overtakes { set(live: false, isFollower: false) }
        return overtakes
    }

    private static func isDue(_ time: ClockTime?, _ state: inout State) -> Bool {
        guard let time, !state.isEncoded, !state.rate.passes(time) else { return true }
        state.counters.framesRateLimited &+= 1
        return false
    }

    private func admitPaced(_ frame: Arrival, pad: Pad, element: Element) -> Admission {
        if let admission = waitUntilOpen(frame, pad) { return admission }
        guard let time = frame.time else { return .passes(nil) }
        guard state.withLock({ Self.isDue(time, &$0) }) else { return .refused }
        guard let clock = element.currentClock, let now = element.currentRunningTime else { return .passes(time) }
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now, track: ObjectIdentifier(self))
        let early = due &- Int64(clamping: now)
        let wait = state.withLock { state -> ClockWait? in
            guard !state.refuses, early > 0, !Self.isAtPace(frame, early, state.follower) else { return nil }
            state.follower.restart()
            let wait = clock.makeWait(until: element.baseTime &+ UInt64(due))
            state.wait = wait
            return wait
        }
        guard let wait else {
            follow(frame)
            return .passes(time)
        }
        let arrived = wait.wait()
        state.withLock { $0.wait = nil }
        // A flush that has ended already, a pause or another clock cancelled the wait: start over with this frame.
        if !arrived, !state.withLock(\.refuses) { return admitPaced(frame, pad: pad, element: element) }
        return arrived ? .passes(time) : .refused
    }

    /// Returns nil once a media path takes frames, else what becomes of this one.
    private func waitUntilOpen(_ frame: Arrival, _ pad: Pad) -> Admission? {
        // Upstream's thread holds the lock that EOS, a seek and a state change of its element need. So in PLAYING a frame
        // is dropped after a second. In PAUSED a thread may wait, as in a sink that has prerolled.
        var limit = DispatchTime.now() + .seconds(1)
        var backlog: SourceBacklog?
        var isProbed = false
        while true {
            let (isOpen, refuses, playing) = state.withLock { ($0.isOpen, $0.refuses, $0.playing) }
            if refuses { return .refused }
            if let backlog, backlog.growsWithTime {
                set(live: true, isFollower: true)
                return admitLive(at: frame.time)
            }
            if isOpen { return nil }
            if playing, !exchange(&isProbed, with: true), let admission = probe(frame) { return admission }
            state.withLock { $0.follower.restart() }
            if !playing {
                (limit, backlog) = (.now() + .seconds(1), nil)
                prerollHandler.withLock { $0 }?()
            }
            if playing, backlog == nil { backlog = SourceBacklog(behind: pad) }
            guard changed.wait(timeout: limit) == .timedOut, playing else { continue }
            if backlog?.growsWithTime == true { continue }
            state.withLock { $0.counters.dropClosed(hasSession: !$0.open.isEmpty) }
            return .refused
        }
    }

    /// Takes one of the first frames from another program, before one waits.
    /// - Returns: what becomes of the frame; nil: it waits.
    private func probe(_ frame: Arrival) -> Admission? {
        let verdict = state.withLock { state -> PaceProbe.Verdict in
            guard state.probe != nil, state.follower.hasReturned else {
                return state.probe == nil ? .asFastAsTaken : .undecided
            }
            let wasIdle = state.follower.wasIdle(at: frame.at, step: frame.step ?? 33_000_000)
            let verdict = state.probe?.add(wasIdle: wasIdle) ?? .asFastAsTaken
            if verdict == .asFastAsTaken { state.probe = nil }
            return verdict
        }
        switch verdict {
        case .undecided:
            state.withLock { $0.counters.dropClosed(hasSession: !$0.open.isEmpty) }
            return .refused
        case .followsClock:
            set(live: true, isFollower: true)
            return admitLive(at: frame.time)
        case .asFastAsTaken: return nil
        }
    }

    /// The frames of an input that follows the clock arrive at its pace, and so wait for no other one. A slow decoder's
    /// frames gain on the clock then, until they have to wait.
    private static func isAtPace(_ frame: Arrival, _ early: Int64, _ follower: ClockFollower) -> Bool {
        guard let step = frame.step else { return false }
        return early <= Int64(clamping: step) && follower.wasIdle(at: frame.at, step: step)
    }

    private func follow(_ frame: Arrival) {
        let follows = state.withLock { state -> Bool in
            guard let lead = frame.lead, let present = frame.present, let step = frame.step,
                state.follower.wasIdle(at: frame.at, step: step)
            else {
                state.follower.restart()
                return false
            }
            return state.follower.follows(lead: lead, present: present)
        }
        if follows { set(live: true, isFollower: true) }
    }
}
