import RTP
import GStreamerKit
import WebRTCTransport

/// The m-lines of a participant's offer that carry our tracks, on a single connection for both directions.
package struct SingleLines: Sendable {
    package private(set) var mids: [OutputTrack: String] = [:]
    /// The mids that carry a track or have carried one: without one they are answered `inactive`, spare ones `sendonly`.
    package private(set) var used: Set<String> = []

    package init() {}

    /// Takes the first free m-line for each new track.
    /// - Returns: the tracks that have one.
    package mutating func place(
        _ tracks: [(track: OutputTrack, stream: OutputStream, codec: OutputCodec)], on offer: ClientOffer
    ) -> [TrackBinding] {
        mids = mids.filter { mid in tracks.contains { $0.track == mid.key } }
        return tracks.compactMap { track, stream, codec in
            let taken = Set(mids.values)
            guard
                let mid = mids[track]
                    ?? offer.receivingMids(track.kind.rawValue).first(where: { !taken.contains($0) })
            else { return nil }
            mids[track] = mid
            used.insert(mid)
            return TrackBinding(track, stream, codec, in: offer.formats(at: mid))
        }
    }
}
