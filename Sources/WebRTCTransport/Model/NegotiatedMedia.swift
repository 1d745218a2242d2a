/// One codec of one m-line with everything that belongs to its payload type.
package struct NegotiatedCodec: Sendable, Equatable {
    package var codec: VideoCodec
    package var payloadType: Int
    package var retransmissionPayloadType: Int?
    package var feedback: Set<String>
    package var formatParameters: String?

    package var usesTransportCC: Bool { feedback.contains("transport-cc") }
    package var usesREMB: Bool { feedback.contains("goog-remb") }
}

/// Negotiated video; `direction` is ours.
package struct NegotiatedVideo: Sendable {
    var mid: String
    var codec: NegotiatedCodec
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    /// SSRCs that the remote peer declares, if any.
    var ssrcs: [UInt32]
    /// See `RemoteVideo`.
    var repeatedSSRCs: [UInt32: UInt32]
    /// Codecs beside `codec` in which the remote peer may send.
    var alternatives: [NegotiatedCodec] = []
    /// RIDs of the simulcast layers, highest resolution first; empty: one stream.
    var sentLayers: [String] = []
    var receivedLayers: [String] = []

    /// - Parameter other: Another m-line of the same RTP session, if sending and receiving have separate m-lines.
    package init(_ remote: RemoteVideo, _ direction: MediaDirection, beside other: NegotiatedVideo? = nil) {
        (mid, codec, extensions) = (remote.mid, remote.codec, remote.extensions)
        if !codec.usesTransportCC { extensions.transportWideCC = nil }
        // The first m-line is the one that sends; its attributes win.
        if let other {
            (mid, codec, extensions, sentLayers) = (other.mid, other.codec, other.extensions, other.sentLayers)
        }
        ssrcs = (other?.ssrcs ?? []) + remote.ssrcs
        repeatedSSRCs = remote.repeatedSSRCs.merging(other?.repeatedSSRCs ?? [:]) { _, first in first }
        self.direction = direction.united(with: other?.direction ?? .inactive)
    }
}

package struct NegotiatedAudio: Sendable {
    var mid: String
    var payloadType: Int
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    var ssrcs: [UInt32]

    /// See `NegotiatedVideo.init`.
    package init(_ remote: RemoteAudio, _ direction: MediaDirection, beside other: NegotiatedAudio? = nil) {
        (mid, payloadType, extensions) = (remote.mid, remote.payloadType, remote.extensions)
        if let other { (mid, payloadType, extensions) = (other.mid, other.payloadType, other.extensions) }
        ssrcs = (other?.ssrcs ?? []) + remote.ssrcs
        self.direction = direction.united(with: other?.direction ?? .inactive)
    }
}
