package import DecartProtocol

/// Names one attempt to connect; facts about older ones are ignored.
package struct AttemptID: Sendable, Hashable, Comparable, CustomStringConvertible {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }
    package var description: String { "#\(number)" }
    package static func < (left: AttemptID, right: AttemptID) -> Bool { left.number < right.number }
}

/// Timers are data: the machine names them, the driver keeps the clock.
package enum TimerID: Sendable, Hashable {
    /// A channel that does not keep its promise to answer in time.
    case opening(AttemptID)
    /// Waiting for the service's first word.
    case statusGrace(AttemptID)
    case initialAck(AttemptID)
    /// Waiting for a room.
    case roomInfo(AttemptID)
    case mediaConnect(AttemptID)
    /// Waiting for the answer to a later offer.
    case laterAnswer(AttemptID)
    case mediaSample(AttemptID)
    case stable(AttemptID)
    /// The request whose time runs out next.
    case acks
    case retry
    /// The session's end, or its announcement.
    case limit
}

/// Facts, told to the machine.
package enum SessionEvent: Sendable, Equatable {
    case start
    case stop
    case update(PromptUpdate, id: RequestID)
    /// nil: as long as it likes.
    case limit(Duration?)
    /// Of a limited session.
    case extend(by: Duration)
    /// How long the service lets the session of this attempt last; nil: it does not say.
    case grant(AttemptID, Duration?)
    case channelOpened(AttemptID, transport: Duration?, upgrade: Duration?)
    case channelMessage(AttemptID, ServerMessage)
    case channelMalformed(AttemptID, reason: String)
    case channelClosed(AttemptID, code: Int?, reason: String)
    case channelFailed(AttemptID, SessionError)
    case media(AttemptID, MediaEvent)
    case mediaSampled(AttemptID, MediaTraffic)
    case timerFired(TimerID)
}

/// Orders, to be carried out in their order.
package enum SessionAction: Sendable, Equatable {
    /// With the media path that is to come, if that is known.
    case openChannel(AttemptID, TransportGeneration?, timeout: Duration)
    case send(AttemptID, ClientMessage)
    case closeChannel(AttemptID)
    case startMedia(AttemptID, MediaStart)
    case applyAnswer(AttemptID, sdp: String)
    /// The service's, for the same path; answered by the media event `answer`.
    case applyOffer(AttemptID, sdp: String)
    case forgetOffer(AttemptID)
    case applyCandidate(AttemptID, CandidateMessage?)
    case sampleMedia(AttemptID)
    case stopMedia(AttemptID)
    case schedule(TimerID, after: Duration)
    case cancel(TimerID)
    case report(SessionReport)
}

/// What the application is told besides the snapshot.
package enum SessionReport: Sendable, Equatable {
    case promptResult(PromptResult)
    /// The session will expire unless it is extended.
    case ending(left: Duration)
    /// Will be retried, or does not end the session.
    case warning(SessionError)
    /// The session has ended because of this; told once.
    case failed(SessionError)
    /// What `auto` found out about the service, for other sessions; nil: what was known is not so.
    case learnt(TransportGeneration?)
    /// For a debug log only.
    case note(String)
}
