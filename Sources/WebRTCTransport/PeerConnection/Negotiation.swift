// The offer/answer state of one connection (RFC 8829): the signalling state, the transceivers, and the negotiated media. A
// value: it knows no agent, no pipeline and no thread. A description is a map over the transceivers.
//
// Either side may offer while no offer is in flight; a remote offer that arrives while ours is in flight is refused.
// m-lines are only added: an unwanted one becomes `inactive` and may be used again, and one that the remote peer
// rejected stays rejected. All m-lines share the transport of the first description.

import GStreamerKit
import RTP

struct Negotiation: Sendable {
    enum SignalingState { case stable, haveLocalOffer }

    let identity: LocalIdentity
    let configuration: PeerConnectionConfiguration
    /// Media of the next description.
    private(set) var desired: DesiredDirections
    /// The m-lines of the next offer that only receive, with `offersEachDirection`.
    private(set) var receivers: [MediaKind: Int] = [:]
    var codec: VideoCodec
    /// The mid that carries our media of each kind, or could carry it. For an answerer with `answersEachSection`.
    var sendMids: [MediaKind: String] = [:]

    var signalingState = SignalingState.stable
    var transceivers: [Transceiver] = []
    private let sdpSessionID = UInt64.random(in: 1...UInt64(Int64.max))
    private var version: UInt32 = 1
    /// Our parameters in the first description; all later ones repeat them.
    var transport: TransportParameters?
    /// Our DTLS role in answers: active or passive.
    var role = "active"
    /// The remote peer made the first offer: its payload types hold for the whole session.
    var isAnswerer = false
    /// The remote peer's parameters in its latest description.
    private var remoteTransport: TransportParameters?
    /// Our parameters before the offer in flight, which restarts ICE; nil: none is in flight.
    var transportBeforeRestart: TransportParameters?
    /// The SSRCs that the latest offer of the remote peer names; an answer to an offer of ours names none that count.
    var sources = OfferedSources()
    /// nil: video was never negotiated. Once negotiated it stays, if only `inactive`.
    var video: NegotiatedVideo?
    /// nil: audio was never negotiated, or the remote peer rejected it.
    var audio: NegotiatedAudio?

    init(identity: LocalIdentity, configuration: PeerConnectionConfiguration) {
        (self.identity, self.configuration) = (identity, configuration)
        desired = DesiredDirections(video: configuration.direction, audio: configuration.audio)
        codec = configuration.codec
    }

    /// Negotiated media for the log.
    var summary: String {
        let video = video.map { video in
            let codec = video.codec
            let extensions = [
                codec.retransmissionPayloadType.map { "RTX \($0)" }, codec.usesTransportCC ? "transport-cc" : nil,
                codec.usesREMB ? "REMB" : nil,
                video.sentLayers.isEmpty ? nil : "sends simulcast \(video.sentLayers.joined(separator: " "))",
                video.receivedLayers.isEmpty
                    ? nil : "receives simulcast \(video.receivedLayers.joined(separator: " "))",
            ].compactMap(\.self)
            return
                (["video \(video.direction)"] + video.codecs.map { "\($0.codec.encodingName)/\($0.payloadType)" }
                + extensions).joined(separator: ", ")
        }
        let audio = audio.map { audio in
            (["audio \(audio.direction)"] + audio.codecs.map { "\($0.codec.encodingName)/\($0.payloadType)" }
                + (audio.redundancy.map { ["RED/\($0.payloadType)"] } ?? [])).joined(separator: " ")
        }
        return "\(video ?? "no video"); \(audio ?? "no audio"); \(transceivers.count) m-lines"
    }

    static let wrongState = PeerConnectionError(
        .wrongState, "an offer is in flight, the connection only answers, or it is closed")

    func isUsable(_ codec: VideoCodec) -> Bool { configuration.usableCodecs?.contains(codec) ?? codec.isAvailable }

    func direction(of kind: MediaKind) -> MediaDirection {
        (kind == .video ? video?.direction : audio?.direction) ?? .inactive
    }

    /// True after the first answer was applied or created.
    var isConnected: Bool { remoteTransport != nil }
    /// True while an offer that restarts ICE is in flight.
    var isRestarting: Bool { transportBeforeRestart != nil }

    /// Sets the media of the next description. The codec applies only while no video m-line exists.
    mutating func setDesired(_ media: DesiredDirections, codec: VideoCodec?) {
        desired = media
        if let codec, !transceivers.contains(where: { $0.content == .media(.video) }) { self.codec = codec }
    }

    /// A server asks for m-lines: more than this number of each kind serve no session.
    private static let maximumReceivers = 8

    mutating func addReceivers(_ counts: [MediaKind: Int]) {
        for (kind, count) in counts {
            receivers[kind] = min(
                receivers[kind, default: 0] + min(max(count, 0), Self.maximumReceivers),
                Self.maximumReceivers)
        }
    }

    /// Copies what `setDesired` and `addReceivers` may have set in `other` meanwhile.
    mutating func adoptDesired(from other: Negotiation) {
        setDesired(other.desired, codec: other.codec)
        receivers = other.receivers
    }

    /// True if the remote peer's credentials differ from those of its previous description.
    func restartsICE(_ remote: RemoteDescription) -> Bool {
        guard let before = remoteTransport else { return false }
        return (before.usernameFragment, before.password)
            != (remote.transport.usernameFragment, remote.transport.password)
    }

    /// Throws if the remote peer has another certificate: the DTLS association outlives a restart of ICE, and the new
    /// peer would have to begin another one (RFC 8842 9).
    mutating func checkTransport(_ remote: RemoteDescription) throws(PeerConnectionError) {
        var transport = remote.transport
        if let before = remoteTransport {
            // The certificate in use has been in every description, so a fingerprint that is new here belongs to another one.
            transport.fingerprints.removeAll { !before.fingerprints.contains($0) }
            guard !transport.fingerprints.isEmpty else {
                throw PeerConnectionError(
                    .changedCertificate, "the remote peer has changed its certificate in the middle of the connection")
            }
        }
        remoteTransport = transport
    }

    mutating func describe(
        _ media: [SDPMedia], _ writer: LocalDescription, mixesExtensionHeaders: Bool = true
    ) -> String {
        transport = writer.transport
        version &+= 1
        return LocalDescription.whole(media, mixesExtensionHeaders: mixesExtensionHeaders)
            .text(sessionID: sdpSessionID, version: version)
    }

    /// Our part of a video m-line whose codec the remote peer has chosen.
    func answered(_ video: NegotiatedVideo) -> NegotiatedVideo {
        var video = video
        video.sentLayers = []
        guard !video.receivesOnly else {
            // Each codec goes back as it was offered: nothing of ours is sent in it.
            video.codec.feedback.formIntersection(LocalDescription.offeredFeedback)
            for index in video.alternatives.indices {
                video.alternatives[index].feedback.formIntersection(LocalDescription.offeredFeedback)
            }
            return video
        }
        video.alternatives = []
        video.codec.feedback.formIntersection(LocalDescription.offeredFeedback)
        // Another profile than our own goes back as it was offered (RFC 6184 8.2.2).
        if video.codec.isBaseline, configuration.h264 == .baseline {
            video.codec.formatParameters = video.codec.codec.formatParameters(configuration.h264)
        }
        return video
    }
}
