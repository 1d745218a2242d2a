/// Judges by the dispersion of the first packets whether the path carries the start rate: a narrow path spreads the packets of
/// the first frame, long before a queue counts as standing. A value; all times in µs.
package struct StartRateCheck: Sendable {
    package enum Verdict: Sendable, Equatable {
        case carried
        /// The path delivers less, bit/s.
        case refused(Double)
    }

    private static let leastPackets = 4
    /// Packets that spread by less may have met jitter alone.
    private static let leastSpread: Int64 = 45_000
    /// A path that delivers a smaller share of the start rate does not carry it.
    private static let fullShare = 0.9
    /// Without a verdict after this time there is too little traffic for one.
    private static let limit: Int64 = 1_000_000

    private let start: Double
    private var began: Int64?
    private var packets = 0
    private var bytes = 0
    private var first: ResolvedFeedback.Arrival?
    private var sent: ClosedRange<Int64> = 0...0
    private var arrived: ClosedRange<Int64> = 0...0
    /// Nothing more is to be judged.
    package private(set) var isOver = false

    /// - Parameter start: bit/s.
    package init(start: Double) { self.start = start }

    /// - Returns: a verdict, once.
    package mutating func update(_ feedback: ResolvedFeedback, now: Int64) -> Verdict? {
        guard !isOver else { return nil }
        let since = began ?? now
        began = since
        for packet in feedback.arrivals {
            packets += 1
            bytes += packet.size
            guard let earliest = first else {
                (first, sent) = (packet, packet.sendTime...packet.sendTime)
                arrived = packet.arrival...packet.arrival
                continue
            }
            if packet.arrival < earliest.arrival { first = packet }
            sent = min(sent.lowerBound, packet.sendTime)...max(sent.upperBound, packet.sendTime)
            arrived = min(arrived.lowerBound, packet.arrival)...max(arrived.upperBound, packet.arrival)
        }
        let verdict = judge()
        isOver = verdict != nil || now &- since > Self.limit
        return verdict
    }

    private func judge() -> Verdict? {
        guard packets >= Self.leastPackets, let first else { return nil }
        let (sending, arriving) = (sent.upperBound &- sent.lowerBound, arrived.upperBound &- arrived.lowerBound)
        let delivered = Double(bytes - first.size) * 8e6 / Double(max(1, arriving))
        if delivered >= start { return .carried }
        guard arriving &- sending >= Self.leastSpread, delivered < Self.fullShare * start else { return nil }
        return .refused(delivered)
    }
}
