package import DecartProtocol

/// Identifies one attempt to connect; the machine ignores events of earlier ones.
package struct AttemptID: Sendable, Hashable, Comparable, CustomStringConvertible {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }
    package var description: String { "#\(number)" }
    package static func < (left: AttemptID, right: AttemptID) -> Bool { left.number < right.number }
}

/// Timers are data: the machine names them, the driver keeps the clock.
package enum TimerID: Sendable, Hashable {
    /// Guards against a channel that does not keep its own open timeout.
    case opening(AttemptID)
    /// Limits the wait for the first message about the queue.
    case statusTimeout(AttemptID)
    /// A channel that has opened and carries nothing.
    case firstMessage(AttemptID)
    case initialAck(AttemptID)
    /// Limits the wait for a room.
    case roomInfo(AttemptID)
    case mediaConnect(AttemptID)
    /// Gives the control channel time to name the cause for which the service closed the media path.
    case mediaClosed(AttemptID)
    /// Limits the wait for the answer to a later offer.
    case renegotiationAnswer(AttemptID)
    case mediaSample(AttemptID)
    case stable(AttemptID)
    /// The next message about a hold that lasts.
    case held(AttemptID)
    /// Limits the recovery of a room.
    case recovery(AttemptID)
    /// Limits the wait for packets of a suspended attempt.
    case suspension(AttemptID)
    /// Gives packets of a suspended attempt time to arrive before this next attempt proceeds.
    case takeover(AttemptID)
    /// The earliest deadline of the requests in flight.
    case acks
    case retry
    /// The next message about a wait for a session of the account.
    case limitWaitNotice
    /// The announcement of the session's end, or the end itself.
    case limit
    case renewal
    /// `acks` of the session that is to take over.
    case successorAcks
}

/// Input of the machine.
package enum SessionEvent: Sendable, Equatable {
    case start
    case stop
    case update(PromptUpdate, id: RequestID)
    /// Sets the user's limit; nil: unlimited.
    case limit(Duration?)
    /// Extends the user's limit; has no effect without one.
    case extend(by: Duration)
    /// The application stops or resumes sending video on purpose.
    case mute(Bool)
    /// Longest session that the service grants this attempt; nil: unknown.
    case grant(AttemptID, Duration?)
    case channelOpened(AttemptID, transport: Duration?, upgrade: Duration?)
    case channelMessage(AttemptID, ServerMessage)
    case channelMalformed(AttemptID, reason: String)
    case channelClosed(AttemptID, code: Int?, reason: String)
    case channelFailed(AttemptID, SessionError)
    /// A ping was not answered; the channel is still open.
    case channelSilent(AttemptID, SessionError)
    /// Something arrived after `probeChannel`.
    case channelAnswered(AttemptID)
    /// Addresses or routes of this host have changed. Carries the attempt whose media path uses a lost address.
    case networkChanged(lost: AttemptID?)
    case media(AttemptID, MediaEvent)
    case mediaSampled(AttemptID, MediaTraffic)
    case timerFired(TimerID)
}

/// Output of the machine; the driver performs the actions in order.
package enum SessionAction: Sendable, Equatable {
    /// Carries the media path to expect; nil: not known yet.
    case openChannel(AttemptID, MediaTransportKind?, timeout: Duration)
    case send(AttemptID, ClientMessage)
    /// `channelAnswered` follows with the next message.
    case probeChannel(AttemptID)
    case closeChannel(AttemptID)
    case startMedia(AttemptID, MediaStart)
    case applyAnswer(AttemptID, sdp: String)
    /// Applies the service's offer to the same path; the media event `answer` follows.
    case applyOffer(AttemptID, sdp: String)
    case rollbackOffer(AttemptID)
    /// The media event `offer` follows, or a room is resumed.
    case recover(AttemptID)
    case requestKeyframe(AttemptID)
    /// Judges the path at once: the media event `pathLost` follows if it is lost.
    case suspectPath(AttemptID)
    case applyCandidate(AttemptID, CandidateMessage?)
    case sampleMedia(AttemptID)
    case stopMedia(AttemptID)
    case schedule(TimerID, after: Duration)
    case cancel(TimerID)
    case report(SessionReport)
}

/// Reports to the application, in addition to the snapshot.
package enum SessionReport: Sendable, Equatable {
    case promptResult(PromptResult)
    /// The session will expire unless it is extended.
    case ending(left: Duration)
    /// Another session has replaced the running one before its end, this long after it was begun.
    case renewed(after: Duration)
    /// The session retries after this error, or continues in spite of it.
    case warning(SessionError)
    /// The session of another client, which a viewer showed, has ended.
    case sessionEnded(SessionError)
    /// The error that ended the session; reported once.
    case failed(SessionError)
    /// The transport that `auto` detected, for other sessions; nil: the one known before was wrong.
    case transportDetected(MediaTransportKind?)
    /// Text for a debug log only.
    case note(String)
}
