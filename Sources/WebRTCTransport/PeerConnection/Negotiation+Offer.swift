// Offers of ours, and the answers to them.
import GStreamerKit
import RTP

extension Negotiation {
    mutating func makeOffer(_ transport: TransportParameters) throws(PeerConnectionError) -> String {
        guard signalingState == .stable else { throw Self.wrongState }
        for content in required where !transceivers.contains(where: { $0.content == content && mayCarry($0) }) {
            append(content, configuration.offersEachDirection ? .sendonly : .sendrecv)
        }
        for kind in MediaKind.allCases {
            let present = transceivers.count { $0.content == .media(kind) && isReceiver($0) }
            for _ in 0..<max(receivers[kind, default: 0] - present, 0) { append(.media(kind), .recvonly) }
        }
        guard !transceivers.isEmpty else { throw PeerConnectionError(.wrongState, "there is nothing to offer") }
        for index in transceivers.indices {
            guard case .media(let kind) = transceivers[index].content else { continue }
            transceivers[index].direction =
                isReceiver(transceivers[index])
                ? .recvonly : (desired[kind] ?? .inactive).limited(to: transceivers[index].role)
        }
        signalingState = .haveLocalOffer
        var writer = LocalDescription(transport: transport, identity: identity)
        // RFC 8842 5.5: an offer says actpass, even if the DTLS roles are fixed already.
        writer.transport.setup = "actpass"
        return describe(transceivers.map { offered($0, writer) }, writer)
    }

    /// True for an m-line that only receives.
    private func isReceiver(_ line: Transceiver) -> Bool { configuration.offersEachDirection && !line.role.sends }

    /// True for an m-line that may carry our media, or that serves both directions.
    private func mayCarry(_ line: Transceiver) -> Bool { !isReceiver(line) || line.content == .application }

    /// The m-lines that an offer has at least, in the order of new ones.
    private var required: [Transceiver.Content] {
        let inOrder: [MediaKind] = configuration.offersAudioVideoData ? [.audio, .video] : MediaKind.allCases
        let media = inOrder.filter { desired[$0] != nil }.map(Transceiver.Content.media)
        let hasData = configuration.offersAudioVideoData || configuration.acceptsDataChannels && media.isEmpty
        return media + (hasData ? [.application] : [])
    }

    /// Makes an offer that restarts ICE (RFC 8839 §4.4.1.1.1): everything but our credentials stays the
    /// same.
    mutating func makeRestartOffer(_ transport: TransportParameters) throws(PeerConnectionError) -> String {
        guard isConnected, let before = self.transport else { throw Self.wrongState }
        let text = try makeOffer(transport)
        transportBeforeRestart = before
        return text
    }

    /// Sends media of this kind on a new m-line from the next offer on.
    mutating func moveOutput(_ kind: MediaKind) {
        for index in transceivers.indices where transceivers[index].content == .media(kind) {
            transceivers[index].role = transceivers[index].role.limited(to: .recvonly)
        }
        append(.media(kind), .sendonly)
    }

    private mutating func append(_ content: Transceiver.Content, _ role: MediaDirection) {
        // The remote peer chose the mids of the m-lines that it added; avoid a duplicate.
        let names = Set(transceivers.map(\.mid))
        let mid = (transceivers.count...).lazy.map(String.init).first { !names.contains($0) } ?? ""
        transceivers.append(Transceiver(content: content, mid: mid, role: role))
    }

    /// Our part of an m-line in an offer.
    private func offered(_ line: Transceiver, _ writer: LocalDescription) -> SDPMedia {
        guard !line.isRefused else { return LocalDescription.refused(kind: line.kind, mid: line.mid) }
        switch line.content {
        case .application:
            return writer.application(mid: line.mid)
        case .other(let kind):
            return LocalDescription.refused(kind: kind, mid: line.mid)
        case .media(.video):
            if var video, isAnswerer {
                if case .video(let before) = line.negotiated, before.receivesOnly { video = before }
                (video.mid, video.direction, video.receivedLayers) = (line.mid, line.direction, [])
                return writer.media(answered(video))
            }
            let layers = line.role.sends ? configuration.simulcast : []
            let codecs = offeredCodecs(line)
            return writer.media(
                NegotiatedVideo(
                    mid: line.mid, codec: codecs[0], alternatives: Array(codecs.dropFirst()),
                    extensions: layers.isEmpty
                        ? LocalDescription.offeredExtensions : LocalDescription.offeredSimulcastExtensions,
                    direction: line.direction, sentLayers: layers))
        case .media(.audio):
            if var audio, isAnswerer {
                (audio.mid, audio.direction) = (line.mid, line.direction)
                return writer.media(audio)
            }
            return writer.media(
                NegotiatedAudio(
                    mid: line.mid, payloadType: LocalDescription.offeredAudioPayloadType,
                    alternatives: line.direction.receives ? offeredAlternatives : [],
                    redundancy: LocalDescription.offeredRedundancy,
                    extensions: LocalDescription.offeredAudioExtensions, direction: line.direction))
        }
    }

