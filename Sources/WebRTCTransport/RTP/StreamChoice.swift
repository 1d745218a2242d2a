/// Selects the remote video stream to forward if no simulcast is declared: the newest one, as after a restart of the
/// remote encoder; if it falls silent, another one that flows replaces it. A value; it knows SSRCs only.
package struct StreamChoice {
    /// SSRC of the forwarded stream.
    package private(set) var activeSSRC: UInt32?
    private var last = Duration.zero
    /// The other SSRCs, the one received last at the end. The limit is for a remote peer that invents SSRCs; a stream
    /// that flows stays in the list, and so is never taken for a new one.
    private var others: [UInt32] = []
    private static let mostOthers = 16
    private static let silence = Duration.milliseconds(500)

    package init() {}

    /// - Parameter ssrc: SSRC of a packet that is not a retransmission.
    /// - Returns: True if this stream is forwarded from now on.
    package mutating func take(_ ssrc: UInt32, now: Duration) -> Bool {
        if ssrc == activeSSRC {
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
        if let activeSSRC { others.append(activeSSRC) }
        (activeSSRC, last) = (ssrc, now)
        return true
    }
}
