import Dispatch

extension DispatchQueue {
    /// Timers of probes. Name lookups may block each thread of the global queue, and a timer there would be late.
    static let probeTimers = DispatchQueue(label: "decart-check.timers")
}
