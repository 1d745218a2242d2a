package import RTP

extension BundleDemuxer {
    package mutating func configure(_ video: NegotiatedVideo) {
        configure(
            .video, types: Set(video.codecs.flatMap(\.payloadTypes)), mid: video.mid,
            midExtension: video.extensions.mid, ssrcs: video.ssrcs)
    }

    package mutating func configure(_ audio: NegotiatedAudio) {
        let redundancy = audio.redundancy.map { [$0.payloadType] } ?? []
        configure(
            .audio, types: Set(audio.codecs.map(\.payloadType) + redundancy), mid: audio.mid,
            midExtension: audio.extensions.mid, ssrcs: audio.ssrcs)
    }
}
