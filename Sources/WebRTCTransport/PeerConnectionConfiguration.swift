package import ICE

package struct PeerConnectionConfiguration: Sendable {
    package var iceServers: [ICEServer] = []
    package var iceTransportPolicy: ICETransportPolicy = .all
    /// For `turns:` servers; nil: they are skipped with a warning.
    package var openTunnel: RelayTunnelOpener?
    /// What an offer holds; an answerer takes the first codec of the offer that is installed.
    package var codec: VideoCodec = .vp8
    /// Which way an offer's video goes, and at most an answer's; nil: none at first, see `setMedia`.
    package var direction: MediaDirection? = .sendrecv
    /// The same of sound, Opus at 48 kHz; nil: none is offered and what the far side offers is refused.
    package var audio: MediaDirection?
    /// Our offers have m-lines of their own for what is sent and what is received, as a LiveKit server wants them on one
    /// connection; our answers answer each line of such an offer.
    package var separatesDirections = false
    /// An offerer looks for candidates when `gather` says so, and not before.
    package var gathersLater = false
    /// Streams of a simulcast that our offers hold, by rid, the best one first, `SimulcastLayer.most` at most; empty: one
    /// stream. The answer says which are sent: `RTPSendParameters.layers`.
    package var simulcast: [String] = []
    /// A simulcast that is offered is taken: of its streams the best that comes is given on.
    package var acceptsSimulcast = false
    /// What the far side is to know our track by, `stream track`; nil = a name of our own.
    package var msid: String?
    /// The same of sound; one stream for both keeps them in step.
    package var audioMSID: String?
    /// Data channels' m-lines are taken as far as the transport goes, so that an offer of nothing else connects, and are
    /// what we offer when there is nothing else; no channel ever opens.
    package var acceptsDataChannels = false
    /// How long the jitter buffer waits for a missing packet.
    package var jitterBufferLatency: Duration = .milliseconds(100)
    /// The most that we want to receive, bit/s: the ceiling of the estimate that goes out as REMB.
    package var maximumReceiveBitrate: Int = 8_000_000
    /// What we may send, bit/s: the target stays within, whatever the network says.
    package var bitrateRange: ClosedRange<Int> = 100_000...2_500_000
    /// The first target, bit/s; nil = the upper end, but 1.5 Mbit/s at most. From there a good link is at 2.5 Mbit/s in
    /// three seconds, and on one of 500 kbit/s the first key frame is not yet a flood.
    package var startBitrate: Int?

    package init() {}
}

/// A candidate as it travels in signalling (RFC 8838); the text is `candidate:…` without `a=`.
package struct ICECandidate: Sendable, Equatable {
    package var candidate: String
    package var sdpMid: String?
    package var sdpMLineIndex: Int?
    package init(candidate: String, sdpMid: String?, sdpMLineIndex: Int?) {
        self.candidate = candidate
        self.sdpMid = sdpMid
        self.sdpMLineIndex = sdpMLineIndex
    }
}

package struct PeerConnectionError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: Sendable, Equatable {
        /// No candidate pair worked, or the path died (its checks were not answered for 50 s).
        case ice
        case dtls
        /// The far side's certificate is not the one that signalling promised: never retried.
        case fingerprintMismatch
        case badDescription
        /// The far side refused the video, or has no codec in common with us.
        case rejected
        case missingElement
        case wrongState
    }
    package let code: Code
    package let message: String
    package var description: String { message }

    package static let closedByPeer = PeerConnectionError(.dtls, "the far side closed the connection")

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

package enum PeerConnectionState: Sendable, Equatable {
    case new, connecting, connected
    case failed(PeerConnectionError)
    case closed
}

/// Delivered on the network thread, in order.
package enum PeerConnectionEvent: Sendable {
    case localCandidate(ICECandidate)
    case gatheringComplete
    /// ICE found a pair; DTLS follows.
    case iceConnected
    case stateChanged(PeerConnectionState)
    /// The far side's receive estimate, bit/s.
    case remoteBitrateEstimate(Int)
    /// What the encoder should send from now on; the first comes when the connection is up.
    case bitrateTarget(BitrateTarget)
    /// A stream of a simulcast begins to come, by its rid.
    case streamArrived(rid: String)
    case warning(String)
}

/// What the sound's payloader needs to know of the negotiation.
package struct AudioSendParameters: Sendable, Equatable {
    package var payloadType: Int
    package var ssrc: UInt32

    package init(payloadType: Int, ssrc: UInt32) {
        (self.payloadType, self.ssrc) = (payloadType, ssrc)
    }
}

/// What a payloader needs to know of the negotiation.
package struct RTPSendParameters: Sendable, Equatable {
    package var codec: VideoCodec
    package var payloadType: Int
    package var ssrc: UInt32
    /// transport-wide-cc header extension, where the far side takes it.
    package var transportWideCCExtension: Int?
    /// Streams of a simulcast, the best one first; empty: one, `ssrc`.
    package var layers: [LayerStream] = []
    /// Bytes of an RTP packet before header extensions, RTX and SRTP are added, so that no datagram exceeds 1200.
    package var mtu: Int { 1150 }

    package init(codec: VideoCodec, payloadType: Int, ssrc: UInt32, transportWideCCExtension: Int?) {
        self.codec = codec
        self.payloadType = payloadType
        self.ssrc = ssrc
        self.transportWideCCExtension = transportWideCCExtension
    }
}
