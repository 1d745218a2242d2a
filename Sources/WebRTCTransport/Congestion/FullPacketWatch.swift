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

    package init() {}

    /// Returns true once: when no packet of full length arrives.
    package mutating func update(_ feedback: ResolvedFeedback, now: Int64) -> Bool {
        guard !hasVanished else { return false }
        guard feedback.full.received == 0 else {
            (count, since) = ((0, 0), nil)
            return false
        }
        if since == nil, feedback.full.lost > 0 { since = now }
        guard let since else { return false }
        count.lost += feedback.full.lost
        count.arrived += feedback.received
        hasVanished = count.lost >= Self.least.lost && count.arrived >= Self.least.arrived && now &- since >= Self.time
        return hasVanished
    }
}
