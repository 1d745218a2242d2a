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

    /// Takes over the m-line of one kind. Without audio, each packet is video.
    /// - Parameter types: all payload types of the m-line.
    package mutating func configure(
        _ kind: MediaKind, types: Set<Int>, mid: String, midExtension: UInt8?, ssrcs: [UInt32]
    ) {
        let section = Section(types: types, mid: Array(mid.utf8), midExtension: midExtension)
        switch kind {
        case .video: video = section
        case .audio: (audio, isSplit) = (section, true)
        }
        for ssrc in ssrcs { map(ssrc, kind) }
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
