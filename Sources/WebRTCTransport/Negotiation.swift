// Offers and answers of one connection (RFC 8829): whose turn it is, which m-lines there are, and what came of them. A
// value: it knows no agent, no pipeline and no thread.
//
// The side that offered first goes on offering. m-lines only become more: one that is not wanted any more is `inactive`
// and may come back, and one that the far side refused stays refused. All share the transport of the first description.

import GStreamerKit

/// What both sides want of the video; `direction` is ours.
package struct AgreedVideo: Sendable {
    var mid: String
    var codec: NegotiatedCodec
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    /// The far side's, where it declares them.
    var ssrcs: [UInt32]
    /// Of a simulcast, by rid, the best one first; empty: one stream.
    var sentLayers: [String] = []
    var receivedLayers: [String] = []

    /// - Parameter other: of another m-line of the same session, where sending and receiving have one each.
    package init(_ remote: RemoteVideo, _ direction: MediaDirection, beside other: AgreedVideo? = nil) {
        (mid, codec, extensions) = (remote.mid, remote.codec, remote.extensions)
        if !codec.usesTransportCC { extensions.transportWideCC = nil }
        // The first is the one that sends.
        if let other {
            (mid, codec, extensions, sentLayers) = (other.mid, other.codec, other.extensions, other.sentLayers)
        }
        ssrcs = (other?.ssrcs ?? []) + remote.ssrcs
        self.direction = direction.united(with: other?.direction ?? .inactive)
    }
}

package struct AgreedAudio: Sendable {
    var mid: String
    var payloadType: Int
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    var ssrcs: [UInt32]

    /// As of the video.
    package init(_ remote: RemoteAudio, _ direction: MediaDirection, beside other: AgreedAudio? = nil) {
        (mid, payloadType, extensions) = (remote.mid, remote.payloadType, remote.extensions)
        if let other { (mid, payloadType, extensions) = (other.mid, other.payloadType, other.extensions) }
        ssrcs = (other?.ssrcs ?? []) + remote.ssrcs
        self.direction = direction.united(with: other?.direction ?? .inactive)
    }
}

struct Negotiation: Sendable {
    private enum Step { case new, offered, settled, answered }
    /// One of our offers' m-lines, at the place in the list that it keeps.
    private struct Line {
        enum Content: Equatable { case media(MediaKind), application }
        var content: Content
        var mid: String
        /// What it may be used for.
        var role: MediaDirection
        var direction = MediaDirection.inactive
        var isRefused = false

        var kind: String {
            switch content {
            case .media(let kind): kind.rawValue
            case .application: "application"
            }
        }
    }

    let identity: LocalIdentity
    let hasDataChannels: Bool
    /// Our offers have m-lines of their own for sending and for receiving; both are of one RTP session. Our answers answer
    /// each line of such an offer.
    let separatesDirections: Bool
    /// So many more for receiving.
    private var furtherLines: [MediaKind: Int] = [:]
    private static let mostFurtherLines = 15
    /// Of an answerer with `separatesDirections`: the line of each kind that ours goes on, or could.
    private(set) var takers: [MediaKind: String] = [:]
    /// Streams of a simulcast that our offers hold, by rid, the best one first.
    let simulcast: [String]
    let acceptsSimulcast: Bool
    private let sdpSessionID = UInt64.random(in: 1...UInt64(Int64.max))
    /// What the next description holds.
    private(set) var wanted: WantedMedia
    private var codec: VideoCodec

    private var step = Step.new
    private var lines: [Line] = []
    private var version: UInt32 = 1
    /// Ours, as the first description says; all later ones say the same.
    private(set) var transport: TransportParameters?
    private var remoteUsernameFragment: String?
    /// nil: none was ever agreed upon. What was stays, if only `inactive`.
    private(set) var video: AgreedVideo?
    /// nil: none was ever agreed upon, or the far side refuses it.
    private(set) var audio: AgreedAudio?

    init(identity: LocalIdentity, configuration: PeerConnectionConfiguration) {
        self.identity = identity
        wanted = WantedMedia(video: configuration.direction, audio: configuration.audio)
        codec = configuration.codec
        hasDataChannels = configuration.acceptsDataChannels
        separatesDirections = configuration.separatesDirections
        simulcast = configuration.simulcast
        acceptsSimulcast = configuration.acceptsSimulcast
    }

