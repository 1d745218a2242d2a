package import DecartProtocol
import WebRTCTransport

/// Events of a session's media, from any thread.
package enum MediaSessionEvent: Sendable, Equatable {
    /// The answer to the client's offer.
    case answered(sdp: String, RoomLines = RoomLines())
    /// Our own offer, while media flow; in a room, for the connection that sends, at first without tracks; `mids` has the SIDs
    /// of its tracks.
    case offered(sdp: String, mids: [String: String] = [:])
    /// Room: the participant's answer says which tracks can be sent.
    case bound([TrackBinding])
    /// Room: the first frame of a track is sent.
    case started(OutputTrack)
    /// Nil: end of candidates. A direct connection is the publisher.
    case localCandidate(CandidateMessage?, RoomSide = .publisher)
    case connected(RoomSide)
    case streamArrived(rid: String)
    /// A line of a connection's log.
    case logged(String)
    /// Final. The text is sent to the client of a direct connection.
    case failed(String)
}

/// Requests to a session's media, which ignore those that do not apply to them.
package enum MediaRequest: Sendable, Equatable {
    /// Takes an offer, the first or a later one on the same connection; the answer is an event.
    /// In a room, with what it knows about the offered tracks.
    case receiveOffer(String, PublishedCodecs = PublishedCodecs())
    /// The peer's answer to our own offer.
    case receiveAnswer(String)
    /// Nil: end of candidates. A direct connection is the publisher.
    case addCandidate(CandidateMessage?, RoomSide = .publisher)
    /// Direct connection: brings the output back in this way after the generation has restarted.
    case restart(Fault.Output)
    /// Room: makes an offer with exactly these tracks; with a single connection, puts them into the next answer instead.
    /// For use after the previous offer is answered, and after the participant has sent media of each of these kinds once.
    case offer([OutputTrack])
    /// Room: makes an offer with exactly these tracks and new ICE credentials, also while another offer waits for its
    /// answer.
    case restartICE([OutputTrack])
    /// Room: puts the video on a new m-line in our next offer.
    case moveVideo
    /// Room: sends the video in another codec on the same m-line, if the participant takes it.
    case changeCodec(OutputCodec)
    case requestKeyframe
    /// Room: ends the connections, as a server does in front of its `leave`.
    case close
}

/// The media of a session over a direct connection, of a room's participant, or of a viewer. Calls never block, may come
/// from any thread, and are carried out in order.
package protocol SessionMedia: AnyObject, Sendable {
    func perform(_ request: MediaRequest)

    /// Adds faults while media flow; ignores faults that cannot begin late.
    func add(_ faults: [Fault])

    /// Idempotent. No event follows `completion`, which is called once for each call.
    func stop(completion: @escaping @Sendable () -> Void)
}

extension SessionMedia {
    package func add(_ faults: [Fault]) {}
}

/// Creates the media of a session: the interface between the control channel and GStreamer.
package protocol MediaEngine: Sendable {
    /// Creates the media of a client. In a room the first offer is an event, unless the participant makes all offers.
    /// - Parameter room: Nil: a direct connection, for which the client offers.
    func makeMedia(
        painter: FramePainter, faults: FaultPlan, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia

    /// The same as `makeMedia` for a viewer.
    func makeViewer(
        of viewers: Viewers, room: RoomTracks?, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia
}
