/// Which of the remote peer's video streams is given on where it declares no simulcast: the newest one, as after a restart
/// of its encoder; but a stream that falls silent makes room for another one that flows. A value; it knows SSRCs only.
package struct StreamChoice {
    /// The SSRC of the stream that is given on.
    package private(set) var shown: UInt32?
    private var last = Duration.zero
    /// The other SSRCs, the one heard last at the end. The bound is for a remote peer that invents SSRCs; a stream that
    /// flows stays within it, and so is never taken for a new one.
    private var others: [UInt32] = []
    private static let mostOthers = 16
    private static let silence = Duration.milliseconds(500)

    package init() {}

    /// - Parameter ssrc: of a packet that is no retransmission.
    /// - Returns: whether this stream is given on from now on.
    package mutating func take(_ ssrc: UInt32, now: Duration) -> Bool {
        if ssrc == shown {
            last = now
            return false
        }
        let place = others.firstIndex(of: ssrc)
        if let place { others.remove(at: place) }
        guard place == nil || now - last >= Self.silence else {
            others.append(ssrc)
            return false
        }
        if others.count >= Self.mostOthers { others.removeFirst() }
        if let shown { others.append(shown) }
        (shown, last) = (ssrc, now)
        return true
    }
}
