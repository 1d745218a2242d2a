// Parses an offer or answer of the remote peer (RFC 8829 and 9429). Values only: it knows no agent and no pipeline.
import GStreamerKit
package import MediaSecurity
package import RTP

/// ICE and DTLS parameters of one side.
package struct TransportParameters: Sendable, Equatable {
    package var usernameFragment = ""
    package var password = ""
    package var fingerprints: [Fingerprint] = []
    /// actpass, active or passive.
    package var setup = ""
}

/// A remote description and the m-lines of it that we use.
package struct RemoteDescription: Sendable {
    package let kinds: [String]
    package let mids: [String]
    /// What we may send and receive, in our own direction; nil: no usable m-line of that kind, if that is allowed.
    package private(set) var video: NegotiatedVideo?
    package private(set) var videoIndex: Int?
    package private(set) var audio: NegotiatedAudio?
    package private(set) var audioIndex: Int?
    /// The m-line that the transport parameters were read for: the video's, else the first usable one.
    package private(set) var transportIndex = 0
    /// Set by each initialiser.
    package private(set) var transport = TransportParameters()
    /// An ICE-lite peer sends no checks (RFC 8445 2.5), so we are the controlling agent.
    package let isLite: Bool
    private let sdp: SDPDescription
    /// The m-lines that are not rejected.
    private let usable: [Int]
    private let h264: H264Acceptance
    private let choice: Choice

    /// Selects the m-lines of an offer that are accepted.
    package struct Choice: Sendable {
        /// False: an offer of audio alone or data channels alone is acceptable.
        package var requiresVideo = true
        package var takesAudio = false
        /// Ignore m-lines that the remote peer does not send on, unless they were accepted before.
        package var onlySending = false
        /// Mids of the m-lines that were accepted before.
        package var taken: Set<String> = []
        /// Payload type of the video that was accepted before.
        package var videoPayloadType: Int?
        /// The transport exists already: an offer without usable m-lines is answered too.
        package var mayHoldNothing = false
        package var h264 = H264Acceptance.baseline
        /// The codecs of which each one is accepted on an m-line that never sends; nil: one codec is accepted on each
        /// m-line.
        package var receivable: Set<VideoCodec>?
        /// The m-line that sends, or may; nil: not known yet.
        package var sendingMid: String?
        /// None does.
        package var neverSends = false
        /// Further m-lines that do not.
        package var receivers: Set<String> = []
        /// What to install for codecs of these encoding names, as a part of a sentence; empty: nothing helps.
        package var remedy: @Sendable (_ names: [String]) -> String = { _ in "" }
        package init() {}
    }

    /// Parses an offer, or an answer without knowing its offer. Takes the first usable m-line of each kind, preferably
    /// one that the remote peer sends on.
    /// - Parameters:
    ///   - wants: Selects tracks by `msid`.
    ///   - available: True for codecs that we can use.
    package init(
        parsing text: String, isOffer: Bool, choice: Choice = Choice(),
        wants: (_ msid: String?) -> Bool = { _ in true },
        available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) {
        try self.init(text, choice)
        func wanted(_ kind: String) -> [Int] {
            usable.filter { kinds[$0] == kind && wants(sdp.media[$0].value("msid")) }
        }
        func first(_ lines: [Int]) -> Int? {
            lines.first { direction(at: $0).sends }
                ?? lines.first { !choice.onlySending || choice.taken.contains(mids[$0]) }
        }
        videoIndex = first(wanted("video"))
        if choice.takesAudio, let index = first(wanted("audio")), let found = audio(at: index) {
            (audio, audioIndex) = (found, index)
        }
        let others = usable.first { kinds[$0] == "application" }
        // No other m-line can carry the transport, so accept video that is not sent at present.
        if videoIndex == nil, audio == nil, others == nil { videoIndex = wanted("video").first }
        if let videoIndex {
            video = try video(
                at: videoIndex, isOffer: isOffer, preferring: choice.videoPayloadType, available: available)
        } else if choice.requiresVideo, !choice.mayHoldNothing {
            throw PeerConnectionError(.rejected, "the remote description has no video, or rejects it")
        }
        guard let index = videoIndex ?? audioIndex ?? others ?? (choice.mayHoldNothing ? usable.first : nil)
        else {
            throw PeerConnectionError(.rejected, "the remote description has no usable m-line")
        }
        try readTransport(at: index, isOffer: isOffer)
    }

    /// Parses an answer to our offer of m-lines of these kinds; `video(at:)` and `audio(at:)` return the result for
    /// each.
    /// - Parameters:
    ///   - receivable: see `Choice.receivable`.
    ///   - receivers: the mids of the m-lines on which we never send.
    init(
        answer text: String, to offered: [String], _ h264: H264Acceptance = .baseline,
        receivable: Set<VideoCodec>? = nil, receivers: Set<String> = []
    ) throws(PeerConnectionError) {
        var choice = Choice()
        (choice.h264, choice.receivable, choice.receivers) = (h264, receivable, receivers)
        try self.init(text, choice)
        guard kinds == offered else {
            throw PeerConnectionError(.badDescription, "the m-lines of the answer do not match the offer")
        }
        guard let index = usable.first else {
            throw PeerConnectionError(.rejected, "the remote description has no video, or rejects it")
        }
        try checkSharedTransport()
        try readTransport(at: index, isOffer: false)
    }

    private static let withoutMux = PeerConnectionError(
        .badDescription, "the remote peer does not support rtcp-mux, which is required")

    /// Our offer has one transport for all m-lines and for RTCP: one m-line needs no group for that (RFC 9143 7.3.1).
    private func checkSharedTransport() throws(PeerConnectionError) {
        for index in usable where MediaKind(rawValue: kinds[index]) != nil && !sdp.media[index].has("rtcp-mux") {
            throw Self.withoutMux
        }
        let bundles = sdp.values("group").map { $0.split(separator: " ").map(String.init) }
            .filter { $0.first == "BUNDLE" }
        guard usable.count > 1, !bundles.contains(where: { Set($0).isSuperset(of: usable.map { mids[$0] }) }) else {
            return
        }
        throw PeerConnectionError(
            .badDescription, "the remote peer accepts several m-lines without a BUNDLE group, which is required")
    }

    // MARK: Parsing

    /// Limits the time to parse: all attributes are searched for each m-line. A real description of 64 KiB has fewer
    /// than 2,600.
    private static let maximumAttributes = 4096

    private init(_ text: String, _ choice: Choice) throws(PeerConnectionError) {
        (self.choice, h264) = (choice, choice.h264)
        do { sdp = try SDPDescription(parsing: text) } catch {
            throw PeerConnectionError(
                .badDescription, "the remote peer's session description cannot be read: \(error.message)")
        }
        let media = sdp.media
        guard media.reduce(sdp.attributes.count, { $0 + $1.attributes.count }) <= Self.maximumAttributes else {
            throw PeerConnectionError(
                .badDescription, "the session description has more than \(Self.maximumAttributes) attributes")
        }
        kinds = media.map(\.kind)
        mids = media.enumerated().map { $1.value("mid") ?? String($0) }
        usable = media.indices.filter { media[$0].port != 0 || media[$0].has("bundle-only") }
        isLite = sdp.has("ice-lite")
    }

    package var candidates: [String] {
        // Signalling includes the attribute's name in a candidate.
        transportValues("candidate").prefix(64).map { "candidate:" + $0 }
    }
    package var endOfCandidates: Bool {
        sdp.has("end-of-candidates") || usable.contains { sdp.media[$0].has("end-of-candidates") }
    }

    func direction(at index: Int) -> MediaDirection {
        // The session's is a default (RFC 8866 6.7).
        let names = ["sendrecv", "sendonly", "recvonly", "inactive"]
        return (names.first { sdp.media[index].has($0) } ?? names.first { sdp.has($0) })
            .flatMap(MediaDirection.init) ?? .sendrecv
    }

    /// Both forms of header extensions may be mixed (RFC 8285 6); an answer says so only if the offer does.
    var mixesExtensionHeaders: Bool {
        let media = usable.map { sdp.media[$0] }.filter { MediaKind(rawValue: $0.kind) != nil }
        return sdp.has("extmap-allow-mixed") || !media.isEmpty && media.allSatisfy { $0.has("extmap-allow-mixed") }
    }

    /// The limit of a message of a data channel, as the remote peer wrote it (RFC 8841 6).
    func maximumMessageSize(at index: Int) -> UInt64? {
        sdp.media[index].value("max-message-size").flatMap { UInt64($0) }
    }

    /// The track of an m-line.
    func msid(at index: Int) -> String? { sdp.media[index].value("msid") }

    /// The SSRCs that an m-line names, also in its groups.
    func namedSSRCs(at index: Int) -> Set<UInt32> {
        let rtx = Self.rtxSSRCs(of: sdp.media[index])
        return Set(Self.ssrcs(of: sdp.media[index])).union(rtx.keys).union(rtx.values)
    }

    /// True for an m-line of an offer on which we never send, so that the answer has each codec that we can decode.
    func receivesOnly(_ index: Int) -> Bool {
        guard choice.receivable != nil else { return false }
        return choice.neverSends || choice.receivers.contains(mids[index])
            || choice.sendingMid.map { $0 != mids[index] } ?? false
    }

    private static func isSecure(_ media: SDPMedia) -> Bool {
        media.transport.hasSuffix("RTP/SAVPF") || media.transport.hasSuffix("RTP/SAVP")
    }

    private static func ssrcs(of media: SDPMedia) -> [UInt32] {
        // A peer writes several lines for each of them.
        let found = media.values("ssrc").compactMap { $0.split(separator: " ").first.flatMap { UInt32($0) } }
        var seen: Set<UInt32> = []
        return Array(found.filter { seen.insert($0).inserted }.prefix(32))
    }

    private static func rtxSSRCs(of media: SDPMedia) -> [UInt32: UInt32] {
        media.values("ssrc-group").prefix(32).reduce(into: [:]) { found, value in
            let words = value.split(separator: " ")
            guard words.count == 3, words[0] == "FID", let ssrc = UInt32(words[1]), let rtx = UInt32(words[2]) else {
                return
            }
            found[rtx] = ssrc
        }
    }

    /// Returns nil if the m-line was rejected.
    func video(
        at index: Int, isOffer: Bool = false, preferring type: Int? = nil, available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) -> NegotiatedVideo? {
        guard usable.contains(index) else { return nil }
        let media = sdp.media[index]
        guard Self.isSecure(media) else {
            throw PeerConnectionError(.badDescription, "the remote description has video without DTLS-SRTP")
        }
        guard !isOffer || media.has("rtcp-mux") else { throw Self.withoutMux }
        let receivesOnly = receivesOnly(index)
        let acceptance = receivesOnly ? h264.ofOffers : h264
        let codecs = PayloadTypes(media).videoCodecs(acceptance, receivesOnly: receivesOnly).filter {
            receivesOnly ? choice.receivable?.contains($0.codec) ?? false : available($0.codec)
        }
        guard let codec = codecs.first(where: { $0.payloadType == type && !receivesOnly }) ?? codecs.first else {
            let names = PayloadTypes(media).encodingNames
            if receivesOnly {
                let remedy = choice.remedy(names)
                throw PeerConnectionError(
                    .rejected,
                    "the remote peer sends video as \(names.isEmpty ? "nothing" : names.joined(separator: ", ")), of "
                        + "which nothing can be received here\(remedy.isEmpty ? "" : ": \(remedy)")")
            }
            throw PeerConnectionError(
                .rejected,
                "no video codec in common: the remote peer has "
                    + "\(names.isEmpty ? "none" : names.joined(separator: ", ")); check the property codec")
        }
        var extensions = HeaderExtensionIDs(extmap: sdp.values("extmap") + media.values("extmap"))
        if !codec.usesTransportCC { extensions.transportWideCC = nil }
        if !receivesOnly { (extensions.absoluteCaptureTime, extensions.dependencyDescriptor) = (nil, nil) }
        return NegotiatedVideo(
            mid: mids[index], codec: codec, alternatives: codecs.filter { $0 != codec }, extensions: extensions,
            direction: direction(at: index).reversed, receivesOnly: receivesOnly,
            usesReducedSize: media.has("rtcp-rsize"), ssrcs: Self.ssrcs(of: media), rtxSSRCs: Self.rtxSSRCs(of: media),
            sentLayers: Self.layers("recv", of: media), receivedLayers: Self.layers("send", of: media))
    }

    /// Parses `a=simulcast:send 1,2;~3 recv 4`: takes the first of alternatives, and no layer that starts paused (RFC
    /// 8853 5.1).
    private static func layers(_ direction: String, of media: SDPMedia) -> [String] {
        let words = (media.value("simulcast") ?? "").split(separator: " ")
        guard let at = words.firstIndex(of: direction[...]), at + 1 < words.count else { return [] }
        var rids: [String] = []
        for stream in words[at + 1].split(separator: ";").prefix(SimulcastLayer.maximumCount) {
            // A rid consists of letters and digits (RFC 8851 10); a one-byte header extension holds 16 bytes.
            guard let rid = stream.split(separator: ",").first, (1...16).contains(rid.utf8.count),
                rid.utf8.allSatisfy(\.isLetterOrDigit), !rids.contains(String(rid))
            else { continue }
            rids.append(String(rid))
        }
        return rids
    }

    /// Returns nil if the m-line was rejected or has none of the codecs, so that video continues without it.
    func audio(at index: Int, codecs: Set<AudioCodec> = [.opus]) -> NegotiatedAudio? {
        guard usable.contains(index), case let media = sdp.media[index], Self.isSecure(media),
            case let types = PayloadTypes(media), case let found = types.audioCodecs(codecs), let first = found.first
        else { return nil }
        var extensions = HeaderExtensionIDs()
        extensions.mid = HeaderExtensionIDs(extmap: sdp.values("extmap") + media.values("extmap")).mid
        return NegotiatedAudio(
            mid: mids[index], payloadType: first.payloadType, codec: first.codec,
            alternatives: Array(found.dropFirst()),
            redundancy: first.codec == .opus ? types.redundancy(of: first.payloadType) : nil, extensions: extensions,
            direction: direction(at: index).reversed, ssrcs: Self.ssrcs(of: media))
    }

    /// Transport attributes may be at session or media level, or on another m-line of the bundle, usually the first; those
    /// of rejected ones count last.
    private func transportValues(_ name: String) -> [String] {
        let others = usable + sdp.media.indices.filter { !usable.contains($0) }
        return [sdp.media[transportIndex].values(name), sdp.values(name)].first { !$0.isEmpty }
            ?? others.lazy.map { sdp.media[$0].values(name) }.first { !$0.isEmpty } ?? []
    }

    private mutating func readTransport(at index: Int, isOffer: Bool) throws(PeerConnectionError) {
        transportIndex = index
        let attributes = transportValues
        guard let fragment = attributes("ice-ufrag").first, let password = attributes("ice-pwd").first,
            (4...256).contains(fragment.utf8.count), (22...256).contains(password.utf8.count)
        else { throw PeerConnectionError(.badDescription, "the remote description has no ICE credentials") }
        let fingerprints = attributes("fingerprint").compactMap(Fingerprint.init(sdpValue:))
        guard !fingerprints.isEmpty else {
            throw PeerConnectionError(.badDescription, "the remote description has no usable certificate fingerprint")
        }
        let setup = attributes("setup").first ?? "actpass"
        guard ["actpass", "active", "passive"].contains(setup), isOffer || setup != "actpass" else {
            throw PeerConnectionError(.badDescription, "the remote description has an unusable a=setup")
        }
        transport = TransportParameters(
            usernameFragment: fragment, password: password, fingerprints: fingerprints, setup: setup)
    }
}

