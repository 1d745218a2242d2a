package import DecartProtocol
package import WebRTCTransport

/// What the participant's offer has m-lines for.
package struct RoomLines: Sendable, Equatable {
    /// What comes from it now. Without video there is nothing to transform yet.
    package var comes: Set<MediaKind> = []
    /// Of one connection for both directions: m-lines that tracks go on, or could, by their mid …
    package var takers: [MediaKind: String] = [:]
    /// … and those that do.
    package var goes: Set<MediaKind> = []

    package init() {}
}

/// What the media of a room's participant tell, from any thread.
package enum RoomMediaEvent: Sendable, Equatable {
    /// To the participant's offer.
    case answered(sdp: String, RoomLines)
    /// For the connection that takes the transformed track and its sound: at first without them.
    case offered(sdp: String)
    /// Nil: no more candidates.
    case localCandidate(CandidateMessage?, RoomSide)
    case connected(RoomSide)
    /// One of a simulcast.
    case streamArrived(rid: String)
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
    /// Makes an offer with these tracks and no others, or lets the next answer hold them where one connection serves both
    /// directions. Wants the former offer answered, and the like of them from the participant once.
    func offer(_ tracks: Set<MediaKind>)
    /// The picture goes on an m-line of its own from the next offer of ours on.
    func moveVideo()
    /// Nil: no more candidates.
    func addRemoteCandidate(_ candidate: CandidateMessage?, _ side: RoomSide)
    /// Idempotent. No event follows `completion`, which is called once for every call.
    func stop(completion: @escaping @Sendable () -> Void)
}
