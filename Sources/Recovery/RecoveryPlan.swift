// All times that decide about a lost path, in the order in which they pass after a loss: evidence, ICE, control channel,
// session, room. `docs/GUIDE.md` prints them as a table, which tests compare with these values and with what the machines
// do. Imports nothing, and decides nothing: the transports report, the session decides.

package enum RecoveryPlan {
    /// What arrives, and does not, on a connected path: `PathMonitor`.
    package enum Path {
        /// Without a response to a check for this time, nothing more may be sent: RFC 7675 §5.1.
        package static let consentTimeout = Duration.seconds(30)
        /// Silence after which a path that was busy is suspicious, and then lost.
        package static let suspicion = Duration.seconds(1)
        package static let busyLimit = Duration.seconds(2)
        /// Silence of media and feedback, while we send and the peer answers checks, after which the path is lost. A peer
        /// that pauses its media still sends feedback: where that came often, its absence means more.
        package static let mediaLimit = Duration.milliseconds(2500)
        package static let feedbackLimit = Duration.milliseconds(1200)
        /// Time without a proof of the uplink, while we send, after which the path is suspicious, and then lost; where
        /// acknowledgements came often, and elsewhere.
        package static let uplinkSuspicion = (busy: Duration.seconds(1), other: Duration.seconds(2))
        package static let uplinkLimit = (busy: Duration.milliseconds(2500), other: Duration.seconds(4))
        /// Time without acknowledgements, while we send and the peer answers checks, after which the path carries our
        /// checks and not our media; longer where reports are rare.
        package static let acknowledgementLimit = (least: Duration.seconds(4), longest: Duration.seconds(16))
        /// Time for a proof after `suspect`.
        package static let suspectLimit = Duration.milliseconds(1500)
        /// Silence after which a path without media is lost: at least three checks in a row have failed.
        package static let idleLimit = Duration.seconds(18)
        /// Between checks. RFC 7675 §5.1 recommends 5 s. With 10 s, a session in standby costs less; a check without an
        /// answer is repeated, and soon again and again: a response must pass in time for consent.
        package static let interval = Duration.seconds(10)
        package static let repetition = Duration.seconds(2)
        package static let probeInterval = Duration.milliseconds(250)
        package static let lostInterval = Duration.seconds(1)
        package static let urgency = Duration.seconds(16)
        /// A longer time between two ticks means that this process was suspended.
        package static let longestTick = Duration.seconds(2)
        /// A longer time without a sent packet is a pause, in which no acknowledgement is due.
        package static let longestSendGap = Duration.seconds(1)
    }

    package enum ICE {
        /// Time that UDP has for a pair before TCP is tried.
        package static let tcpHeadStart = Duration.seconds(2)
        /// For one TCP connection: one to a dead address would take minutes to fail.
        package static let tcpTimeout = Duration.seconds(4)
        /// From the offer or answer of an ICE restart to a path.
        package static let restartTimeout = Duration.seconds(15)
        /// For the offer of a remote peer that has closed its TCP connections to restart ICE.
        package static let closedPathTimeout = Duration.seconds(5)
    }

    package enum Channel {
        /// Between pings. The peer is silent if no frame arrives for one interval after a ping.
        package static let pingInterval = Duration.seconds(5)
        /// After a recovery, silence of the channel is no loss for this time: TCP retransmits late, because its timer has
        /// doubled each time.
        package static let retransmissionTime = Duration.seconds(10)
        /// Wait for the channel's end once the service has closed the media path. If the service ends both at once,
        /// either end may arrive first.
        package static let mediaClosedDelay = Duration.milliseconds(250)
    }

    package enum Session {
        /// Opening the channel and, separately, from offer to connected media; a property.
        package static let connectionTimeout = Duration.seconds(15)
        package static let renegotiationTimeout = Duration.seconds(10)
        /// Silence of a channel that has just opened, until the warning about it.
        package static let firstMessageNotice = Duration.seconds(5)
        /// Silence, while frames are sent, after which a lost path is dead, and media on any other have stalled.
        package static let stallTimeout = Duration.seconds(5)
        /// Length of a stall after which another session begins; a property.
        package static let mediaTimeout = Duration.seconds(15)
        /// Silence, while frames are sent, after the end of a generation.
        package static let generationTimeout = Duration.seconds(15)
        package static let mediaSampleInterval = Duration.milliseconds(500)
        /// An attempt whose path is lost continues if packets pass again within this time.
        package static let suspensionTimeout = Duration.seconds(15)
        /// For packets of a suspended attempt once the channel of the next attempt is open.
        package static let takeoverDelay = Duration.milliseconds(300)
        /// Until the first message about a hold of the media, and between further ones.
        package static let holdNotice = (first: Duration.seconds(5), next: Duration.seconds(60))
        /// A connection of this length resets the count of retries.
        package static let stableAfter = Duration.seconds(30)
        /// First wait before a retry; each later one is twice as long, up to the property `max-retry-delay`.
        package static let firstRetryDelay = Duration.seconds(1)
        package static let longestRetryDelay = Duration.seconds(10)
        /// Longest wait that a service can request.
        package static let longestRequestedWait = Duration.seconds(60)
        /// A dial that is older when the network changes begins again.
        package static let dialAge = Duration.seconds(1)
    }

    package enum Room {
        /// Beyond this time of a resume the stay ends or, while its media flow, another session is set up beside it.
        package static let resumeLimit = Duration.seconds(30)
        /// Opening the signalling connection again.
        package static let openTimeout = Duration.seconds(5)
        /// For the server's first message.
        package static let answerTimeout = Duration.seconds(5)
        /// For the restart of ICE.
        package static let restoreTimeout = Duration.seconds(10)
        /// After a resume, in which the server may restart ICE.
        package static let restartTime = Duration.seconds(5)
        /// For the reason of an end.
        package static let farewellTimeout = Duration.milliseconds(250)
        /// Before the attempts to resume; the last one repeats.
        package static let waits: [Duration] = [
            .zero, .milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2),
        ]
        /// Limits these waits while no media pass: the first attempt that gets through ends an outage.
        package static let longestWaitWithoutMedia = Duration.milliseconds(500)
        /// For the answer to a later offer.
        package static let renegotiationTimeout = Duration.seconds(10)
        /// Limits joining a room again; then another session begins.
        package static let rejoinTimeout = Duration.seconds(5)
        /// A room that is lost again within this time is not joined again, and one that is to be resumed again continues the
        /// waits of the last resume.
        package static let rejoinInterval = Duration.seconds(10)
        /// The silence after a ping, unless the server names another one.
        package static let pongTimeout = Duration.seconds(15)
    }
}