/// The payload types of one m-line with their names, parameters and feedback.
private struct PayloadTypes {
    /// Payload types in m-line order, 0…127, without duplicates.
    private let types: [Int]
    /// Upper case, for example `OPUS/48000/2`.
    private let encodings: [Int: String]
    private let parameters: [Int: String]
    private var feedback: [Int: Set<String>] = [:]
    private var everywhere: Set<String> = []
    /// Limit for each payload type, because feedback for all types is copied into each codec. Browsers use six kinds.
    private static let maximumFeedback = 32

    init(_ media: SDPMedia) {
        var seen: Set<Int> = []
        types = media.formats.compactMap { Int($0) }.filter { (0...127).contains($0) && seen.insert($0).inserted }
        func split(_ value: String) -> (Int?, String) {
            let parts = value.split(separator: " ", maxSplits: 1)
            return (parts.first.flatMap { Int($0) }, parts.count > 1 ? String(parts[1]) : "")
        }
        func byType(_ name: String) -> [Int: String] {
            media.values(name).reduce(into: [:]) { found, value in
                let (type, rest) = split(value)
                if let type { found[type] = rest }
            }
        }
        encodings = byType("rtpmap").mapValues { $0.uppercased() }
        parameters = byType("fmtp")
        for value in media.values("rtcp-fb") {
            let (type, rest) = split(value)
            if value.hasPrefix("* ") {
                if everywhere.count < Self.maximumFeedback { everywhere.insert(rest) }
            } else if let type, feedback[type, default: []].count < Self.maximumFeedback {
                feedback[type, default: []].insert(rest)
            }
        }
    }

