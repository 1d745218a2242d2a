/// The codecs for the tracks of an offer: the one that `addTrack` announced for each, and those that the room allows.
package struct PublishedCodecs: Sendable, Equatable {
    /// Codecs in lower case, without "video/", by the client's ID of the track.
    package var announced: [String: String] = [:]
    /// The announced simulcast layers of a track, by size, the largest first, as far as they name their RID.
    package var layers: [String: [String]] = [:]
    /// The client's IDs of audio tracks that are published without redundancy.
    package var withoutRedundancy: Set<String> = []
    /// The codec of the m-lines whose track is not announced; nil: the first one of the offer.
    var preferred: String?
    /// Nil: all.
    package var allowed: Set<String>?

    package init() {}

    func allows(_ name: String) -> Bool { allowed?.contains(name) ?? true }
}
