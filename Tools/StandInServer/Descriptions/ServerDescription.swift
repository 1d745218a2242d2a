import GStreamerKit

/// Writes descriptions in the order of lines of LiveKit's servers.
struct ServerDescription: Sendable {
    /// The parts of our own transport that each m-line repeats.
    struct Transport: Sendable, Equatable {
        var usernameFragment = ""
        var password = ""
        var fingerprint: String?
        var setup = "actpass"

        /// Reads them from a description of our peer connection.
        init?(_ description: SDPDescription) {
            func first(_ name: String) -> String? {
                description.values(name).first ?? description.media.lazy.compactMap { $0.value(name) }.first
            }
            guard let usernameFragment = first("ice-ufrag"), let password = first("ice-pwd") else { return nil }
            (self.usernameFragment, self.password) = (usernameFragment, password)
            (fingerprint, setup) = (first("fingerprint"), first("setup") ?? "actpass")
        }
    }

    static let dependencyDescriptor =
        "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"

    let transport: Transport?

    func whole(_ media: [SDPMedia]) -> SDPDescription {
        var sdp = SDPDescription()
        sdp.media = media
        sdp.attributes = [SDPAttribute("msid-semantic", "WMS *")]
        if let fingerprint = transport?.fingerprint { sdp.attributes.append(SDPAttribute("fingerprint", fingerprint)) }
        sdp.attributes.append(SDPAttribute("extmap-allow-mixed"))
        let bundled = media.filter { $0.port != 0 }.compactMap { $0.value("mid") }
        if !bundled.isEmpty {
            sdp.attributes.append(SDPAttribute("group", (["BUNDLE"] + bundled).joined(separator: " ")))
        }
        return sdp
    }

    private var iceLines: [SDPAttribute] {
        transport.map { [SDPAttribute("ice-ufrag", $0.usernameFragment), SDPAttribute("ice-pwd", $0.password)] } ?? []
    }

    private func opening(_ mid: String) -> [SDPAttribute] {
        [SDPAttribute("setup", transport?.setup ?? "active"), SDPAttribute("mid", mid)]
    }

    func application(mid: String) -> SDPMedia {
        var media = SDPMedia(kind: "application", port: 9, transport: "UDP/DTLS/SCTP", formats: ["webrtc-datachannel"])
        media.attributes =
            opening(mid) + [
                SDPAttribute("sendrecv"), SDPAttribute("sctp-port", "5000"),
                SDPAttribute("max-message-size", "65535"),
            ] + iceLines
        return media
    }

    /// - Parameters:
    ///   - groupsRetransmissions: RTX follows all media formats, as in answers; else each one follows its own.
    ///   - rest: the lines behind the formats.
    func media(
        _ kind: String, mid: String, _ formats: [RoomFormat], groupsRetransmissions: Bool, _ rest: [SDPAttribute]
    ) -> SDPMedia {
        var types: [Int] = []
        var lines = opening(mid) + iceLines + [SDPAttribute("rtcp-mux"), SDPAttribute("rtcp-rsize")]
        for group in groupsRetransmissions ? [formats] : formats.map({ [$0] }) {
            types += group.map(\.payloadType) + group.compactMap(\.retransmissionType)
            lines += group.flatMap(\.lines) + group.flatMap(\.retransmissionLines)
        }
        var media = SDPMedia(kind: kind, port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: types.map(String.init))
        media.attributes = lines + rest
        return media
    }

    static func rejected(_ kind: String) -> SDPMedia {
        kind == "application"
            ? SDPMedia(kind: kind, port: 0, transport: "UDP/DTLS/SCTP", formats: ["webrtc-datachannel"])
            : SDPMedia(kind: kind, port: 0, transport: "UDP/TLS/RTP/SAVPF", formats: ["0"])
    }
}

/// A stream of ours as a description names it.
package struct OutputStream: Sendable, Equatable {
    /// `stream track`.
    package var msid: String
    package var ssrc: UInt32
    package var rtxSSRC: UInt32?

    package init(msid: String, ssrc: UInt32, rtxSSRC: UInt32?) {
        (self.msid, self.ssrc, self.rtxSSRC) = (msid, ssrc, rtxSSRC)
    }

    /// The stream that our peer connection describes on an m-line; nil: it sends none there.
    init?(_ media: SDPMedia) {
        guard let msid = media.value("msid"),
            let first = media.value("ssrc")?.split(separator: " ").first, let ssrc = UInt32(first)
        else { return nil }
        let group = media.value("ssrc-group")?.split(separator: " ").compactMap { UInt32($0) } ?? []
        (self.msid, self.ssrc, rtxSSRC) = (msid, ssrc, group.count == 2 ? group[1] : nil)
    }

    var lines: [SDPAttribute] {
        let parts = msid.split(separator: " ").map(String.init)
        guard let stream = parts.first, let track = parts.last else { return [] }
        var lines: [SDPAttribute] = []
        if let rtxSSRC { lines.append(SDPAttribute("ssrc-group", "FID \(ssrc) \(rtxSSRC)")) }
        for ssrc in [ssrc, rtxSSRC].compactMap(\.self) {
            lines += ["cname:\(stream)", "msid:\(msid)", "mslabel:\(stream)", "label:\(track)"].map {
                SDPAttribute("ssrc", "\(ssrc) \($0)")
            }
        }
        return lines + [SDPAttribute("msid", msid)]
    }
}
