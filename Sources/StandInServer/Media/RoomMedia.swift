package import DecartProtocol
package import WebRTCTransport

/// The two connections of a participant. A single connection for both directions is the publisher.
package enum RoomSide: Sendable, Hashable {
    /// Receives the participant's own tracks; the participant offers.
    case publisher
    /// Sends the transformed video and the audio; the room offers.
    case subscriber
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

/// The media of a room's participant, which offers its own tracks any number of times.
package protocol RoomMedia: NegotiatingMedia {
    /// Makes an offer with exactly these tracks; with a single connection, puts them into the next answer instead. Call
    /// after the previous offer is answered, and after the participant has sent media of each of these kinds once.
    func offer(_ tracks: Set<MediaKind>)
    /// Makes an offer with exactly these tracks and new ICE credentials, also while another offer waits for its answer.
    func restartICE(_ tracks: Set<MediaKind>)
    /// Puts the video on a new m-line in our next offer.
    func moveVideo()
    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide)
}
