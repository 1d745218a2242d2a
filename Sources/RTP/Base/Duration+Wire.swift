/// Running time of a pipeline, ns.
package typealias RunningTime = UInt64

extension Duration {
    /// In whole microseconds, for wire formats and the arithmetic of congestion control.
    package var inMicroseconds: Int64 { whole(perSecond: 1_000_000) }

    var inNanoseconds: Int64 { whole(perSecond: 1_000_000_000) }

    /// Saturating. Inlined, so that the divisor is a constant.
    @inline(__always) private func whole(perSecond units: Int64) -> Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflows) = seconds.multipliedReportingOverflow(by: units)
        guard !overflows else { return seconds < 0 ? .min : .max }
        return whole &+ attoseconds / (1_000_000_000_000_000_000 / units)
    }

    /// The earlier of two times, of which each may be missing.
    static func earlier(_ one: Duration?, _ other: Duration?) -> Duration? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }
}
