package import ICE
package import MediaSecurity
package import RTP

/// Audio counters; see `PeerConnectionStatistics`.
package struct AudioStatistics: Sendable, Equatable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    package var packetsLost: Int?
    /// Packets that redundancy has replaced (RFC 2198).
    package var packetsRecovered: UInt64 = 0
    package var jitter: Duration?
}

/// Video and transport counters since the connection was created; nil: not known (yet).
package struct PeerConnectionStatistics: Sendable {
    package var packetsSent: UInt64 = 0
    package var bytesSent: UInt64 = 0
    package var packetsReceived: UInt64 = 0
    package var bytesReceived: UInt64 = 0
    /// Counters of the RTP session that carries the video.
    package var rtp = RTPSessionStatistics()
    /// By receiver reports, as the next two; nil also if none has advanced for 10 s.
    package var roundTripTime: Duration?
    /// Fraction, 0...1, and number of our packets that the remote peer's latest receiver report counts as lost.
    package var fractionLost: Double?
    package var remotePacketsLost: Int?
    package var remoteBitrateEstimate: Int?
    package var bitrateTarget: BitrateTarget?
    /// The time that all video packets together have waited for their turn, see `SendPacer`.
    package var totalSendDelay = Duration.zero
    /// The time from the first packet of the latest keyframe to its last one.
    package var keyframeSendDelay: Duration?
    /// Upper bound of the target, bit/s.
    package var bitrateRange: ClosedRange<Int>?
    /// Bytes of RTX that only filled up probes of the path; they are among `bytesSent`.
    package var paddingBytesSent: UInt64 = 0
    package var selectedPair: ICECandidatePair?
    package var iceTime: Duration?
    package var dtlsTime: Duration?
    /// Completed ICE restarts.
    package var iceRestarts = 0
    package var dtls: DTLSParameters?
    /// Dropped inbound packets: malformed, not authentic, replayed, of a rejected m-line, or of an SSRC beyond the limit.
    package var packetsRefused: UInt64 = 0
    package var audio: AudioStatistics?
    package init() {}
}
