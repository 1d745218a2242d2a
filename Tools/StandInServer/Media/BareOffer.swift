import GStreamerKit
import MediaSecurity

/// The parts of an offer that an answer without a pipeline needs: the first m-line, which must be video, with its first
/// codec. The answer rejects all other m-lines.
struct BareOffer {
    let mid: String
    let payloadType: Int
    let usernameFragment: String
    let password: String
    let fingerprints: [Fingerprint]
    let candidates: [String]
    private let media: [SDPMedia]

    init?(_ text: String) {
        guard let sdp = try? SDPDescription(parsing: text), let video = sdp.media.first, video.kind == "video" else {
            return nil
        }
        func values(_ name: String) -> [String] { sdp.values(name) + sdp.media.flatMap { $0.values(name) } }
        guard let payloadType = video.formats.first.flatMap({ Int($0) }), (0...127).contains(payloadType),
            let usernameFragment = values("ice-ufrag").first, let password = values("ice-pwd").first
        else { return nil }
        (self.payloadType, self.usernameFragment, self.password) = (payloadType, usernameFragment, password)
        (media, mid) = (sdp.media, video.value("mid") ?? "0")
        fingerprints = values("fingerprint").compactMap(Fingerprint.init(sdpValue:))
        candidates = values("candidate").map { "candidate:" + $0 }
    }

    func answer(usernameFragment: String, password: String, fingerprint: String) -> String {
        var video = SDPMedia(kind: "video", port: 9, transport: "UDP/TLS/RTP/SAVPF", formats: ["\(payloadType)"])
        video.attributes =
            [
                SDPAttribute("mid", mid), SDPAttribute("sendrecv"), SDPAttribute("rtcp-mux"),
                SDPAttribute("ice-ufrag", usernameFragment), SDPAttribute("ice-pwd", password),
                SDPAttribute("ice-options", "trickle"), SDPAttribute("fingerprint", fingerprint),
                SDPAttribute("setup", "active"),
            ]
            + media[0].attributes.filter { attribute in
                ["rtpmap", "fmtp", "rtcp-fb"].contains(attribute.name)
                    && attribute.value?.hasPrefix("\(payloadType) ") ?? false
            }
        var answer = SDPDescription()
        answer.attributes = [SDPAttribute("group", "BUNDLE \(mid)")]
        answer.media = [video] + media.dropFirst().map(\.rejected)
        return answer.text(sessionID: 1, version: 2)
    }
}
