/// Decides which requested retransmissions are sent: no packet twice within half of a round trip, and in total no more than
/// a share of the bitrate, because a NACK of 150 bytes can request 600 KB. A value without a clock.
package struct RetransmissionBudget: Sendable {
    /// Percentage of the target bitrate.
    private static let share = 25
    /// Unused budget accumulates for this long, for a burst of loss.
    private static let burst = Duration.seconds(2)
    /// A receiver repeats a request once a round trip, and the jitter of the path brings the second one nearer to the first:
    /// it is no duplicate then, and to refuse it would cost a round trip more.
    private static let jitterMargin = 2.0

    private struct Request: Sendable {
        var ssrc: UInt32
        var sequence: UInt16
        var time: Duration
        var count: Int
    }
    /// Even on a short path, NACKs for the same packet come in bunches.
    private let limits: FeedbackLimits
    /// Indexed by the low bits of the sequence number; holds more packets than `SentStream` keeps.
    private var requests = [Request?](repeating: nil, count: 1024)
    /// The least time between two retransmissions of a packet.
    private var interval = Duration.milliseconds(50)
    private var bytesPerSecond = 0.0
    private var bytes = 0.0
    private var updated: Duration?

    /// Allows nothing before the first `pace`.
    package init(_ limits: FeedbackLimits = FeedbackLimits()) { self.limits = limits }

    private var capacity: Double { bytesPerSecond * (Self.burst / .seconds(1)) }

    package mutating func pace(roundTrip: Duration?, bitrate: Int) {
        if let roundTrip { interval = max(roundTrip / Self.jitterMargin, limits.retransmissionInterval) }
        let isFirst = bytesPerSecond == 0
        bytesPerSecond = Double(max(bitrate, 0)) / 8 * Double(Self.share) / 100
        bytes = isFirst ? capacity : min(bytes, capacity)
    }

    /// - Parameter size: bytes of the packet; nil: it is not kept, which costs nothing.
    package mutating func allows(ssrc: UInt32, sequence: UInt16, now: Duration, size: () -> Int?) -> Bool {
        if let updated, now > updated {
            bytes = min(capacity, bytes + bytesPerSecond * ((now - updated) / .seconds(1)))
        }
        updated = max(updated ?? now, now)
        let slot = Int(sequence) % requests.count
        let last = requests[slot].flatMap { $0.ssrc == ssrc && $0.sequence == sequence ? $0 : nil }
        if let last, now - last.time < interval || last.count >= limits.retransmissions { return false }
        guard let size = size(), bytes >= Double(size) else { return false }
        bytes -= Double(size)
        requests[slot] = Request(ssrc: ssrc, sequence: sequence, time: now, count: (last?.count ?? 0) + 1)
        return true
    }
}
