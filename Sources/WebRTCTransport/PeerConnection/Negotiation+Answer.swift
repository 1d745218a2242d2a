// Answers of ours to offers of the remote peer.
import GStreamerKit
import RTP

extension Negotiation {
    func parseRemoteOffer(_ text: String, wants: (_ msid: String?) -> Bool) throws(PeerConnectionError)
        -> RemoteDescription
    {
        guard signalingState == .stable else { throw Self.wrongState }
        var choice = RemoteDescription.Choice()
        choice.requiresVideo = !configuration.acceptsDataChannels
        choice.takesAudio = desired.audio != nil || audio != nil
        choice.onlySending = !(desired.video ?? .inactive).sends
        choice.taken = Set([video?.mid, audio?.mid].compactMap { $0 })
        choice.videoPayloadType = video?.codec.payloadType
        choice.mayHoldNothing = isConnected
        choice.h264 = configuration.h264.ofOffers
        choice.receivable = configuration.receivableCodecs
        choice.sendingMid = video?.mid
        // What we offered first stays as it is, because we may send on it again.
        choice.remedy = { VideoCodec.decoderPackages(ofEncodings: $0) }
        choice.neverSends = choice.onlySending && (isAnswerer || video == nil)
        return try RemoteDescription(parsing: text, isOffer: true, choice: choice, wants: wants) { isUsable($0) }
    }

    /// Creates our answer to an offer. It accepts one video m-line to receive, one Opus audio and, if allowed, data
    /// channels; new m-lines beyond these are rejected. Video may move to another m-line, for example if its track was
    /// published again, but not to another codec. Changed ICE credentials restart ICE; see `restartsICE`.
    mutating func answer(
        _ remote: RemoteDescription, _ transport: TransportParameters
    ) throws(PeerConnectionError) -> String {
        if !isConnected { (isAnswerer, role) = (true, transport.setup) }
        try checkTransport(remote)
        let accepted = try configuration.answersEachSection ? acceptEach(remote) : acceptOneOfEachKind(remote)
        signalingState = .stable
        transceivers = remote.kinds.indices.map { transceiver(at: $0, of: remote, accepted[$0]) }
        sources = OfferedSources(
            remote.kinds.indices.map { (remote.kinds[$0], remote.namedSSRCs(at: $0), accepted[$0]) })
        var writer = LocalDescription(transport: transport, identity: identity)
        writer.transport.setup = role
        return describe(
            transceivers.indices.map { answered(transceivers[$0], writer, remote.maximumMessageSize(at: $0)) }, writer,
            mixesExtensionHeaders: remote.mixesExtensionHeaders)
    }

    /// The transceiver of an m-line of the remote offer, for our answer and our later offers. Our media never uses an
    /// m-line that we rejected: if we want media of that kind later, it gets a new one.
    private func transceiver(at index: Int, of remote: RemoteDescription, _ accepted: NegotiatedMedia?) -> Transceiver {
        let (kind, mid) = (remote.kinds[index], remote.mids[index])
        let isTaken = accepted != nil || kind == "application" && configuration.acceptsDataChannels
        var line: Transceiver
        if let kept = transceivers.first(where: { $0.mid == mid && $0.kind == kind && $0.content != .other(kind) }) {
            line = kept
        } else {
            let content: Transceiver.Content =
                isTaken ? MediaKind(rawValue: kind).map { .media($0) } ?? .application : .other(kind)
            let role: MediaDirection = content == .media(.video) && mid != video?.mid ? .recvonly : .sendrecv
            line = Transceiver(content: content, mid: mid, role: role)
        }
        (line.isRefused, line.negotiated) = (!isTaken, accepted)
        return line
    }

    /// Our part of an m-line in an answer.
    private func answered(_ line: Transceiver, _ writer: LocalDescription, _ maximumMessageSize: UInt64?) -> SDPMedia {
        guard !line.isRefused else { return LocalDescription.refused(kind: line.kind, mid: line.mid) }
        return switch line.negotiated {
        case .video(let video): writer.media(answered(video))
        case .audio(let audio): writer.media(audio)
        case nil: writer.application(mid: line.mid, maximumMessageSize: maximumMessageSize)
        }
    }

