/// Which of the remote peer's video streams is given on where it declares no simulcast: the newest one, as after a restart
/// of its encoder; but a stream that falls silent makes room for another one that flows. A value; it knows SSRCs only.
package struct StreamChoice {
    /// The SSRC of the stream that is given on.
    package private(set) var shown: UInt32?
    private var last = Duration.zero
    /// The latest ones, bounded: a remote peer may invent SSRCs.
    private var known: [UInt32] = []
    private static let mostKnown = 16
    private static let silence = Duration.milliseconds(500)

    package init() {}

    /// - Parameter ssrc: of a packet that is no retransmission.
    /// - Returns: whether this stream is given on from now on.
    package mutating func take(_ ssrc: UInt32, now: Duration) -> Bool {
        if ssrc == shown {
            last = now
            return false
        }
        let isNew = !known.contains(ssrc)
        if isNew {
            if known.count >= Self.mostKnown { known.removeFirst() }
            known.append(ssrc)
        }
        guard isNew || now - last >= Self.silence else { return false }
        (shown, last) = (ssrc, now)
        return true
    }
}
