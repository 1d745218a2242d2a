// The second of the two protocols that are all a session knows of its environment; `SignallingChannel` is the first.
// The same rules hold: an implementation may use any threads, and delivers one event at a time, in order, and none
// after `stopped`.
package import DecartProtocol

/// Parameters with which a media path starts.
package enum MediaStart: Sendable, Equatable {
    /// The control channel carries offer and candidates: the media path emits `offer`, then `candidate`s.
    case negotiate(relays: [TURNConfig])
    /// A LiveKit room with its own signalling: the media path emits no `offer`, but `connected` once our video (if any)
    /// is published.
    case room(url: String, token: Secret)

    package var transport: MediaTransportKind {
        switch self {
        case .negotiate: .webrtc
        case .room: .livekit
        }
    }
}

/// Why no video of the service comes although the path lives, as far as a room tells. That is a state, not a stall.
package enum MediaHold: Sendable, Equatable {
    /// The room forwards no video, because the network towards us carries too little.
    case pausedByNetwork
    /// The service has muted its track.
    case mutedBySender
}

package enum MediaEvent: Sendable, Equatable {
    /// Our offer, to be sent. A later one, after the answer to the previous one, renegotiates the same connection.
    case offer(sdp: String)
    /// Our answer to an offer of the service, to be sent.
    case answer(sdp: String)
    /// nil marks the end of candidates. The session holds candidates back until it has sent the offer.
    case candidate(CandidateMessage?)
    /// No TURN server gave a relay candidate, as with wrong or expired credentials.
    case relaysMissing
    /// Media can flow, encrypted, to a peer whose identity is verified.
    case connected(ice: Duration?, dtls: Duration?)
    case firstFrame
    /// The service mutes our video track, or ends that mute.
    case videoMuted(Bool)
    /// No video comes for this reason; nil: it should come.
    case hold(MediaHold?)
    /// Packets do not pass in one direction, or in both.
    case pathLost
    /// Packets pass again after `pathLost`.
    case pathRecovered
    /// ICE could not be restarted.
    case restartFailed
    /// Nothing can be agreed with the room, for this reason, while its media may flow; `recover` ends that. Emitted again
    /// for each attempt to recover that has failed.
    case recovering(SessionError)
    case recovered
    case failed(SessionError)
    /// The service closed the media path. Its control channel may name the cause, and may do so later.
    case closedByPeer(SessionError)
    /// The stay in a room is over, and the same room can be joined again with these parameters.
    case lost(SessionError, again: MediaStart)
    /// Completes `stop`; the last event.
    case stopped
}

/// Frames and packets counted since the media path was created.
package struct MediaTraffic: Sendable, Equatable {
    /// Frames of our video.
    package var sent: UInt64
    /// Frames of the service's video: decoded ones, or encoded ones if the element does not decode.
    package var received: UInt64
    /// RTP packets of the service's video, whether they can be decoded or not.
    package var packetsReceived: UInt64
    /// RTP packets of the service's video that did not arrive at first; zero again with another stream.
    package var packetsLost: UInt64
    /// Frames of the service's video that were dropped for their size.
    package var oversizedFrames: UInt64

    package init(
        sent: UInt64, received: UInt64, packetsReceived: UInt64 = 0, packetsLost: UInt64 = 0,
        oversizedFrames: UInt64 = 0
    ) {
        (self.sent, self.received) = (sent, received)
        (self.packetsReceived, self.packetsLost) = (packetsReceived, packetsLost)
        self.oversizedFrames = oversizedFrames
    }
}

/// A media path to the service, for one attempt. It reports what is lost, and how far it can be restored; the session alone
/// decides what follows, and when.
package protocol MediaTransport: AnyObject, Sendable {
    /// Called once, before all other methods.
    func start(_ start: MediaStart)
    func apply(answer sdp: String)
    /// Applies an offer by which the service renegotiates the connected path. `answer` follows, unless the offer is
    /// unacceptable.
    func apply(offer sdp: String)
    /// Rolls back a later offer that was not answered: the previously negotiated state holds.
    func rollbackOffer()
    /// nil marks the end of candidates.
    func apply(candidate: CandidateMessage?)

    /// Offers to restart ICE (`offer` follows), or resumes the stay in a room, at once and until it is restored
    /// (`recovering`, `recovered`).
    func recover()

    /// Media are missing: requests a keyframe from the service, and sends one.
    func requestKeyframe()

    /// The service does not see our media: judges the path at once. `pathLost` follows if nothing proves that packets
    /// arrive there.
    func suspectPath()

    /// Called when the addresses or routes of this host have changed.
    /// - Returns: true if the path used an address that is not among them, and cannot recover.
    func networkChanged(_ addresses: Set<String>) -> Bool

    /// Polled twice a second while connected. `sent` counts at the element's input, so that a silent input differs from
    /// a dead path.
    var traffic: MediaTraffic { get }

    /// May be called repeatedly and at any time. Returns at once; `stopped` follows within a second.
    func stop()
}

extension MediaTransport {
    package func recover() {}
    package func requestKeyframe() {}
    package func suspectPath() {}
    package func networkChanged(_ addresses: Set<String>) -> Bool { false }
}
