/// SSRCs that the remote peer sends with. The RTP sessions keep a state for each of them, so there is a limit; beyond it, a
/// new SSRC replaces the one that has been silent longest. A value without a clock.
package struct InboundSources {
    /// Suits all SSRCs of a connection: a room's simulcast with RTX, audio and the reporters of RTCP are ten, and a restart
    /// of all of them doubles that.
    package static let capacity = 32
    /// An SSRC that sent more recently than this is not replaced.
    package static let silence = Duration.seconds(2)

    /// SRTP keeps the rollover counter and the replay window of each SSRC as long as its keys, because it would accept
    /// recorded packets of one that it has forgotten. Beyond this number the connection needs new keys.
    package static let maximumOfKeys = 1_024

    private var lastPacket: [UInt32: Duration] = [:]
    private var known: Set<UInt32> = []

    package init() {}

    package var count: Int { lastPacket.count }
    package var needsNewKeys: Bool { known.count > Self.maximumOfKeys }

    /// True if a packet of this SSRC may be processed. It may still be a forgery, so only `record` assigns a place.
    package func admits(_ ssrc: UInt32, now: Duration) -> Bool {
        lastPacket[ssrc] != nil || lastPacket.count < Self.capacity || replaceable(now) != nil
    }

    /// Records an authentic packet of an SSRC that `admits` has accepted.
    /// - Returns: The SSRC that lost its place; the caller must release its state.
    package mutating func record(_ ssrc: UInt32, now: Duration) -> UInt32? {
        guard lastPacket.updateValue(now, forKey: ssrc) == nil else { return nil }
        known.insert(ssrc)
        guard lastPacket.count > Self.capacity, let oldest = replaceable(now) else { return nil }
        lastPacket[oldest] = nil
        return oldest
    }

    private func replaceable(_ now: Duration) -> UInt32? {
        lastPacket.min { $0.value < $1.value }.flatMap { now - $0.value >= Self.silence ? $0.key : nil }
    }
}
