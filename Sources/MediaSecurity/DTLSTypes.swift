package enum DTLSRole: Sendable { case client, server }

/// The outcome of a step.
package enum DTLSStatus: Sendable {
    /// The handshake continues, or nothing has changed.
    case handshaking
    /// Returned once: the handshake has finished and the certificate is verified.
    case established(SRTPKeyMaterial)
    /// Final: all later steps return it too.
    case failed(DTLSError)
    /// The peer sent close_notify, or `close()` was called.
    case closed
}

/// Schedule for retransmitting an unanswered flight: after `first`, then with doubling delays up to `limit`. OpenSSL
/// gives up after 12 retransmissions.
package struct DTLSRetransmission: Sendable {
    /// Starts at 50 ms instead of RFC 6347's 1 s: ICE has just used the path, so it is known to work.
    package static let standard = DTLSRetransmission(first: .milliseconds(50), limit: .seconds(1))

    let first: UInt32
    let limit: UInt32

    /// Raises values under 20 ms to 20 ms, because OpenSSL considers a timer expired in its last 15 ms.
    package init(first: Duration, limit: Duration) {
        self.first = Self.microseconds(first)
        self.limit = max(self.first, Self.microseconds(limit))
    }

    func next(after current: UInt32) -> UInt32 {
        current == 0 ? first : min(current &* 2, limit)
    }

    private static func microseconds(_ duration: Duration) -> UInt32 {
        let (seconds, attoseconds) = duration.components
        guard seconds >= 0, attoseconds >= 0, seconds < 60 else { return seconds < 0 ? 20_000 : 60_000_000 }
        return max(20_000, UInt32(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000))
    }
}

/// Parameters that a handshake negotiated, by the names of OpenSSL and of RFC 5764.
package struct DTLSParameters: Sendable, Equatable {
    package var version = ""
    package var cipher = ""
    package var profile = ""
}

/// Counts of datagrams received, dropped and retransmitted.
package struct DTLSCounters: Sendable, Equatable {
    package var datagramsReceived = 0
    /// Datagrams that are not whole, plausible DTLS 1.2 records, or that arrive before a client starts or after the
    /// end.
    package var datagramsDropped = 0
    package var retransmissions = 0
}
