package import ICE

/// Of the sound, as `PeerConnectionStatistics` of the picture.
package struct AudioStatistics: Sendable, Equatable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    package var packetsLost: Int?
    package var jitter: Duration?
}

/// Counters of the picture since the connection was made; nil = not known (yet).
package struct PeerConnectionStatistics: Sendable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    /// Of the stream that we receive, after retransmission.
    package var packetsLost: Int?
    package var nacksSent: UInt64 = 0
    package var nacksReceived: UInt64 = 0
    package var plisSent: UInt64 = 0
    package var plisReceived: UInt64 = 0
    package var roundTripTime: Duration?
    package var jitter: Duration?
    package var remoteBitrateEstimate: Int?
    /// What we may send, and why.
    package var bitrateTarget: BitrateTarget?
    package var selectedPair: ICECandidatePair?
    /// Where another connection receives: its own.
    package var receivingPair: ICECandidatePair?
    package var iceTime: Duration?
    package var dtlsTime: Duration?
    /// Packets from the network that were not authentic, replayed or malformed.
    package var packetsRefused: UInt64 = 0
    /// Media from the network while there were no keys: a DTLS server may send some before its own last flight.
    package var packetsWithoutKeys: UInt64 = 0
    /// Packets of a simulcast that comes, by rid.
    package var receivedLayers: [String: UInt64] = [:]
    /// nil: there is no sound.
    package var audio: AudioStatistics?
    package init() {}

    /// What came in, of another connection that is the other half of the same media path.
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
