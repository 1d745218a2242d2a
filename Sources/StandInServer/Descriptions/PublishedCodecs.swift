/// What the room knows about the tracks of an offer: the codec that `addTrack` announced for each, and the codecs that the
/// room allows.
package struct PublishedCodecs: Sendable, Equatable {
    /// By the track's ID of the client: the codec in lower case, without "video/".
    package var announced: [String: String] = [:]
    /// The announced simulcast layers of a track, by size, the largest first, as far as they name their RID.
    package var layers: [String: [String]] = [:]
    /// The codec of the m-lines whose track is not announced; nil: the first one of the offer.
    var preferred: String?
    /// Nil: all.
    package var allowed: Set<String>?

    package init() {}

    func allows(_ name: String) -> Bool { allowed?.contains(name) ?? true }
}
