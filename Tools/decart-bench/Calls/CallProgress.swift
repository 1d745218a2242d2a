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
    }
    private let state = Mutex(State())

    func begin(at start: ContinuousClock.Instant) { state.withLock { $0.started = start } }

    func reached(_ step: Step) {
        state.withLock { state in if state.times[step] == nil { state.times[step] = .now - state.started } }
    }

    func fail(_ text: String) { state.withLock { $0.failure = $0.failure ?? text } }

    func captured(_ number: Int) {
        state.withLock { state in
            state.sent[number] = .now
            state.framesSent += 1
            if state.sent.count > 300 { state.sent.removeValue(forKey: number - 300) }
        }
    }

    func received(_ number: Int?) {
        state.withLock { state in
            state.frames += 1
            if state.times[.firstFrame] == nil { state.times[.firstFrame] = .now - state.started }
            if let number, let sent = state.sent[number] {
                state.delays.append(Delay(frame: number, milliseconds: (.now - sent).milliseconds))
            }
        }
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
        let begun = ContinuousClock.now
        while true {
            let (frames, failure) = state.withLock { ($0.frames, $0.failure) }
            if let failure { throw BenchError(failure) }
            if frames >= count { return }
            guard .now - begun < .seconds(seconds) else {
                throw BenchError(
                    "\(frames) of \(count) frames came within \(seconds) s (connected: \(time(.connected) != nil))")
            }
            pause(.milliseconds(5))
        }
    }
}
