package import DecartProtocol
package import WebRTCTransport

/// Events of a session's media, from any thread.
package enum MediaSessionEvent: Sendable, Equatable {
    /// The answer to the client's offer.
    case answered(sdp: String, RoomLines = RoomLines())
    /// Our own offer, while media flow; in a room, for the connection that sends, at first without tracks.
    case offered(sdp: String)
    /// Nil: end of candidates. A direct connection is the publisher.
    case localCandidate(CandidateMessage?, RoomSide = .publisher)
    case connected(RoomSide)
    case streamArrived(rid: String)
    /// A line of a connection's log.
    case logged(String)
    /// Final. The text is sent to the client of a direct connection.
    case failed(String)
}

/// The media of a session or of a room's participant. Calls never block, may come from any thread, and are carried out in
/// order.
package protocol NegotiatingMedia: AnyObject, Sendable {
    /// Takes a later offer on the same connection and answers it like the first one.
    func receive(offer: String)

    func receive(answer: String)

    /// Adds faults while media flow; ignores faults that cannot begin late.
    func add(_ faults: [Fault])

    /// Idempotent. No event follows `completion`, which is called once for each call.
    func stop(completion: @escaping @Sendable () -> Void)
}

/// The media of one session over a direct connection.
package protocol MediaSession: NegotiatingMedia {
    /// Brings the output back in this way after the generation has restarted.
    func restart(_ output: Fault.Output)

    func addRemoteCandidate(_ candidate: CandidateMessage?)
}

/// Creates the media of a session: the interface between the control channel and GStreamer.
package protocol MediaEngine: Sendable {
    /// Processes the offer immediately; the answer is an event.
    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession

    /// The same as `makeSession` for a viewer over a direct connection.
    func makeViewer(
        offer: String, of viewers: Viewers, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession

    func makeRoomViewer(
        of viewers: Viewers, msid: String, audioMSID: String, takesTrailers: Bool,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia

    /// Creates the media of a room's participant. The first offer is an event, unless the participant makes all offers.
    /// - Parameters:
    ///   - codec: Codec of the transformed video; nil: that of the participant's.
    ///   - isSingle: One connection serves both directions, and the participant makes all offers.
    func makeRoom(
        painter: FramePainter, codec: VideoCodec?, faults: FaultPlan, msid: String, audioMSID: String, isSingle: Bool,
        takesTrailers: Bool, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia
}
