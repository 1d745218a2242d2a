/// The subscriber offer of a livekit-server 1.13.5, as recorded, without candidates and repeated `ssrc` lines.
enum LiveKitOffer {
    /// `m=video` with 14 payload types: the order does not depend on the codec of the track.
    static let types = [96, 97, 98, 99, 100, 101, 125, 126, 108, 109, 35, 36, 116, 117]

    private static let codecs = [
        (96, "VP8", ""), (98, "VP9", "profile-id=0"), (100, "VP9", "profile-id=1"),
        (125, "H264", "level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f"),
        (108, "H264", "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"), (35, "AV1", ""),
        (116, "H265", ""),
    ]

    static func session(bundle: [Int]) -> String {
        """
        v=0\r
        o=- 4899282195975691618 1795845376 IN IP4 0.0.0.0\r
        s=-\r
        t=0 0\r
        a=msid-semantic:WMS *\r
        a=fingerprint:sha-256 \
        44:5D:93:CF:1B:4D:E0:C6:6F:1D:77:81:58:8F:D6:C4:D7:8C:26:0C:DE:8C:33:F7:E4:42:CC:46:CA:99:62:08\r
        a=extmap-allow-mixed\r
        a=group:BUNDLE \(bundle.map(String.init).joined(separator: " "))\r\n
        """
    }

    static let data = """
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r
        c=IN IP4 0.0.0.0\r
        a=setup:actpass\r
        a=mid:0\r
        a=sendrecv\r
        a=sctp-port:5000\r
        a=max-message-size:65535\r
        a=ice-ufrag:VYPVhocUyxMjtoRU\r
        a=ice-pwd:ztPawLsrpygTjxsHocMYZeLGpTbETtaV\r\n
        """

    /// - Parameters:
    ///   - types: the payload types to offer.
    ///   - track: nil: there is no track any more, and the m-line is kept.
    static func video(
        mid: Int = 1, types: [Int] = types, track: String? = "PA_FxtMUpcSGKhU|TR_VCLq4VSKQasXcw TR_VCLq4VSKQasXcw",
        ssrc: (media: UInt32, rtx: UInt32) = (2_118_609_585, 1_079_937_298)
    ) -> String {
        var text = """
            m=video 9 UDP/TLS/RTP/SAVPF \(types.map(String.init).joined(separator: " "))\r
            c=IN IP4 0.0.0.0\r
            a=setup:actpass\r
            a=mid:\(mid)\r
            a=ice-ufrag:VYPVhocUyxMjtoRU\r
            a=ice-pwd:ztPawLsrpygTjxsHocMYZeLGpTbETtaV\r
            a=rtcp-mux\r
            a=rtcp-rsize\r\n
            """
        for (type, name, parameters) in codecs where types.contains(type) {
            text += "a=rtpmap:\(type) \(name)/90000\r\n"
            if !parameters.isEmpty { text += "a=fmtp:\(type) \(parameters)\r\n" }
            for feedback in ["ccm fir", "nack", "nack pli", "goog-remb"] {
                text += "a=rtcp-fb:\(type) \(feedback)\r\n"
            }
            text += "a=rtpmap:\(type + 1) rtx/90000\r\na=fmtp:\(type + 1) apt=\(type)\r\n"
        }
        text += """
            a=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time\r
            a=extmap:3 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time\r
            a=extmap:1 https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension\r\n
            """
        guard let track else { return text + "a=recvonly\r\n" }
        text += "a=ssrc-group:FID \(ssrc.media) \(ssrc.rtx)\r\n"
        for ssrc in [ssrc.media, ssrc.rtx] {
            text += "a=ssrc:\(ssrc) cname:\(track.prefix { $0 != " " })\r\na=ssrc:\(ssrc) msid:\(track)\r\n"
        }
        return text + "a=msid:\(track)\r\na=sendrecv\r\n"
    }

    static let first = session(bundle: [0, 1]) + data + video()
}
