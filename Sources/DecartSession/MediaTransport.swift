// The other of the two protocols that are all a session knows of the outside. The same rules hold: any threads, events
// one at a time and in order, nothing after `stopped`.
package import DecartProtocol

/// What a media path needs to begin.
package enum MediaStart: Sendable, Equatable {
    /// Offer and candidates go over the control channel: answer with `offer`, then `candidate`s.
    case negotiate(relays: [TURNConfig])
    /// A room with signalling of its own: no `offer`, only `connected`, when our pictures are published.
    case room(url: String, token: Secret)

    package var generation: TransportGeneration {
        switch self {
        case .negotiate: .webrtc
        case .room: .livekit
        }
    }
}

package enum MediaEvent: Sendable, Equatable {
    /// Our offer, to be sent. A later one, after the answer to the one before, changes what goes over the same path.
    case offer(sdp: String)
    /// To an offer of the service, to be sent.
    case answer(sdp: String)
    /// nil: no more. Those that come before the offer wait for it.
    case candidate(CandidateMessage?)
    /// Media can flow, encrypted, to a peer whose identity is verified.
    case connected(ice: Duration?, dtls: Duration?)
    /// The first frame came out.
    case firstFrame
    case failed(SessionError)
    /// The answer to `stop`, and the last event.
    case stopped
}

/// A media path to the service, for one attempt.
package protocol MediaTransport: AnyObject, Sendable {
    /// Called once, before everything else.
    func start(_ start: MediaStart)
    func apply(answer sdp: String)
    /// The service changes what goes over the connected path: `answer` follows, unless the offer cannot be taken.
    func apply(offer sdp: String)
    /// A later offer was not answered: what was agreed before holds.
    func forgetOffer()
    /// nil: no more.
    func apply(candidate: CandidateMessage?)

    /// Asked for twice a second while connected. What is sent counts from the element's input on, so that a silent
    /// input is told from a dead path.
    var traffic: MediaTraffic { get }

    /// More than once, at any time. Returns at once; `stopped` follows within a second.
    func stop()
}
