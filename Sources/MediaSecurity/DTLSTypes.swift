package enum DTLSRole: Sendable { case client, server }

/// What a step led to.
package enum DTLSStatus: Sendable {
    /// Not there yet, or nothing new.
    case handshaking
    /// Once: the handshake is over and the certificate is the announced one.
    case established(SRTPKeyMaterial)
    /// Final; said again by every later step.
    case failed(DTLSError)
    /// The peer said close_notify, or `close()` was called.
    case closed
}

/// When an unanswered flight is sent again: after `first`, then after twice as long each time, up to `limit`. OpenSSL
/// gives up after 12.
package struct DTLSRetransmission: Sendable {
    /// 50 ms and not RFC 6347's second: the path is known to be alive, ICE has just used it.
    package static let standard = DTLSRetransmission(first: .milliseconds(50), limit: .seconds(1))

    let first: UInt32
    let limit: UInt32

    /// Times under 20 ms become 20 ms: OpenSSL takes the last 15 ms of a timer for its end.
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

/// What was thrown away rather than believed.
package struct DTLSCounters: Sendable, Equatable {
    package var datagramsReceived = 0
    /// Not made of whole, plausible DTLS 1.2 records.
    package var datagramsDropped = 0
    package var retransmissions = 0

    package init() {}
}