    static let wrongState = PeerConnectionError(
        .wrongState, "a connection makes one offer at a time, or answers only, and nothing after it is closed")

    /// A first answer was taken or given.
    var isConnected: Bool { remoteUsernameFragment != nil }

    /// What the next description holds; the codec is that of the first video that is offered.
    mutating func want(_ media: WantedMedia, codec: VideoCodec?) {
        wanted = media
        if let codec, !lines.contains(where: { $0.content == .media(.video) }) { self.codec = codec }
    }

    /// As `want` of the other has it, which may have been called meanwhile.
    mutating func want(as other: Negotiation) {
        want(other.wanted, codec: other.codec)
        furtherLines = other.furtherLines
    }

    mutating func addLines(_ count: [MediaKind: Int]) {
        for (kind, more) in count {
            let room = Self.mostFurtherLines - furtherLines[kind, default: 0]
            furtherLines[kind, default: 0] += min(max(more, 0), room)
        }
    }

    // MARK: Offering

    var mayOffer: Bool { step == .new || step == .settled }

    mutating func makeOffer(_ transport: TransportParameters) throws(PeerConnectionError) -> String {
        guard mayOffer else { throw Self.wrongState }
        if hasDataChannels, wanted == WantedMedia() { add(.application, .inactive) }
        // The line to send on comes first, also while nothing is sent: packets go out under its name from the beginning.
        let roles: [MediaDirection] = separatesDirections ? [.sendonly, .recvonly] : [.sendrecv]
        for role in roles {
            for kind in MediaKind.allCases where wanted[kind] != nil {
                add(.media(kind), role, count: role == .recvonly ? 1 + furtherLines[kind, default: 0] : 1)
            }
        }
        guard !lines.isEmpty else { throw PeerConnectionError(.wrongState, "there is nothing to offer") }
        for index in lines.indices {
            guard case .media(let kind) = lines[index].content else { continue }
            lines[index].direction = (wanted[kind] ?? .inactive).limited(to: lines[index].role)
        }
        step = .offered
        return describe(lines.map(described), transport)
    }

    private mutating func add(_ content: Line.Content, _ role: MediaDirection, count: Int = 1) {
        let missing = count - lines.count { $0.content == content && $0.role == role }
        for _ in 0..<max(missing, 0) { lines.append(Line(content: content, mid: String(lines.count), role: role)) }
    }

    private func described(_ line: Line) -> LocalDescription.Line {
        guard !line.isRefused else { return .refused(kind: line.kind, mid: line.mid) }
        switch line.content {
        case .application:
            return .application(mid: line.mid)
        case .media(.video):
            let layers = line.role.sends ? simulcast : []
            return .video(
                LocalDescription.Video(
                    mid: line.mid, codec: LocalDescription.offeredCodec(codec),
                    extensions: layers.isEmpty
                        ? LocalDescription.offeredExtensions : LocalDescription.offeredSimulcastExtensions,
                    direction: line.direction, sentLayers: layers))
        case .media(.audio):
            return .audio(
                LocalDescription.Audio(
                    mid: line.mid, payloadType: LocalDescription.offeredAudioPayloadType,
                    extensions: LocalDescription.offeredAudioExtensions, direction: line.direction))
        }
    }

    /// The answer to our offer. Sound may be refused, a picture that we offer may not.
    /// - Parameter wants: what may come on a line that is for nothing else.
    mutating func take(
        answer text: String, wants: (_ mid: String, _ msid: String?) -> Bool = { _, _ in true }
    ) throws(PeerConnectionError) -> RemoteDescription {
        guard step == .offered else { throw Self.wrongState }
        let remote = try RemoteDescription(answer: text, to: lines.map(\.kind))
        try checkTransport(remote)
        var (picture, sound): (AgreedVideo?, AgreedAudio?)
        func agreed(_ line: Line, _ theirs: MediaDirection, _ msid: String?) -> MediaDirection {
            if line.role == .recvonly, !wants(line.mid, msid) { return .inactive }
            return line.direction.limited(to: theirs.reversed)
        }
        for (index, line) in lines.enumerated() where !line.isRefused {
            switch line.content {
            case .application: break
            case .media(.video):
                let offered = { (other: VideoCodec) in other == codec }
                // A line on which nothing comes may be answered with anything.
                let found =
                    line.role == .recvonly
                    ? try? remote.video(at: index, available: offered) : try remote.video(at: index, available: offered)
                if let found {
                    picture = AgreedVideo(found, agreed(line, found.direction, found.msid), beside: picture)
                    if line.role.sends, found.extensions.rid != nil {
                        picture?.sentLayers = simulcast.filter(found.receivedLayers.contains)
                    }
                } else if line.direction.sends {
                    throw PeerConnectionError(.rejected, "the far side's description holds no video, or refuses it")
                }
            case .media(.audio):
                if let found = remote.audio(at: index) {
                    sound = AgreedAudio(found, agreed(line, found.direction, found.msid), beside: sound)
                } else {
                    lines[index].isRefused = true
                }
            }
        }
        // A picture that was there keeps its session.
        if let picture { video = picture } else { video?.direction = .inactive }
        audio = sound
        step = .settled
        return remote
    }

