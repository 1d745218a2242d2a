/// A short time in which more is sent than the estimate allows, by padding, to find out whether the path carries it.
package struct ProbeCluster: Sendable, Equatable {
    /// bit/s.
    package var rate: Int
    /// µs.
    package var duration: Int64
}

/// Decides when to probe the path, and judges what arrives of a cluster, as libwebrtc's probe controller and bitrate estimator
/// do. A content that needs little, or an encoder that uses little, must not hold the estimate down. A value; all times in µs.
package struct ProbeController: Sendable {
    /// Rate of a cluster as a multiple of the estimate; after one that found a limit, the queue that it causes is shorter.
    private static let factor = 2.0
    private static let carefulFactor = 1.6
    /// Time from one cluster to the next.
    private static let interval: (first: Int64, longest: Int64) = (1_500_000, 3_000_000)
    /// After a decrease of the estimate, for the queue to drain.
    private static let rest: Int64 = 1_000_000
    /// A longer cluster tells a narrow path from its jitter; it may send this many bytes at most.
    private static let duration: (short: Int64, long: Int64) = (30_000, 60_000)
    private static let longBelow = 1_000_000
    /// A path that delivers a smaller share of the rate is full.
    private static let fullShare = 0.9
    private static let leastPackets = 4
    /// Share of the bytes of a cluster that must have arrived.
    private static let leastArrived = 0.8

    private struct Running: Sendable {
        var cluster: ProbeCluster
        var began: Int64
        /// Bytes sent before it, and in it; nil: it is not over.
        var bytesBefore: UInt64
        var bytes: UInt64?
        var ended: Int64 = 0
        var arrivals: [ResolvedFeedback.Arrival] = []
    }
    private var running: Running?
    private var nextAllowed: Int64 = 0
    private var wait = Self.interval.first
    private var hasFoundLimit = false

    package init() {}

    /// The next cluster, which begins now; nil: none is due.
    /// - Parameters:
    ///   - estimate: bit/s.
    ///   - maximum: bit/s, beyond which nothing is of use.
    package mutating func next(estimate: Int, maximum: Int, totalBytes: UInt64, now: Int64) -> ProbeCluster? {
        guard running == nil, now >= nextAllowed, Double(estimate) < 0.95 * Double(maximum) else { return nil }
        let rate = min(Double(maximum), Double(estimate) * (hasFoundLimit ? Self.carefulFactor : Self.factor))
        let cluster = ProbeCluster(
            rate: Int(rate), duration: Int(rate) < Self.longBelow ? Self.duration.long : Self.duration.short)
        running = Running(cluster: cluster, began: now, bytesBefore: totalBytes)
        return cluster
    }

    /// The last packet of the cluster has left.
    package mutating func ended(totalBytes: UInt64, now: Int64) {
        guard let before = running?.bytesBefore, running?.bytes == nil else { return }
        running?.bytes = totalBytes &- before
        running?.ended = now
    }

    /// The estimate was lowered: let the queue drain first.
    package mutating func backedOff(_ now: Int64) { nextAllowed = max(nextAllowed, now &+ Self.rest) }

    /// Judges what has arrived.
    /// - Returns: the rate that the path has shown to carry, bit/s, and whether it carries no more; nil: nothing is known yet,
    ///   or the cluster says nothing.
    package mutating func update(
        _ feedback: ResolvedFeedback, roundTrip: Int64, now: Int64
    ) -> (rate: Double, isFull: Bool)? {
        guard var current = running else { return nil }
        guard let bytes = current.bytes else {
            current.arrivals += feedback.arrivals.filter { $0.sendTime >= current.began }
            running = current
            return nil
        }
        current.arrivals += feedback.arrivals.filter { $0.sendTime >= current.began && $0.sendTime <= current.ended }
        running = current
        let isComplete = feedback.newestSendTime.map { $0 > current.ended } ?? false
        let isLate = now &- current.ended > 500_000 &+ 2 &* roundTrip
        guard isComplete || isLate else { return nil }
        running = nil
        guard let (rate, isFull) = Self.judge(current.arrivals, bytes: bytes, duration: current.cluster.duration) else {
            wait = min(wait &* 2, Self.interval.longest)
            nextAllowed = now &+ wait
            return nil
        }
        hasFoundLimit = isFull
        wait = isFull ? min(wait &* 2, Self.interval.longest) : Self.interval.first
        // After a cluster that the path has carried, the next one follows when its effect is seen.
        nextAllowed = isFull ? now &+ wait : now &+ max(100_000, roundTrip)
        return (rate, isFull)
    }

    /// The rate of delivery, and whether the path is full; nil: too little has arrived, or in too short a time.
    private static func judge(
        _ arrivals: [ResolvedFeedback.Arrival], bytes: UInt64, duration: Int64
    ) -> (rate: Double, isFull: Bool)? {
        let sum = arrivals.reduce(0) { $0 + $1.size }
        guard arrivals.count >= leastPackets, Double(sum) >= leastArrived * Double(bytes),
            let sentFirst = arrivals.map(\.sendTime).min(),
            let sentLast = arrivals.max(by: { $0.sendTime < $1.sendTime }),
            let first = arrivals.min(by: { $0.arrival < $1.arrival }), let last = arrivals.map(\.arrival).max()
        else { return nil }
        let (sending, arriving) = (sentLast.sendTime - sentFirst, last &- first.arrival)
        guard sending >= duration / 2, arriving > 0 else { return nil }
        let sent = Double(sum - sentLast.size) * 8e6 / Double(sending)
        let delivered = Double(sum - first.size) * 8e6 / Double(arriving)
        guard delivered < fullShare * sent else { return (min(sent, delivered), false) }
        // A little less than its capacity, so that the queue of the cluster drains.
        return (0.95 * delivered, true)
    }
}
