// Carries out for each input frame, on upstream's thread, what `AdmissionPolicy` decides. A live input never waits here. One
// that is not live waits for the session and then for the clock; it loses frames to the rate limit only, and the gate keeps
// one a second while there is no session. Live is what says so in a LATENCY query, stamps its buffers with the clock
// (`do-timestamp`), or is found to follow the clock.
import Dispatch
package import GStreamerKit
import Synchronization
import WebRTCTransport

// @unchecked: `segment` belongs to upstream's thread, and to the one that starts, flushes or stops the pad while that is not
// in it; `handlers` are set while no stream runs; the rest locks itself.
package final class InputGate: @unchecked Sendable {
    private typealias Policy = AdmissionPolicy<Buffer>
    package typealias Admission = AdmissionPolicy<Buffer>.Admission

    private struct State {
        var policy = Policy()
        var wait: ClockWait?
    }
    private let state = StateLock(State())
    private let changed = DispatchSemaphore(value: 0)
    private let pacing: InputPacing
    private let delivered = DeliveryCounters()
    private var segment: Event?
    private var handlers = Handlers()

    package init(pacing: InputPacing) { self.pacing = pacing }

    private func update<Result: Sendable>(_ body: (inout Policy) -> Result) -> Result {
        state.withLock { body(&$0.policy) }
    }

    // MARK: What surrounds the input

    /// Applies an event, and lets a thread that waits look again where the policy wants that.
    @discardableResult private func handle(_ event: Policy.Event) -> AdmissionEffects {
        let (effects, wait) = state.withLock { ($0.policy.handle(event), $0.wait) }
        if effects.contains(.restartsTime) { pacing.reset() }
        if effects.contains(.cancelsWait) { wait?.cancel() }
        if effects.contains(.wakes) { changed.signal() }
        return effects
    }

    package func setMaximumRate(framesPerSecond rate: Int) { handle(.maximumRate(rate)) }

    /// Lowers the rate to what the CPU carries while this path is open; nil: it carries all frames.
    func setCarriedRate(framesPerSecond rate: Int?, path: PathID) { handle(.carriedRate(rate, path)) }

    package func set(encoded: Bool) { handle(.encoded(encoded)) }

    /// Adds a media path; the gate is open while there is one. The path may hold a lock of its own, as for `close`.
    package func open(path: PathID) { handle(.opened(path)) }

    package func close(path: PathID) { handle(.closed(path)) }

    /// Frames pass in PLAYING only.
    package func set(playing: Bool) { handle(.playing(playing)) }

    /// A frame may wait on the clock that the element had before, which need not run any longer.
    package func clockChanged() { handle(.clockChanged) }

    /// Drops the frames that no media path takes without a report while this is set.
    package func set(withheld: Bool) { handle(.withheld(withheld)) }

    /// Wakes the threads that wait here; every frame is refused until the flush ends.
    package func set(flushing: Bool) {
        if !flushing { segment = nil }
        handle(.flushing(flushing))
    }

    /// Wakes a waiting streaming thread and refuses every frame until `prepare`. The element calls this before it
    /// deactivates its pads.
    package func stop() { handle(.stopping) }

    /// Does the same before the pad is removed, until `renew`.
    package func close() { handle(.closing) }

    /// Called before the pads are activated.
    package func prepare() { handle(.prepared) }

    /// Called after the pads are deactivated.
    func reset() {
        segment = nil
        handle(.reset)
    }

    /// Called for a new pad, whose source may be another.
    package func renew() {
        segment = nil
        handle(.renewed)
    }

    // MARK: What others read

    package struct Snapshot: Sendable {
        package var counters: InputCounters
        /// The media paths that take frames.
        package var open: Set<PathID>
        /// A media path takes frames, the element plays, and no flush or stop is in progress.
        package var isOpen: Bool
        package var isPlaying: Bool
        /// A frame waits for its time, so that no other one can come.
        package var isHolding: Bool
        /// The element stops or the pad is removed: a flush that ends then must not let frames in again.
        package var isLeaving: Bool
        /// An unknown source counts as live, so that it is never blocked.
        package var isLive: Bool
        /// Time between two frames, as their durations or the caps say; nil: unknown.
        package var step: ClockTime?
        /// Running time of the frame that was not admitted just now, if only a media path is missing.
        package var timeToHold: ClockTime?
    }

    package var snapshot: Snapshot {
        state.read { state in
            Snapshot(
                counters: delivered.added(to: state.policy.counters), open: state.policy.open,
                isOpen: state.policy.isOpen, isPlaying: state.policy.playing, isHolding: state.wait != nil,
                isLeaving: state.policy.isStopping || state.policy.isClosing, isLive: state.policy.isLive ?? true,
                step: state.policy.step, timeToHold: state.policy.timeToHold)
        }
    }

    package var counters: InputCounters { snapshot.counters }
    package var isPlaying: Bool { snapshot.isPlaying }
    package var isHolding: Bool { snapshot.isHolding }
    package var isLeaving: Bool { snapshot.isLeaving }
    package var isLive: Bool { snapshot.isLive }
    package var step: ClockTime? { snapshot.step }
    package var timeToHold: ClockTime? { snapshot.timeToHold }

    // MARK: The stream (upstream's thread)

    package func set(segment: Event) { self.segment = segment }

    /// Applies a STREAM_START.
    /// - Returns: true if it is another stream.
    @discardableResult package func apply(streamStart event: Event) -> Bool {
        handle(.streamStart(event.streamID)).contains(.isOtherStream)
    }

    /// Called at each CAPS.
    /// - Parameter keeps: frames of these caps may be kept: `onKept` can pass them on.
    package func beginCaps(keeps: Bool) { handle(.caps(keeps: keeps)) }

    /// Sets the nominal frame rate of new caps.
    package func set(framerate: (Int, Int)?) { handle(.framerate(framerate)) }

    package func runningTime(of buffer: Buffer) -> ClockTime? {
        buffer.pts.flatMap { segment?.runningTime(of: $0) }
    }

    // MARK: Counters

    func countRateLimited() { delivered.rateLimited.wrappingAdd(1, ordering: .relaxed) }
    func countSent() { delivered.sent.wrappingAdd(1, ordering: .relaxed) }
    func countDroppedToKeyframe() { delivered.toKeyframe.wrappingAdd(1, ordering: .relaxed) }
    /// Counts a frame that a busy queue, encoder or processor lost.
    package func countDropped() { delivered.busy.wrappingAdd(1, ordering: .relaxed) }
    package func countIncomplete() { delivered.incomplete.wrappingAdd(1, ordering: .relaxed) }
    /// Counts a frame that no media path took.
    func countUntaken() { handle(.untaken) }

    // MARK: Liveness

    /// Sets a handler that is called with the first frame of each stream, before the frame is forwarded, and when an
    /// input is found to follow the clock, or not to.
    func onLiveness(_ handler: @escaping @Sendable (Bool) -> Void) { handlers.onLiveness = handler }

    /// Sets a handler that is called while a frame of an input that is not live waits in PAUSED.
    package func onPreroll(_ handler: @escaping @Sendable () -> Void) { handlers.onPreroll = handler }

    /// Sets a handler that passes a frame on which has been kept, with its running time. It is called on upstream's
    /// thread, before a later frame is admitted.
    package func onKept(_ handler: @escaping @Sendable (Buffer, ClockTime?) -> Void) { handlers.onKept = handler }

    private struct Handlers {
        var onLiveness: @Sendable (Bool) -> Void = { _ in }
        var onPreroll: @Sendable () -> Void = {}
        var onKept: @Sendable (Buffer, ClockTime?) -> Void = { _, _ in }
    }

    private func learnLiveness(_ pad: Pad) -> Bool {
        let isMarked = pad.queryPeerLatency()?.live ?? true
        let isLive = isMarked || pad.upstreamSource?.bool("do-timestamp") == true
        return set(live: isLive, isFollower: false, isPipe: !isLive && pad.isBehindPipe)
    }

    /// - Parameter isPipe: nil: as before.
    @discardableResult private func set(live: Bool, isFollower: Bool, isPipe: Bool? = nil) -> Bool {
        handle(.source(isLive: live, isFollower: isFollower, isPipe: isPipe))
        handlers.onLiveness(live)
        return live
    }

    // MARK: Frames (upstream's thread)

    /// Called on upstream's thread. `pad` is the element's sink pad; `element` provides the clock.
    /// - Returns: `dropped` if a live frame is lost, `refused` if a flush, the rate limit or the application takes it, or
    ///   if it is kept for a media path, because an input that is not live has waited for a second.
    package func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Admission {
        var arrival = Policy.Arrival(
            at: MonotonicTime.now, present: element.currentRunningTime, upstream: runningTime(of: buffer),
            step: buffer.duration, frame: buffer)
        var isLive: Bool?
        while true {
            switch state.adjust({ $0.policy.receive(&arrival, isLive: isLive) }) {
            case .live(let admission): return admission
            case .paced:
                defer { state.adjust { $0.policy.returns(at: MonotonicTime.now) } }
                return admitPaced(arrival, pad: pad, element: element)
            // An input that was found to follow the clock runs ahead of it: from here on it waits again.
            case .unknown(isAhead: true): isLive = set(live: false, isFollower: false)
            case .unknown(isAhead: false): isLive = learnLiveness(pad)
            }
        }
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
        case .passes(let time): handlers.onKept(kept.frame, time)
        case .refused, .dropped: break
        }
    }

    /// Waits for the frame's time.
    /// - Returns: nil if the frame starts over, because a flush that has ended already, a pause or another clock cancelled
    ///   the wait.
    private func pace(_ arrival: Policy.Arrival, _ element: Element) -> Admission? {
        guard let time = arrival.time, let clock = element.currentClock, let now = element.currentRunningTime
        else { return .passes(arrival.time) }
        let base = element.baseTime
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now, track: ObjectIdentifier(self))
        let (wait, follows) = state.withLock { state -> (ClockWait?, Bool) in
            guard state.policy.waits(arrival, early: due &- Int64(clamping: now)) else {
                return (nil, state.policy.follows(arrival))
            }
            state.wait = clock.makeWait(until: base &+ UInt64(clamping: due))
            return (state.wait, false)
        }
        guard let wait else {
            if follows { set(live: true, isFollower: true) }
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
            switch update({ $0.turn(arrival, isProbed: isProbed, growsWithTime: grows) }) {
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
        let copy = state.read(\.policy.mayKeep) ? arrival.frame.deepCopy() : nil
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

/// Frames behind the gate, counted by the threads that deliver them.
private final class DeliveryCounters: Sendable {
    let sent = Atomic<UInt64>(0)
    let busy = Atomic<UInt64>(0)
    let toKeyframe = Atomic<UInt64>(0)
    let rateLimited = Atomic<UInt64>(0)
    let incomplete = Atomic<UInt64>(0)

    func added(to admitted: InputCounters) -> InputCounters {
        func add(_ counter: borrowing Atomic<UInt64>, to sum: inout UInt64) { sum &+= counter.load(ordering: .relaxed) }
        var sums = admitted
        add(sent, to: &sums.framesSent)
        add(busy, to: &sums.droppedBusy)
        add(toKeyframe, to: &sums.droppedToKeyframe)
        add(rateLimited, to: &sums.framesRateLimited)
        add(incomplete, to: &sums.droppedIncomplete)
        add(incomplete, to: &sums.framesIn)
        return sums
    }
}
