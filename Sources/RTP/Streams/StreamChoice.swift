/// Selects the remote stream of one kind to forward: the best layer of a simulcast, and the newest stream of a layer, as
/// after a restart of the remote encoder; if it falls silent, another one that flows replaces it. Without simulcast there
/// is one layer. A value; it knows SSRCs only.
package struct StreamChoice {
    private typealias Stream = (ssrc: UInt32, layer: Int)
    private var active: Stream?
    private var last = Duration.zero
    /// The other streams, the one received last at the end. The limit is for a remote peer that invents SSRCs; a stream
    /// that flows stays in the list, and so is never taken for a new one.
    private var others: [Stream] = []
    private static let maximumOthers = 16
    private static let silence = Duration.milliseconds(500)

    package init() {}

    /// SSRC of the forwarded stream.
    package var activeSSRC: UInt32? { active?.ssrc }

    /// Records a packet, which may change the selection.
    /// - Parameters:
    ///   - ssrc: SSRC of a packet that is not a retransmission.
    ///   - layer: The simulcast layer that the packet names, 0 for the highest resolution; nil if it names none, as a
    ///     sender may do after a stream's first packets.
    /// - Returns: True if this stream is forwarded from now on.
    package mutating func update(_ ssrc: UInt32, layer: Int? = 0, now: Duration) -> Bool {
        if ssrc == active?.ssrc {
            last = now
            return false
        }
        let known = others.firstIndex { $0.ssrc == ssrc }.map { others.remove(at: $0) }
        guard let layer = known?.layer ?? layer else { return false }
        if known == nil, others.count >= Self.maximumOthers { others.removeFirst() }
        if let active {
            let isBetter = layer < active.layer || layer == active.layer && known == nil
            guard isBetter || now - last >= Self.silence else {
                others.append((ssrc, layer))
                return false
            }
            others.append(active)
        }
        (active, last) = ((ssrc, layer), now)
        return true
    }
}
