// The offer/answer state of one connection (RFC 8829): the signalling state, the m-lines, and the negotiated media. A
// value: it knows no agent, no pipeline and no thread.
//
// Either side may offer while no offer is in flight; a remote offer that arrives while ours is in flight is refused.
// m-lines are only added: an unwanted one becomes `inactive` and may be used again, and one that the remote peer
// rejected stays rejected. All m-lines share the transport of the first description.

import GStreamerKit

struct Negotiation: Sendable {
    private enum SignalingState { case new, haveLocalOffer, stable }
    /// An m-line of the session. It keeps its index in `lines`.
    private struct MediaSection {
        enum Content: Equatable {
            case media(MediaKind)
            case application
            case other(String)
        }
        var content: Content
        var mid: String
        /// The directions that it may be used for.
        var role: MediaDirection
        var direction = MediaDirection.inactive
        var isRefused = false

        var kind: String {
            switch content {
            case .media(let kind): kind.rawValue
            case .application: "application"
            case .other(let kind): kind
            }
        }
    }

    let identity: LocalIdentity
    let hasDataChannels: Bool
    /// Our offers have separate m-lines for sending and receiving, both of one RTP session. Our answers answer each
    /// m-line of such an offer.
    let unidirectionalSections: Bool
    /// Receive m-lines beyond the first one.
    private var extraReceiveSections: [MediaKind: Int] = [:]
    private static let maximumExtraReceiveSections = 15
    /// The mid that carries our media of each kind, or could carry it. For an answerer with `unidirectionalSections`.
    private(set) var sendMids: [MediaKind: String] = [:]
    /// RIDs of the simulcast layers that we offer, highest resolution first.
    let simulcast: [String]
    let acceptsSimulcast: Bool
    private let alternatives: [VideoCodec]
    private let offersAudioVideoData: Bool
    private let usableCodecs: Set<VideoCodec>?
    private let h264: H264Acceptance
    private let sdpSessionID = UInt64.random(in: 1...UInt64(Int64.max))
    /// Media of the next description.
    private(set) var desired: DesiredDirections
    private var codec: VideoCodec

    private var signalingState = SignalingState.new
    private var lines: [MediaSection] = []
    private var version: UInt32 = 1
    /// Our parameters in the first description; all later ones repeat them.
    private(set) var transport: TransportParameters?
    /// Our DTLS role in answers: active or passive.
    private var role = "active"
    /// The remote peer made the first offer: its payload types hold for the whole session.
    private var isAnswerer = false
    /// The remote peer's parameters in its latest description.
    private var remoteTransport: TransportParameters?
    /// Our parameters before the offer in flight, which restarts ICE; nil: none is in flight.
    private var transportBeforeRestart: TransportParameters?
    /// nil: video was never negotiated. Once negotiated it stays, if only `inactive`.
    private(set) var video: NegotiatedVideo?
    /// nil: audio was never negotiated, or the remote peer rejected it.
    private(set) var audio: NegotiatedAudio?

