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
        try bin.hold([depayloader, decoder])
        return bin
    }
}
