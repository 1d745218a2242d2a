/// Estimates the bitrate at which a remote peer without transport-cc may send to us, as the receiving side of
/// draft-ietf-rmcat-gcc-02 does. A queue that grows on the path, which arrival times against abs-send-time show, lowers the
/// estimate below the rate that arrives; loss above 10 % lowers it by half the loss, but no further. Without either, it grows
/// by 5 % with each update, up to half above the rate that arrives. A value that packets and times drive.
package struct ReceiveBitrateEstimator {
    package private(set) var estimate: Int
    private let maximum: Int
    private let minimum = 100_000
    private var rate = RateWindow()
    private var trend = DelayTrend()
    /// The time of the last decrease for a queue, µs. The path shows the effect of one before the next.
    private var decreased: Int64?
    private static let decreaseInterval: Int64 = 200_000
    /// Part of the rate that arrives at which a queue drains.
    private static let drain = 0.85
    private var sequences = SerialNumber<UInt16>()
    private var expected = 0
    private var received = 0

    package init(maximum: Int) {
        self.maximum = max(maximum, minimum)
        estimate = self.maximum
    }

    /// Records a packet of any stream of the kind, also RTX.
    /// - Parameter sendTime: abs-send-time, 24 bits; nil: the packet has none.
    /// - Returns: true if a queue has lowered the estimate: the remote peer should learn it at once.
    package mutating func arrived(size: Int, sendTime: UInt32?, now: Duration) -> Bool {
        let time = now.inMicroseconds
        rate.add(size, at: time)
        guard let sendTime else { return false }
        trend.add(sendTime, at: time)
        guard trend.usage == .over, decreased.map({ time - $0 >= Self.decreaseInterval }) ?? true,
            let bitrate = rate.bitrate(at: time)
        else { return false }
        let next = max(minimum, Int(Self.drain * Double(bitrate)))
        guard next < estimate else { return false }
        (estimate, decreased) = (next, time)
        return true
    }

    /// Counts the loss of the stream that is shown.
    package mutating func packet(sequence: UInt16) {
        received &+= 1
        let last = sequences.highest
        let number = sequences.record(sequence)
        expected &+= last.map { max(0, Int(number - $0)) } ?? 1
    }

    /// Ends the interval since the last call and updates the estimate.
    package mutating func update(now: Duration) {
        defer { (expected, received) = (0, 0) }
        // After a pause, nothing is known of the present.
        guard expected > 0, let bitrate = rate.bitrate(at: now.inMicroseconds), bitrate > 0 else { return }
        let loss = Double(max(0, expected - received)) / Double(expected)
        if loss > 0.1 {
            let lowered = max(Double(estimate) * (1 - 0.5 * loss), Self.drain * Double(bitrate))
            estimate = min(estimate, max(minimum, Int(lowered)))
        } else if loss < 0.02, trend.usage == .normal {
            // Traffic that was not sent proves nothing.
            let proven = 1.5 * Double(bitrate) + 10_000
            estimate = min(maximum, max(estimate, Int(min(Double(estimate) * 1.05, proven))))
        }
    }
}

/// Detects a queue that grows by the slope of the delay over groups of packets that were sent together
/// (draft-ietf-rmcat-gcc-02 sections 5.2 to 5.4, with libwebrtc's line through twenty groups in place of a Kalman filter).
struct DelayTrend {
    enum Usage { case normal, over, under }
    private(set) var usage = Usage.normal

    private struct Group {
        /// µs: of the first and last packet sent, and of the last one that arrived.
        var first: Int64
        var sent: Int64
        var arrived: Int64
    }
    private var sends = SerialNumber<UInt32>()
    private var group: Group?
    private var previous: Group?
    /// Sum of the changes of delay, and the same smoothed, ms.
    private var delay = 0.0
    private var smoothed = 0.0
    /// Arrival (ms) and smoothed delay of the latest groups.
    private var points: [(time: Double, delay: Double)] = []
    private var groups = 0
    private var threshold = 12.5
    /// The trend before, and since when it has been above the threshold, ms.
    private var last = (trend: 0.0, time: 0.0)
    private var overSince: Double?

    private static let groupLength: Int64 = 5_000
    /// A longer change of delay is another clock or a suspended process.
    private static let longestStep: Int64 = 3_000_000
    private static let window = 20
    private static let smoothing = 0.9
    private static let gain = 4.0
    /// ms for which the trend must be above the threshold.
    private static let confirmation = 10.0

    /// - Parameters:
    ///   - sendTime: abs-send-time: seconds as 6.18 fixed point, which wrap after 64 s.
    ///   - arrival: µs.
    mutating func add(_ sendTime: UInt32, at arrival: Int64) {
        // With its 24 bits at the top, the number wraps as 32 bits do: 2^26 units are a second.
        let sent = Int64(Double(sends.record(sendTime << 8)) * 1e6 / 67_108_864)
        guard var current = group else { return group = Group(first: sent, sent: sent, arrived: arrival) }
        // Out of order.
        guard sent >= current.first else { return }
        // Packets that waited somewhere and arrive at once are one group, however far apart they were sent.
        let distance = arrival - current.arrived
        let isBurst = distance <= Self.groupLength && distance < sent - current.sent
        if sent - current.first <= Self.groupLength || isBurst {
            (current.sent, current.arrived) = (max(sent, current.sent), max(arrival, current.arrived))
            return group = current
        }
        if let previous {
            let change = (current.arrived - previous.arrived) - (current.sent - previous.sent)
            guard abs(change) < Self.longestStep else { return self = DelayTrend() }
            add(change: Double(change) / 1000, at: Double(current.arrived) / 1000)
        }
        (previous, group) = (current, Group(first: sent, sent: sent, arrived: arrival))
    }

    private mutating func add(change: Double, at time: Double) {
        groups = min(groups + 1, 60)
        delay += change
        smoothed = Self.smoothing * smoothed + (1 - Self.smoothing) * delay
        points.append((time, smoothed))
        guard points.count >= Self.window else { return last.time = time }
        if points.count > Self.window { points.removeFirst() }
        let trend = slope * Double(groups) * Self.gain
        if trend > threshold {
            let since = overSince ?? last.time
            overSince = since
            if time - since > Self.confirmation, trend >= last.trend { usage = .over }
        } else {
            overSince = nil
            usage = trend < -threshold ? .under : .normal
        }
        adapt(to: abs(trend), time)
        last = (trend, time)
    }

    /// ms of delay for each ms, by least squares.
    private var slope: Double {
        let count = Double(points.count)
        let time = points.reduce(0) { $0 + $1.time } / count
        let delay = points.reduce(0) { $0 + $1.delay } / count
        let (over, under) = points.reduce((0.0, 0.0)) { sums, point in
            let distance = point.time - time
            return (sums.0 + distance * (point.delay - delay), sums.1 + distance * distance)
        }
        return under > 0 ? over / under : 0
    }

    /// The threshold follows the trend, so that flows that fill the queue by loss leave us a share (section 5.4). A peak is
    /// no measure.
    private mutating func adapt(to trend: Double, _ time: Double) {
        guard trend <= threshold + 15 else { return }
        let speed = trend < threshold ? 0.039 : 0.0087
        threshold += speed * (trend - threshold) * min(100, max(0, time - last.time))
        threshold = min(600, max(6, threshold))
    }
}
