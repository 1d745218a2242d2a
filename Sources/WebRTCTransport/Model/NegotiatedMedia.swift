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

/// Video that is negotiated, or that we offer; `direction` is ours.
package struct NegotiatedVideo: Sendable {
    var mid: String
    var codec: NegotiatedCodec
    /// Codecs beside `codec` in which the remote peer may send.
    var alternatives: [NegotiatedCodec] = []
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    /// SSRCs that the remote peer declares, if any.
    var ssrcs: [UInt32] = []
    /// See `RemoteVideo`.
    var rtxSSRCs: [UInt32: UInt32] = [:]
    /// RIDs of the simulcast layers, highest resolution first; empty: one stream.
    var sentLayers: [String] = []
    var receivedLayers: [String] = []
}

extension NegotiatedVideo {
    package init(_ remote: RemoteVideo, _ direction: MediaDirection) {
        self.init(
            mid: remote.mid, codec: remote.codec, extensions: remote.extensions, direction: direction,
            ssrcs: remote.ssrcs, rtxSSRCs: remote.rtxSSRCs)
        if !codec.usesTransportCC { extensions.transportWideCC = nil }
    }

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

/// As `NegotiatedVideo`.
package struct NegotiatedAudio: Sendable {
    var mid: String
    var payloadType: Int
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    var ssrcs: [UInt32] = []
}

extension NegotiatedAudio {
    package init(_ remote: RemoteAudio, _ direction: MediaDirection) {
        self.init(
            mid: remote.mid, payloadType: remote.payloadType, extensions: remote.extensions, direction: direction,
            ssrcs: remote.ssrcs)
    }

    func united(with later: NegotiatedAudio) -> NegotiatedAudio {
        var whole = self
        whole.ssrcs += later.ssrcs
        whole.direction = direction.united(with: later.direction)
        return whole
    }
}
