/// SSRCs that the remote peer sends with. SRTP keeps a state for each of them and rtpbin two threads for each stream, so
/// there is a bound; beyond it, a new SSRC takes the place of the one that has been silent longest. A value without a clock.
package struct InboundSources {
    package let capacity: Int
    /// An SSRC that was heard of more recently is not replaced.
    package let silence: Duration

    private var heard: [UInt32: Duration] = [:]

    /// The defaults are for all SSRCs of a connection: a room's simulcast with RTX, audio and the reporters of RTCP are ten,
    /// a restart of all of them doubles that.
    package init(capacity: Int = 32, silence: Duration = .seconds(2)) { (self.capacity, self.silence) = (capacity, silence) }

    package var count: Int { heard.count }

    /// Whether a packet of this SSRC may be looked at. It may still be a forgery: it takes a place with `take` only.
    package func admits(_ ssrc: UInt32, now: Duration) -> Bool {
        heard[ssrc] != nil || heard.count < capacity || replaceable(now) != nil
    }

    /// An authentic packet of an SSRC that `admits` has let pass.
    /// - Returns: the SSRC that lost its place, whose state is to be released.
    package mutating func take(_ ssrc: UInt32, now: Duration) -> UInt32? {
        defer { heard[ssrc] = now }
        guard heard[ssrc] == nil, heard.count >= capacity, let oldest = replaceable(now) else { return nil }
        heard[oldest] = nil
        return oldest
    }

    private func replaceable(_ now: Duration) -> UInt32? {
        heard.min { $0.value < $1.value }.flatMap { now - $0.value >= silence ? $0.key : nil }
    }
}
