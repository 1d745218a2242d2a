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

        var lets: Bool { !open.isEmpty && playing && !flushing }

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

    /// Wakes whoever waits here; until the end of the flush every frame is refused.
    func set(flushing: Bool) {
        let wait = state.withLock { state in
            state.flushing = flushing
            if !flushing { state.nextDue = nil }
            return state.wait
        }
        if !flushing { pacing.reset() }
        wait?.cancel()
        changed.signal()
    }

    func reset() {
        state.withLock {
            let (interval, open) = ($0.interval, $0.open)
            $0 = State()
            ($0.interval, $0.open) = (interval, open)
        }
        pacing.reset()
    }

    /// Another source comes.
    func renew() {
        state.withLock { ($0.isLive, $0.segment, $0.flushing) = (nil, nil, false) }
        pacing.reset()
    }

    func take(segment: Event) { state.withLock { $0.segment = segment } }

    func countSent() { state.withLock { $0.counters.framesSent &+= 1 } }
    func countDropped() -> InputCounters {
        state.withLock {
            $0.counters.framesDropped &+= 1
            return $0.counters
        }
    }

    /// The running time of an input frame.
    func runningTime(of buffer: Buffer) -> ClockTime? {
        let segment = state.withLock(\.segment)
        return buffer.pts.flatMap { segment?.runningTime(of: $0) }
    }

    /// Upstream's thread. `pad` is the element's sink pad, `element` gives the clock.
    func admit(_ buffer: Buffer, pad: Pad, element: Element) -> Bool {
        let time = runningTime(of: buffer)
        let isLive = state.withLock { state in
            state.counters.framesIn &+= 1
            return state.isLive
        } ?? learnLiveness(pad)
        guard isLive else { return admitPaced(at: time, element: element) }
        return state.withLock { state in
            guard state.lets else {
                state.counters.framesDropped &+= 1
                return false
            }
            return Self.isDue(time, &state)
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
            let (lets, flushing) = state.withLock { ($0.lets, $0.flushing) }
            if flushing { return false }
            if lets { break }
            changed.wait()
        }
        guard let time, state.withLock({ Self.isDue(time, &$0) }) else { return time == nil }
        guard let clock = element.currentClock, let now = element.currentRunningTime else { return true }
        let due = Int64(clamping: time) &+ pacing.offset(for: time, now: now)
        let wait = state.withLock { state -> ClockWait? in
            guard !state.flushing, due > Int64(clamping: now) else { return nil }
            let wait = clock.makeWait(until: element.baseTime &+ UInt64(due))
            state.wait = wait
            return wait
        }
        let arrived = wait?.wait() ?? true
        state.withLock { $0.wait = nil }
        // Broken off by a flush, or by the session's end: this frame waits for the next one.
        if !arrived, !state.withLock(\.flushing) { return admitPaced(at: time, element: element) }
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
