/// Recognises a path that loses the packets of full length without a word and carries shorter ones, as tunnels do whose ICMP
/// messages are filtered (RFC 4821). A value.
package struct FullPacketWatch: Sendable {
    /// Packets of full length that were lost, and shorter ones that arrived meanwhile: fewer may be a burst of losses.
    private static let least = (lost: 20, arrived: 4)
    /// µs.
    private static let time: Int64 = 1_000_000

    private var count = (lost: 0, arrived: 0)
    private var since: Int64?
    private var hasVanished = false
    private var reported: (highest: UInt32, lost: Int, full: UInt32)?

    package init() {}

    /// Returns true once: when no packet of full length arrives.
    package mutating func update(_ feedback: ResolvedFeedback, now: Int64) -> Bool {
        update(full: feedback.full, received: feedback.received, now: now)
    }

    /// The same for a remote peer that sends no transport-cc: as many packets are lost as packets of full length were sent.
    /// - Parameter full: those sent up to the report's highest sequence number; nil: not known any more.
    package mutating func update(_ report: ReceptionReport, full: UInt32?, now: Int64) -> Bool {
        let before = reported
        reported = full.map { (report.highestSequence, report.packetsLost, $0) }
        guard let before, let full else { return false }
        let (sent, sentFull) = (Int(report.highestSequence &- before.highest), Int(full &- before.full))
        guard (1..<SentPacketHistory.capacity).contains(sent), sentFull > 0 else { return false }
        let lost = report.packetsLost - before.lost
        // The newest packet that was lost is not in the report yet.
        let vanish = abs(lost - sentFull) <= max(1, sentFull / 10)
        return update(full: vanish ? (sentFull, 0) : (0, 1), received: max(0, sent - lost), now: now)
    }

    private mutating func update(full: (lost: Int, received: Int), received: Int, now: Int64) -> Bool {
        guard !hasVanished else { return false }
        guard full.received == 0 else {
            (count, since) = ((0, 0), nil)
            return false
        }
        if since == nil, full.lost > 0 { since = now }
        guard let since else { return false }
        count.lost += full.lost
        count.arrived += received
        hasVanished = count.lost >= Self.least.lost && count.arrived >= Self.least.arrived && now &- since >= Self.time
        return hasVanished
    }
}
