// Carries out for each input frame, on upstream's thread, what `AdmissionPolicy` decides. A live input never waits here. One
// that is not live waits for the session and then for the clock; it loses frames to the rate limit only, and the gate keeps
// one a second while there is no session. Live is what says so in a LATENCY query, stamps its buffers with the clock
// (`do-timestamp`), or is found to follow the clock.
import Dispatch
package import GStreamerKit
import Synchronization
import WebRTCTransport

package final class InputGate: Sendable {
    private typealias Policy = AdmissionPolicy<Buffer>
    package typealias Admission = AdmissionPolicy<Buffer>.Admission

    private struct State {
        var policy = Policy()
        var segment: Event?
        var wait: ClockWait?
    }
    private let state = StateLock(State())
    private let changed = DispatchSemaphore(value: 0)
    private let pacing: InputPacing

    package init(pacing: InputPacing) { self.pacing = pacing }

    private func read<Result: Sendable>(_ body: (Policy) -> Result) -> Result { state.read { body($0.policy) } }

    /// Changes the policy without waking a thread that waits.
    private func update<Result: Sendable>(_ body: (inout Policy) -> Result) -> Result {
        state.withLock { body(&$0.policy) }
    }

    /// As `update`, where nothing is given up.
    private func adjust<Result: Sendable>(_ body: (inout Policy) -> Result) -> Result {
        state.adjust { body(&$0.policy) }
    }

    /// Changes the policy, and lets a thread that waits look again.
    private func change(_ body: (inout Policy) -> Void) {
        let wait = state.withLock { state in
            body(&state.policy)
            return state.wait
        }
        wait?.cancel()
        changed.signal()
    }

    // MARK: What surrounds the input

    package func setMaximumRate(framesPerSecond: Int) { update { $0.set(maximumRate: framesPerSecond) } }

    /// Lowers the rate to what the CPU carries while this path is open; nil: it carries all frames.
    func setCarriedRate(framesPerSecond: Int?, path: PathID) {
        update { $0.set(carriedRate: framesPerSecond, path: path) }
    }

    package func set(encoded: Bool) { update { $0.isEncoded = encoded } }

    package var counters: InputCounters { read(\.counters) }

    func isOpen(path: PathID) -> Bool { read { $0.open.contains(path) } }

    /// True if a media path takes frames, the element plays, and no flush or stop is in progress.
    var isOpen: Bool { read(\.isOpen) }

    /// Running time of the frame that was not admitted just now, if only a media path is missing. On upstream's thread.
    package var timeToHold: ClockTime? { read(\.timeToHold) }

    /// Adds a media path; the gate is open while there is one.
    package func open(path: PathID) {
        if update({ $0.open(path: path) }) { pacing.reset() }
        changed.signal()
    }

    package func close(path: PathID) { update { $0.close(path: path) } }

    /// Frames pass in PLAYING only.
    package func set(playing: Bool) { change { $0.playing = playing } }

    package var isPlaying: Bool { read(\.playing) }

    /// A frame waits for its time, so that no other one can come.
    package var isHolding: Bool { state.read { $0.wait != nil } }

    /// A frame may wait on the clock that the element had before, which need not run any longer.
    package func clockChanged() { change { _ in } }

    /// True while the element stops or the pad is removed: a flush that ends then must not let frames in again.
    package var isLeaving: Bool {
        read { $0.isStopping || $0.isClosing }
    }

    /// Drops the frames that no media path takes without a report while this is set.
    package func set(withheld: Bool) { update { $0.isWithheld = withheld } }

    /// Time between two frames, as their durations or the caps say; nil: unknown.
    package var step: ClockTime? { read(\.step) }

    /// Wakes the threads that wait here; every frame is refused until the flush ends.
    package func set(flushing: Bool) {
        if !flushing { state.withLock { $0.segment = nil } }
        change { $0.set(flushing: flushing) }
        if !flushing { pacing.reset() }
    }

    /// Wakes a waiting streaming thread and refuses every frame until `prepare`. The element calls this before it
    /// deactivates its pads.
    package func stop() { change { $0.isStopping = true } }

    /// Does the same before the pad is removed, until `renew`.
    package func close() { change { $0.isClosing = true } }

    /// Called before the pads are activated.
    package func prepare() {
        change { $0.prepare() }
        pacing.reset()
    }

    /// Called after the pads are deactivated.
    func reset() {
        state.withLock { state in
            state.policy.reset()
            (state.segment, state.wait) = (nil, nil)
        }
        pacing.reset()
    }

    /// Called for a new pad, whose source may be another.
    package func renew() {
        state.withLock { state in
            state.policy.renew()
            state.segment = nil
        }
        pacing.reset()
    }

    // MARK: The stream

    package func set(segment: Event) { state.withLock { $0.segment = segment } }

    /// Applies a STREAM_START.
    /// - Returns: true if it is another stream.
    @discardableResult package func apply(streamStart event: Event) -> Bool {
        let id = event.streamID
        return update { $0.begin(stream: id) }
    }

    /// Called on upstream's thread at each CAPS.
    /// - Parameter keeps: frames of these caps may be kept: `onKept` can pass them on.
    package func beginCaps(keeps: Bool) { update { $0.beginCaps(keeps: keeps) } }

    /// Sets the nominal frame rate of new caps.
    package func set(framerate: (Int, Int)?) { update { $0.set(framerate: framerate) } }

    func countRateLimited() { adjust { $0.counters.framesRateLimited &+= 1 } }
    func countSent() { adjust { $0.counters.framesSent &+= 1 } }
    func countDroppedToKeyframe() { adjust { $0.counters.droppedToKeyframe &+= 1 } }
    /// Counts a frame that a busy queue, encoder or processor lost.
    package func countDropped() { adjust { $0.counters.droppedBusy &+= 1 } }
    package func countIncomplete() {
        adjust {
            $0.counters.framesIn &+= 1
            $0.counters.droppedIncomplete &+= 1
        }
    }
    /// Counts a frame that no media path took.
    func countUntaken() { adjust { $0.countUntaken() } }

    package func runningTime(of buffer: Buffer) -> ClockTime? {
        let segment = state.read(\.segment)
        return buffer.pts.flatMap { segment?.runningTime(of: $0) }
    }

    // MARK: Liveness

    /// Sets a handler that is called with the first frame of each stream, before the frame is forwarded, and when an
    /// input is found to follow the clock, or not to.
    func onLiveness(_ handler: @escaping @Sendable (Bool) -> Void) { handlers.withLock { $0.onLiveness = handler } }

    /// Sets a handler that is called while a frame of an input that is not live waits in PAUSED.
    package func onPreroll(_ handler: @escaping @Sendable () -> Void) { handlers.withLock { $0.onPreroll = handler } }

    /// Sets a handler that passes a frame on which has been kept, with its running time. It is called on upstream's
    /// thread, before a later frame is admitted.
    package func onKept(_ handler: @escaping @Sendable (Buffer, ClockTime?) -> Void) {
        handlers.withLock { $0.onKept = handler }
    }

    private struct Handlers {
        var onLiveness: (@Sendable (Bool) -> Void)?
        var onPreroll: (@Sendable () -> Void)?
        var onKept: (@Sendable (Buffer, ClockTime?) -> Void)?
    }
    private let handlers = Mutex(Handlers())

    /// An unknown source counts as live, so that it is never blocked.
    package var isLive: Bool { read(\.isLive) ?? true }

    private func learnLiveness(_ pad: Pad) -> Bool {
        let isMarked = pad.queryPeerLatency()?.live ?? true
        let isLive = isMarked || pad.upstreamSource?.bool("do-timestamp") == true
        let isPipe = !isLive && pad.isBehindPipe
        update { $0.set(isPipe: isPipe) }
        return set(live: isLive, isFollower: false)
    }

    @discardableResult private func set(live: Bool, isFollower: Bool) -> Bool {
        update { $0.set(live: live, isFollower: isFollower) }
        handlers.withLock(\.onLiveness)?(live)
        return live
    }

    /// Returns true if an input that was found to follow the clock runs ahead of it: from here on it waits again.
    private func hasOvertaken(_ arrival: Policy.Arrival) -> Bool {
        let overtakes = update { $0.overtakes(arrival) }
        if overtakes { set(live: false, isFollower: false) }
        return overtakes
    }

    // MARK: Frames (upstream's thread)

    /// Called on upstream's thread. `pad` is the element's sink pad; `element` provides the clock.
    /// - Returns: `dropped` if a live frame is lost, `refused` if a flush, the rate limit or the application takes it, or
    ///   if it is kept for a media path, because an input that is not live has waited for a second.
    package func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Admission {
        let (at, present) = (MonotonicTime.now, element.currentRunningTime)
        let (known, isFollower, step, segment) = state.adjust { state in
            state.policy.counters.framesIn &+= 1
            return (state.policy.isLive, state.policy.isFollower, buffer.duration ?? state.policy.step, state.segment)
        }
        let upstream = buffer.pts.flatMap { segment?.runningTime(of: $0) }
        var arrival = Policy.Arrival(at: at, present: present, upstream: upstream, step: step, frame: buffer)
        let isLive = (known ?? learnLiveness(pad)) && !(isFollower && hasOvertaken(arrival))
        let (time, admission) = adjust { [arrival] policy -> (ClockTime?, Admission?) in
            let time = policy.arrive(arrival, isLive: isLive)
            return (time, isLive ? policy.admitLive(at: time) : nil)
        }
        if let admission { return admission }
        arrival.time = time
        defer { adjust { $0.returns(at: MonotonicTime.now) } }
        return admitPaced(arrival, pad: pad, element: element)
    }

    /// Called in front of EOS: the kept frames leave if a media path takes them within a second.
    package func finish(_ element: Element) {
        let limit = DispatchTime.now() + .seconds(1)
        while waitForPath(until: limit), let kept = update({ $0.takeKept() }) { release(kept, element) }
        update { $0.dropKept() }
    }

    private func waitForPath(until limit: DispatchTime) -> Bool {
        while true {
            let (isOpen, isOver) = state.read { ($0.policy.isOpen, $0.policy.refuses || !$0.policy.hasKept) }
            if isOpen || isOver { return !isOver }
            if changed.wait(timeout: limit) == .timedOut { return false }
        }
    }

    private func admitPaced(_ arrival: Policy.Arrival, pad: Pad, element: Element) -> Admission {
        while true {
            if let admission = waitUntilOpen(arrival, pad) { return admission }
            // Kept frames are earlier.
            if let kept = update({ $0.takeKept() }) {
                release(kept, element)
            } else if let admission = pace(arrival, element) {
                return admission
            }
        }
    }

    /// Lets a kept frame out at its time.
    private func release(_ kept: Policy.Arrival, _ element: Element) {
        switch pace(kept, element) {
        case nil: update { $0.putBack(kept, bytes: kept.frame.size) }
        case .passes(let time): handlers.withLock(\.onKept)?(kept.frame, time)
        case .refused, .dropped: break
        }
    }

    /// Waits for the frame's time.
    /// - Returns: nil if the frame starts over, because a flush that has ended already, a pause or another clock cancelled
    ///   the wait.
    private func pace(_ arrival: Policy.Arrival, _ element: Element) -> Admission? {
        guard let time = arrival.time else { return .passes(nil) }
        guard adjust({ $0.isDue(time) }) else { return .refused }
        guard let clock = element.currentClock, let now = element.currentRunningTime else { return .passes(time) }
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now, track: ObjectIdentifier(self))
        let wait = state.withLock { state -> ClockWait? in
            guard state.policy.waits(arrival, early: due &- Int64(clamping: now)) else { return nil }
            state.wait = clock.makeWait(until: element.baseTime &+ UInt64(due))
            return state.wait
        }
        guard let wait else {
            if update({ $0.follows(arrival) }) { set(live: true, isFollower: true) }
            return .passes(time)
        }
        let arrived = wait.wait()
        let refuses = state.withLock { state in
            state.wait = nil
            return state.policy.refuses
        }
        return arrived ? .passes(time) : refuses ? .refused : nil
    }

    /// Returns nil once a media path takes frames, else what becomes of this one.
    private func waitUntilOpen(_ arrival: Policy.Arrival, _ pad: Pad) -> Admission? {
        // Upstream's thread holds the lock that EOS, a seek and a state change of its element need. So in PLAYING it goes
        // on after a second. In PAUSED a thread may wait, as in a sink that has prerolled.
        var limit = DispatchTime.now() + .seconds(1)
        var backlog: SourceBacklog?
        var isProbed = false
        while true {
            let (isOpen, refuses, playing) = state.read {
                ($0.policy.isOpen && !$0.policy.isJudging, $0.policy.refuses, $0.policy.playing)
            }
            if refuses { return .refused }
            if let backlog, backlog.growsWithTime { return admitFollower(arrival) }
            if isOpen { return nil }
            if playing, !exchange(&isProbed, with: true) {
                switch update({ $0.probe(arrival) }) {
                case .undecided: return keep(arrival)
                case .followsClock: return admitFollower(arrival)
                case .asFastAsTaken, nil: break
                }
            }
            update { $0.waited() }
            if !playing {
                (limit, backlog) = (.now() + .seconds(1), nil)
                handlers.withLock(\.onPreroll)?()
            }
            if playing, backlog == nil { backlog = SourceBacklog(behind: pad) }
            guard changed.wait(timeout: limit) == .timedOut, playing else { continue }
            if backlog?.growsWithTime == true { continue }
            return keep(arrival)
        }
    }

    private func admitFollower(_ arrival: Policy.Arrival) -> Admission {
        set(live: true, isFollower: true)
        return update { $0.admitLive(at: arrival.time) }
    }

    private func keep(_ arrival: Policy.Arrival) -> Admission {
        // A copy: upstream may have few buffers of its own.
        let copy = read(\.mayKeep) ? arrival.frame.deepCopy() : nil
        let kept = copy.map { buffer -> Policy.Arrival in
            var kept = Policy.Arrival(
                at: arrival.at, present: arrival.present, upstream: arrival.upstream, step: arrival.step, frame: buffer)
            kept.time = arrival.time
            return kept
        }
        update { $0.keep(kept, bytes: copy?.size ?? 0) }
        return .refused
    }
}
