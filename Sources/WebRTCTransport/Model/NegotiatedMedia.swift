/// One codec of one m-line with everything that belongs to its payload type.
package struct NegotiatedCodec: Sendable, Equatable {
    package var codec: VideoCodec
    package var payloadType: Int
    package var retransmissionPayloadType: Int?
    package var feedback: Set<String>
    package var formatParameters: String?

    package var usesTransportCC: Bool { feedback.contains("transport-cc") }
    package var usesREMB: Bool { feedback.contains("goog-remb") }

    /// H.264 of the profile that our encoders make.
    var isBaseline: Bool { codec == .h264 && codec.accepts(formatParameters: formatParameters, .baseline) }
}

/// Video of an m-line that a remote description permits, that is negotiated, or that we offer. Its direction and layers are
/// ours.
package struct NegotiatedVideo: Sendable {
    package var mid: String
    package var codec: NegotiatedCodec
    /// Codecs beside `codec` in which the remote peer may send.
    package var alternatives: [NegotiatedCodec] = []
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    /// SSRCs that the remote peer declares; it need not declare any.
    package var ssrcs: [UInt32] = []
    /// The media SSRC that each RTX SSRC repeats, of `a=ssrc-group:FID` (RFC 5576 4.2).
    package var rtxSSRCs: [UInt32: UInt32] = [:]
    /// RIDs of the simulcast layers (RFC 8853), highest resolution first; empty: one stream.
    package var sentLayers: [String] = []
    package var receivedLayers: [String] = []

    /// The media of this m-line and of a later one, which belong to the same RTP session. The first m-line is the one that sends;
    /// its attributes win.
    func united(with later: NegotiatedVideo) -> NegotiatedVideo {
        var whole = self
        whole.ssrcs += later.ssrcs
        whole.rtxSSRCs.merge(later.rtxSSRCs) { first, _ in first }
        whole.direction = direction.united(with: later.direction)
        whole.alternatives = later.alternatives
        if !later.sentLayers.isEmpty { whole.sentLayers = later.sentLayers }
        if !later.receivedLayers.isEmpty {
            whole.receivedLayers += later.receivedLayers
            (whole.extensions.rid, whole.extensions.repairedRID) = (later.extensions.rid, later.extensions.repairedRID)
        }
        return whole
    }
}

/// As `NegotiatedVideo`: Opus (RFC 7587) at this payload type.
package struct NegotiatedAudio: Sendable {
    package var mid: String
    package var payloadType: Int
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    package var ssrcs: [UInt32] = []

    func united(with later: NegotiatedAudio) -> NegotiatedAudio {
        var whole = self
        whole.ssrcs += later.ssrcs
        whole.direction = direction.united(with: later.direction)
        return whole
    }
}
