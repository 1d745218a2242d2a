// A peer's offer or answer, read (RFC 8829 and 9429). Values only: no agent, no pipeline.
import GStreamerKit
package import MediaSecurity

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

/// ICE and DTLS parameters of one side.
package struct TransportParameters: Sendable, Equatable {
    package var usernameFragment: String
    package var password: String
    package var fingerprints: [Fingerprint]
    /// actpass, active or passive.
    package var setup: String
}

/// What a peer's description says about a video m-line that we use.
package struct RemoteVideo: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var codec: NegotiatedCodec
    package var extensions: HeaderExtensionIDs
    package var extmap: [String]
    package var direction: MediaDirection
    /// Stream and track, as the far side names them (RFC 8830).
    package var msid: String?
    /// Those that the far side declares; it need not.
    package var ssrcs: [UInt32]
    /// Streams of a simulcast that the far side sends, or would take, by their rid; the best one first (RFC 8853).
    package var sentLayers: [String]
    package var receivedLayers: [String]
}

/// What a peer's description says about an audio m-line that we use: Opus (RFC 7587) at this payload type.
package struct RemoteAudio: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var payloadType: Int
    package var extensions: HeaderExtensionIDs
    package var direction: MediaDirection
    package var msid: String?
    package var ssrcs: [UInt32]
}

