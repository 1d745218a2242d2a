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

/// What was thrown away rather than believed.
package struct DTLSCounters: Sendable, Equatable {
    package var datagramsReceived = 0
    /// Not made of whole, plausible DTLS 1.2 records.
    package var datagramsDropped = 0
    package var retransmissions = 0
}
