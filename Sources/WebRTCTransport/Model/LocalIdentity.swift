import RTP

struct LocalIdentity: Sendable {
    /// One CNAME for audio and video, so that the remote peer keeps them in sync (RFC 3550 6.5.1).
    var cname: String
    /// `a=msid`, `stream track` (RFC 8830); audio and video share the stream unless configured otherwise.
    var videoName: String
    var audioName: String
    var ssrc: UInt32
    var rtxSSRC: UInt32
    var audioSSRC: UInt32

    /// Consecutive SSRCs for video: media and RTX of each simulcast layer.
    static let videoSSRCs: UInt32 = UInt32(2 * SimulcastLayer.maximumCount)

    /// SSRCs of these simulcast layers, highest resolution first. The lowest layer has the SSRC of a single stream: it
    /// is never paused, so its receiver reports always cover the network.
    func streams(_ rids: [String]) -> [RTPEncoding] {
        rids.prefix(SimulcastLayer.maximumCount).enumerated().map { index, rid in
            let step = UInt32(2 * (rids.count - 1 - index))
            return RTPEncoding(rid: rid, ssrc: ssrc &+ step, rtxSSRC: rtxSSRC &+ step)
        }
    }
    /// Generates names, as far as they are not given, and SSRCs.
    init(msid: String?, audioMSID: String?) {
        cname = "decart-\(String(UInt64.random(in: 0...UInt64.max), radix: 36))"
        videoName = msid ?? "\(cname) \(cname)-video"
        audioName = audioMSID ?? "\(videoName.prefix { $0 != " " }) \(cname)-audio"
        // All SSRCs are consecutive; the range leaves room so that they do not wrap.
        audioSSRC = UInt32.random(in: 1...(UInt32.max - Self.videoSSRCs))
        (ssrc, rtxSSRC) = (audioSSRC + 1, audioSSRC + 2)
    }
}