    // MARK: One m-line of each kind

    private mutating func acceptOneOfEachKind(
        _ remote: RemoteDescription
    ) throws(PeerConnectionError) -> [Int: NegotiatedMedia] {
        var accepted = try acceptVideo(remote).mapValues(NegotiatedMedia.video)
        if let (index, audio) = acceptAudio(remote) { accepted[index] = .audio(audio) }
        return accepted
    }

    /// Our video stays on the m-line that was negotiated first. Video is received from one m-line; others that were
    /// accepted before stay accepted, so that they can be used again.
    private mutating func acceptVideo(
        _ remote: RemoteDescription
    ) throws(PeerConnectionError) -> [Int: NegotiatedVideo] {
        let chosen = remote.video
        func isOurs(_ found: NegotiatedVideo) -> Bool {
            found.receivesOnly
                || video.map { $0.codec.codec == found.codec.codec && $0.codec.payloadType == found.codec.payloadType }
                    ?? true
        }
        if let chosen, !isOurs(chosen) {
            throw PeerConnectionError(.badDescription, "the remote description changes the mid of the video")
        }
        let before = Set(transceivers.filter { $0.content == .media(.video) }.map(\.mid))
        let sending = video.flatMap { remote.mids.contains($0.mid) ? $0.mid : nil } ?? chosen?.mid
        var accepted: [Int: NegotiatedVideo] = [:]
        for index in remote.kinds.indices where remote.kinds[index] == MediaKind.video.rawValue {
            let isChosen = index == remote.videoIndex
            let type = video?.codec.payloadType
            let other =
                !isChosen && before.contains(remote.mids[index])
                ? try? remote.video(at: index, preferring: type, available: isUsable) : nil
            guard let found = isChosen ? chosen : other, isOurs(found) else { continue }
            var allowed = desired.video ?? .inactive
            if found.mid != sending { allowed = allowed.limited(to: .recvonly) }
            if !isChosen { allowed = allowed.limited(to: .sendonly) }
            accepted[index] = accept(found, found.direction.limited(to: allowed))
        }
        separatePayloadTypes(&accepted, first: remote.videoIndex)
        var whole = remote.kinds.indices.compactMap { accepted[$0].map(NegotiatedMedia.video) }.video
        whole?.receivedLayers = remote.videoIndex.flatMap { accepted[$0]?.receivedLayers } ?? []
        if isAnswerer, let whole { codec = whole.codec.codec }
        if let whole { video = whole } else { video?.direction = .inactive }
        return accepted
    }

    private func accept(_ found: NegotiatedVideo, _ direction: MediaDirection) -> NegotiatedVideo {
        var video = found
        (video.direction, video.sentLayers) = (direction, [])
        if !found.receivesOnly { video.alternatives = [] }
        if !configuration.acceptsSimulcast || found.extensions.rid == nil { video.receivedLayers = [] }
        return video
    }

    /// A payload type means one codec in the whole bundle (RFC 8843 10.1.2). Drops the codecs of a receiving m-line whose
    /// payload types mean others elsewhere, and the m-line if it has no further one.
    /// - Parameter first: the m-line whose meanings hold.
    private func separatePayloadTypes(_ accepted: inout [Int: NegotiatedVideo], first: Int?) {
        var meanings: [Int: String] = [:]
        func take(_ codec: NegotiatedCodec) -> Bool {
            let text = "\(codec.codec) \(codec.formatParameters ?? "")"
            let own =
                [(codec.payloadType, text)] + (codec.retransmissionPayloadType.map { [($0, "rtx \(text)")] } ?? [])
            guard own.allSatisfy({ meanings[$0.0] ?? $0.1 == $0.1 }) else { return false }
            for (type, text) in own { meanings[type] = text }
            return true
        }
        let sending = accepted.keys.filter { !(accepted[$0]?.receivesOnly ?? true) }.sorted()
        for index in sending { if let video = accepted[index] { _ = take(video.codec) } }
        let receiving = accepted.keys.filter { accepted[$0]?.receivesOnly ?? false }
        for index in receiving.sorted(by: { ($0 != first ? 1 : 0, $0) < ($1 != first ? 1 : 0, $1) }) {
            var codecs = (accepted[index]?.codecs ?? []).filter(take)
            guard !codecs.isEmpty else {
                accepted[index] = nil
                continue
            }
            accepted[index]?.codec = codecs.removeFirst()
            accepted[index]?.alternatives = codecs
        }
    }

