// Offers and answers (RFC 8829 and 9429) for the m-lines that we take part in. Values only: no agent, no pipeline.
import GStreamerKit
package import MediaSecurity

package enum MediaDirection: String, Sendable {
    case sendrecv, sendonly, recvonly, inactive
    package var sends: Bool { self == .sendrecv || self == .sendonly }
    package var receives: Bool { self == .sendrecv || self == .recvonly }
    package var reversed: MediaDirection {
        switch self {
        case .sendonly: .recvonly
        case .recvonly: .sendonly
        default: self
        }
    }

    /// No more than the other does.
    func limited(to other: MediaDirection) -> MediaDirection {
        switch (sends && other.sends, receives && other.receives) {
        case (true, true): .sendrecv
        case (true, false): .sendonly
        case (false, true): .recvonly
        case (false, false): .inactive
        }
    }
}

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

/// What a peer's description says about the video m-line that we use.
package struct RemoteVideo: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var codec: NegotiatedCodec
    package var extensions: HeaderExtensionIDs
    package var extmap: [String]
    package var direction: MediaDirection
    /// Stream and track, as the far side names them (RFC 8830).
    package var msid: String?
}

/// What a peer's description says about the m-lines that we use.
package struct RemoteDescription: Sendable {
    package var kinds: [String]
    package var mids: [String]
    /// nil: none that can be used, where that is allowed.
    package var video: RemoteVideo?
    /// The m-line that the transport's parameters were taken for: the video's, else the first that is not refused.
    package var transportIndex: Int
    package var transport: TransportParameters
    package var candidates: [String]
    package var endOfCandidates: Bool
    /// It checks nothing itself (RFC 8445 2.5): we control.
    package var isLite: Bool

    /// Reads the first usable video m-line; one that the far side sends on goes before others.
    /// - Parameters:
    ///   - requiresVideo: otherwise data channels alone are a description too.
    ///   - wants: which video, by its `msid`.
    ///   - onlySending: a video that the far side does not send on is none, unless it is the one that was taken before.
    ///   - available: which codecs we can take.
    package init(
        parsing text: String, isOffer: Bool, requiresVideo: Bool = true, onlySending: Bool = false, taken: String? = nil,
        wants: (_ msid: String?) -> Bool = { _ in true }, available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) {
        let sdp: SDPDescription
        do { sdp = try SDPDescription(parsing: text) } catch { throw PeerConnectionError(.badDescription, error.message) }
        kinds = sdp.media.map(\.kind)
        let mids = sdp.media.enumerated().map { $1.value("mid") ?? String($0) }
        self.mids = mids
        let usable = sdp.media.indices.filter { sdp.media[$0].port != 0 || sdp.media[$0].has("bundle-only") }
        let videos = usable.filter { sdp.media[$0].kind == "video" && wants(sdp.media[$0].value("msid")) }
        let sending = videos.first { Self.direction(of: sdp.media[$0], in: sdp).sends }
        let index = sending ?? videos.first { !onlySending || mids[$0] == taken }
        if let index {
            video = try Self.video(at: index, of: sdp, mid: mids[index], isOffer: isOffer, available: available)
        } else if requiresVideo {
            throw PeerConnectionError(.rejected, "the far side's description holds no video, or refuses it")
        }
        guard let transportIndex = index ?? usable.first(where: { sdp.media[$0].kind == "application" }) else {
            throw PeerConnectionError(.rejected, "the far side's description holds nothing that can be used")
        }
        self.transportIndex = transportIndex
        let media = sdp.media[transportIndex]
        transport = try Self.transport(of: media, in: sdp, isOffer: isOffer)
        candidates = Array(media.values("candidate").prefix(64))
        endOfCandidates = media.has("end-of-candidates") || sdp.has("end-of-candidates")
        isLite = sdp.has("ice-lite")
    }

    private static func direction(of media: SDPMedia, in sdp: SDPDescription) -> MediaDirection {
        ["sendrecv", "sendonly", "recvonly", "inactive"].first { media.has($0) || sdp.has($0) }
            .flatMap(MediaDirection.init) ?? .sendrecv
    }

    private static func video(
        at index: Int, of sdp: SDPDescription, mid: String, isOffer: Bool, available: (VideoCodec) -> Bool
    ) throws(PeerConnectionError) -> RemoteVideo {
        let media = sdp.media[index]
        guard media.transport.hasSuffix("RTP/SAVPF") || media.transport.hasSuffix("RTP/SAVP") else {
            throw PeerConnectionError(.badDescription, "the video is not sent by DTLS-SRTP")
        }
        guard !isOffer || media.has("rtcp-mux") else {
            throw PeerConnectionError(.badDescription, "the far side does not multiplex RTCP with RTP")
        }
        guard let codec = codecs(of: media).first(where: { available($0.codec) }) else {
            throw PeerConnectionError(.rejected, "no video codec in common: the far side has \(media.values("rtpmap").joined(separator: ", "))")
        }
        let extmap = sdp.values("extmap") + media.values("extmap")
        return RemoteVideo(
            mediaIndex: index, mid: mid, codec: codec, extensions: HeaderExtensionIDs(extmap: extmap), extmap: extmap,
            direction: direction(of: media, in: sdp), msid: media.value("msid"))
    }

    /// Transport attributes may stand on session or media level, or on the first m-line of the bundle.
    private static func transport(
        of media: SDPMedia, in sdp: SDPDescription, isOffer: Bool
    ) throws(PeerConnectionError) -> TransportParameters {
        func attributes(_ name: String) -> [String] {
            let own = media.values(name)
            return own.isEmpty ? (sdp.values(name).isEmpty ? sdp.media.first?.values(name) ?? [] : sdp.values(name)) : own
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
            throw PeerConnectionError(.badDescription, "'a=setup:\(setup.prefix(16))' is not a role for DTLS here")
        }
        return TransportParameters(
            usernameFragment: fragment, password: password, fingerprints: fingerprints, setup: setup)
    }

    /// The m-line's codecs that we know, in its order, with their RTX and feedback.
    private static func codecs(of media: SDPMedia) -> [NegotiatedCodec] {
        var names: [Int: String] = [:]
        var parameters: [Int: String] = [:]
        var feedback: [Int: Set<String>] = [:]
        var everywhere: Set<String> = []
        func split(_ value: String) -> (Int?, String) {
            let parts = value.split(separator: " ", maxSplits: 1)
            return (parts.first.flatMap { Int($0) }, parts.count > 1 ? String(parts[1]) : "")
        }
        for value in media.values("rtpmap") {
            let (type, rest) = split(value)
            if let type { names[type] = rest.split(separator: "/").first.map { $0.uppercased() } }
        }
        for value in media.values("fmtp") {
            let (type, rest) = split(value)
            if let type { parameters[type] = rest }
        }
        for value in media.values("rtcp-fb") {
            if value.hasPrefix("* ") { everywhere.insert(String(value.dropFirst(2))) }
            let (type, rest) = split(value)
            if let type { feedback[type, default: []].insert(rest) }
        }
        return media.formats.compactMap { Int($0) }.compactMap { type in
            guard (0...127).contains(type), let name = names[type],
                let codec = VideoCodec(rawValue: name.lowercased()),
                codec.accepts(formatParameters: parameters[type])
            else { return nil }
            let retransmission = media.formats.compactMap { Int($0) }.first {
                (0...127).contains($0) && names[$0] == "RTX" && FormatParameters(parameters[$0] ?? "")["apt"] == String(type)
            }
            return NegotiatedCodec(
                codec: codec, payloadType: type, retransmissionPayloadType: retransmission,
                feedback: everywhere.union(feedback[type] ?? []), formatParameters: parameters[type])
        }
    }
}

