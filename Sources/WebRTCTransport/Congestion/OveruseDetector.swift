/// Overuse detection with an adaptive threshold (draft-ietf-rmcat-gcc-02 section 5.4).
package struct OveruseDetector: Sendable {
    package enum Signal: Sendable, Equatable { case normal, overuse, underuse }

    /// K_u and K_d per ms, as libwebrtc tunes them for the trendline, which replaces the Kalman filter's m(i).
    private static let rise = 0.0087
    private static let fall = 0.039
    /// overuse_time_th, ms.
    private static let overuseTime = 10.0
    /// del_var_th(0), ms.
    package private(set) var threshold = 12.5
    private var overuseTime: Double?
    private var overuseCount = 0
    private var lastOffset = 0.0
    private var lastTime: Int64?
    package init() {}

    /// `offset` comes from the filter, `interval` is the time since the previous group in ms, `time` is in µs on the
    /// clock of the arrivals.
    package mutating func update(offset: Double, interval: Double, time: Int64) -> Signal {
        defer {
            adapt(to: offset, time: time)
            lastOffset = offset
        }
        if offset > threshold {
            // On average, the offset was above the threshold for half of the first interval.
            let spent = (overuseTime ?? -interval / 2) + interval
            overuseTime = spent
            overuseCount += 1
            // Overuse must last and not decline by itself.
            guard spent > Self.overuseTime, overuseCount > 1, offset >= lastOffset else { return .normal }
            overuseTime = 0
            overuseCount = 0
            return .overuse
        }
        overuseTime = nil
        overuseCount = 0
        return offset < -threshold ? .underuse : .normal
    }

    /// Lets the threshold follow the offset, or a concurrent TCP flow would starve us; spikes are ignored.
    private mutating func adapt(to offset: Double, time: Int64) {
        let elapsed = lastTime.map { min(100, max(0, Double(time &- $0) / 1000)) } ?? 0
        lastTime = time
        let distance = abs(offset) - threshold
        guard distance <= 15 else { return }
        threshold += (distance < 0 ? Self.fall : Self.rise) * distance * elapsed
        threshold = min(600, max(6, threshold))
    }
}
