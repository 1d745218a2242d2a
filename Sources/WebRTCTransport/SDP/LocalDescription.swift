// Writes our offer or answer as SDP, one m-line after the other.
import GStreamerKit
import MediaSecurity
import RTP

struct LocalDescription: Sendable {
    var transport: TransportParameters
    var identity: LocalIdentity

    static let offeredFeedback: Set<String> = ["nack", "nack pli", "ccm fir", "transport-cc", "goog-remb"]
    static let offeredAudioPayloadType = 111
    static let offeredRedundancy = AudioRedundancy(payloadType: 63, mediaType: offeredAudioPayloadType)

    static func offeredCodec(_ codec: VideoCodec, _ h264: H264Acceptance, at index: Int = 0) -> NegotiatedCodec {
        NegotiatedCodec(
            codec: codec, payloadType: 96 + 2 * index, retransmissionPayloadType: 97 + 2 * index,
            feedback: offeredFeedback, formatParameters: codec.formatParameters(h264))
    }

    /// A codec with its parameters, to which a payload type belongs.
    struct Format: Sendable, Equatable {
        var codec: VideoCodec
        var parameters: String?

        init(_ codec: VideoCodec, parameters: String?) { (self.codec, self.parameters) = (codec, parameters) }
        init(_ codec: VideoCodec, _ h264: H264Acceptance) {
            self.init(codec, parameters: codec.formatParameters(h264))
        }
    }

    static func format(_ codec: NegotiatedCodec) -> Format {
        Format(codec.codec, parameters: codec.formatParameters)
    }

    /// The formats of an m-line that only receives: H.264 in packets of one NAL unit too.
    static func received(_ codec: VideoCodec) -> [Format] {
        let usual = Format(codec, .baseline)
        guard codec == .h264, let parameters = usual.parameters else { return [usual] }
        let singleUnit = parameters.replacing("packetization-mode=1", with: "packetization-mode=0")
        return [usual, Format(codec, parameters: singleUnit)]
    }

    /// Gives each format a payload type, and the same one to the same format.
    static func numbered(_ formats: [Format]) -> [NegotiatedCodec] {
        let distinct = formats.reduce(into: [Format]()) { if !$0.contains($1) { $0.append($1) } }
        return distinct.enumerated().map { index, format in
            var codec = offeredCodec(format.codec, .baseline, at: index)
            codec.formatParameters = format.parameters
            return codec
        }
    }

    /// The codecs of an offer to receive, each one once; H.264 in each profile that cameras send, because some remote
    /// peers compare the profile.
    static func offeredCodecs(_ codecs: [VideoCodec]) -> [NegotiatedCodec] {
        var formats: [(codec: VideoCodec, h264: H264Acceptance)] = []
        for codec in codecs where !formats.contains(where: { $0.codec == codec }) {
            let profiles: [H264Acceptance] =
                codec == .h264 ? H264Profile.ofCameras.map(H264Acceptance.profile) : [.baseline]
            formats += profiles.map { (codec, $0) }
        }
        return formats.enumerated().map { offeredCodec($1.codec, $1.h264, at: $0) }
    }

    static var offeredExtensions: HeaderExtensionIDs {
        var ids = offeredAudioExtensions
        (ids.absoluteSendTime, ids.transportWideCC) = (2, 3)
        return ids
    }

    static var offeredSimulcastExtensions: HeaderExtensionIDs {
        var ids = offeredExtensions
        (ids.rid, ids.repairedRID) = (4, 5)
        return ids
    }

    static var offeredAudioExtensions: HeaderExtensionIDs {
        var ids = HeaderExtensionIDs()
        ids.mid = 1
        return ids
    }

    /// - Parameter mixesExtensionHeaders: we read both forms of header extensions (RFC 8285 6).
    static func whole(_ media: [SDPMedia], mixesExtensionHeaders: Bool) -> SDPDescription {
        var sdp = SDPDescription()
        sdp.media = media
        let taken = sdp.media.filter { $0.port != 0 }.compactMap { $0.value("mid") }
        sdp.attributes = [SDPAttribute("group", (["BUNDLE"] + taken).joined(separator: " "))]
        if mixesExtensionHeaders { sdp.attributes.append(SDPAttribute("extmap-allow-mixed")) }
        sdp.attributes.append(SDPAttribute("msid-semantic", " WMS *"))
        return sdp
    }

    /// Data channels: the transport is accepted, but no SCTP association is made.
    func application(mid: String, maximumMessageSize: UInt64? = nil) -> SDPMedia {
        var media = SDPMedia(kind: "application", port: 9, transport: "UDP/DTLS/SCTP", formats: ["webrtc-datachannel"])
        media.attributes = transportLines(mid: mid) + [SDPAttribute("sctp-port", "5000")]
        if let maximumMessageSize {
            media.attributes.append(SDPAttribute("max-message-size", String(maximumMessageSize)))
        }
        return media
    }

    /// A description of ours with candidates at its first m-line, which carries the transport of all.
    static func adding(_ candidates: [String], to text: String) -> String {
        guard !candidates.isEmpty else { return text }
        var lines = text.split(separator: "\r\n" as Character, omittingEmptySubsequences: false)
        let media = lines.indices.filter { lines[$0].hasPrefix("m=") }
        let end = media.dropFirst().first ?? (lines.lastIndex { !$0.isEmpty } ?? lines.count - 1) + 1
        lines.insert(contentsOf: candidates.map { "a=\($0)" }, at: end)
        return lines.joined(separator: "\r\n")
    }

