package import RTP

/// One codec of one m-line with everything that belongs to its payload type.
package struct NegotiatedCodec: Sendable, Equatable {
    package var codec: VideoCodec
    package var payloadType: Int
    package var retransmissionPayloadType: Int?
    package var feedback: Set<String>
    package var formatParameters: String?

    package var usesTransportCC: Bool { feedback.contains("transport-cc") }
    package var usesREMB: Bool { feedback.contains("goog-remb") }

    /// The codec's own, and that of its RTX.
    var payloadTypes: [Int] { [payloadType, retransmissionPayloadType].compactMap { $0 } }

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
    /// We never send on the m-line, so our answer has `codec` and all alternatives, in the order of the offer.
    package var receivesOnly = false
    /// The remote peer offers reduced-size RTCP (RFC 5506).
    package var usesReducedSize = false
    /// SSRCs that the remote peer declares; it need not declare any.
    package var ssrcs: [UInt32] = []
    /// The media SSRC that each RTX SSRC repeats, of `a=ssrc-group:FID` (RFC 5576 4.2).
    package var rtxSSRCs: [UInt32: UInt32] = [:]
    /// RIDs of the simulcast layers (RFC 8853), highest resolution first; empty: one stream.
    package var sentLayers: [String] = []
    package var receivedLayers: [String] = []
    /// What the remote peer sends on an m-line of its own; nil: both directions share one.
    var inbound: Inbound?

    struct Inbound: Sendable {
        var codec: NegotiatedCodec
        var absoluteSendTime: UInt8?
    }
    /// The codec in which the remote peer sends first.
    var inboundCodec: NegotiatedCodec { inbound?.codec ?? codec }

    /// REMB leaves. A room's server negotiates both and may number no packets; libwebrtc's clients send REMB then.
    var usesREMB: Bool { inboundCodec.usesREMB && (!inboundCodec.usesTransportCC || inbound != nil) }

    /// The codecs in which the remote peer may send.
    var codecs: [NegotiatedCodec] { [codec] + alternatives }

    /// The media of this m-line and of a later one, which belong to the same RTP session. The first m-line is the one that sends;
    /// its attributes win.
    func united(with later: NegotiatedVideo) -> NegotiatedVideo {
        var whole = self
        whole.ssrcs += later.ssrcs
        whole.rtxSSRCs.merge(later.rtxSSRCs) { first, _ in first }
        whole.direction = direction.united(with: later.direction)
        for other in [later.codec] + later.alternatives
        where !([whole.codec] + whole.alternatives).contains(where: { $0.payloadType == other.payloadType }) {
            whole.alternatives.append(other)
        }
        whole.inbound = inbound ?? later.inbound
        if !later.sentLayers.isEmpty { whole.sentLayers = later.sentLayers }
        if !later.receivedLayers.isEmpty {
            whole.receivedLayers += later.receivedLayers
            (whole.extensions.rid, whole.extensions.repairedRID) = (later.extensions.rid, later.extensions.repairedRID)
        }
        return whole
    }
}

/// As `NegotiatedVideo`.
package struct NegotiatedAudio: Sendable {
    package var mid: String
    package var payloadType: Int
    package var codec = AudioCodec.opus
    /// Codecs beside `codec` in which the remote peer may send.
    package var alternatives: [NegotiatedAudioCodec] = []
    /// RFC 2198, in both directions; nil: without.
    package var redundancy: AudioRedundancy?
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    package var ssrcs: [UInt32] = []

    /// The codecs in which the remote peer may send.
    var codecs: [NegotiatedAudioCodec] {
        [NegotiatedAudioCodec(codec: codec, payloadType: payloadType)] + alternatives
    }

    func united(with later: NegotiatedAudio) -> NegotiatedAudio {
        var whole = self
        whole.ssrcs += later.ssrcs
        whole.direction = direction.united(with: later.direction)
        return whole
    }
}

/// An m-line and its media by the latest offer and answer (RFC 8829 4.1.10).
enum NegotiatedMedia: Sendable {
    case video(NegotiatedVideo)
    case audio(NegotiatedAudio)

    /// Ours.
    var direction: MediaDirection {
        get {
            switch self {
            case .video(let video): video.direction
            case .audio(let audio): audio.direction
            }
        }
        set {
            switch self {
            case .video(var video):
                video.direction = newValue
                self = .video(video)
            case .audio(var audio):
                audio.direction = newValue
                self = .audio(audio)
            }
        }
    }
}
