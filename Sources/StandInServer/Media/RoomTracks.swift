package import WebRTCTransport

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
    package var codec: VideoCodec?
    package var msid: String
    package var audioMSID: String
    /// One connection serves both directions; the participant makes all offers.
    package var isSingle: Bool
    /// The participant gets the trailers of the frames.
    package var takesTrailers: Bool
}

/// The kinds of media that the participant's offer has m-lines for.
package struct RoomLines: Sendable, Equatable {
    /// Kinds that the participant sends now. Without video there is nothing to transform yet.
    package var receiving: Set<MediaKind> = []
    /// Single connection: the mids of the m-lines that can carry our tracks.
    package var sendMids: [MediaKind: String] = [:]
    /// Kinds that we send now.
    package var sending: Set<MediaKind> = []

    package init() {}
}
