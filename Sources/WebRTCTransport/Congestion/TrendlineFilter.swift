/// The arrival-time filter: the "trendline", with which libwebrtc replaced the Kalman filter of draft-ietf-rmcat-gcc-02
/// section 5.3. It is the slope of a least-squares line through the smoothed, accumulated delay variation of the last
/// groups. It needs no noise model and detects a drop of capacity within a few groups.
package struct TrendlineFilter: Sendable {
    private static let window = 20
    /// The points cover at least this time, ms: a pacer makes many small groups, and a line through twenty of them
    /// would be noise.
    private static let span = 500.0
    private static let most = 100
    private static let smoothing = 0.9
    private static let gain = 4.0
    private static let countCap = 60.0

    private var points: [(time: Double, delay: Double)] = []
    private var origin: Int64?
    private var accumulated = 0.0
    private var smoothed = 0.0
    private var count = 0.0
    private var slope = 0.0
    package init() { points.reserveCapacity(Self.most + 1) }

    /// Returns the offset that the detector compares with its threshold (m(i) of section 5.4): the milliseconds that a
    /// queue growing at this slope would add over some tens of groups.
    package mutating func update(_ variation: InterArrivalGrouper.InterGroupDelay) -> Double {
        let start = origin ?? variation.time
        origin = start
        count = min(count + 1, Self.countCap)
        accumulated += variation.delay
        smoothed = Self.smoothing * smoothed + (1 - Self.smoothing) * accumulated
        points.append((Double(variation.time &- start) / 1000, smoothed))
        while points.count > Self.window, let first = points.first, let last = points.last,
            last.time - first.time > Self.span || points.count > Self.most
        { points.removeFirst() }
        if points.count >= Self.window, let fitted = fit() { slope = fitted }
        return count * slope * Self.gain
    }

    private func fit() -> Double? {
        let number = Double(points.count)
        let meanTime = points.reduce(0) { $0 + $1.time } / number
        let meanDelay = points.reduce(0) { $0 + $1.delay } / number
        var numerator = 0.0
        var denominator = 0.0
        for point in points {
            numerator += (point.time - meanTime) * (point.delay - meanDelay)
            denominator += (point.time - meanTime) * (point.time - meanTime)
        }
        return denominator > 0 ? numerator / denominator : nil
    }
}
