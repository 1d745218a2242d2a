// Carries out for each input frame, on upstream's thread, what `AdmissionPolicy` decides. A live input never waits here. One
// that is not live waits for the session and then for the clock; it loses frames to the rate limit only, and the gate keeps
// one a second while there is no session. Live is what says so in a LATENCY query, stamps its buffers with the clock
// (`do-timestamp`), or is found to follow the clock.
import Dispatch
package import GStreamerKit
import WebRTCTransport

package final class InputGate: Sendable {
    private typealias Policy = AdmissionPolicy<Buffer>
    package typealias Admission = AdmissionPolicy<Buffer>.Admission

    private struct State {
        var policy = Policy()
        var segment: Event?
        var wait: ClockWait?
        var handlers = Handlers()
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

    /// Changes the state, and lets a thread that waits look again.
    private func change(_ body: (inout State) -> Void) {
        let wait = state.withLock { state in
            body(&state)
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

    /// Adds a media path; the gate is open while there is one. The path may hold a lock of its own, as for `close`.
    package func open(path: PathID) {
        if adjust({ $0.open(path: path) }) { pacing.reset() }
        changed.signal()
    }

    package func close(path: PathID) { adjust { $0.close(path: path) } }

    /// Frames pass in PLAYING only.
    package func set(playing: Bool) { change { $0.policy.playing = playing } }

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
        change { state in
            if !flushing { state.segment = nil }
            state.policy.set(flushing: flushing)
        }
        if !flushing { pacing.reset() }
    }

    /// Wakes a waiting streaming thread and refuses every frame until `prepare`. The element calls this before it
    /// deactivates its pads.
    package func stop() { change { $0.policy.isStopping = true } }

    /// Does the same before the pad is removed, until `renew`.
    package func close() { change { $0.policy.isClosing = true } }

    /// Called before the pads are activated.
    package func prepare() {
        change { $0.policy.prepare() }
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
    func onLiveness(_ handler: @escaping @Sendable (Bool) -> Void) {
        state.withLock { $0.handlers.onLiveness = handler }
    }

    /// Sets a handler that is called while a frame of an input that is not live waits in PAUSED.
    package func onPreroll(_ handler: @escaping @Sendable () -> Void) {
        state.withLock { $0.handlers.onPreroll = handler }
    }

    /// Sets a handler that passes a frame on which has been kept, with its running time. It is called on upstream's
    /// thread, before a later frame is admitted.
    package func onKept(_ handler: @escaping @Sendable (Buffer, ClockTime?) -> Void) {
        state.withLock { $0.handlers.onKept = handler }
    }

    private struct Handlers {
        var onLiveness: @Sendable (Bool) -> Void = { _ in }
        var onPreroll: @Sendable () -> Void = {}
        var onKept: @Sendable (Buffer, ClockTime?) -> Void = { _, _ in }
    }

    /// An unknown source counts as live, so that it is never blocked.
    package var isLive: Bool { read(\.isLive) ?? true }

    private func learnLiveness(_ pad: Pad) -> Bool {
        let isMarked = pad.queryPeerLatency()?.live ?? true
        let isLive = isMarked || pad.upstreamSource?.bool("do-timestamp") == true
        return set(live: isLive, isFollower: false, isPipe: !isLive && pad.isBehindPipe)
    }

    /// - Parameter isPipe: nil: as before.
    @discardableResult private func set(live: Bool, isFollower: Bool, isPipe: Bool? = nil) -> Bool {
        let handlers = state.withLock { state in
            if let isPipe { state.policy.set(isPipe: isPipe) }
            state.policy.set(live: live, isFollower: isFollower)
            return state.handlers
        }
        handlers.onLiveness(live)
        return live
    }

    // MARK: Frames (upstream's thread)

    /// Called on upstream's thread. `pad` is the element's sink pad; `element` provides the clock.
    /// - Returns: `dropped` if a live frame is lost, `refused` if a flush, the rate limit or the application takes it, or
    ///   if it is kept for a media path, because an input that is not live has waited for a second.
    package func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Admission {
        let (at, present) = (MonotonicTime.now, element.currentRunningTime)
        let (first, known, overtakes) = state.adjust { state in
            state.policy.counters.framesIn &+= 1
            let upstream = buffer.pts.flatMap { state.segment?.runningTime(of: $0) }
            let step = buffer.duration ?? state.policy.step
            let arrival = Policy.Arrival(at: at, present: present, upstream: upstream, step: step, frame: buffer)
            return (arrival, state.policy.isLive, state.policy.isFollower && state.policy.overtakes(arrival))
        }
        // An input that was found to follow the clock runs ahead of it: from here on it waits again.
        let isLive = overtakes ? set(live: false, isFollower: false) : known ?? learnLiveness(pad)
        let (time, admission) = adjust { policy -> (ClockTime?, Admission?) in
            let time = policy.arrive(first, isLive: isLive)
            return (time, isLive ? policy.admitLive(at: time) : nil)
        }
        if let admission { return admission }
        var arrival = first
        arrival.time = time
        defer { adjust { $0.returns(at: MonotonicTime.now) } }
        return admitPaced(arrival, pad: pad, element: element)
    }

    /// Called in front of EOS: the kept frames leave if a media path takes them within a second.
    package func finish(_ element: Element) {
        let limit = DispatchTime.now() + .seconds(1)
        while true {
            let (kept, isOver) = update { policy in
                (policy.isOpen ? policy.takeKept() : nil, policy.refuses || !policy.hasKept)
            }
            if let kept {
                release(kept, pace(kept, element))
            } else if isOver || changed.wait(timeout: limit) == .timedOut {
                break
            }
        }
        update { $0.dropKept() }
    }

    private func admitPaced(_ arrival: Policy.Arrival, pad: Pad, element: Element) -> Admission {
        var arrival = arrival
        while true {
            switch awaitTurn(arrival, pad) {
            case .over(let admission): return admission
            case .next(let next):
                let admission = pace(next, element)
                if next.isKept {
                    release(next, admission)
                } else if let admission {
                    return admission
                } else {
                    arrival = next
                }
            }
        }
    }

    /// Lets a kept frame out, or puts it back if it starts over.
    private func release(_ kept: Policy.Arrival, _ admission: Admission?) {
        switch admission {
        case nil: update { $0.putBack(kept, bytes: kept.frame.size) }
        case .passes(let time): state.read(\.handlers).onKept(kept.frame, time)
        case .refused, .dropped: break
        }
    }

    /// Waits for the frame's time.
    /// - Returns: nil if the frame starts over, because a flush that has ended already, a pause or another clock cancelled
    ///   the wait.
    private func pace(_ arrival: Policy.Arrival, _ element: Element) -> Admission? {
        guard let time = arrival.time, let clock = element.currentClock, let now = element.currentRunningTime
        else { return .passes(arrival.time) }
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now, track: ObjectIdentifier(self))
        let wait = state.withLock { state -> ClockWait? in
            guard state.policy.waits(arrival, early: due &- Int64(clamping: now)) else { return nil }
            state.wait = clock.makeWait(until: element.baseTime &+ UInt64(clamping: due))
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

    /// Returns the frame that is next once a media path takes frames, else what becomes of this one.
    private func awaitTurn(_ arrival: Policy.Arrival, _ pad: Pad) -> Turn {
        // Upstream's thread holds the lock that EOS, a seek and a state change of its element need. So in PLAYING it goes
        // on after a second. In PAUSED a thread may wait, as in a sink that has prerolled.
        var limit = DispatchTime.now() + .seconds(1)
        var backlog: SourceBacklog?
        var isProbed = false
        while true {
            let grows = backlog?.growsWithTime ?? false
            let (turn, handlers) = state.withLock { state in
                (state.policy.turn(arrival, isProbed: isProbed, growsWithTime: grows), state.handlers)
            }
            switch turn {
            case .next(let next): return .next(next)
            case .keep: return .over(keep(arrival))
            case .follows: return .over(admitFollower(arrival))
            case .refused: return .over(.refused)
            case .waits(inPlaying: true):
                isProbed = true
                if backlog == nil { backlog = SourceBacklog(behind: pad) }
                if changed.wait(timeout: limit) == .timedOut, backlog?.growsWithTime != true {
                    return .over(keep(arrival))
                }
            case .waits(inPlaying: false):
                (limit, backlog) = (.now() + .seconds(1), nil)
                handlers.onPreroll()
                _ = changed.wait(timeout: limit)
            }
        }
    }

    private enum Turn {
        case next(Policy.Arrival)
        case over(Admission)
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