    private mutating func acceptAudio(_ remote: RemoteDescription) -> (index: Int, audio: NegotiatedAudio)? {
        let sendsAudio = (desired.audio ?? .inactive).sends
        // The RTP session has one payload type and sends with one mid.
        if var found = remote.audio, let index = remote.audioIndex,
            audio.map({ $0.payloadType == found.payloadType && ($0.mid == found.mid || !sendsAudio) }) ?? true
        {
            found.direction = found.direction.limited(to: desired.audio ?? .inactive)
            audio = found
            return (index, found)
        }
        audio?.direction = .inactive
        // Keep an m-line that was accepted before: audio may resume.
        guard let audio, let index = remote.mids.firstIndex(of: audio.mid),
            remote.kinds[index] == MediaKind.audio.rawValue
        else { return nil }
        return (index, audio)
    }

    // MARK: Separate m-lines for each direction

    /// Accepts each m-line. Our media of each kind goes on the first m-line that the remote peer receives on.
    private mutating func acceptEach(_ remote: RemoteDescription) -> [Int: NegotiatedMedia] {
        sendMids = [:]
        // Each kind has one RTP session with one payload type: the negotiated one, else that of the first m-line that
        // the remote peer sends on.
        let indices = remote.kinds.indices
        let coming = indices.first { remote.kinds[$0] == "video" && remote.direction(at: $0).sends }
        var types = (video: video?.codec.payloadType, audio: audio?.payloadType)
        if types.video == nil, let coming {
            types.video = (try? remote.video(at: coming, available: isUsable))?.codec.payloadType
        }
        let preferred = types.video
        // M-lines that could carry our media come first, because the negotiated result takes the mid of the first one.
        let inOrder =
            indices.filter { remote.direction(at: $0).receives } + indices.filter { !remote.direction(at: $0).receives }
        var accepted: [(index: Int, media: NegotiatedMedia)] = []
        for index in inOrder {
            switch MediaKind(rawValue: remote.kinds[index]) {
            case .video:
                guard let found = try? remote.video(at: index, preferring: preferred, available: isUsable),
                    found.codec.payloadType == types.video ?? found.codec.payloadType
                else { continue }
                types.video = found.codec.payloadType
                let direction = direction(.video, found.mid, found.direction)
                accepted.append((index, .video(accept(found, direction))))
            case .audio:
                guard var found = remote.audio(at: index), found.payloadType == types.audio ?? found.payloadType
                else { continue }
                types.audio = found.payloadType
                found.direction = direction(.audio, found.mid, found.direction)
                accepted.append((index, .audio(found)))
            case nil: break
            }
        }
        adopt(accepted.map(\.media))
        return Dictionary(uniqueKeysWithValues: accepted.map { ($0.index, $0.media) })
    }

    /// Our direction on an m-line of its own.
    private mutating func direction(
        _ kind: MediaKind, _ mid: String, _ permitted: MediaDirection
    ) -> MediaDirection {
        if permitted.sends, sendMids[kind] == nil { sendMids[kind] = mid }
        let allowed: MediaDirection = sendMids[kind] == mid ? .sendrecv : .recvonly
        return permitted.limited(to: allowed).limited(to: desired[kind] ?? .inactive)
    }

    private mutating func adopt(_ media: [NegotiatedMedia]) {
        if let whole = media.video, video != nil || whole.direction != .inactive {
            video = whole
        } else {
            video?.direction = .inactive
        }
        if let whole = media.audio { audio = whole } else { audio?.direction = .inactive }
    }
}
