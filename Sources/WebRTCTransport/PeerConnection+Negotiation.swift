// The JSEP surface of a connection: descriptions in and out, one at a time, from any thread.
import GStreamerKit
import ICE
import MediaSecurity
import Synchronization

extension PeerConnection {
    /// What the next description holds: which way the video and the sound go. nil = none, or `inactive` where there was
    /// one before. Takes effect with the next `createOffer` or `createAnswer`.
    /// - Parameter codec: of a video that was not offered before; nil = the configuration's.
    package func setMedia(video: MediaDirection?, audio: MediaDirection?, codec: VideoCodec? = nil) {
        negotiation.withLock { $0.value.want(WantedMedia(video: video, audio: audio), codec: codec) }
    }

    /// So many m-lines more for what comes, in the next offer and all later ones; see `separatesDirections`.
    package func addLines(_ count: [MediaKind: Int]) { negotiation.withLock { $0.value.addLines(count) } }

    /// Our video goes on an m-line of its own from the next offer on.
    package func moveVideo() { negotiation.withLock { $0.value.moveOutput(.video) } }

    /// Of an answerer with `separatesDirections`: the m-line that ours goes on, or could.
    package func takingLine(_ kind: MediaKind) -> String? { agreed.takers[kind] }

    /// Our offer; the first one starts gathering, later ones change what goes over the same transport.
    package func createOffer() throws(PeerConnectionError) -> String {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            guard negotiation.mayOffer else { throw Negotiation.wrongState }
            if let transport = negotiation.transport { return try negotiation.makeOffer(transport) }
            let agent = try makeAgent(isControlling: true)
            let text = try negotiation.makeOffer(localTransport(agent, setup: "actpass"))
            try start(agent)
            return text
        }
    }

    /// Takes the far side's answer to our latest offer. Where it refuses sound, `audioDirection` is nil afterwards, and
    /// the picture goes on.
    /// - Parameter wants: what may come, by its m-line and `msid`; only of `separatesDirections`.
    package func setAnswer(
        _ sdp: String, wants: (_ mid: String, _ msid: String?) -> Bool = { _, _ in true }
    ) throws(PeerConnectionError) {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            let isFirst = !negotiation.isConnected
            let remote = try negotiation.take(answer: sdp, wants: wants)
            try apply(negotiation)
            if isFirst { try setUp(remote, role: remote.transport.setup == "active" ? .server : .client) }
        }
    }

    /// The answer to our offer did not come: another may be made.
    package func forgetOffer() { negotiation.withLock { $0.value.forgetOffer() } }

    /// Takes an offer and gives our answer; the first one starts gathering.
    ///
    /// Later offers, also of a far side that answered the first one, may bring video or sound or take them away, on the
    /// same transport. Another codec, or other ICE credentials, are an error, which leaves what was agreed before.
    /// - Parameter wants: which tracks may be taken, by their `msid`.
    package func createAnswer(
        to offer: String, wants: (_ msid: String?) -> Bool = { _ in true }
    ) throws(PeerConnectionError) -> String {
        try negotiate { (negotiation) throws(PeerConnectionError) in
            let remote = try negotiation.read(offer: offer, wants: wants)
            if let transport = negotiation.transport {
                let text = try negotiation.answer(remote, transport)
                try apply(negotiation)
                return text
            }
            let agent = try makeAgent(isControlling: remote.isLite)
            // As answerer we open the handshake (RFC 8842 5.3), unless the offerer insists on doing so.
            let role: DTLSRole = remote.transport.setup == "active" ? .server : .client
            let text = try negotiation.answer(remote, localTransport(agent, setup: role == .client ? "active" : "passive"))
            try apply(negotiation)
            try setUp(remote, role: role)
            try start(agent)
            return text
        }
    }

    /// What the far side accepted; nil before the answer.
    package var sendParameters: RTPSendParameters? {
        agreed.video.map {
            var parameters = RTPSendParameters(
                codec: $0.codec.codec, payloadType: $0.codec.payloadType, ssrc: identity.ssrc,
                transportWideCCExtension: $0.extensions.transportWideCC.map(Int.init))
            parameters.layers = identity.streams($0.sentLayers)
            return parameters
        }
    }
    package var negotiatedCodec: VideoCodec? { sendParameters?.codec }

    /// What the far side accepted of sound; nil where there is none, also when it was refused.
    package var audioSendParameters: AudioSendParameters? {
        agreed.audio.map {
            AudioSendParameters(payloadType: $0.payloadType, ssrc: identity.audioSSRC)
        }
    }

    /// Which way it goes, as both sides agreed; nil: it was never agreed upon.
    package var videoDirection: MediaDirection? { agreed.video?.direction }
    /// As `videoDirection`; nil also when the far side refuses sound.
    package var audioDirection: MediaDirection? { agreed.audio?.direction }

    private var agreed: Negotiation { negotiation.withLock { $0.value } }

    /// One at a time; what fails changes nothing.
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
            value.want(as: slot.value)
            if !slot.isClosed { slot.value = value }
            return slot.isClosed
        }
        if isOver { throw Negotiation.wrongState }
        return result
    }
}
