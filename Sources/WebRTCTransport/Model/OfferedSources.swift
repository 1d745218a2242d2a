package import RTP

/// The SSRCs of the m-lines that a remote offer names, which decide what is ours: an SFU without the mid extension sends
/// streams of rejected m-lines too. A value.
package struct OfferedSources: Sendable, Equatable {
    /// The SSRCs of the accepted m-lines of each kind; empty if one of them names none: then payload types decide.
    private var own: [MediaKind: Set<UInt32>] = [:]
    /// The SSRCs of other m-lines.
    private var foreign: Set<UInt32> = []
    /// Kinds whose accepted m-lines name no SSRCs of RTX, so that these are learnt from packets.
    private var learnsRTX: Set<MediaKind> = []

    /// Admits each SSRC.
    package init() {}

    /// - Parameter sections: the m-lines of the offer, with what was accepted.
    init(_ sections: [(kind: String, ssrcs: Set<UInt32>, accepted: NegotiatedMedia?)]) {
        var unnamed: Set<MediaKind> = []
        for (kind, ssrcs, accepted) in sections {
            guard let kind = MediaKind(rawValue: kind), let accepted, accepted.direction.receives else {
                foreign.formUnion(ssrcs)
                continue
            }
            own[kind, default: []].formUnion(ssrcs)
            if ssrcs.isEmpty { unnamed.insert(kind) }
            if case .video(let video) = accepted, video.rtxSSRCs.isEmpty { learnsRTX.insert(kind) }
        }
        for kind in unnamed { own[kind] = nil }
        // A peer that moves a stream to another m-line may name it in both.
        for ssrcs in own.values { foreign.subtract(ssrcs) }
    }

    /// - Parameter isRTX: the packet has a payload type of RTX.
    package func admits(_ ssrc: UInt32, _ kind: MediaKind, isRTX: Bool) -> Bool {
        guard !foreign.contains(ssrc) else { return false }
        guard let own = own[kind], !own.isEmpty else { return true }
        return own.contains(ssrc) || isRTX && learnsRTX.contains(kind)
    }
}
