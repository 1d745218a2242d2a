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

/// What a peer's description says about the m-line that we use.
package struct RemoteDescription: Sendable {
    package var mediaIndex: Int
    package var mid: String
    package var kinds: [String]
    package var mids: [String]
    package var codec: NegotiatedCodec
    package var extensions: HeaderExtensionIDs
    package var extmap: [String]
    package var direction: MediaDirection
    package var transport: TransportParameters
    package var candidates: [String]
    package var endOfCandidates: Bool

    /// Reads the first usable video m-line. `available` says which codecs we can take.
    package init(parsing text: String, isOffer: Bool, available: (VideoCodec) -> Bool) throws(PeerConnectionError) {
        let sdp: SDPDescription
        do { sdp = try SDPDescription(parsing: text) } catch { throw PeerConnectionError(.badDescription, error.message) }
        guard let index = sdp.media.firstIndex(where: { $0.kind == "video" && ($0.port != 0 || $0.has("bundle-only")) }) else {
            throw PeerConnectionError(.rejected, "the far side's description holds no video, or refuses it")
        }
        let media = sdp.media[index]
        guard media.transport.hasSuffix("RTP/SAVPF") || media.transport.hasSuffix("RTP/SAVP") else {
            throw PeerConnectionError(.badDescription, "the video is not sent by DTLS-SRTP")
        }
        mediaIndex = index
        kinds = sdp.media.map(\.kind)
        mids = sdp.media.enumerated().map { $1.value("mid") ?? String($0) }
        mid = mids[index]
        guard !isOffer || media.has("rtcp-mux") else {
            throw PeerConnectionError(.badDescription, "the far side does not multiplex RTCP with RTP")
        }
        guard let codec = Self.codecs(of: media).first(where: { available($0.codec) }) else {
            throw PeerConnectionError(.rejected, "no video codec in common: the far side has \(media.values("rtpmap").joined(separator: ", "))")
        }
        self.codec = codec
        extmap = sdp.values("extmap") + media.values("extmap")
        extensions = HeaderExtensionIDs(extmap: extmap)
        direction = ["sendrecv", "sendonly", "recvonly", "inactive"].first { media.has($0) || sdp.has($0) }
            .flatMap(MediaDirection.init) ?? .sendrecv
        // Transport attributes may stand on session or media level, or on the first m-line of the bundle.
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
        transport = TransportParameters(
            usernameFragment: fragment, password: password, fingerprints: fingerprints, setup: setup)
        candidates = Array(media.values("candidate").prefix(64))
        endOfCandidates = media.has("end-of-candidates") || sdp.has("end-of-candidates")
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
    var mid: String
    var codec: NegotiatedCodec
    var extensions: HeaderExtensionIDs
    var direction: MediaDirection
    var transport: TransportParameters
    var cname: String
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

    /// `others` are the m-lines of an offer that we do not take, by position: they are refused with port 0.
    func sdp(refusing others: (kinds: [String], mids: [String], index: Int)? = nil) -> SDPDescription {
        var sdp = SDPDescription()
        sdp.attributes = [
            SDPAttribute("group", "BUNDLE \(mid)"), SDPAttribute("extmap-allow-mixed"), SDPAttribute("msid-semantic", " WMS *"),
        ]
        let own = videoMedia()
        guard let others else {
            sdp.media = [own]
            return sdp
        }
        sdp.media = zip(others.kinds, others.mids).enumerated().map { index, line in
            guard index != others.index else { return own }
            var refused = SDPMedia(
                kind: line.0, port: 0,
                transport: line.0 == "application" ? "UDP/DTLS/SCTP" : "UDP/TLS/RTP/SAVPF",
                formats: [line.0 == "application" ? "webrtc-datachannel" : "0"])
            refused.attributes = [SDPAttribute("mid", line.1), SDPAttribute("inactive")]
            return refused
        }
        return sdp
    }

    private func videoMedia() -> SDPMedia {
        var media = SDPMedia(kind: "video", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: [String(codec.payloadType)])
        if let retransmission = codec.retransmissionPayloadType { media.formats.append(String(retransmission)) }
        var lines: [SDPAttribute] = [
            SDPAttribute("rtcp", "9 IN IP4 0.0.0.0"), SDPAttribute("ice-ufrag", transport.usernameFragment),
            SDPAttribute("ice-pwd", transport.password), SDPAttribute("ice-options", "trickle"),
        ]
        lines += transport.fingerprints.map { SDPAttribute("fingerprint", $0.sdpValue) }
        lines += [SDPAttribute("setup", transport.setup), SDPAttribute("mid", mid)]
        lines += extensions.extmap.map { SDPAttribute("extmap", $0) }
        lines += [SDPAttribute(direction.rawValue), SDPAttribute("rtcp-mux")]
        let type = codec.payloadType
        lines.append(SDPAttribute("rtpmap", "\(type) \(codec.codec.encodingName)/90000"))
        lines += codec.feedback.sorted().map { SDPAttribute("rtcp-fb", "\(type) \($0)") }
        if let parameters = codec.formatParameters { lines.append(SDPAttribute("fmtp", "\(type) \(parameters)")) }
        if let retransmission = codec.retransmissionPayloadType {
            lines.append(SDPAttribute("rtpmap", "\(retransmission) rtx/90000"))
            lines.append(SDPAttribute("fmtp", "\(retransmission) apt=\(type)"))
        }
        if direction.sends {
            lines.append(SDPAttribute("msid", "\(cname) \(cname)-video"))
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
