package import ICE

/// Audio counters; see `PeerConnectionStatistics`.
package struct AudioStatistics: Sendable, Equatable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    package var packetsLost: Int?
    package var jitter: Duration?
}

/// Video and transport counters since the connection was created; nil: not known (yet).
package struct PeerConnectionStatistics: Sendable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    /// Lost packets of the received stream, after retransmission.
    package var packetsLost: Int?
    package var nacksSent: UInt64 = 0
    package var nacksReceived: UInt64 = 0
    package var plisSent: UInt64 = 0
    package var plisReceived: UInt64 = 0
    package var roundTripTime: Duration?
    package var jitter: Duration?
    package var remoteBitrateEstimate: Int?
    /// The send target and its reason.
    package var bitrateTarget: BitrateTarget?
    package var selectedPair: ICECandidatePair?
    /// The pair of the other connection, if a separate one receives.
    package var receivingPair: ICECandidatePair?
    package var iceTime: Duration?
    package var dtlsTime: Duration?
    /// Dropped inbound packets: malformed, not authentic, replayed, or of an SSRC beyond the limit.
    package var packetsRefused: UInt64 = 0
    /// SRTP packets received before the keys: a DTLS server may send media before its own last flight.
    package var packetsWithoutKeys: UInt64 = 0
    /// Received packets of each simulcast layer, by rid.
    package var receivedLayers: [String: UInt64] = [:]
    /// nil without audio.
    package var audio: AudioStatistics?
    package init() {}

    /// Adds the receive counters of another connection, which is the receiving half of the same media path.
    package mutating func takeReceived(from other: PeerConnectionStatistics) {
        packetsReceived &+= other.packetsReceived
        bytesReceived &+= other.bytesReceived
        packetsRefused &+= other.packetsRefused
        packetsWithoutKeys &+= other.packetsWithoutKeys
        nacksSent &+= other.nacksSent
        plisSent &+= other.plisSent
        (packetsLost, jitter) = (other.packetsLost, other.jitter)
        receivingPair = other.selectedPair
        guard let received = other.audio else { return }
        var all = audio ?? AudioStatistics()
        all.packetsReceived &+= received.packetsReceived
        all.bytesReceived &+= received.bytesReceived
        (all.packetsLost, all.jitter) = (received.packetsLost, received.jitter)
        audio = all
    }
}
