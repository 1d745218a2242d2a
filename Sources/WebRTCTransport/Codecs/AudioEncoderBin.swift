import RTP
package import GStreamerKit
internal import Synchronization

package enum OpusPayloader {
    /// Opus packets in, RTP out.
    /// - Parameter redundancy: may change while the payloader runs; nil: the one of the parameters stays.
    package static func make(
        _ parameters: AudioSendParameters, _ redundancy: SentRedundancy? = nil
    ) throws(GStreamerError) -> Element {
        let payloader = try Element(factory: "rtpopuspay")
        payloader.set("pt", parameters.payloadType)
        payloader.set("ssrc", Int(parameters.ssrc))
        // Start in the lower half: a lost packet at the wrap would desynchronise the SRTP rollover counter (RFC 3711
        // 3.3.1).
        payloader.set("seqnum-offset", Int.random(in: 0..<32768))
        // Sends nothing for frames that the encoder left out, and marks the next packet.
        if parameters.isDiscontinuous { payloader.set("dtx", true) }
        let redundancy = redundancy ?? SentRedundancy()
        redundancy.set(payloadType: parameters.redundancyType)
        payloader.staticPad("src")?.addProbe(.buffer) { item in
            guard case .buffer(let packet) = item else { return .pass }
            return redundancy.write(packet).map(ProbeVerdict.replace) ?? .pass
        }
        return payloader
    }
}

/// The redundancy of a payloader's packets, which a later description of the remote peer may withdraw. Any thread.
package final class SentRedundancy: Sendable {
    private struct State {
        var payloadType: Int?
        var writer: RedundancyWriter?
    }
    private let state = Mutex(State())

    package init() {}

    /// - Parameter payloadType: that of redundant audio; nil: the remote peer takes none.
    package func set(payloadType: Int?) {
        state.withLock { state in
            guard state.payloadType != payloadType else { return }
            state = State(payloadType: payloadType, writer: payloadType.map(RedundancyWriter.init(payloadType:)))
        }
    }

    fileprivate func write(_ packet: Buffer) -> Buffer? {
        let written = packet.withBytes { bytes in state.withLock { $0.writer?.write(bytes) } }
        guard let written, let written else { return nil }
        let buffer = written.withUnsafeBytes { Buffer(copying: $0) }
        (buffer.pts, buffer.dts) = (packet.pts, packet.dts)
        return buffer
    }
}

/// Raw audio in ("sink"), Opus packets out ("src"), tuned for a live conversation.
package enum AudioEncoderBin {
    /// - Parameter isDiscontinuous: in silence, one frame of 400 ms is encoded and the others are left out (RFC 7587 3.1.3).
    package static func make(isDiscontinuous: Bool = false) throws(GStreamerError) -> Bin {
        let bin = Bin()
        let convert = try Element(factory: "audioconvert")
        let resample = try Element(factory: "audioresample")
        let format = try Element(factory: "capsfilter")
        format.set(
            "caps",
            caps: try Caps(
                "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)[1, 2], layout=(string)interleaved"))
        let encoder = try Element(factory: "opusenc")
        // `generic` instead of `voice`: the input may be speech, music or ambient noise.
        encoder.set("audio-type", "generic")
        encoder.set("bitrate", 48_000)
        encoder.set("frame-size", "20")
        encoder.set("inband-fec", true)
        encoder.set("dtx", isDiscontinuous)
        // Expected loss in percent; with 0 the encoder adds no in-band FEC.
        encoder.set("packet-loss-percentage", 5)
        try bin.hold([convert, resample, format, encoder])
        return bin
    }
}

/// RTP in ("sink"), raw audio at the codec's clock rate out ("src"). Lost packets are repaired by FEC or concealed.
package enum AudioDecoderBin {
    package static func make(_ codec: AudioCodec) throws(GStreamerError) -> Bin {
        guard codec != .opus else { return try make() }
        return try make(codec == .pcmu ? ["rtppcmudepay", "mulawdec"] : ["rtppcmadepay", "alawdec"])
    }

    /// The encodings of AAC (RFC 3640, RFC 6416), which RTSP cameras send and no WebRTC peer.
    private static let aac = ["MPEG4-GENERIC": "rtpmp4gdepay", "MP4A-LATM": "rtpmp4adepay"]

    package static func isDecodable(encodingName: String) -> Bool {
        AudioCodec(encodingName: encodingName) != nil || aac[encodingName] != nil
    }

    /// - Returns: nil if the encoding is unknown.
    package static func make(encodingName: String) throws(GStreamerError) -> Bin? {
        if let codec = AudioCodec(encodingName: encodingName) { return try make(codec) }
        guard let depayloader = aac[encodingName] else { return nil }
        return try make([depayloader, "aacparse", "avdec_aac", "audioconvert"])
    }

    private static func make(_ factories: [String]) throws(GStreamerError) -> Bin {
        let bin = Bin()
        var elements: [Element] = []
        for factory in factories { elements.append(try Element(factory: factory)) }
        try bin.hold(elements)
        return bin
    }

    /// - Parameter decodes: false: Opus packets leave.
    package static func make(decodes: Bool = true) throws(GStreamerError) -> Bin {
        let bin = Bin()
        let depayloader = try Element(factory: "rtpopusdepay")
        guard decodes else {
            try bin.hold([depayloader])
            return bin
        }
        let decoder = try Element(factory: "opusdec")
        decoder.set("plc", true)
        decoder.set("use-inband-fec", true)
        // A broken packet yields silence, never an error that stops the pipeline.
        decoder.set("max-errors", "-1")
        try bin.hold([depayloader, decoder])
        return bin
    }
}
