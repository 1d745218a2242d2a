package import RTP

package struct AudioSendParameters: Sendable, Equatable {
    package var payloadType: Int
    package var ssrc: UInt32
    /// The payload type of redundant audio, in which the packets leave; nil: the remote peer takes none.
    package var redundancyType: Int?
    /// Discontinuous transmission: silence is hardly sent.
    package var isDiscontinuous = false

    package init(payloadType: Int, ssrc: UInt32, redundancyType: Int? = nil) {
        (self.payloadType, self.ssrc, self.redundancyType) = (payloadType, ssrc, redundancyType)
    }
}

package struct RTPSendParameters: Sendable, Equatable {
    package var codec: VideoCodec
    package var payloadType: Int
    package var ssrc: UInt32
    /// ID of the transport-wide-cc header extension; nil if not negotiated.
    package var transportWideCCExtension: Int?
    /// Simulcast layers, highest resolution first; empty: one stream, `ssrc`.
    package var layers: [RTPEncoding] = []
    /// Size of an RTP packet in bytes before header extensions, RTX and SRTP are added, so that no datagram exceeds
    /// 1200.
    package var mtu = 1150
    /// The same for a path that loses longer packets without a word.
    package static let shortMTU = 950

    package init(codec: VideoCodec, payloadType: Int, ssrc: UInt32, transportWideCCExtension: Int?) {
        self.codec = codec
        self.payloadType = payloadType
        self.ssrc = ssrc
        self.transportWideCCExtension = transportWideCCExtension
    }
}
