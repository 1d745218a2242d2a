// The JSEP surface of a connection: creates and applies descriptions, one at a time, from any thread.
import EventLoopThreads
import GStreamerKit
import ICE
import Log
import MediaSecurity
import Synchronization
package import RTP

extension PeerConnection {
    /// Sets the directions of video and audio in the next description. nil means none, or `inactive` if there was one
    /// before. Takes effect with the next `createOffer` or `createAnswer`.
    /// - Parameter codec: Applies only while no video m-line exists; nil keeps the current codec, initially the
    ///   configuration's.
    package func setMedia(video: MediaDirection?, audio: MediaDirection?, codec: VideoCodec? = nil) {
        negotiation.withLock { $0.value.setDesired(DesiredDirections(video: video, audio: audio), codec: codec) }
    }

    /// Adds m-lines to the next offer that only receive, with `offersEachDirection`.
    package func addReceivers(_ counts: [MediaKind: Int]) {
        negotiation.withLock { $0.value.addReceivers(counts) }
    }

    /// Sends our video on a new m-line from the next offer on.
    package func moveVideo() { negotiation.withLock { $0.value.moveOutput(.video) } }

    /// The mid of the m-line that carries our media of this kind, or could carry it. For an answerer with
    /// `answersEachSection`.
    package func sendMid(_ kind: MediaKind) -> String? { negotiated.sendMids[kind] }