    static func refused(kind: String, mid: String) -> SDPMedia {
        var refused = SDPMedia(
            kind: kind, port: 0, transport: kind == "application" ? "UDP/DTLS/SCTP" : "UDP/TLS/RTP/SAVPF",
            formats: [kind == "application" ? "webrtc-datachannel" : "0"])
        refused.attributes = [SDPAttribute("mid", mid), SDPAttribute("inactive")]
        return refused
    }

    private func transportLines(mid: String) -> [SDPAttribute] {
        let lines = [
            SDPAttribute("ice-ufrag", transport.usernameFragment), SDPAttribute("ice-pwd", transport.password),
            SDPAttribute("ice-options", "trickle"),
        ]
        return lines + transport.fingerprints.map { SDPAttribute("fingerprint", $0.sdpValue) }
            + [SDPAttribute("setup", transport.setup), SDPAttribute("mid", mid)]
    }

    private func rtpLines(mid: String, _ extensions: HeaderExtensionIDs, _ direction: MediaDirection) -> [SDPAttribute]
    {
        [SDPAttribute("rtcp", "9 IN IP4 0.0.0.0")] + transportLines(mid: mid)
            + extensions.extmap.map { SDPAttribute("extmap", $0) }
            + [SDPAttribute(direction.rawValue), SDPAttribute("rtcp-mux")]
    }

    /// The track and its SSRCs: media first, then RTX.
    private func sourceLines(_ name: String, _ ssrcs: [UInt32]) -> [SDPAttribute] {
        var lines = [SDPAttribute("msid", name)]
        if ssrcs.count == 2 { lines.append(SDPAttribute("ssrc-group", "FID \(ssrcs[0]) \(ssrcs[1])")) }
        return lines + ssrcs.map { SDPAttribute("ssrc", "\($0) cname:\(identity.cname)") }
    }

    private func simulcastLines(_ rids: [String], _ direction: String) -> [SDPAttribute] {
        rids.map { SDPAttribute("rid", "\($0) \(direction)") }
            + [SDPAttribute("simulcast", "\(direction) \(rids.joined(separator: ";"))")]
    }

    func media(_ video: NegotiatedVideo) -> SDPMedia {
        let codec = video.codec
        var media = SDPMedia(kind: "video", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: [])
        var lines = rtpLines(mid: video.mid, video.extensions, video.direction)
        if video.usesReducedSize { lines.append(SDPAttribute("rtcp-rsize")) }
        for codec in video.codecs {
            media.formats += codec.payloadTypes.map(String.init)
            lines += Self.codecLines(codec)
        }
        if !video.receivedLayers.isEmpty {
            lines += simulcastLines(video.receivedLayers, "recv")
        }
        if video.direction.sends, !video.sentLayers.isEmpty {
            // No SSRCs: the remote peer identifies the layers by rid (RFC 8853 5.4).
            lines += [SDPAttribute("msid", identity.videoName)] + simulcastLines(video.sentLayers, "send")
        } else if video.direction.sends {
            let hasRTX = codec.retransmissionPayloadType != nil
            lines += sourceLines(
                identity.videoName, hasRTX ? [identity.ssrc, identity.rtxSSRC] : [identity.ssrc])
        }
        media.attributes = lines
        return media
    }

    private static func codecLines(_ codec: NegotiatedCodec) -> [SDPAttribute] {
        let type = codec.payloadType
        var lines = [SDPAttribute("rtpmap", "\(type) \(codec.codec.encodingName)/90000")]
        lines += codec.feedback.sorted().map { SDPAttribute("rtcp-fb", "\(type) \($0)") }
        if let parameters = codec.formatParameters { lines.append(SDPAttribute("fmtp", "\(type) \(parameters)")) }
        if let retransmission = codec.retransmissionPayloadType {
            lines.append(SDPAttribute("rtpmap", "\(retransmission) rtx/90000"))
            lines.append(SDPAttribute("fmtp", "\(retransmission) apt=\(type)"))
        }
        return lines
    }

    func media(_ audio: NegotiatedAudio) -> SDPMedia {
        var media = SDPMedia(
            kind: "audio", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: audio.codecs.map { "\($0.payloadType)" })
        media.attributes = rtpLines(mid: audio.mid, audio.extensions, audio.direction)
        for (codec, type) in audio.codecs.map({ ($0.codec, $0.payloadType) }) {
            media.attributes.append(SDPAttribute("rtpmap", "\(type) \(codec.encoding)"))
            if codec == .opus { media.attributes.append(SDPAttribute("fmtp", "\(type) minptime=10;useinbandfec=1")) }
        }
        if let redundancy = audio.redundancy {
            let (type, repeated) = (redundancy.payloadType, redundancy.mediaType)
            media.formats.insert("\(type)", at: redundancy.comesFirst ? 0 : 1)
            media.attributes.append(SDPAttribute("rtpmap", "\(type) red/48000/2"))
            media.attributes.append(SDPAttribute("fmtp", "\(type) \(repeated)/\(repeated)"))
        }
        if audio.direction.sends { media.attributes += sourceLines(identity.audioName, [identity.audioSSRC]) }
        return media
    }
}