    init(identity: LocalIdentity, configuration: PeerConnectionConfiguration) {
        self.identity = identity
        desired = DesiredDirections(video: configuration.direction, audio: configuration.audio)
        codec = configuration.codec
        hasDataChannels = configuration.acceptsDataChannels
        alternatives = configuration.alternatives
        offersAudioVideoData = configuration.offersAudioVideoData
        unidirectionalSections = configuration.unidirectionalSections
        simulcast = configuration.simulcast
        acceptsSimulcast = configuration.acceptsSimulcast
        usableCodecs = configuration.usableCodecs
        h264 = configuration.h264
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
                (["video \(video.direction) \(codec.codec.encodingName)/\(codec.payloadType)"]
                + extensions).joined(separator: ", ")
        }
        let audio = audio.map { "audio \($0.direction) OPUS/\($0.payloadType)" }
        return "\(video ?? "no video"); \(audio ?? "no audio"); \(lines.count) m-lines"
    }

    static let wrongState = PeerConnectionError(
        .wrongState, "an offer is in flight, the connection only answers, or it is closed")

    private func isUsable(_ codec: VideoCodec) -> Bool { usableCodecs?.contains(codec) ?? codec.isAvailable }

    /// True after the first answer was applied or created.
    var isConnected: Bool { remoteTransport != nil }
    /// True while an offer that restarts ICE is in flight.
    var isRestarting: Bool { transportBeforeRestart != nil }

    /// Sets the media of the next description. The codec applies only while no video m-line exists.
    mutating func setDesired(_ media: DesiredDirections, codec: VideoCodec?) {
        desired = media
        if let codec, !lines.contains(where: { $0.content == .media(.video) }) { self.codec = codec }
    }

    /// Copies what `setDesired` and `addReceiveSections` may have set in `other` meanwhile.
    mutating func adoptDesired(from other: Negotiation) {
        setDesired(other.desired, codec: other.codec)
        extraReceiveSections = other.extraReceiveSections
    }

    mutating func addReceiveSections(_ count: [MediaKind: Int]) {
        for (kind, more) in count {
            let room = Self.maximumExtraReceiveSections - extraReceiveSections[kind, default: 0]
            extraReceiveSections[kind, default: 0] += min(max(more, 0), room)
        }
    }

    // MARK: Offering

    var mayOffer: Bool { signalingState != .haveLocalOffer }

    mutating func makeOffer(_ transport: TransportParameters) throws(PeerConnectionError) -> String {
        guard mayOffer else { throw Self.wrongState }
        if hasDataChannels, desired == DesiredDirections() { add(.application, .inactive) }
        // The m-line for sending comes first, even while nothing is sent: outgoing packets carry its mid from the
        // beginning.
        let roles: [MediaDirection] = unidirectionalSections ? [.sendonly, .recvonly] : [.sendrecv]
        for role in roles {
            for kind in offersAudioVideoData ? [.audio, .video] : MediaKind.allCases where desired[kind] != nil {
                if role == .sendrecv, lines.contains(where: { $0.content == .media(kind) }) { continue }
                add(.media(kind), role, count: role == .recvonly ? 1 + extraReceiveSections[kind, default: 0] : 1)
            }
        }
        if offersAudioVideoData { add(.application, .inactive) }
        guard !lines.isEmpty else { throw PeerConnectionError(.wrongState, "there is nothing to offer") }
        for index in lines.indices {
            guard case .media(let kind) = lines[index].content else { continue }
            lines[index].direction = (desired[kind] ?? .inactive).limited(to: lines[index].role)
        }
        signalingState = .haveLocalOffer
        var transport = transport
        // RFC 8842 5.5: an offer says actpass, even if the DTLS roles are fixed already.
        transport.setup = "actpass"
        return describe(lines.map(described), transport)
    }

    /// Makes an offer that restarts ICE (RFC 8839 §4.4.1.1.1): all stays but our credentials.
    mutating func makeRestartOffer(_ transport: TransportParameters) throws(PeerConnectionError) -> String {
        guard isConnected, let before = self.transport else { throw Self.wrongState }
        let text = try makeOffer(transport)
        transportBeforeRestart = before
        return text
    }

    /// Sends media of this kind on a new m-line from the next offer on.
    mutating func moveOutput(_ kind: MediaKind) {
        for index in lines.indices where lines[index].content == .media(kind) {
            lines[index].role = lines[index].role.limited(to: .recvonly)
        }
        append(.media(kind), .sendonly)
    }

    private mutating func add(_ content: MediaSection.Content, _ role: MediaDirection, count: Int = 1) {
        let missing = count - lines.count { $0.content == content && $0.role == role }
        for _ in 0..<max(missing, 0) { append(content, role) }
    }

    private mutating func append(_ content: MediaSection.Content, _ role: MediaDirection) {
        // The remote peer chose the mids of the m-lines that it added; avoid a duplicate.
        let names = Set(lines.map(\.mid))
        let mid = (lines.count...).lazy.map(String.init).first { !names.contains($0) } ?? ""
        lines.append(MediaSection(content: content, mid: mid, role: role))
    }

    private func described(_ line: MediaSection) -> LocalDescription.Line {
        guard !line.isRefused else { return .refused(kind: line.kind, mid: line.mid) }
        switch line.content {
        case .application:
            return .application(mid: line.mid)
        case .other(let kind):
            return .refused(kind: kind, mid: line.mid)
        case .media(.video):
            if var video, isAnswerer {
                (video.mid, video.direction, video.receivedLayers) = (line.mid, line.direction, [])
                return .video(answered(video))
            }
            let layers = line.role.sends ? simulcast : []
            var codecs = [LocalDescription.offeredCodec(codec, h264)]
            if !alternatives.isEmpty { codecs = LocalDescription.offeredCodecs([codec] + alternatives) }
            return .video(
                LocalDescription.Video(
                    mid: line.mid, codec: codecs[0], alternatives: Array(codecs.dropFirst()),
                    extensions: layers.isEmpty
                        ? LocalDescription.offeredExtensions : LocalDescription.offeredSimulcastExtensions,
                    direction: line.direction, sentLayers: layers))
        case .media(.audio):
            if var audio, isAnswerer {
                (audio.mid, audio.direction) = (line.mid, line.direction)
                return .audio(answered(audio))
            }
            return .audio(
                LocalDescription.Audio(
                    mid: line.mid, payloadType: LocalDescription.offeredAudioPayloadType,
                    extensions: LocalDescription.offeredAudioExtensions, direction: line.direction))
        }
    }

    /// Applies the answer to our offer. It may reject audio, but not video that we send.
    /// - Parameter wants: Selects the tracks to receive on receive-only m-lines.
    mutating func setRemoteAnswer(
        _ text: String, wants: (_ mid: String, _ msid: String?) -> Bool = { _, _ in true }
    ) throws(PeerConnectionError) -> RemoteDescription {
        do throws(PeerConnectionError) {
            return try applyRemoteAnswer(text, wants: wants)
        } catch {
            guard error.code == .rejected, codec == .h264, case .profile(let profile) = h264 else { throw error }
            throw PeerConnectionError(
                .profile,
                "the service does not take H.264 of the profile \(profile.name): encode the input as "
                    + "constrained-baseline, or decode it in front of the element")
        }
    }

    private mutating func applyRemoteAnswer(
        _ text: String, wants: (_ mid: String, _ msid: String?) -> Bool
    ) throws(PeerConnectionError) -> RemoteDescription {
        guard signalingState == .haveLocalOffer else { throw Self.wrongState }
        let remote = try RemoteDescription(answer: text, to: lines.map(\.kind), h264)
        if !isConnected { role = remote.transport.setup == "active" ? "passive" : "active" }
        guard restartsICE(remote) == isRestarting else {
            throw PeerConnectionError(
                .badDescription,
                isRestarting
                    ? "the remote peer does not restart ICE in its answer"
                    : "the remote peer restarts ICE in an answer to an offer that does not")
        }
        try checkTransport(remote)
        var (negotiatedVideo, negotiatedAudio): (NegotiatedVideo?, NegotiatedAudio?)
        func negotiatedDirection(_ line: MediaSection, _ remoteDirection: MediaDirection, _ msid: String?)
            -> MediaDirection
        {
            if line.role == .recvonly, !wants(line.mid, msid) { return .inactive }
            return line.direction.limited(to: remoteDirection.reversed)
        }
        for (index, line) in lines.enumerated() where !line.isRefused {
            switch line.content {
            case .application, .other: break
            case .media(.video):
                let type = video?.codec.payloadType
                let offered = { (other: VideoCodec) in other == codec || alternatives.contains(other) }
                // Any answer is acceptable for an m-line that never sends.
                let found =
                    line.role.sends
                    ? try remote.video(at: index, preferring: type, available: offered)
                    : try? remote.video(at: index, preferring: type, available: offered)
                if let found {
                    negotiatedVideo = NegotiatedVideo(
                        found, negotiatedDirection(line, found.direction, found.msid), beside: negotiatedVideo)
                    if !alternatives.isEmpty { negotiatedVideo?.alternatives = found.alternatives }
                    if line.role.sends, found.extensions.rid != nil {
                        negotiatedVideo?.sentLayers = simulcast.filter(found.receivedLayers.contains)
                    }
                } else if line.direction.sends {
                    throw PeerConnectionError(.rejected, "the remote description has no video, or rejects it")
                }
            case .media(.audio):
                if let found = remote.audio(at: index) {
                    negotiatedAudio = NegotiatedAudio(
                        found, negotiatedDirection(line, found.direction, found.msid), beside: negotiatedAudio)
                } else {
                    lines[index].isRefused = true
                }
            }
        }
        // Video that was negotiated before keeps its RTP session.
        if let negotiatedVideo { video = negotiatedVideo } else { video?.direction = .inactive }
        audio = negotiatedAudio
        signalingState = .stable
        transportBeforeRestart = nil
        return remote
    }

    /// Rollback: no answer came, so the previous state holds and another offer may be created.
    mutating func rollbackOffer() {
        guard signalingState == .haveLocalOffer else { return }
        signalingState = .stable
        if let transportBeforeRestart { transport = transportBeforeRestart }
        transportBeforeRestart = nil
    }

    // MARK: Answering

    var mayAnswer: Bool { signalingState != .haveLocalOffer }

    func parseRemoteOffer(_ text: String, wants: (_ msid: String?) -> Bool) throws(PeerConnectionError)
        -> RemoteDescription
    {
        guard mayAnswer else { throw Self.wrongState }
        var choice = RemoteDescription.Choice()
        choice.requiresVideo = !hasDataChannels
        choice.takesAudio = desired.audio != nil || audio != nil
        choice.onlySending = !(desired.video ?? .inactive).sends
        choice.taken = Set([video?.mid, audio?.mid].compactMap { $0 })
        choice.videoPayloadType = video?.codec.payloadType
        choice.mayHoldNothing = isConnected
        choice.h264 = h264.ofOffers
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
        var transport = transport
        transport.setup = role
        if unidirectionalSections { return describe(answersToEach(remote), transport) }
        var answers = try answersToVideo(remote)
        answers.merge(answersToAudio(remote)) { video, _ in video }
        signalingState = .stable
        for index in remote.kinds.indices where answers[index] == nil {
            let (kind, mid) = (remote.kinds[index], remote.mids[index])
            if kind == "application", hasDataChannels { answers[index] = .application(mid: mid) }
        }
        keepSections(of: remote, taken: Set(answers.keys))
        let lines = remote.kinds.indices.map {
            answers[$0] ?? .refused(kind: remote.kinds[$0], mid: remote.mids[$0])
        }
        return describe(lines, transport)
    }

    /// Our video stays on the m-line that was negotiated first. Video is received from one m-line; others that were
    /// accepted before stay accepted, so that they can be used again.
    private mutating func answersToVideo(
        _ remote: RemoteDescription
    ) throws(PeerConnectionError) -> [Int: LocalDescription.Line] {
        let chosen = remote.video
        func isOurs(_ found: RemoteVideo) -> Bool {
            video.map { $0.codec.codec == found.codec.codec && $0.codec.payloadType == found.codec.payloadType } ?? true
        }
        if let chosen, !isOurs(chosen) {
            throw PeerConnectionError(.badDescription, "the remote description changes the mid of the video")
        }
        let before = Set(lines.filter { $0.content == .media(.video) }.map(\.mid))
        let sending = video.flatMap { remote.mids.contains($0.mid) ? $0.mid : nil } ?? chosen?.mid
        var (negotiatedVideo, layers): (NegotiatedVideo?, [String]) = (nil, [])
        var answers: [Int: LocalDescription.Line] = [:]
        for index in remote.kinds.indices where remote.kinds[index] == MediaKind.video.rawValue {
            let isChosen = index == chosen?.mediaIndex
            let type = video?.codec.payloadType
            let other =
                !isChosen && before.contains(remote.mids[index])
                ? try? remote.video(at: index, preferring: type, available: isUsable) : nil
            guard let found = isChosen ? chosen : other, isOurs(found) else { continue }
            var allowed = desired.video ?? .inactive
            if found.mid != sending { allowed = allowed.limited(to: .recvonly) }
            if !isChosen { allowed = allowed.limited(to: .sendonly) }
            var line = NegotiatedVideo(found, found.direction.reversed.limited(to: allowed))
            if acceptsSimulcast, found.extensions.rid != nil { line.receivedLayers = found.sentLayers }
            if isChosen { layers = line.receivedLayers }
            answers[index] = .video(answered(line))
            negotiatedVideo = NegotiatedVideo(found, line.direction, beside: negotiatedVideo)
        }
        negotiatedVideo?.receivedLayers = layers
        if isAnswerer, let negotiatedVideo { codec = negotiatedVideo.codec.codec }
        if let negotiatedVideo { video = negotiatedVideo } else { video?.direction = .inactive }
        return answers
    }

    private mutating func answersToAudio(_ remote: RemoteDescription) -> [Int: LocalDescription.Line] {
        let sendsAudio = (desired.audio ?? .inactive).sends
        // The RTP session has one payload type and sends with one mid.
        if let found = remote.audio,
            audio.map({ $0.payloadType == found.payloadType && ($0.mid == found.mid || !sendsAudio) }) ?? true
        {
            let negotiated = NegotiatedAudio(found, found.direction.reversed.limited(to: desired.audio ?? .inactive))
            audio = negotiated
            return [found.mediaIndex: .audio(answered(negotiated))]
        }
        audio?.direction = .inactive
        // Keep an m-line that was accepted before: audio may resume.
        guard let audio, let index = remote.mids.firstIndex(of: audio.mid),
            remote.kinds[index] == MediaKind.audio.rawValue
        else { return [:] }
        return [index: .audio(answered(audio))]
    }

    /// Adopts the m-lines of the remote offer for our later offers. Our media never uses those that we rejected: if we
    /// want media of that kind later, it gets a new m-line.
    private mutating func keepSections(of remote: RemoteDescription, taken: Set<Int>) {
        lines = zip(remote.kinds, remote.mids).enumerated().map { index, line in
            let (kind, mid) = line
            let isTaken = taken.contains(index)
            if var kept = lines.first(where: { $0.mid == mid && $0.kind == kind && $0.content != .other(kind) }) {
                kept.isRefused = !isTaken
                return kept
            }
            let content: MediaSection.Content =
                if isTaken { MediaKind(rawValue: kind).map(MediaSection.Content.media) ?? .application } else {
                    .other(kind)
                }
            let role: MediaDirection = content == .media(.video) && mid != video?.mid ? .recvonly : .sendrecv
            return MediaSection(content: content, mid: mid, role: role, isRefused: !isTaken)
        }
    }

    /// Answers each m-line of an offer with separate m-lines for each direction. Our media of each kind goes on the
    /// first m-line that the remote peer receives on.
    private mutating func answersToEach(_ remote: RemoteDescription) -> [LocalDescription.Line] {
        var (negotiatedVideo, negotiatedAudio): (NegotiatedVideo?, NegotiatedAudio?)
        var answers: [Int: LocalDescription.Line] = [:]
        sendMids = [:]
        func direction(_ kind: MediaKind, _ mid: String, _ remoteDirection: MediaDirection) -> MediaDirection {
            if remoteDirection.receives, sendMids[kind] == nil { sendMids[kind] = mid }
            let allowed: MediaDirection = sendMids[kind] == mid ? .sendrecv : .recvonly
            return remoteDirection.reversed.limited(to: allowed).limited(to: desired[kind] ?? .inactive)
        }
        // M-lines that could carry our media come first, because the negotiated result takes the mid of the first one.
        let all = remote.kinds.indices
        // Each kind has one RTP session with one payload type: the negotiated one, else that of the first m-line that
        // the remote peer sends on.
        let coming = all.first { remote.kinds[$0] == "video" && remote.direction(at: $0).sends }
        let type =
            video?.codec.payloadType
            ?? coming.flatMap { try? remote.video(at: $0, available: isUsable) }?.codec.payloadType
        for index in all.filter({ remote.direction(at: $0).receives })
            + all.filter({ !remote.direction(at: $0).receives })
        {
            switch MediaKind(rawValue: remote.kinds[index]) {
            case .video:
                guard let found = try? remote.video(at: index, preferring: type, available: isUsable),
                    (type ?? negotiatedVideo?.codec.payloadType).map({ $0 == found.codec.payloadType }) ?? true
                else { continue }
                var line = NegotiatedVideo(found, direction(.video, found.mid, found.direction))
                if acceptsSimulcast, found.extensions.rid != nil { line.receivedLayers = found.sentLayers }
                answers[index] = .video(answered(line))
                var all = NegotiatedVideo(found, line.direction, beside: negotiatedVideo)
                all.receivedLayers = (negotiatedVideo?.receivedLayers ?? []) + line.receivedLayers
                if !line.receivedLayers.isEmpty {
                    (all.extensions.rid, all.extensions.repairedRID) = (
                        found.extensions.rid, found.extensions.repairedRID
                    )
                }
                negotiatedVideo = all
            case .audio:
                guard let found = remote.audio(at: index),
                    (negotiatedAudio ?? audio).map({ $0.payloadType == found.payloadType }) ?? true
                else { continue }
                let line = NegotiatedAudio(found, direction(.audio, found.mid, found.direction))
                answers[index] = .audio(answered(line))
                negotiatedAudio = NegotiatedAudio(found, line.direction, beside: negotiatedAudio)
            case nil: break
            }
        }
        if let negotiatedVideo, video != nil || negotiatedVideo.direction != .inactive {
            video = negotiatedVideo
        } else {
            video?.direction = .inactive
        }
        if let negotiatedAudio { audio = negotiatedAudio } else { audio?.direction = .inactive }
        signalingState = .stable
        return all.map { index in
            let (kind, mid) = (remote.kinds[index], remote.mids[index])
            return answers[index]
                ?? (kind == "application" && hasDataChannels ? .application(mid: mid) : .refused(kind: kind, mid: mid))
        }
    }

    private func answered(_ video: NegotiatedVideo) -> LocalDescription.Video {
        var codec = video.codec
        codec.feedback.formIntersection(LocalDescription.offeredFeedback)
        // Another profile than our own goes back as it was offered.
        if codec.codec == .h264, h264 == .baseline { codec.formatParameters = codec.codec.formatParameters(h264) }
        return LocalDescription.Video(
            mid: video.mid, codec: codec, extensions: video.extensions, direction: video.direction,
            receivedLayers: video.receivedLayers)
    }

    private func answered(_ audio: NegotiatedAudio) -> LocalDescription.Audio {
        LocalDescription.Audio(
            mid: audio.mid, payloadType: audio.payloadType, extensions: audio.extensions, direction: audio.direction)
    }

    // MARK: Offers and answers

    /// True if the remote peer's credentials differ from those of its previous description.
    func restartsICE(_ remote: RemoteDescription) -> Bool {
        guard let before = remoteTransport else { return false }
        return (before.usernameFragment, before.password)
            != (remote.transport.usernameFragment, remote.transport.password)
    }

    /// Throws if another certificate comes with new ICE credentials: the DTLS association outlives a restart.
    private mutating func checkTransport(_ remote: RemoteDescription) throws(PeerConnectionError) {
        if let before = remoteTransport, restartsICE(remote),
            !remote.transport.fingerprints.contains(where: before.fingerprints.contains)
        {
            throw PeerConnectionError(.badDescription, "the remote peer changes its certificate while it restarts ICE")
        }
        remoteTransport = remote.transport
    }

    private mutating func describe(_ lines: [LocalDescription.Line], _ transport: TransportParameters) -> String {
        self.transport = transport
        version &+= 1
        return LocalDescription(lines: lines, transport: transport, identity: identity).sdp()
            .text(sessionID: sdpSessionID, version: version)
    }
}
