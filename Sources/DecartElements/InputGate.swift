// The door of the input: decides for each raw frame, on upstream's thread, whether it goes on. A live input never
// waits here; one that is not live waits for the session and then for the clock, and loses nothing.
import Dispatch
import GStreamerKit
import Synchronization

struct InputCounters: Sendable {
    var framesIn: UInt64 = 0
    /// Because there was no session, or the network branch was busy: lost.
    var framesDropped: UInt64 = 0
    /// Because the input is faster than `max-framerate`: as asked.
    var framesSkipped: UInt64 = 0
    var framesSent: UInt64 = 0
}

final class InputGate: Sendable {
    private struct State {
        /// The media paths that take frames, by rank; a raw fallback counts as one.
        var open: Set<Int> = []
        var playing = false
        var flushing = false
        /// The element stops. Unlike `flushing` no event from upstream ends it: a pad can be deactivated only while no
        /// thread waits here.
        var isStopping = false
        /// The pad is being removed, for which the same holds.
        var isClosing = false

        var refuses: Bool { flushing || isStopping || isClosing }
        var lets: Bool { !open.isEmpty && playing && !refuses }

        /// The source's kind, asked once per stream.
        var isLive: Bool?
        var segment: Event?
        /// Running time at which the next frame may pass, for the rate limit.
        var nextDue: ClockTime?
        var interval: ClockTime = 0
        var wait: ClockWait?
        var counters = InputCounters()
    }
    private let state = Mutex(State())
    private let changed = DispatchSemaphore(value: 0)
    private let pacing: InputPacing

    init(pacing: InputPacing) { self.pacing = pacing }

    func setMaximumRate(framesPerSecond: Int) {
        state.withLock { $0.interval = framesPerSecond > 0 ? 1_000_000_000 / UInt64(framesPerSecond) : 0 }
    }

    var counters: InputCounters { state.withLock(\.counters) }

    /// Whether this media path takes frames.
    func isOpen(rank: Int) -> Bool { state.withLock { $0.open.contains(rank) } }

    /// A media path takes frames, and the element plays.
    var lets: Bool { state.withLock(\.lets) }

    /// Opens with the first media path and closes with the last.
    func open(rank: Int) {
        let isFirst = state.withLock { state in
            defer { state.open.insert(rank) }
            return !state.lets
        }
        if isFirst { pacing.reset() }
        changed.signal()
    }

    func close(rank: Int) { _ = state.withLock { $0.open.remove(rank) } }

    /// In PAUSED nothing is sent.
    func set(playing: Bool) {
        state.withLock { $0.playing = playing }
        changed.signal()
    }

    /// The element, or the pad, is on its way out: a flush that ends now must set nothing in motion again.
    var isLeaving: Bool { state.withLock { $0.isStopping || $0.isClosing } }

    /// Wakes whoever waits here; until the end of the flush every frame is refused.
    func set(flushing: Bool) {
        change { state in
            state.flushing = flushing
            if !flushing { state.nextDue = nil }
        }
        if !flushing { pacing.reset() }
    }

    /// The element calls this before it deactivates its pads: a waiting streaming thread wakes, and every frame is refused
    /// until `prepare`.
    func stop() { change { $0.isStopping = true } }

    /// The same before the pad is removed, until `renew`.
    func close() { change { $0.isClosing = true } }

