internal import CGStreamer

/// Nanoseconds, as GstClockTime; nil stands for GST_CLOCK_TIME_NONE.
public typealias ClockTime = UInt64

extension ClockTime {
    static let noneValue = ClockTime.max
    init?(validating raw: GstClockTime) {
        guard raw != GstClockTime.max else { return nil }
        self = ClockTime(raw)
    }
}

extension Duration {
    /// The duration in nanoseconds, saturating; zero if negative.
    public var clockTime: UInt {
        let parts = components
        guard parts.seconds >= 0 else { return 0 }
        let (scaled, overflow) = UInt64(parts.seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return .max }
        return UInt(scaled &+ UInt64(max(0, parts.attoseconds / 1_000_000_000)))
    }
}
