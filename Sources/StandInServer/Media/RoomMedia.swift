package import DecartProtocol

/// What the media of a room's participant tell, from any thread.
package enum RoomMediaEvent: Sendable, Equatable {
    /// To the participant's offer. Without video there is nothing to transform yet.
    case answered(sdp: String, hasVideo: Bool)
    /// For the connection that takes the transformed track: at first without it.
    case offered(sdp: String)
    /// Nil: no more candidates.
    case localCandidate(CandidateMessage?, RoomSide)
    case connected(RoomSide)
    /// Final.
    case failed(String)
}

/// The media of a room's participant. Calls never block and may come from any thread; they are carried out in order.
package protocol RoomMedia: AnyObject, Sendable {
    /// Further faults while media flow; what cannot begin late is ignored.
    func add(_ faults: [Fault])
    /// For the participant's own tracks; any number of times.
    func receive(offer: String)
    func receive(answer: String)
    /// Makes an offer with the transformed track. Wants the former offer answered, and video from the participant.
    func offerTrack()
    /// Nil: no more candidates.
    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide)
    /// Idempotent. No event follows `completion`, which is called once for every call.
    func stop(completion: @escaping @Sendable () -> Void)
}
