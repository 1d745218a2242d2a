import RTP

extension RTPSessionParameters {
    init(_ video: NegotiatedVideo, _ identity: LocalIdentity) {
        self.init(clockRate: 90_000, ssrc: identity.ssrc, cname: identity.cname)
        for codec in video.codecs {
            var text =
                "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(codec.payloadType), "
            text += "encoding-name=(string)\(codec.codec.encodingName)"
            if codec.codec == .h264 {
                let mode = FormatParameters(codec.formatParameters ?? "")["packetization-mode"] ?? "0"
                text += ", packetization-mode=(string)\(mode == "1" ? 1 : 0)"
            }
            (caps[codec.payloadType], codecs[codec.payloadType]) = (text, codec.codec)
            if let type = codec.retransmissionPayloadType { rtxTypes[type] = codec.payloadType }
        }
        rtxSSRCs = video.rtxSSRCs
        if video.codec.usesTransportCC { transportWideCC = video.extensions.transportWideCC }
        usesREMB = video.usesREMB
        for codec in video.alternatives { retransmissionTypes[codec.payloadType] = codec.retransmissionPayloadType }
        guard let type = video.codec.retransmissionPayloadType else { return }
        var ssrcs = [identity.ssrc: identity.rtxSSRC]
        for stream in identity.streams(video.sentLayers) { ssrcs[stream.ssrc] = stream.rtxSSRC }
        retransmission = (type, ssrcs)
    }

    init(_ audio: NegotiatedAudio, _ identity: LocalIdentity) {
        self.init(clockRate: audio.codec.clockRate, ssrc: identity.audioSSRC, cname: identity.cname)
        redundancy = audio.redundancy
        for (codec, payloadType) in audio.codecs.map({ ($0.codec, $0.payloadType) }) {
            // rtpopusdepay takes dynamic types alone (96 to 127), and peers use 35 to 63 too (RFC 8843); it reads that of no
            // packet.
            let type = codec == .opus ? max(payloadType, 96) : payloadType
            caps[payloadType] =
                "application/x-rtp, media=(string)audio, clock-rate=(int)\(codec.clockRate), payload=(int)\(type), "
                + "encoding-name=(string)\(codec.encodingName)"
                + (codec == .opus ? ", encoding-params=(string)2" : "")
            clockRates[payloadType] = codec.clockRate
        }
    }
}