/// What we write into our own description.
struct LocalDescription: Sendable {
    /// Our part of a video m-line.
    struct Video: Sendable {
        var mid: String
        var codec: NegotiatedCodec
        var extensions: HeaderExtensionIDs
        var direction: MediaDirection
    }

    enum Line: Sendable {
        case video(Video)
        /// Data channels: the transport is accepted, no association is ever made on it.
        case application(mid: String)
        case refused(kind: String, mid: String)
    }

    var lines: [Line]
    var transport: TransportParameters
    var cname: String
    /// What the far side knows our track by.
    var msid: String
    var ssrc: UInt32
    var retransmissionSSRC: UInt32

    static let offeredFeedback: Set<String> = ["nack", "nack pli", "ccm fir", "transport-cc", "goog-remb"]

    static func offeredCodec(_ codec: VideoCodec) -> NegotiatedCodec {
        NegotiatedCodec(
            codec: codec, payloadType: 96, retransmissionPayloadType: 97, feedback: offeredFeedback,
            formatParameters: codec.formatParameters)
    }

    static var offeredExtensions: HeaderExtensionIDs {
        var ids = HeaderExtensionIDs()
        (ids.mid, ids.absoluteSendTime, ids.transportWideCC) = (1, 2, 3)
        return ids
    }

