package import EventLoopThreads
package import ICE
import Recovery
package import RTP

package struct PeerConnectionConfiguration: Sendable {
    package var iceServers: [ICEServer] = []
    package var iceTransportPolicy: ICETransportPolicy = .all
    /// Opens tunnels to TURN servers over TLS and TCP; nil: `turns:` servers are skipped with a warning.
    package var openTunnel: RelayTunnelOpener?
    /// Sends datagrams of at most 1000 bytes in place of 1200, for a path that loses longer ones without a word.
    package var sendsSmallPackets = false
    /// Decides on the address of each remote candidate, and of each server that a peer names: a service must not lead
    /// packets to hosts that only this one can reach.
    package var permitsRemote: @Sendable (String) -> Bool = { _ in true }
    /// Ports and addresses of host candidates, also after an ICE restart.
    package var network = ICENetwork()
    /// Connections of one place share a network thread; nil: `NetworkThreads` assigns one.
    package var place: NetworkThreads.Place?
    /// Codec of our offers. An answer takes the first codec of the offer that is installed.
    package var codec: VideoCodec = .vp8
    /// Further codecs of our offers, behind `codec` in order of preference, if we only receive; the remote peer sends any
    /// one of the codecs in its answer: `PeerConnectionEvent.codecArrived`. H.264 is offered in three profiles then.
    package var alternatives: [VideoCodec] = []
    /// Codecs that an answer may take; nil: those that this installation can encode and decode.
    package var usableCodecs: Set<VideoCodec>?
    /// Codecs of which an answer takes each one on an m-line where we never send; nil: it takes one codec there too. The
    /// remote peer then sends in any of them, and may change: `PeerConnectionEvent.codecArrived`, or the caps of the packets.
    package var receivableCodecs: Set<VideoCodec>?
    package var h264 = H264Acceptance.baseline
    /// Direction of video in offers, and its upper limit in answers; nil: no video at first, see `setMedia`.
    package var direction: MediaDirection? = .sendrecv
    /// The same for audio (48 kHz); nil: no audio is offered, and the remote peer's is rejected.
    package var audio: MediaDirection?
    /// Codecs of audio in our offers, in order of preference; the caps of the packets tell which one arrives. All but Opus
    /// are received only.
    package var audioCodecs: [AudioCodec] = [.opus]
    /// Our answers accept each m-line of an offer that has separate ones for sending and receiving, as LiveKit requires
    /// on a single peer connection.
    package var answersEachSection = false
    /// Our offers have m-lines for audio, video and data channels, in this order, as some cameras require.
    package var offersAudioVideoData = false
    /// Our offers have separate m-lines to send and to receive on, as LiveKit requires on a single peer connection:
    /// `direction` and `audio` are those of the m-lines that send, in `codec` or one of `alternatives`, of which the answer
    /// chooses; `addReceivers` adds m-lines that receive `receivableCodecs`.
    package var offersEachDirection = false
    /// Further servers follow by `addServers`: the first ICE session gathers from those that are known, and with relays
    /// only, from none before. The first offer holds the candidates that are found at once.
    package var awaitsServers = false
    /// Has gathered for the first ICE session of the first connection that offers.
    package var early: EarlyGathering?
    /// RIDs of the simulcast layers that we offer, highest resolution first, at most `SimulcastLayer.maximumCount`;
    /// empty: one stream. The answer decides which are sent: `RTPSendParameters.layers`.
    package var simulcast: [String] = []
    /// Accepts an offered simulcast; the best layer that flows is forwarded.
    package var acceptsSimulcast = false
    /// `a=msid` of our video, `stream track`; nil: generated.
    package var msid: String?
    /// `a=msid` of our audio. Sharing the stream id with the video keeps both in sync.
    package var audioMSID: String?
    /// Accepts m-lines of data channels at the transport level, so that an offer without media connects, and offers one
    /// if there is no media. No data channel ever opens.
    package var acceptsDataChannels = false
    /// Pushes received video on the network thread instead of on a thread of its own: for a receiver that neither decodes
    /// nor blocks.
    package var pushesVideoOnNetworkThread = false
    /// Limits of our answers to NACKs and keyframe requests.
    package var feedbackLimits = FeedbackLimits()
    /// Upper limit of the estimate that we send as REMB, bit/s.
    package var maximumReceiveBitrate: Int = 8_000_000
    /// Range of the send target, bit/s, whatever the estimate is.
    package var bitrateRange: ClosedRange<Int> = 100_000...2_500_000
    /// First target, bit/s; nil: the upper bound, at most 1.5 Mbit/s.
    package var startBitrate: Int?
    var firstTarget: Int { startBitrate ?? min(bitrateRange.upperBound, 1_500_000) }
    /// False: the target stays at the first one, whatever the network carries.
    package var adaptsBitrate = true
    /// Time without an arrival after which the path has failed (RFC 7675 §5.1); tests shorten it.
    package var consentTimeout = RecoveryPlan.Path.consentTimeout
    package var loggers = TransportLoggers.none

    package init() {}

    func ice(isControlling: Bool) -> ICEConfiguration {
        var ice = ICEConfiguration(
            servers: iceServers, policy: iceTransportPolicy, isControlling: isControlling, openTunnel: openTunnel,
            network: network)
        ice.permitsRemote = permitsRemote
        return ice
    }

    /// A server that the remote peer or its service names; nil: its URL is unusable, or names a host that `permitsRemote`
    /// does not permit. The addresses of a name are judged once they are known.
    package func serverNamedByPeer(_ url: String, username: String?, credential: String?) -> ICEServer? {
        guard var server = try? ICEServer(url: url, username: username, credential: credential),
            permitsRemote(server.host)
        else { return nil }
        server.isNamedByPeer = true
        return server
    }

    /// Throws if relays alone may be used and no server can give one: no candidate would ever be found.
    package func checkRelays() throws(PeerConnectionError) {
        guard iceTransportPolicy == .relay, !iceServers.contains(where: { $0.kind == .turn }) else { return }
        throw PeerConnectionError(
            .ice, "ice-transport-policy=relay needs a TURN server, and neither turn-servers nor the service names one")
    }
}