    /// No answer came: what was agreed before holds, and another offer may be made.
    mutating func forgetOffer() {
        guard step == .offered else { return }
        step = .settled
    }

    // MARK: Answering

    var mayAnswer: Bool { step == .new || step == .answered }

    func read(offer text: String, wants: (_ msid: String?) -> Bool) throws(PeerConnectionError) -> RemoteDescription {
        guard mayAnswer else { throw Self.wrongState }
        var choice = RemoteDescription.Choice()
        choice.requiresVideo = !hasDataChannels
        choice.takesAudio = wanted.audio != nil || audio != nil
        choice.onlySending = !(wanted.video ?? .inactive).sends
        choice.taken = Set([video?.mid, audio?.mid].compactMap { $0 })
        return try RemoteDescription(parsing: text, isOffer: true, choice: choice, wants: wants) { $0.isAvailable }
    }

    /// Our answer to an offer. m-lines other than one video, one Opus audio, and data channels where they are accepted,
    /// are refused. Another video than the first, or other ICE credentials, are an error.
    mutating func answer(
        _ remote: RemoteDescription, _ transport: TransportParameters
    ) throws(PeerConnectionError) -> String {
        try checkTransport(remote)
        if separatesDirections { return describe(answersToEach(remote), transport) }
        if let found = remote.video {
            if let video, video.mid != found.mid || video.codec.codec != found.codec.codec {
                throw PeerConnectionError(.badDescription, "the far side's video became another one")
            }
            video = AgreedVideo(found, found.direction.reversed.limited(to: wanted.video ?? .inactive))
            if acceptsSimulcast, found.extensions.rid != nil { video?.receivedLayers = found.sentLayers }
        } else {
            video?.direction = .inactive
        }
        let sendsAudio = (wanted.audio ?? .inactive).sends
        var takesAudio = false
        if let found = remote.audio {
            // The session is made for one payload type, and what it sends for one m-line.
            if audio.map({ $0.payloadType == found.payloadType && ($0.mid == found.mid || !sendsAudio) }) ?? true {
                audio = AgreedAudio(found, found.direction.reversed.limited(to: wanted.audio ?? .inactive))
                takesAudio = true
            }
        }
        if !takesAudio { audio?.direction = .inactive }
        step = .answered
        return describe(answers(to: remote, takesAudio: takesAudio), transport)
    }