    func sdp() -> SDPDescription {
        var sdp = SDPDescription()
        sdp.media = lines.map(media)
        let taken = sdp.media.filter { $0.port != 0 }.compactMap { $0.value("mid") }
        sdp.attributes = [
            SDPAttribute("group", (["BUNDLE"] + taken).joined(separator: " ")), SDPAttribute("extmap-allow-mixed"),
            SDPAttribute("msid-semantic", " WMS *"),
        ]
        return sdp
    }

    private func media(_ line: Line) -> SDPMedia {
        switch line {
        case .video(let video):
            return media(video)
        case .application(let mid):
            var media = SDPMedia(
                kind: "application", port: 9, transport: "UDP/DTLS/SCTP", formats: ["webrtc-datachannel"])
            media.attributes = transportLines(mid: mid) + [SDPAttribute("sctp-port", "5000")]
            return media
        case .refused(let kind, let mid):
            var refused = SDPMedia(
                kind: kind, port: 0, transport: kind == "application" ? "UDP/DTLS/SCTP" : "UDP/TLS/RTP/SAVPF",
                formats: [kind == "application" ? "webrtc-datachannel" : "0"])
            refused.attributes = [SDPAttribute("mid", mid), SDPAttribute("inactive")]
            return refused
        }
    }

    private func transportLines(mid: String) -> [SDPAttribute] {
        let lines = [
            SDPAttribute("ice-ufrag", transport.usernameFragment), SDPAttribute("ice-pwd", transport.password),
            SDPAttribute("ice-options", "trickle"),
        ]
        return lines + transport.fingerprints.map { SDPAttribute("fingerprint", $0.sdpValue) }
            + [SDPAttribute("setup", transport.setup), SDPAttribute("mid", mid)]
    }

    private func media(_ video: Video) -> SDPMedia {
        let codec = video.codec
        var media = SDPMedia(kind: "video", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: [String(codec.payloadType)])
        if let retransmission = codec.retransmissionPayloadType { media.formats.append(String(retransmission)) }
        var lines = [SDPAttribute("rtcp", "9 IN IP4 0.0.0.0")] + transportLines(mid: video.mid)
        lines += video.extensions.extmap.map { SDPAttribute("extmap", $0) }
        lines += [SDPAttribute(video.direction.rawValue), SDPAttribute("rtcp-mux")]
        let type = codec.payloadType
        lines.append(SDPAttribute("rtpmap", "\(type) \(codec.codec.encodingName)/90000"))
        lines += codec.feedback.sorted().map { SDPAttribute("rtcp-fb", "\(type) \($0)") }
        if let parameters = codec.formatParameters { lines.append(SDPAttribute("fmtp", "\(type) \(parameters)")) }
        if let retransmission = codec.retransmissionPayloadType {
            lines.append(SDPAttribute("rtpmap", "\(retransmission) rtx/90000"))
            lines.append(SDPAttribute("fmtp", "\(retransmission) apt=\(type)"))
        }
        if video.direction.sends {
            lines.append(SDPAttribute("msid", msid))
            if codec.retransmissionPayloadType != nil {
                lines.append(SDPAttribute("ssrc-group", "FID \(ssrc) \(retransmissionSSRC)"))
            }
            lines.append(SDPAttribute("ssrc", "\(ssrc) cname:\(cname)"))
            if codec.retransmissionPayloadType != nil { lines.append(SDPAttribute("ssrc", "\(retransmissionSSRC) cname:\(cname)")) }
        }
        media.attributes = lines
        return media
    }
}
