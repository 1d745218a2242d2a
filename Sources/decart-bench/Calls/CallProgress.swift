import Dispatch
import Synchronization

/// Records when a call reaches each step, and the latency of its frames. Thread-safe.
final class CallProgress: Sendable {
    enum Step: Sendable, Hashable { case answered, ice, connected, firstFrame }
    struct Delay: Sendable {
        /// The number that `captured` got.
        var frame: Int
        var milliseconds: Double
    }

    private struct State {
        var started = ContinuousClock.now
        var times: [Step: Duration] = [:]
        var failure: String?
        var frames = 0
        var sent: [Int: ContinuousClock.Instant] = [:]
        var framesSent = 0
        var delays: [Delay] = []
        var waiters: [(isDue: @Sendable (borrowing State) -> Bool, semaphore: DispatchSemaphore)] = []
    }
    private let state = Mutex(State())

    func begin(at start: ContinuousClock.Instant) { state.withLock { $0.started = start } }

    func reached(_ step: Step) {
        change { state in if state.times[step] == nil { state.times[step] = .now - state.started } }
    }

    func fail(_ text: String) { change { $0.failure = $0.failure ?? text } }

    func captured(_ number: Int) {
        state.withLock { state in
            state.sent[number] = .now
            state.framesSent += 1
            if state.sent.count > 300 { state.sent.removeValue(forKey: number - 300) }
        }
    }

    func received(_ number: Int?) {
        change { state in
            state.frames += 1
            if state.times[.firstFrame] == nil { state.times[.firstFrame] = .now - state.started }
            if let number, let sent = state.sent[number] {
                state.delays.append(Delay(frame: number, milliseconds: (.now - sent).milliseconds))
            }
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let due = state.withLock { state in
            body(&state)
            let waiters = state.waiters
            guard !waiters.isEmpty else { return [DispatchSemaphore]() }
            let due = waiters.map { $0.isDue(state) }
            state.waiters = zip(waiters, due).filter { !$0.1 }.map(\.0)
            return zip(waiters, due).filter(\.1).map(\.0.semaphore)
        }
        for waiter in due { waiter.signal() }
    }

    func time(_ step: Step) -> Duration? { state.withLock { $0.times[step] } }
    var frames: Int { state.withLock { $0.frames } }
    var framesSent: Int { state.withLock { $0.framesSent } }
    /// Returns the latencies from capture to return since the last call.
    func takeDelays() -> [Delay] {
        state.withLock { state in
            defer { state.delays = [] }
            return state.delays
        }
    }

    /// Waits until `count` frames have arrived. Throws if that takes too long or the call fails.
    func waitForFrames(_ count: Int, seconds: Int = 15) throws {
        let semaphore = DispatchSemaphore(value: 0)
        let isDue: @Sendable (borrowing State) -> Bool = { $0.frames >= count || $0.failure != nil }
        let already = state.withLock { state in
            if isDue(state) { return true }
            state.waiters.append((isDue, semaphore))
            return false
        }
        if !already, semaphore.wait(timeout: .now() + .seconds(seconds)) == .timedOut {
            throw BenchError(
                "\(frames) of \(count) frames came within \(seconds) s (connected: \(time(.connected) != nil))")
        }
        if let failure = state.withLock(\.failure) { throw BenchError(failure) }
    }
}
