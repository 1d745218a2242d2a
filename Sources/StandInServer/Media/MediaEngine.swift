package import DecartProtocol

/// What the media of a session tell its control channel, from any thread.
package enum MediaEvent: Sendable, Equatable {
    case answered(sdp: String)
    /// Nil: no more candidates.
    case localCandidate(CandidateMessage?)
    /// Final; the words go to the client.
    case failed(String)
}

/// The media of one session. Calls never block and may come from any thread; they are carried out in order.
package protocol MediaSession: AnyObject, Sendable {
    /// Nil: no more candidates.
    func addRemoteCandidate(_ candidate: CandidateMessage?)

    /// Idempotent. No event follows `completion`, which is called once for every call.
    func stop(completion: @escaping @Sendable () -> Void)
}

/// Makes the media of a session: the seam between the control channel and GStreamer.
package protocol MediaEngine: Sendable {
    /// Takes the offer at once; the answer comes as an event.
    func makeSession(
        offer: String, painter: FramePainter, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession
}