/// A candidate as signalled (RFC 8838); the text is `candidate:…` without `a=`.
package struct ICECandidate: Sendable, Equatable {
    package var candidate: String
    package var sdpMid: String?
    package var sdpMLineIndex: Int?
    /// The `ice-ufrag` of the ICE session that the candidate belongs to; nil: not signalled.
    package var usernameFragment: String?
    package init(candidate: String, sdpMid: String?, sdpMLineIndex: Int?, usernameFragment: String? = nil) {
        self.candidate = candidate
        self.sdpMid = sdpMid
        self.sdpMLineIndex = sdpMLineIndex
        self.usernameFragment = usernameFragment
    }

    /// As signalled beside the candidate, else in its text.
    var session: String? {
        if let usernameFragment, !usernameFragment.isEmpty { return usernameFragment }
        return CandidateLine.usernameFragment(in: candidate)
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
    /// No TURN server gave a relay candidate, as with wrong or expired credentials.
    case relaysMissing
    /// ICE found a candidate pair; DTLS follows.
    case iceConnected
    /// Nothing arrives any more. The connection recovers if packets pass again or ICE is restarted; otherwise it fails
    /// 30 s after the last packet.
    case disconnected
    /// Packets arrive again after `disconnected`.
    case reconnected
    /// The ICE restart is over. If it succeeded, packets go over the new path; otherwise the previous path stays.
    case iceRestarted(succeeded: Bool)
    case stateChanged(PeerConnectionState)
    /// The new target of the encoder; the first one follows the DTLS handshake.
    case bitrateTarget(BitrateTarget)
    /// Video arrives in another codec or payload type than before; at first, than the first one in the answer.
    case codecArrived(VideoCodec)
    /// The first packet of a received simulcast layer arrived.
    case streamArrived(rid: String)
}
