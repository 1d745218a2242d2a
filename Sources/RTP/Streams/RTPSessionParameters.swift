/// Negotiated parameters of an RTP session.
package struct RTPSessionParameters: Sendable {
    /// Caps of inbound packets as text, by payload type; without those of RTX.
    package var caps: [Int: String] = [:]
    /// The codecs of inbound video, by payload type.
    package var codecs: [Int: VideoCodec] = [:]
    package var clockRate: Int
    /// The clock rates of further codecs of inbound audio, by payload type.
    package var clockRates: [Int: Int] = [:]
    /// Redundant inbound audio.
    package var redundancy: AudioRedundancy?
    /// Our SSRC, as in the local description.
    package var ssrc: UInt32
    package var cname: String
    /// Inbound RTX (RFC 4588): the payload type that each one repeats.
    package var rtxTypes: [Int: Int] = [:]
    /// Inbound RTX: the media SSRC that each RTX SSRC repeats, as far as it is declared.
    package var rtxSSRCs: [UInt32: UInt32] = [:]
    /// Outbound RTX: the payload type, and the SSRC for each of our SSRCs.
    package var retransmission: (payloadType: Int, ssrcs: [UInt32: UInt32])?
    /// Outbound RTX of the further codecs that we may send: the payload type for that of the media.
    package var retransmissionTypes: [Int: Int] = [:]
    /// The extension with the transport-wide sequence number, if the remote peer gets feedback about it.
    package var transportWideCC: UInt8?
    /// The sender of inbound video adapts to REMB, unless it numbers its packets.
    package var usesREMB = false
    package var limits = FeedbackLimits()

    package init(clockRate: Int, ssrc: UInt32, cname: String) {
        (self.clockRate, self.ssrc, self.cname) = (clockRate, ssrc, cname)
    }

    /// A feedback message that leaves at once, in a compound packet of the least size (RFC 4585 section 3.1).
    package func compound(_ feedback: [UInt8]) -> [UInt8] {
        RTCPPackets.receiverReport(ssrc) + RTCPPackets.sourceDescription([ssrc], cname: cname) + feedback
    }
}

/// Counters of an RTP session.
package struct RTPSessionStatistics: Sendable {
    package var nacksSent: UInt64 = 0
    package var nacksReceived: UInt64 = 0
    package var plisSent: UInt64 = 0
    package var plisReceived: UInt64 = 0
    package var retransmissions: UInt64 = 0
    /// Frames of the server's own, which were dropped: see `FillerTrailer`.
    package var fillerFrames: UInt64 = 0
    /// Frames larger than `FrameLimit.bytes`, which were dropped.
    package var oversizedFrames: UInt64 = 0
    /// Packets of audio that did not arrive, or came later than the copy that was taken (RFC 2198).
    package var packetsRecovered: UInt64 = 0
    /// Packets of the stream that is shown that did not arrive, retransmissions not counted; nil: no stream is shown yet.
    package var packetsLost: Int?
    package var jitter: Duration?

    package init() {}
}
