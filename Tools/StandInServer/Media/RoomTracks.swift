package import RTP
import WebRTCTransport

/// The two connections of a participant. A single connection for both directions is the publisher.
package enum RoomSide: Sendable, Hashable {
    /// Receives the participant's own tracks; the participant offers.
    case publisher
    /// Sends the transformed video and the audio; the room offers.
    case subscriber
}

/// The options of a participant's media.
package struct RoomTracks: Sendable {
    /// Codec of the transformed video; nil: that of the received one.
    package var codec: OutputCodec?
    /// The publisher of the tracks, in their `a=msid`.
    package var participantSID: String
    /// One connection serves both directions; the participant makes all offers.
    package var isSingle: Bool
    /// The participant gets the trailers of the frames.
    package var takesTrailers: Bool
    package var trailersHaveTimeAlone = false
    /// Ends the room's own frames.
    package var fillerTrailer: [UInt8] = []
    /// The codecs that the room allows, in lower case; nil: all.
    package var allowedCodecs: Set<String>?
    /// Our offers name no candidates.
    package var hidesCandidates = false
}

/// The kinds of media that the participant's offer has m-lines for.
package struct RoomLines: Sendable, Equatable {
    /// Kinds that the participant sends now. Without video there is nothing to transform yet.
    package var receiving: Set<MediaKind> = []
    /// Single connection: the mids of the m-lines that can carry our tracks.
    package var sendMids: [MediaKind: String] = [:]
    /// Kinds that we send now.
    package var sending: Set<MediaKind> = []

    /// The m-line of a track of the participant.
    package struct Published: Sendable, Equatable {
        package var mid: String
        /// As in a MIME type.
        package var codec: String

        package init(mid: String, codec: String) { (self.mid, self.codec) = (mid, codec) }
    }
    /// The published tracks, by the participant's IDs.
    package var published: [String: Published] = [:]

    package init() {}
}
