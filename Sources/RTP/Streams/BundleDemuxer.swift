// Demuxes packets of the bundle to RTP sessions (RFC 8843 9.2). A value; it knows bytes and what was negotiated.

package struct BundleDemuxer {
    private struct Section {
        var types: Set<Int> = []
        var mid: [UInt8] = []
        var midExtension: UInt8?
    }
    private var video = Section()
    private var audio = Section()
    /// The session of each SSRC, declared by the remote peer or learnt from its packets.
    private var kinds: [UInt32: MediaKind] = [:]
    package static let maximumSources = 64
    package var knownSources: Int { kinds.count }

    /// True once there is more than one RTP session.
    private var isSplit = false

    package init() {}

    package mutating func configure(_ video: NegotiatedVideo) {
        self.video = Section(
            types: Set(video.codecs.flatMap(\.payloadTypes)), mid: Array(video.mid.utf8),
            midExtension: video.extensions.mid)
        for ssrc in video.ssrcs { map(ssrc, .video) }
    }

    package mutating func configure(_ audio: NegotiatedAudio) {
        isSplit = true
        self.audio = Section(
            types: Set(audio.codecs.map(\.payloadType) + (audio.redundancy.map { [$0.payloadType] } ?? [])),
            mid: Array(audio.mid.utf8), midExtension: audio.extensions.mid)
        for ssrc in audio.ssrcs { map(ssrc, .audio) }
    }

    /// - Parameter packet: RTP of 12 bytes or more.
    package mutating func kind(ofRTP packet: UnsafeRawBufferPointer) -> MediaKind {
        guard isSplit else { return .video }
        let type = Int(packet[1] & 0x7f)
        let ssrc = packet.bigEndian32(at: 8)
        let (isVideo, isAudio) = (video.types.contains(type), audio.types.contains(type))
        let kind = isVideo != isAudio ? (isAudio ? .audio : .video) : kinds[ssrc] ?? self.kind(byMid: packet)
        if kinds[ssrc] != kind { map(ssrc, kind) }
        return kind
    }

    private func kind(byMid packet: UnsafeRawBufferPointer) -> MediaKind {
        guard let id = audio.midExtension, let value = HeaderExtension.value(id, in: packet) else { return .video }
        return packet[value].elementsEqual(audio.mid) ? .audio : .video
    }

    private mutating func map(_ ssrc: UInt32, _ kind: MediaKind) {
        // Only a remote peer that keeps inventing SSRCs reaches the limit.
        if kinds.count >= Self.maximumSources { kinds.removeAll() }
        kinds[ssrc] = kind
    }
}