/// What a peer's description says about the m-lines that we use.
package struct RemoteDescription: Sendable {
    package let kinds: [String]
    package let mids: [String]
    /// nil: none that can be used, where that is allowed.
    package private(set) var video: RemoteVideo?
    package private(set) var audio: RemoteAudio?
    /// The m-line that the transport's parameters were taken for: the video's, else the first that can be used.
    package private(set) var transportIndex = 0
    package private(set) var transport: TransportParameters
    package private(set) var candidates: [String]
    package private(set) var endOfCandidates: Bool
    /// It checks nothing itself (RFC 8445 2.5): we control.
    package let isLite: Bool
    private let sdp: SDPDescription

    /// Which m-lines of an offer are taken.
    package struct Choice: Sendable {
        /// Otherwise data channels alone, or sound alone, are a description too.
        package var requiresVideo = true
        package var takesAudio = false
        /// A line that the far side does not send on is none, unless it was taken before.
        package var onlySending = false
        /// Lines that were taken before, by their mid.
        package var taken: Set<String> = []
        /// Of the video that was taken before.
        package var videoPayloadType: Int?
        /// The transport stands: an offer that holds nothing for us is answered too.
        package var mayHoldNothing = false
        package init() {}
    }

    /// Reads an offer, or an answer that nobody waits for: of each kind the first usable m-line, one that the far side
    /// sends on before others.
    /// - Parameters:
    ///   - wants: which track, by its `msid`.
    ///   - available: which codecs we can take.
    package init(
        parsing text: String, isOffer: Bool, choice: Choice = Choice(), wants: (_ msid: String?) -> Bool = { _ in true },
        available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) {
        let sdp = try Self.parse(text)
        let usable = Self.usable(sdp)
        let mids = Self.mids(sdp)
        func first(_ kind: String) -> Int? {
            let lines = usable.filter { sdp.media[$0].kind == kind && wants(sdp.media[$0].value("msid")) }
            return lines.first { Self.direction(of: sdp.media[$0], in: sdp).sends }
                ?? lines.first { !choice.onlySending || choice.taken.contains(mids[$0]) }
        }
        var (video, audio): (RemoteVideo?, RemoteAudio?)
        var videoIndex = first("video")
        if choice.takesAudio, let index = first("audio") { audio = Self.audio(at: index, of: sdp, mid: mids[index]) }
        let others = usable.first { sdp.media[$0].kind == "application" }
        if videoIndex == nil, audio == nil, others == nil {
            // A picture that is withheld for now, and nothing else to make the connection with.
            videoIndex = usable.first { sdp.media[$0].kind == "video" && wants(sdp.media[$0].value("msid")) }
        }
        if let videoIndex {
            video = try Self.video(
                at: videoIndex, of: sdp, mid: mids[videoIndex], isOffer: isOffer, preferring: choice.videoPayloadType,
                available: available)
        } else if choice.requiresVideo, !choice.mayHoldNothing {
            throw PeerConnectionError(.rejected, "the far side's description holds no video, or refuses it")
        }
        guard let index = videoIndex ?? audio?.mediaIndex ?? others ?? (choice.mayHoldNothing ? usable.first : nil) else {
            throw PeerConnectionError(.rejected, "the far side's description holds nothing that can be used")
        }
        try self.init(sdp, transportIndex: index, isOffer: isOffer, video: video, audio: audio)
    }

    /// Reads an answer to our offer of these m-lines; what became of each is asked for by `video(at:)` and `audio(at:)`.
    init(answer text: String, to offered: [String]) throws(PeerConnectionError) {
        let sdp = try Self.parse(text)
        guard sdp.media.map(\.kind) == offered else {
            throw PeerConnectionError(.badDescription, "the answer has other m-lines than the offer")
        }
        guard let index = Self.usable(sdp).first else {
            throw PeerConnectionError(.rejected, "the far side's description holds no video, or refuses it")
        }
        try self.init(sdp, transportIndex: index, isOffer: false, video: nil, audio: nil)
    }

    private init(
        _ sdp: SDPDescription, transportIndex: Int, isOffer: Bool, video: RemoteVideo?, audio: RemoteAudio?
    ) throws(PeerConnectionError) {
        self.sdp = sdp
        (self.video, self.audio) = (video, audio)
        kinds = sdp.media.map(\.kind)
        mids = Self.mids(sdp)
        self.transportIndex = transportIndex
        let media = sdp.media[transportIndex]
        transport = try Self.transport(of: media, in: sdp, isOffer: isOffer)
        // As they are in signalling: an attribute's value begins after the name.
        candidates = media.values("candidate").prefix(64).map { "candidate:" + $0 }
        endOfCandidates = media.has("end-of-candidates") || sdp.has("end-of-candidates")
        isLite = sdp.has("ice-lite")
    }

    func direction(at index: Int) -> MediaDirection { Self.direction(of: sdp.media[index], in: sdp) }

    /// nil: refused.
    func video(
        at index: Int, preferring type: Int? = nil, available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) -> RemoteVideo? {
        guard Self.usable(sdp).contains(index) else { return nil }
        return try Self.video(
            at: index, of: sdp, mid: mids[index], isOffer: false, preferring: type, available: available)
    }

    /// nil: refused, or without Opus.
    func audio(at index: Int) -> RemoteAudio? {
        guard Self.usable(sdp).contains(index) else { return nil }
        return Self.audio(at: index, of: sdp, mid: mids[index])
    }

    // MARK: Reading

    /// All attributes are looked through for each m-line; a real description of 64 KiB has fewer than 2,600.
    private static let maximumAttributes = 4096

    private static func parse(_ text: String) throws(PeerConnectionError) -> SDPDescription {
        let sdp: SDPDescription
        do { sdp = try SDPDescription(parsing: text) } catch { throw PeerConnectionError(.badDescription, error.message) }
        guard sdp.media.reduce(sdp.attributes.count, { $0 + $1.attributes.count }) <= maximumAttributes else {
            throw PeerConnectionError(
                .badDescription, "the session description has more than \(maximumAttributes) attributes")
        }
        return sdp
    }

    private static func mids(_ sdp: SDPDescription) -> [String] {
        sdp.media.enumerated().map { $1.value("mid") ?? String($0) }
    }

    private static func usable(_ sdp: SDPDescription) -> [Int] {
        sdp.media.indices.filter { sdp.media[$0].port != 0 || sdp.media[$0].has("bundle-only") }
    }

    private static func direction(of media: SDPMedia, in sdp: SDPDescription) -> MediaDirection {
        ["sendrecv", "sendonly", "recvonly", "inactive"].first { media.has($0) || sdp.has($0) }
            .flatMap(MediaDirection.init) ?? .sendrecv
    }

    private static func isSecure(_ media: SDPMedia) -> Bool {
        media.transport.hasSuffix("RTP/SAVPF") || media.transport.hasSuffix("RTP/SAVP")
    }

    private static func ssrcs(of media: SDPMedia) -> [UInt32] {
        media.values("ssrc").prefix(32).compactMap { $0.split(separator: " ").first.flatMap { UInt32($0) } }
    }

    private static func video(
        at index: Int, of sdp: SDPDescription, mid: String, isOffer: Bool, preferring type: Int? = nil,
        available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) -> RemoteVideo {
        let media = sdp.media[index]
        guard isSecure(media) else { throw PeerConnectionError(.badDescription, "the video is not sent by DTLS-SRTP") }
        guard !isOffer || media.has("rtcp-mux") else {
            throw PeerConnectionError(.badDescription, "the far side does not multiplex RTCP with RTP")
        }
        let codecs = PayloadTypes(media).videoCodecs
        let usable = codecs.filter { available($0.codec) }
        guard let codec = usable.first(where: { $0.payloadType == type }) ?? usable.first else {
            let names = PayloadTypes(media).encodingNames
            throw PeerConnectionError(.rejected, "no video codec in common: the far side has \(names.isEmpty ? "none" : names.joined(separator: ", "))")
        }
        let extmap = sdp.values("extmap") + media.values("extmap")
        return RemoteVideo(
            mediaIndex: index, mid: mid, codec: codec, extensions: HeaderExtensionIDs(extmap: extmap), extmap: extmap,
            direction: direction(of: media, in: sdp), msid: media.value("msid"), ssrcs: ssrcs(of: media),
            sentLayers: layers("send", of: media), receivedLayers: layers("recv", of: media))
    }

    /// `a=simulcast:send 1,2;~3 recv 4`: of alternatives the first, and none that begins paused (RFC 8853 5.1).
    private static func layers(_ direction: String, of media: SDPMedia) -> [String] {
        let words = (media.value("simulcast") ?? "").split(separator: " ")
        guard let at = words.firstIndex(of: direction[...]), at + 1 < words.count else { return [] }
        var rids: [String] = []
        for stream in words[at + 1].split(separator: ";").prefix(SimulcastLayer.most) {
            // Letters and digits (RFC 8851 10); 16 bytes is what a one-byte header extension holds.
            guard let rid = stream.split(separator: ",").first, (1...16).contains(rid.utf8.count),
                rid.utf8.allSatisfy({ ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x7a) || ($0 >= 0x30 && $0 <= 0x39) }),
                !rids.contains(String(rid))
            else { continue }
            rids.append(String(rid))
        }
        return rids
    }

    /// Sound that cannot be used is none: the picture goes on without.
    private static func audio(at index: Int, of sdp: SDPDescription, mid: String) -> RemoteAudio? {
        let media = sdp.media[index]
        guard isSecure(media), let type = PayloadTypes(media).opus else { return nil }
        var extensions = HeaderExtensionIDs()
        extensions.mid = HeaderExtensionIDs(extmap: sdp.values("extmap") + media.values("extmap")).mid
        return RemoteAudio(
            mediaIndex: index, mid: mid, payloadType: type, extensions: extensions,
            direction: direction(of: media, in: sdp), msid: media.value("msid"), ssrcs: ssrcs(of: media))
    }

    /// Transport attributes may stand on session or media level, or on another m-line of the bundle, the first as a rule.
    private static func transport(
        of media: SDPMedia, in sdp: SDPDescription, isOffer: Bool
    ) throws(PeerConnectionError) -> TransportParameters {
        func attributes(_ name: String) -> [String] {
            [media.values(name), sdp.values(name)].first { !$0.isEmpty }
                ?? sdp.media.lazy.map { $0.values(name) }.first { !$0.isEmpty } ?? []
        }
        guard let fragment = attributes("ice-ufrag").first, let password = attributes("ice-pwd").first,
            (4...256).contains(fragment.utf8.count), (22...256).contains(password.utf8.count)
        else { throw PeerConnectionError(.badDescription, "the far side's description lacks ICE credentials") }
        let fingerprints = attributes("fingerprint").compactMap(Fingerprint.init(sdpValue:))
        guard !fingerprints.isEmpty else {
            throw PeerConnectionError(.badDescription, "the far side's description lacks a usable certificate fingerprint")
        }
        let setup = attributes("setup").first ?? "actpass"
        guard ["actpass", "active", "passive"].contains(setup), isOffer || setup != "actpass" else {
            throw PeerConnectionError(.badDescription, "the far side's a=setup is not a role for DTLS here")
        }
        return TransportParameters(
            usernameFragment: fragment, password: password, fingerprints: fingerprints, setup: setup)
    }
}

