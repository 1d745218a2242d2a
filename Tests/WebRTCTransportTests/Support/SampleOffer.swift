/// A browser's offer, in sections.
enum SampleOffer {
    static let session = """
        v=0\r
        o=- 4611731400430051336 2 IN IP4 127.0.0.1\r
        s=-\r
        t=0 0\r
        a=group:BUNDLE 0 1 2\r
        a=extmap-allow-mixed\r
        a=msid-semantic: WMS stream\r\n
        """

    static let transport = """
        a=ice-ufrag:SAMP\r
        a=ice-pwd:0123456789abcdefghijklmn\r
        a=ice-options:trickle\r
        a=fingerprint:sha-256 \
        7B:8B:F0:65:5F:78:E2:51:3B:AC:6F:F3:3F:46:1B:35:DC:B8:5F:64:1A:24:C2:43:F0:A1:58:D0:A1:2C:19:08\r
        a=setup:actpass\r\n
        """

    static let audio = """
        m=audio 9 UDP/TLS/RTP/SAVPF 111\r
        c=IN IP4 0.0.0.0\r
        a=rtcp:9 IN IP4 0.0.0.0\r
        \(transport)a=mid:0\r
        a=sendrecv\r
        a=rtcp-mux\r
        a=rtpmap:111 opus/48000/2\r\n
        """

    static let application = """
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r
        c=IN IP4 0.0.0.0\r
        \(transport)a=mid:2\r
        a=sctp-port:5000\r\n
        """

    private static let codecs = [
        (96, 97, "VP8", ""), (98, 99, "VP9", "profile-id=0"),
        (102, 103, "H264", "packetization-mode=1;profile-level-id=42001f"),
    ]

    /// - Parameter track: nil: without `a=msid`.
    static func video(
        mid: String = "1", direction: String = "sendrecv", track: String? = "stream track", adding more: String = "",
        without prefixes: [String] = []
    ) -> String {
        var text = """
            m=video 9 UDP/TLS/RTP/SAVPF 96 97 98 99 102 103\r
            c=IN IP4 0.0.0.0\r
            a=rtcp:9 IN IP4 0.0.0.0\r
            \(transport)a=mid:\(mid)\r
            a=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time\r
            a=extmap:4 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01\r
            a=extmap:9 urn:ietf:params:rtp-hdrext:sdes:mid\r
            a=\(direction)\r
            \(track.map { "a=msid:\($0)\r\n" } ?? "")a=rtcp-mux\r
            a=rtcp-rsize\r\n
            """
        for (type, retransmission, name, parameters) in codecs {
            text += "a=rtpmap:\(type) \(name)/90000\r\n"
            for feedback in ["goog-remb", "transport-cc", "ccm fir", "nack", "nack pli"] {
                text += "a=rtcp-fb:\(type) \(feedback)\r\n"
            }
            if !parameters.isEmpty { text += "a=fmtp:\(type) \(parameters)\r\n" }
            text += "a=rtpmap:\(retransmission) rtx/90000\r\na=fmtp:\(retransmission) apt=\(type)\r\n"
        }
        text += "a=ssrc-group:FID 1234 5678\r\na=ssrc:1234 cname:x\r\na=ssrc:5678 cname:x\r\n" + more
        guard !prefixes.isEmpty else { return text }
        return text.split(separator: "\r\n" as Character).filter { line in !prefixes.contains { line.hasPrefix($0) } }
            .map { $0 + "\r\n" }.joined()
    }

    static let browser = session + audio + video() + application
}

extension String {
    /// Replaces plain text without Foundation.
    func replacing(_ old: String, with new: String) -> String {
        guard !old.isEmpty else { return self }
        var result = ""
        var rest = self[...]
        while let range = rest.firstRange(of: old) {
            result += rest[..<range.lowerBound] + new
            rest = rest[range.upperBound...]
        }
        return result + rest
    }
}
