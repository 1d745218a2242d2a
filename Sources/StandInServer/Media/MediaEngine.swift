package import DecartProtocol

/// What the media of a session tell its control channel, from any thread.
package enum MediaEvent: Sendable, Equatable {
    case answered(sdp: String)
    /// Of our own, while media flow.
    case offered(sdp: String)
    /// Nil: no more candidates.
    case localCandidate(CandidateMessage?)
    /// Final; the words go to the client.
    case failed(String)
}

/// The media of one session. Calls never block and may come from any thread; they are carried out in order.
package protocol MediaSession: AnyObject, Sendable {
    /// A later one, on the same connection; it is answered as the first.
    func receive(offer: String)

    /// To an offer of ours.
    func receive(answer: String)

    /// The generation has started again, and the output comes back in this way.
    func restart(_ output: Fault.Output)

    /// Further faults while media flow; what cannot begin late is ignored.
    func add(_ faults: [Fault])

    /// Nil: no more candidates.
    func addRemoteCandidate(_ candidate: CandidateMessage?)

    /// Idempotent. No event follows `completion`, which is called once for every call.
    func stop(completion: @escaping @Sendable () -> Void)
}

/// Makes the media of a session: the seam between the control channel and GStreamer.
package protocol MediaEngine: Sendable {
    /// Takes the offer at once; the answer comes as an event.
    /// - Parameter faults: those of the connection; the ones of media are the engine's.
    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession

    /// For a viewer of a session over a direct connection, like `makeSession`.
    func makeViewer(
        offer: String, of audience: Audience, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession

    /// For a viewer of a session in its room, like `makeRoom`.
    func makeRoomViewer(
        of audience: Audience, msid: String, onEvent: @escaping @Sendable (RoomMediaEvent) -> Void
    ) -> any RoomMedia

    /// For a participant of a room; the first offer comes as an event, unless the participant makes them all.
    /// - Parameters:
    ///   - msid: what the transformed track is to be known by.
    ///   - audioMSID: the same of the sound that goes back.
    ///   - isSingle: one connection serves both directions, and the participant offers.
    func makeRoom(
        painter: FramePainter, faults: FaultPlan, msid: String, audioMSID: String, isSingle: Bool,
        onEvent: @escaping @Sendable (RoomMediaEvent) -> Void
    ) -> any RoomMedia
}