/// The payload types of one m-line with their names, parameters and feedback.
private struct PayloadTypes {
    /// In the m-line's order, 0…127, each once.
    private let types: [Int]
    /// Upper case, as `OPUS/48000/2`.
    private var encodings: [Int: String] = [:]
    private var parameters: [Int: String] = [:]
    private var feedback: [Int: Set<String>] = [:]
    private var everywhere: Set<String> = []
    /// Browsers name six kinds of feedback; more of them would be copied into each codec.
    private static let mostFeedback = 32

    init(_ media: SDPMedia) {
        var seen: Set<Int> = []
        types = media.formats.compactMap { Int($0) }.filter { (0...127).contains($0) && seen.insert($0).inserted }
        func split(_ value: String) -> (Int?, String) {
            let parts = value.split(separator: " ", maxSplits: 1)
            return (parts.first.flatMap { Int($0) }, parts.count > 1 ? String(parts[1]) : "")
        }
        for value in media.values("rtpmap") {
            let (type, rest) = split(value)
            if let type { encodings[type] = rest.uppercased() }
        }
        for value in media.values("fmtp") {
            let (type, rest) = split(value)
            if let type { parameters[type] = rest }
        }
        for value in media.values("rtcp-fb") {
            let (type, rest) = split(value)
            if value.hasPrefix("* ") {
                if everywhere.count < Self.mostFeedback { everywhere.insert(rest) }
            } else if let type, feedback[type, default: []].count < Self.mostFeedback {
                feedback[type, default: []].insert(rest)
            }
        }
    }

