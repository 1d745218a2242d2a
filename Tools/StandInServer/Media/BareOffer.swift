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
    /// The codec's rtpmap, fmtp and rtcp-fb lines.
    private let codecLines: [String]
    private let refusals: [String]

    init?(_ sdp: String) {
        let lines = sdp.split(whereSeparator: \.isNewline).map(String.init)
        func value(_ name: String) -> String? {
            lines.first { $0.hasPrefix("a=\(name):") }.map { String($0.dropFirst(name.utf8.count + 3)) }
        }
        guard let media = lines.first(where: { $0.hasPrefix("m=") }), media.hasPrefix("m=video ") else { return nil }
        let words = media.split(separator: " ")
        guard words.count > 3, let payloadType = Int(words[3]), (0...127).contains(payloadType),
            let usernameFragment = value("ice-ufrag"), let password = value("ice-pwd")
        else { return nil }
        self.payloadType = payloadType
        self.usernameFragment = usernameFragment
        self.password = password
        mid = value("mid") ?? "0"
        fingerprints = lines.compactMap { line in
            line.hasPrefix("a=fingerprint:") ? Fingerprint(sdpValue: String(line.dropFirst(14))) : nil
        }
        candidates = lines.filter { $0.hasPrefix("a=candidate:") }
        let sections = lines.indices.filter { lines[$0].hasPrefix("m=") }.dropFirst().prefix(16)
        refusals = zip(sections, sections.dropFirst() + [lines.count]).flatMap { start, end -> [String] in
            let words = lines[start].split(separator: " ")
            guard words.count > 3 else { return [] }
            return ["\(words[0]) 0 \(words[2]) \(words[3])"] + lines[start..<end].filter { $0.hasPrefix("a=mid:") } + [
                "a=inactive"
            ]
        }
        codecLines = lines.filter { line in
            ["rtpmap", "fmtp", "rtcp-fb"].contains { line.hasPrefix("a=\($0):\(payloadType) ") }
        }
    }

    func answer(usernameFragment: String, password: String, fingerprint: String) -> String {
        let lines =
            [
                "v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE \(mid)",
                "m=video 9 UDP/TLS/RTP/SAVPF \(payloadType)", "c=IN IP4 0.0.0.0", "a=mid:\(mid)", "a=sendrecv",
                "a=rtcp-mux", "a=ice-ufrag:\(usernameFragment)", "a=ice-pwd:\(password)", "a=ice-options:trickle",
                "a=fingerprint:\(fingerprint)", "a=setup:active",
            ] + codecLines + refusals
        return lines.map { $0 + "\r\n" }.joined()
    }
}