    /// To each line of an offer with lines of their own for each direction: of each kind ours goes on the first one that
    /// takes it.
    private mutating func answersToEach(_ remote: RemoteDescription) -> [LocalDescription.Line] {
        var (picture, sound): (AgreedVideo?, AgreedAudio?)
        var answers: [Int: LocalDescription.Line] = [:]
        takers = [:]
        func direction(_ kind: MediaKind, _ mid: String, _ theirs: MediaDirection) -> MediaDirection {
            if theirs.receives, takers[kind] == nil { takers[kind] = mid }
            let most: MediaDirection = takers[kind] == mid ? .sendrecv : .recvonly
            return theirs.reversed.limited(to: most).limited(to: wanted[kind] ?? .inactive)
        }
        // Those that ours could go on first: what is agreed on bears the name of the first.
        let all = remote.kinds.indices
        // One session of each kind, made for one payload type: that of what comes, where nothing was agreed on before.
        let coming = all.first { remote.kinds[$0] == "video" && remote.direction(at: $0).sends }
        let type =
            video?.codec.payloadType
            ?? coming.flatMap { try? remote.video(at: $0, available: { $0.isAvailable }) }?.codec.payloadType
        for index in all.filter({ remote.direction(at: $0).receives }) + all.filter({ !remote.direction(at: $0).receives }) {
            switch MediaKind(rawValue: remote.kinds[index]) {
            case .video:
                guard let found = try? remote.video(at: index, preferring: type, available: { $0.isAvailable }),
                    (type ?? picture?.codec.payloadType).map({ $0 == found.codec.payloadType }) ?? true
                else { continue }
                var line = AgreedVideo(found, direction(.video, found.mid, found.direction))
                if acceptsSimulcast, found.extensions.rid != nil { line.receivedLayers = found.sentLayers }
                answers[index] = .video(answered(line))
                var all = AgreedVideo(found, line.direction, beside: picture)
                all.receivedLayers = (picture?.receivedLayers ?? []) + line.receivedLayers
                if !line.receivedLayers.isEmpty {
                    (all.extensions.rid, all.extensions.repairedRID) = (found.extensions.rid, found.extensions.repairedRID)
                }
                picture = all
            case .audio:
                guard let found = remote.audio(at: index), (sound ?? audio).map({ $0.payloadType == found.payloadType }) ?? true
                else { continue }
                let line = AgreedAudio(found, direction(.audio, found.mid, found.direction))
                answers[index] = .audio(answered(line))
                sound = AgreedAudio(found, line.direction, beside: sound)
            case nil: break
            }
        }
        if let picture, video != nil || picture.direction != .inactive {
            video = picture
        } else {
            video?.direction = .inactive
        }
        if let sound { audio = sound } else { audio?.direction = .inactive }
        step = .answered
        return all.map { index in
            let (kind, mid) = (remote.kinds[index], remote.mids[index])
            return answers[index]
                ?? (kind == "application" && hasDataChannels ? .application(mid: mid) : .refused(kind: kind, mid: mid))
        }
    }

    private func answers(to remote: RemoteDescription, takesAudio: Bool) -> [LocalDescription.Line] {
        zip(remote.kinds, remote.mids).enumerated().map { index, line in
            if let video, remote.video?.mediaIndex == index { return .video(answered(video)) }
            if let audio, takesAudio, remote.audio?.mediaIndex == index { return .audio(answered(audio)) }
            // What was taken once and is not wanted now may come back.
            if let video, line == ("video", video.mid) {
                var kept = video
                kept.direction = .inactive
                return .video(answered(kept))
            }
            if let audio, line == ("audio", audio.mid) {
                var kept = audio
                kept.direction = .inactive
                return .audio(answered(kept))
            }
            if line.0 == "application", hasDataChannels { return .application(mid: line.1) }
            return .refused(kind: line.0, mid: line.1)
        }
    }

    private func answered(_ video: AgreedVideo) -> LocalDescription.Video {
        var codec = video.codec
        codec.feedback.formIntersection(LocalDescription.offeredFeedback)
        if codec.codec == .h264 { codec.formatParameters = codec.codec.formatParameters }
        return LocalDescription.Video(
            mid: video.mid, codec: codec, extensions: video.extensions, direction: video.direction,
            receivedLayers: video.receivedLayers)
    }

    private func answered(_ audio: AgreedAudio) -> LocalDescription.Audio {
        LocalDescription.Audio(
            mid: audio.mid, payloadType: audio.payloadType, extensions: audio.extensions, direction: audio.direction)
    }

    // MARK: Both

    /// One transport serves all descriptions.
    private mutating func checkTransport(_ remote: RemoteDescription) throws(PeerConnectionError) {
        let fragment = remote.transport.usernameFragment
        guard (remoteUsernameFragment ?? fragment) == fragment else {
            throw PeerConnectionError(.badDescription, "the far side restarts ICE, which is not done here")
        }
        remoteUsernameFragment = fragment
    }

    private mutating func describe(_ lines: [LocalDescription.Line], _ transport: TransportParameters) -> String {
        self.transport = transport
        version &+= 1
        return LocalDescription(lines: lines, transport: transport, identity: identity).sdp()
            .text(sessionID: sdpSessionID, version: version)
    }
}