    private func name(_ type: Int) -> String? { encodings[type]?.split(separator: "/").first.map(String.init) }

    /// Some of the names, for an error: letters and digits only, because the remote peer chooses them.
    var encodingNames: [String] {
        types.compactMap(name).filter { !$0.isEmpty && $0.utf8.count <= 32 && $0.utf8.allSatisfy(Self.isTokenCharacter) }
            .prefix(16).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."): true
        default: false
        }
    }

    /// The RTX payload type by the type that it repeats; the m-line's first where there are several.
    private var retransmissionTypes: [String: Int] {
        types.reduce(into: [:]) { found, type in
            guard name(type) == "RTX", let of = FormatParameters(parameters[type] ?? "")["apt"], found[of] == nil else { return }
            found[of] = type
        }
    }

    /// Those that we know, in the m-line's order.
    var videoCodecs: [NegotiatedCodec] {
        let retransmissionTypes = retransmissionTypes
        return types.compactMap { type -> NegotiatedCodec? in
            guard let name = name(type), let codec = VideoCodec(rawValue: name.lowercased()),
                codec.accepts(formatParameters: parameters[type])
            else { return nil }
            return NegotiatedCodec(
                codec: codec, payloadType: type, retransmissionPayloadType: retransmissionTypes[String(type)],
                feedback: everywhere.union(feedback[type] ?? []), formatParameters: parameters[type])
        }
    }

    /// RFC 7587 7: always 48 kHz and two channels by name, whatever is in it.
    var opus: Int? { types.first { (encodings[$0] ?? "")[...].trimmedASCII == "OPUS/48000/2" } }
}
