import Dispatch

extension DispatchQueue {
    /// Timers of probes. Name lookups may block each thread of the global queue, and a timer there would be late.
    static let probeTimers = DispatchQueue(label: "decart-check.timers")
}

/// Measures a probe from its creation.
struct Stopwatch: Sendable {
    private let begun = ContinuousClock.now
    var elapsed: Duration { begun.duration(to: .now) }
}