    private func name(_ type: Int) -> String? { encodings[type]?.split(separator: "/").first.map(String.init) }

    /// Up to 16 names for an error message; letters and digits only, because the remote peer chooses them.
    var encodingNames: [String] {
        types.compactMap(name).filter {
            !$0.isEmpty && $0.utf8.count <= 32
                && $0.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
        }
        .prefix(16).reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    /// RTX payload types by the type that they retransmit; the first one in the m-line wins.
    private var retransmissionTypes: [String: Int] {
        types.reduce(into: [:]) { found, type in
            guard name(type) == "RTX", let of = FormatParameters(parameters[type] ?? "")["apt"], found[of] == nil else {
                return
            }
            found[of] = type
        }
    }

    /// Supported codecs in m-line order.
    func videoCodecs(_ h264: H264Acceptance, receivesOnly: Bool) -> [NegotiatedCodec] {
        let retransmissionTypes = retransmissionTypes
        let codecs = types.compactMap { type -> NegotiatedCodec? in
            guard let name = name(type), let codec = VideoCodec(rawValue: name.lowercased()),
                codec.accepts(formatParameters: parameters[type], h264, receivesOnly: receivesOnly)
            else { return nil }
            return NegotiatedCodec(
                codec: codec, payloadType: type, retransmissionPayloadType: retransmissionTypes[String(type)],
                feedback: everywhere.union(feedback[type] ?? []), formatParameters: parameters[type])
        }
        // The payload type is for both directions, and we send baseline.
        guard h264 == .decodable, !receivesOnly, codecs.contains(where: \.isBaseline) else { return codecs }
        return codecs.filter { $0.codec != .h264 || $0.isBaseline }
    }

    /// Those of `wanted`, each one once: Opus, which we may send, then the others in m-line order.
    func audioCodecs(_ wanted: Set<AudioCodec>) -> [NegotiatedAudioCodec] {
        let all = types.reduce(into: [NegotiatedAudioCodec]()) { found, type in
            let encoding = encodings[type].map { $0[...].trimmedASCII }
            let codec = AudioCodec.allCases.first { codec in
                guard let encoding else { return codec.staticPayloadType == type }
                // One channel may be named (RFC 8866 6.6).
                return encoding == codec.encoding.uppercased()
                    || codec != .opus && encoding == codec.encoding.uppercased() + "/1"
            }
            guard let codec, wanted.contains(codec), !found.contains(where: { $0.codec == codec }) else { return }
            found.append(NegotiatedAudioCodec(codec: codec, payloadType: type))
        }
        return all.filter { $0.codec == .opus } + all.filter { $0.codec != .opus }
    }

    /// Redundant audio whose blocks are all of this type; nil: there is none.
    func redundancy(of media: Int) -> AudioRedundancy? {
        let found = types.first { type in
            guard type != media, encodings[type].map({ $0[...].trimmedASCII }) == "RED/48000/2" else { return false }
            let blocks = (parameters[type] ?? "").split(separator: "/").map { Int($0.trimmedASCII) }
            return blocks.count >= 2 && blocks.allSatisfy { $0 == media }
        }
        return found.map { type in
            var redundancy = AudioRedundancy(payloadType: type, mediaType: media)
            redundancy.comesFirst = types.firstIndex(of: type) ?? 0 < types.firstIndex(of: media) ?? 0
            return redundancy
        }
    }
}

extension UInt8 {
    /// In ASCII.
    fileprivate var isLetterOrDigit: Bool { (0x61...0x7a).contains(self | 0x20) || (0x30...0x39).contains(self) }
}
