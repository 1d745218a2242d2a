package import GStreamerKit

/// RTP in ("sink"), raw video out ("src"): depayloader and decoder. They request keyframes instead of showing damage.
package enum VideoDecoderBin {
    package static func make(codec: VideoCodec) throws(GStreamerError) -> Bin {
        guard let factory = codec.installedDecoder else {
            let names = codec.decoders.joined(separator: " or ")
            throw GStreamerError(
                .missingElement(names), "no \(codec.encodingName) decoder is installed: install \(names)")
        }
        let bin = Bin()
        let depayloader = try Element(factory: codec.depayloader)
        depayloader.set("request-keyframe", true)
        depayloader.set("wait-for-keyframe", true)
        let decoder = try Element(factory: factory)
        decoder.set("threads", 1)
        decoder.set("max-threads", 1)
        decoder.set("automatic-request-sync-points", true)
        decoder.set("discard-corrupted-frames", true)
        decoder.set("output-corrupt", false)
        decoder.set("qos", false)
        // A broken stream causes a keyframe request, never an error that stops the pipeline.
        decoder.set("max-errors", "-1")
        guard codec == .h264 else {
            try bin.hold([depayloader, decoder])
            limitFrames(codec, depayloader)
            return bin
        }
        requestMissingKeyframe(depayloader)
        // The probe sees parameter sets in a byte-stream; in caps they would have passed before the frame.
        let format = try Element(factory: "capsfilter")
        format.set("caps", caps: try Caps("video/x-h264, stream-format=(string)byte-stream, alignment=(string)au"))
        try bin.hold([depayloader, format, decoder])
        limitFrames(codec, depayloader)
        return bin
    }

    /// Requests a keyframe each second of the stream in which packets arrive and no frame leaves. rtph264depay requests
    /// one only after a gap, unlike those of VP8 and VP9; it sees none if the packets before its first one were lost,
    /// for example because they came before the SRTP keys, and then waits for a keyframe that nothing requests.
    private static func requestMissingKeyframe(_ depayloader: Element) {
        guard let packets = depayloader.staticPad("sink"), let frames = depayloader.staticPad("src") else { return }
        let interval: ClockTime = 1_000_000_000
        // Both probes run on the stream's thread.
        var waitingSince: ClockTime?
        frames.addProbe(.buffer) { _ in
            waitingSince = nil
            return .pass
        }
        packets.addProbe(.buffer) { [own = frames.unowned] item in
            guard case .buffer(let packet) = item, let time = packet.pts else { return .pass }
            guard let since = waitingSince, time >= since else {
                waitingSince = time
                return .pass
            }
            if time - since >= interval {
                waitingSince = time
                own.send(Event.forceKeyUnitUpstream())
            }
            return .pass
        }
    }

    /// Drops oversized frames, because the decoder would allocate for them first. Each drop requests a keyframe; after
    /// three oversized frames in a row the depayloader posts an error.
    private static func limitFrames(_ codec: VideoCodec, _ depayloader: Element) {
        guard let frames = depayloader.staticPad("src") else { return }
        var gate = FrameGate(codec: codec)
        frames.addProbe(.buffer) { [own = frames.unowned, owner = depayloader.unowned] item in
            guard case .buffer(let buffer) = item else { return .pass }
            switch buffer.withBytes({ gate.judge($0) }) ?? .drop {
            case .pass: return .pass
            case .drop: break
            case .fail(let size):
                let claim = size.map { "\($0.width)x\($0.height)" } ?? "an unreadable number of"
                owner.postError(
                    ElementProblem(
                        .streamFormat,
                        "The service sends frames of \(claim) pixels; the limit is \(FrameSize.maximumSide)x"
                            + "\(FrameSize.maximumPixels / FrameSize.maximumSide)."))
            }
            own.send(Event.forceKeyUnitUpstream())
            return .drop
        }
    }
}