    /// The codecs of audio behind Opus.
    private var offeredAlternatives: [NegotiatedAudioCodec] {
        configuration.audioCodecs.compactMap { codec in
            codec.staticPayloadType.map { NegotiatedAudioCodec(codec: codec, payloadType: $0) }
        }
    }

    /// Never empty.
    private func offeredCodecs(_ line: Transceiver) -> [NegotiatedCodec] {
        guard configuration.offersEachDirection else { return offeredCodecs }
        let formats = separateFormats
        let codecs = LocalDescription.numbered(formats.sent + formats.received)
        guard isReceiver(line) else { return Array(codecs.prefix(formats.sent.count)) }
        return codecs.filter { codec in formats.received.contains { $0 == LocalDescription.format(codec) } }
    }

    /// The formats of the m-lines that send, and of those that receive. A payload type means one format in all of them.
    private var separateFormats: (sent: [LocalDescription.Format], received: [LocalDescription.Format]) {
        let sent = [codec] + configuration.alternatives.filter { $0 != codec }
        let received = VideoCodec.allCases.filter { configuration.receivableCodecs?.contains($0) ?? $0.isAvailable }
        let inOrder = sent.filter(received.contains) + received.filter { !sent.contains($0) }
        let shared = received.isEmpty ? [codec] : inOrder
        let formats = sent.map { LocalDescription.Format($0, configuration.h264) }
        // A service may return the profile that it receives.
        return (
            formats,
            shared.flatMap { codec in formats.filter { $0.codec == codec } + LocalDescription.received(codec) }
        )
    }

    /// Never empty.
    private var offeredCodecs: [NegotiatedCodec] {
        configuration.alternatives.isEmpty
            ? [LocalDescription.offeredCodec(codec, configuration.h264)]
            : LocalDescription.offeredCodecs([codec] + configuration.alternatives)
    }

    /// The payload types of our offer for the codecs of the answer, if it has others: the numbers in a description are those
    /// that its author receives (RFC 3264 5.1), so we send with the answer's, and the remote peer may send with ours.
    private func ownPayloadTypes(of answer: NegotiatedVideo) -> [NegotiatedCodec] {
        guard !isAnswerer, !configuration.offersEachDirection else { return [] }
        let taken = Set(answer.codecs.flatMap(\.payloadTypes))
        let kept = offeredCodecs.filter { taken.contains($0.payloadType) }.map(\.codec)
        return offeredCodecs.filter { own in
            taken.isDisjoint(with: own.payloadTypes) && !kept.contains(own.codec)
                && answer.codecs.contains { $0.codec == own.codec }
        }
    }

    /// Applies the answer to our offer. It may reject audio, but not video that we send.
    mutating func setRemoteAnswer(
        _ text: String, wants: (_ msid: String?) -> Bool = { _ in true }
    ) throws(PeerConnectionError) -> RemoteDescription {
        do throws(PeerConnectionError) {
            return try applyRemoteAnswer(text, wants)
        } catch {
            guard error.code == .rejected, codec == .h264, case .profile(let profile) = configuration.h264 else {
                throw error
            }
            throw PeerConnectionError(
                .profile,
                "the service does not take H.264 of the profile \(profile.name): encode the input as "
                    + "constrained-baseline, or decode it in front of the element")
        }
    }