    /// Before the pads are activated.
    func prepare() {
        change { ($0.isStopping, $0.flushing, $0.nextDue) = (false, false, nil) }
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

    /// After the pads were deactivated.
    func reset() {
        state.withLock {
            let (interval, open, isStopping, isClosing) = ($0.interval, $0.open, $0.isStopping, $0.isClosing)
            $0 = State()
            ($0.interval, $0.open, $0.isStopping, $0.isClosing) = (interval, open, isStopping, isClosing)
        }
        pacing.reset()
    }

    /// Another source comes.
    func renew() {
        state.withLock { ($0.isLive, $0.segment, $0.flushing, $0.isClosing) = (nil, nil, false, false) }
        pacing.reset()
    }

    func take(segment: Event) { state.withLock { $0.segment = segment } }

    func countSent() { state.withLock { $0.counters.framesSent &+= 1 } }
    func countDropped() { state.withLock { $0.counters.framesDropped &+= 1 } }

    /// The running time of an input frame.
    func runningTime(of buffer: Buffer) -> ClockTime? {
        let segment = state.withLock(\.segment)
        return buffer.pts.flatMap { segment?.runningTime(of: $0) }
    }

    enum Admission { case passes, dropped, refused }

    /// Upstream's thread. `pad` is the element's sink pad, `element` gives the clock.
    /// - Returns: `dropped` where a live frame is lost; one that a flush or the rate limit takes is refused.
    func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Admission {
        let time = runningTime(of: buffer)
        let isLive = state.withLock { state in
            state.counters.framesIn &+= 1
            return state.isLive
        } ?? learnLiveness(pad)
        guard isLive else { return admitPaced(at: time, element: element) ? .passes : .refused }
        return state.withLock { state in
            guard state.lets else {
                state.counters.framesDropped &+= 1
                return state.refuses ? .refused : .dropped
            }
            return Self.isDue(time, &state) ? .passes : .refused
        }
    }

    /// Called with the first frame of a stream, before it goes on.
    func onLiveness(_ handler: @escaping @Sendable (Bool) -> Void) { livenessHandler.withLock { $0 = handler } }
    private let livenessHandler = Mutex<(@Sendable (Bool) -> Void)?>(nil)

    /// Not known counts as live: nobody is held up.
    var isLive: Bool { state.withLock { $0.isLive ?? true } }

    private func learnLiveness(_ pad: Pad) -> Bool {
        let live = pad.queryPeerLatency()?.live ?? true
        state.withLock { $0.isLive = live }
        livenessHandler.withLock { $0 }?(live)
        return live
    }

    /// Keeps the average rate below the limit: a frame that comes up to half an interval early still counts as due.
    private static func isDue(_ time: ClockTime?, _ state: inout State) -> Bool {
        guard let time, state.interval > 0 else { return true }
        if let due = state.nextDue, time &+ state.interval / 8 < due, due &- time < 4 &* state.interval {
            state.counters.framesSkipped &+= 1
            return false
        }
        let next = (state.nextDue ?? time) &+ state.interval
        state.nextDue = next &+ state.interval < time || next > time &+ 2 &* state.interval ? time &+ state.interval : next
        return true
    }

    private func admitPaced(at time: ClockTime?, element: Element) -> Bool {
        while true {
            let (lets, refuses) = state.withLock { ($0.lets, $0.refuses) }
            if refuses { return false }
            if lets { break }
            changed.wait()
        }
        guard let time, state.withLock({ Self.isDue(time, &$0) }) else { return time == nil }
        guard let clock = element.currentClock, let now = element.currentRunningTime else { return true }
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now)
        let wait = state.withLock { state -> ClockWait? in
            guard !state.refuses, due > Int64(clamping: now) else { return nil }
            let wait = clock.makeWait(until: element.baseTime &+ UInt64(due))
            state.wait = wait
            return wait
        }
        let arrived = wait?.wait() ?? true
        state.withLock { $0.wait = nil }
        // Broken off by a flush, or by the session's end: this frame waits for the next one.
        if !arrived, !state.withLock(\.refuses) { return admitPaced(at: time, element: element) }
        return arrived
    }
}

/// What is added to the running time of inputs that are not live, so that the first of what they give plays now: pictures
/// and sound of one file stay together.
final class InputPacing: Sendable {
    private let offset = Mutex<Int64?>(nil)

    /// - Parameter time: running time of what is there.
    func offset(for time: ClockTime, now: ClockTime) -> Int64 {
        offset.withLock { offset in
            let known = offset ?? (Int64(clamping: now) &- Int64(clamping: time))
            offset = known
            return known
        }
    }

    /// The next one begins anew.
    func reset() { offset.withLock { $0 = nil } }
}
