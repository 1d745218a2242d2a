package import GStreamerKit

/// RTP in ("sink"), raw video out ("src"): depayloader and decoder, set to ask for key frames instead of showing damage.
package enum VideoDecoderBin {
    package static func make(codec: VideoCodec) throws(GStreamerError) -> Bin {
        guard let factory = codec.installedDecoder else {
            throw GStreamerError(.missingElement(codec.decoders.joined(separator: " or ")), "no \(codec.encodingName) decoder is installed")
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
        // A broken stream is answered with a key frame request, never with an error that stops the pipeline.
        decoder.set("max-errors", "-1")
        guard codec == .h264 else {
            try bin.hold([depayloader, decoder])
            limitFrames(codec, depayloader)
            return bin
        }
        // Parameter sets in the stream can be read on their way; in the caps they would be past before the frame.
        let format = try Element(factory: "capsfilter")
        format.set("caps", caps: try Caps("video/x-h264, stream-format=(string)byte-stream, alignment=(string)au"))
        try bin.hold([depayloader, format, decoder])
        limitFrames(codec, depayloader)
        return bin
    }

    /// An oversized frame never reaches the decoder, which would make room for it first. Its remote peer is asked for a
    /// keyframe, and after three of them the bin fails.
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
                        "The service sends frames of \(claim) pixels; at most \(FrameSize.maximumSide)x"
                            + "\(FrameSize.maximumPixels / FrameSize.maximumSide) are decoded."))
            }
            own.send(Event.forceKeyUnitUpstream())
            return .drop
        }
    }
}