    private mutating func applyRemoteAnswer(
        _ text: String, _ wants: (_ msid: String?) -> Bool
    ) throws(PeerConnectionError) -> RemoteDescription {
        guard signalingState == .haveLocalOffer else { throw Self.wrongState }
        let remote = try RemoteDescription(
            answer: text, to: transceivers.map(\.kind), configuration.h264,
            receivable: configuration.offersEachDirection ? configuration.receivableCodecs : nil,
            receivers: Set(transceivers.filter(isReceiver).map(\.mid)))
        if !isConnected { role = remote.transport.setup == "active" ? "passive" : "active" }
        guard restartsICE(remote) == isRestarting else {
            throw PeerConnectionError(
                .badDescription,
                isRestarting
                    ? "the remote peer does not restart ICE in its answer"
                    : "the remote peer restarts ICE in an answer to an offer that does not")
        }
        try checkTransport(remote)
        for index in transceivers.indices where !transceivers[index].isRefused {
            var negotiated = try negotiated(transceivers[index], at: index, of: remote)
            // A spare m-line is answered as if it carried a track.
            if isReceiver(transceivers[index]), !(remote.msid(at: index).map(wants) ?? false) {
                negotiated?.direction = .inactive
            }
            transceivers[index].negotiated = negotiated
            if negotiated == nil, transceivers[index].content == .media(.audio) { transceivers[index].isRefused = true }
        }
        // The attributes of the m-line that sends win.
        let all = (transceivers.filter { !isReceiver($0) } + transceivers.filter(isReceiver)).compactMap(\.negotiated)
        // Video that was negotiated before keeps its RTP session.
        if let negotiated = all.video { video = negotiated } else { video?.direction = .inactive }
        audio = all.audio
        signalingState = .stable
        transportBeforeRestart = nil
        sources = configuration.offersEachDirection ? sources(of: remote, wants) : OfferedSources()
        return remote
    }

    /// With `offersEachDirection`, an answer names the track of each m-line that carries one. Spare ones name none.
    private func sources(of remote: RemoteDescription, _ wants: (_ msid: String?) -> Bool) -> OfferedSources {
        OfferedSources(
            transceivers.indices.compactMap { index in
                guard isReceiver(transceivers[index]), let msid = remote.msid(at: index) else { return nil }
                let accepted = wants(msid) ? transceivers[index].negotiated : nil
                return (transceivers[index].kind, remote.namedSSRCs(at: index), accepted)
            })
    }

    /// The answer to one of our m-lines; nil: it was rejected, or carries no media.
    private func negotiated(
        _ line: Transceiver, at index: Int, of remote: RemoteDescription
    ) throws(PeerConnectionError) -> NegotiatedMedia? {
        switch line.content {
        case .application, .other: return nil
        case .media(.audio):
            guard var found = remote.audio(at: index, codecs: Set(configuration.audioCodecs)) else { return nil }
            found.direction = line.direction.limited(to: found.direction)
            // Opus alone is sent.
            if found.codec != .opus { found.direction = found.direction.limited(to: .recvonly) }
            return .audio(found)
        case .media(.video):
            let type = video?.codec.payloadType
            let offered = { (other: VideoCodec) in other == codec || configuration.alternatives.contains(other) }
            // Any answer is acceptable for an m-line that never sends.
            let found =
                line.role.sends
                ? try remote.video(at: index, preferring: type, available: offered)
                : try? remote.video(at: index, preferring: type, available: offered)
            guard var accepted = found else {
                guard !line.direction.sends else {
                    throw PeerConnectionError(.rejected, "the remote description has no video, or rejects it")
                }
                return nil
            }
            accepted.direction = line.direction.limited(to: accepted.direction)
            if configuration.alternatives.isEmpty, !isReceiver(line) { accepted.alternatives = [] }
            accepted.alternatives += ownPayloadTypes(of: accepted)
            let layers = line.role.sends && accepted.extensions.rid != nil ? configuration.simulcast : []
            (accepted.sentLayers, accepted.receivedLayers) = (layers.filter(accepted.sentLayers.contains), [])
            if isReceiver(line) {
                accepted.inbound = .init(
                    codec: accepted.codec, absoluteSendTime: accepted.extensions.absoluteSendTime)
            } else if configuration.offersEachDirection, line.direction == .inactive {
                // The layers are named once the m-line sends, but the RTP session is made now.
                accepted.sentLayers = layers
            }
            return .video(accepted)
        }
    }

    /// Rollback: no answer came, so the previous state holds and another offer may be created.
    mutating func rollbackOffer() {
        guard signalingState == .haveLocalOffer else { return }
        signalingState = .stable
        if let transportBeforeRestart { transport = transportBeforeRestart }
        transportBeforeRestart = nil
    }
}