    /// Creates an offer. The first one starts gathering; later ones renegotiate over the same transport, or
    /// restart ICE.
    ///
    /// A restart begins a second ICE session, which gathers with the addresses that the host has now. Media use the
    /// first session's path until the second one has connected: `PeerConnectionEvent.iceRestarted`. DTLS and SRTP stay.
    /// - Parameter reason: For the log, if the offer restarts ICE.
    package func createOffer(
        restartsICE: Bool = false, reason: String? = nil
    ) throws(PeerConnectionError) -> String {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            guard negotiation.signalingState == .stable else { throw Negotiation.wrongState }
            if let transport = negotiation.transport, !restartsICE { return try negotiation.makeOffer(transport) }
            guard restartsICE == negotiation.isConnected else { throw Negotiation.wrongState }
            let session = try ice.makeSession(isControlling: true)
            let transport = dtls.parameters(of: session, setup: "actpass")
            let text =
                restartsICE ? try negotiation.makeRestartOffer(transport) : try negotiation.makeOffer(transport)
            try start(session, reason: reason)
            // A second visit of the network thread: gathering begins behind the first, and finds host candidates at once.
            let candidates = configuration.awaitsServers ? network.sync { [self] in ice.takeOffered() } : []
            return LocalDescription.adding(candidates, to: text)
        }
    }

    /// Applies the remote answer to our latest offer. If it rejects audio, `audioDirection` becomes nil and video
    /// continues.
    /// - Parameter wants: With `offersEachDirection`, selects the tracks to receive, by `msid`.
    package func setAnswer(
        _ sdp: String, wants: (_ msid: String?) -> Bool = { _ in true }
    ) throws(PeerConnectionError) {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            let (isFirst, restarts) = (!negotiation.isConnected, negotiation.isRestarting)
            let remote = try negotiation.setRemoteAnswer(sdp, wants: wants)
            try apply(negotiation)
            if isFirst { try setUp(remote, role: remote.transport.setup == "active" ? .server : .client) }
            if isFirst || restarts { network.sync { [self] in ice.setRemote(remote) } }
        }
    }

    /// Rolls back our offer, because its answer did not come; another offer may then be created. The ICE session of a
    /// restart ends.
    package func rollbackOffer() {
        let restarts = negotiation.withLock { slot in
            defer { slot.value.rollbackOffer() }
            return slot.value.isRestarting
        }
        if restarts { network.async { [self] in ice.abandonRestart("no usable answer") } }
    }

    /// Applies an offer and returns our answer; the first one starts gathering.
    ///
    /// Later offers, also from a remote peer that answered our first one, may add or remove video and audio on the same
    /// transport, and may restart ICE. A changed codec or certificate is an error, which leaves the negotiated state as
    /// it was.
    /// - Parameter wants: Selects the tracks to receive, by `msid`.
    package func createAnswer(
        to offer: String, wants: (_ msid: String?) -> Bool = { _ in true }
    ) throws(PeerConnectionError) -> String {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            let remote = try negotiation.parseRemoteOffer(offer, wants: wants)
            if let transport = negotiation.transport {
                let session =
                    negotiation.restartsICE(remote) ? try ice.makeSession(isControlling: remote.isLite) : nil
                let text = try negotiation.answer(
                    remote, session.map { dtls.parameters(of: $0, setup: transport.setup) } ?? transport)
                try apply(negotiation)
                if let session { try start(session, remote: remote, reason: "the remote peer restarts it") }
                return text
            }
            let session = try ice.makeSession(isControlling: remote.isLite)
            // The answerer is the DTLS client (RFC 8842 5.3), unless the offer says `active`.
            let role: DTLSRole = remote.transport.setup == "active" ? .server : .client
            let text = try negotiation.answer(
                remote, dtls.parameters(of: session, setup: role == .client ? "active" : "passive"))
            try apply(negotiation)
            try setUp(remote, role: role)
            try start(session, remote: remote)
            return text
        }
    }

    /// Adds a video stream beside the described one, for a sender that describes its streams itself.
    package func addVideoStream(_ ssrc: UInt32, retransmission: UInt32) { rtp.video.add(ssrc, rtx: retransmission) }
    package func lastVideoPacket(of ssrc: UInt32) -> (sequence: UInt16, timestamp: UInt32)? {
        rtp.video.lastPacket(of: ssrc)
    }
    package func lastAudioPacket(of ssrc: UInt32) -> (sequence: UInt16, timestamp: UInt32)? {
        rtp.audio?.lastPacket(of: ssrc)
    }
    package func removeVideoStream(_ ssrc: UInt32) { rtp.video.remove(ssrc) }

    /// Negotiated video parameters; nil before the answer.
    package var sendParameters: RTPSendParameters? {
        negotiated.video.map {
            var parameters = RTPSendParameters(
                codec: $0.codec.codec, payloadType: $0.codec.payloadType, ssrc: identity.ssrc,
                transportWideCCExtension: nil)
            if configuration.sendsSmallPackets { parameters.mtu = RTPSendParameters.shortMTU }
            parameters.layers = identity.streams($0.sentLayers)
            return parameters
        }
    }
    package var negotiatedCodec: VideoCodec? { sendParameters?.codec }
    /// The codec in which the remote peer's video is expected first: `negotiatedCodec`, unless each direction has its own
    /// m-line.
    package var receivedCodec: VideoCodec? { negotiated.video?.inboundCodec.codec }

    /// Negotiated audio parameters; nil without audio, also if the remote peer rejected it.
    package var audioSendParameters: AudioSendParameters? {
        negotiated.audio.map {
            AudioSendParameters(
                payloadType: $0.payloadType, ssrc: identity.audioSSRC, redundancyType: $0.redundancy?.payloadType)
        }
    }

    /// Negotiated direction of video; nil if video was never negotiated.
    package var videoDirection: MediaDirection? { negotiated.video?.direction }
    /// As `videoDirection`; nil also if the remote peer rejected audio.
    package var audioDirection: MediaDirection? { negotiated.audio?.direction }

    private var negotiated: Negotiation { negotiation.withLock { $0.value } }

    /// Runs `body` on a copy, without holding the lock; throws if another negotiation is running. A failure changes
    /// nothing.
    private func negotiate<Result>(
        _ body: (inout Negotiation) throws(PeerConnectionError) -> Result
    ) throws(PeerConnectionError) -> Result {
        let begun = negotiation.withLock { slot -> Negotiation? in
            guard !slot.isBusy, !slot.isClosed else { return nil }
            slot.isBusy = true
            return slot.value
        }
        guard var value = begun else { throw Negotiation.wrongState }
        let result: Result
        do throws(PeerConnectionError) {
            result = try body(&value)
        } catch {
            negotiation.withLock { $0.isBusy = false }
            throw error
        }
        let isOver = negotiation.withLock { slot in
            slot.isBusy = false
            value.adoptDesired(from: slot.value)
            if !slot.isClosed { slot.value = value }
            return slot.isClosed
        }
        if isOver { throw Negotiation.wrongState }
        return result
    }
    // MARK: Parts of the connection

    /// Begins the first ICE session, or that of a restart; see `ICETransport.begin`.
    private func start(
        _ session: ICESession, remote: RemoteDescription? = nil, reason: String? = nil
    ) throws(PeerConnectionError) {
        // If close() ran on another thread meanwhile, it did not see this session.
        guard network.sync({ [self] in ice.begin(session, remote: remote, reason: reason) }) else {
            session.close()
            throw Negotiation.wrongState
        }
        change(.connecting)
    }

    /// Applies the transport of the first remote description.
    private func setUp(_ remote: RemoteDescription, role: DTLSRole) throws(PeerConnectionError) {
        do throws(DTLSError) {
            try network.sync { [self] () throws(DTLSError) in
                ice.setBundle(mid: remote.mids[remote.transportIndex], index: remote.transportIndex)
                try dtls.setRemote(remote.transport.fingerprints, role: role)
            }
        } catch { throw PeerConnectionError(.dtls, "DTLS could not be started: \(error)") }
    }

    /// Configures newly negotiated RTP sessions and lets each send according to its direction.
    private func apply(_ negotiation: Negotiation) throws(PeerConnectionError) {
        configuration.loggers.rtp.debug("negotiated \(negotiation.summary)")
        do throws(GStreamerError) {
            if let video = negotiation.video {
                if !rtp.video.isConfigured { try sender.configure(video) }
                let parameters = RTPSessionParameters(video, identity)
                network.async { [self] in
                    receiver.configure(video)
                    rtp.video.update(parameters)
                }
                if rtp.video.setSending(video.direction.sends), video.direction.sends {
                    rtp.video.startWithKeyframe()
                }
            }
            if let audio = negotiation.audio {
                let isFirst = rtp.audio == nil
                if isFirst { try sender.configure(audio) }
                network.async { [self] in
                    if isFirst { receiver.configure(audio) } else { receiver.update(audio) }
                }
            }
            _ = rtp.audio?.setSending(negotiation.audio?.direction.sends ?? false)
            let received = MediaKind.allCases.filter { negotiation.direction(of: $0).receives }
            network.async { [self] in
                receiver.admit(negotiation.sources)
                rtp.setReceiving(Set(received))
            }
        } catch { throw PeerConnectionError(.missingElement, error.message) }
    }
}
