// Events and actions of `RoomMachine`.
package import DecartProtocol
package import DecartSession
package import LiveKitProtocol
package import RTP
package import WebRTCTransport

package enum RoomTimer: Sendable, Hashable, CaseIterable {
    case ping
    /// Limits the silence after a ping.
    case pong
    /// Limits the wait for the answer to a later offer.
    case answer
    /// The next attempt to resume.
    case resume
    /// Limits the wait for the server's first message of a resume, and for the restart of ICE.
    case restore
    /// Limits the wait for the reason why the server closes its media connections.
    case farewell
}

package enum RoomEvent: Sendable, Equatable {
    case request(RoomRequest)
    case signalling(RoomSignallingEvent)
    case peer(RoomPeerEvent)
    case timerFired(RoomTimer)
}

/// Requests of the session and the application.
package enum RoomRequest: Sendable, Equatable {
    /// Starts joining the room.
    case open
    case desired(DesiredMedia)
    /// The application mutes exactly these kinds, and may lift the room's own mute.
    case mute(Set<MediaKind>, endsRoomMute: Bool)
    /// Resumes the stay, at once, and until it is restored.
    case recover
    case stop
}

/// Events of the signalling connection.
package enum RoomSignallingEvent: Sendable, Equatable {
    case opened
    case message(LiveKitSignalResponse)
    case closed(code: Int?, reason: String)
    case failed(SessionError)
}

/// Events of the peer connections.
package enum RoomPeerEvent: Sendable, Equatable {
    case offerMade(sdp: String)
    /// Answer of the subscriber connection.
    case answerMade(sdp: String, offer: UInt32)
    case candidateFound(CandidateMessage, LiveKitSignalTarget)
    case peerConnected(LiveKitSignalTarget)
    /// The answer to our offer has no video.
    case videoRejected
    case peerFailed(SessionError)
    /// The server closed the DTLS connection. It may name the reason, and may do so later.
    case peerClosed
    /// An offer of the server cannot be answered.
    case answerFailed(SessionError)
    /// No packets pass on a connected path, but ICE can restart it.
    case pathLost(LiveKitSignalTarget)
    case pathRestored(LiveKitSignalTarget)
    /// ICE has restarted. This alone does not show that media pass where they did not before.
    case iceRestarted(LiveKitSignalTarget)
}

package enum RoomAction: Sendable, Equatable {
    case send(LiveKitSignalRequest.Message)
    case close
    /// Opens the signalling connection. For one peer connection, the request holds its first offer and our tracks.
    case join(LiveKitJoinRequest)
    /// Creates the connection for both directions.
    case makePeer
    /// The server knows two connections only: closes the one for both directions.
    case dropPeer
    /// The room's ICE servers. `RoomConnection` skips those that it cannot use. After joining, the connection for both
    /// directions gathers candidates from them, or two connections are created with them; later restarts of ICE use them.
    case useServers([LiveKitICEServer], relayOnly: Bool)
    /// Adds m-lines to the next offer on which media may be received.
    case addReceivers([MediaKind: Int])
    /// Opens another signalling connection for the same participant, with the latest token, at another URL of the room or,
    /// with nil, at the one used last.
    case resume(LiveKitJoinRequest, url: String?)
    /// Frames that end with these bytes are the server's own: they are no media.
    case setFillerTrailer([UInt8])
    /// Encodes exactly the layers with these RIDs, of which a single stream has an empty one: no participant
    /// receives the others.
    case want(Set<String>)
    /// Publishes video in another codec than configured.
    case useCodec(VideoCodec)
    /// Makes our offer, with these media to send and no others.
    case makeOffer(Set<MediaKind>)
    /// As `makeOffer`, with new ICE credentials.
    case restartICE(Set<MediaKind>)
    /// Rolls back the latest offer, which was not answered.
    case rollbackOffer
    case applyAnswer(sdp: String)
    case makeAnswer(offer: String, id: UInt32)
    case applyCandidate(CandidateMessage?, LiveKitSignalTarget)
    case schedule(RoomTimer, after: Duration)
    case cancel(RoomTimer)
    /// All peer connections that we need are connected.
    case reportConnected
    /// The room mutes exactly these kinds.
    case reportMuted(Set<MediaKind>)
    /// `pathLost`: a path that we need; `pathRecovered`: all of them carry packets; `recovering`: the first one of a resume
    /// waits for `recover`; `hold`; `closedByPeer`: the stay is over.
    case report(MediaEvent)
    /// The stay continues.
    case reportResumed(after: Duration, attempts: Int)
    /// The stay is over, and the same room can be joined again with its token.
    case reportLost(SessionError)
    case note(String)
}
