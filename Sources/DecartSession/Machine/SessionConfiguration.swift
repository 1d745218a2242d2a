package import DecartProtocol
import Recovery

/// The media path that the user chooses.
package enum TransportChoice: String, Sendable, CaseIterable {
    /// Detects the path that the service supports.
    case auto
    case livekit, webrtc
}

/// Content, retries and timeouts of a session. All clocks are monotonic.
package struct SessionConfiguration: Sendable, Equatable {
    /// Keys, and user names and passwords of proxies and TURN servers, which a peer's text may repeat.
    package var secrets: [Secret] = []
    /// Content to request from the service first.
    package var initial: SessionContent
    package var retry: RetryPolicy
    /// Limits opening the channel and, separately, the time from offer to connected media, in each attempt: with a
    /// shorter limit, no retry would succeed at a service that is slow to answer.
    package var connectionTimeout: Duration
    package var transport = TransportChoice.webrtc
    /// The transport that other sessions detected; `auto` starts with it.
    package var knownTransport: MediaTransportKind?
    /// Limit from `livekit_join` to `livekit_room_info`; does not run in the queue. With `auto`, no reply within
    /// this time means that the service has no rooms.
    package var roomInfoTimeout: Duration = .seconds(15)
    /// Limit from sending the initial state to its ack; does not run in the queue.
    package var initialAckTimeout: Duration = .seconds(30)
    /// Limit for the answer to an offer that renegotiates a connected path.
    package var renegotiationTimeout = RecoveryPlan.Session.renegotiationTimeout
    package var promptAckTimeout: Duration = .seconds(15)
    package var imageAckTimeout: Duration = .seconds(30)
    /// Time to wait for the service to report that there is a queue. An attempt loses this time if the service reports
    /// nothing.
    package var statusTimeout: Duration = .milliseconds(250)
    /// If frames were sent for this long and none arrived, a lost path, or one without any frame so far, is dead; media
    /// on any other path have stalled.
    package var stallTimeout = RecoveryPlan.Session.stallTimeout
    /// Length of a stall after which another session begins; nil: never.
    package var mediaTimeout: Duration? = RecoveryPlan.Session.mediaTimeout
    /// The session is dead if, after a generation ended, frames were sent for this long and neither another generation
    /// nor media came.
    package var generationTimeout = RecoveryPlan.Session.generationTimeout
    package var mediaSampleInterval = RecoveryPlan.Session.mediaSampleInterval
    /// If the channel is lost but frames still arrive, keeps that media path until the first frame of the next one. The
    /// factory of media paths must then support two at a time, and show the older one until it is stopped.
    package var keepsMediaWhileReconnecting = false

    /// Requests passthrough of a room although there is a prompt or an image.
    package var requestsPassthrough = false
    /// Tells the service that the frames of a room have trailers with their times.
    package var sendsFrameTiming = false

    /// Watches an existing session: requests nothing, sends nothing, and cannot change what the session shows.
    package var isViewer = false

    /// Time before the end of a session, as far as the service's limit tells it, at which the next one is set up beside
    /// it; zero: never.
    package var renewBefore: Duration = .zero
    /// Longest wait for a session of the account to end, if all that it may run at once are in use; nil: for ever.
    package var limitWait: Duration?

    /// Limit that starts with the first connection; nil: unlimited.
    package var maximumDuration: Duration?

    package init(
        initial: SessionContent, retry: RetryPolicy = RetryPolicy(),
        connectionTimeout: Duration = RecoveryPlan.Session.connectionTimeout
    ) {
        self.initial = initial
        self.retry = retry
        self.connectionTimeout = connectionTimeout
    }
}

extension SessionConfiguration {
    /// Time from the connection to the renewal of a session of this length; nil: it is not renewed.
    func renewal(of length: Duration) -> Duration? {
        renewBefore > .zero ? max(length / 2, length - renewBefore) : nil
    }

    /// False if the next attempt does not meet this error of the service again, although the table calls it permanent.
    func recurs(_ type: ServiceErrorType?, isConnected: Bool) -> Bool {
        switch type {
        // Only a viewer needs that session.
        case .sessionNotFound: isViewer
        // Each attempt has a fresh token.
        case .sessionDurationLimit: !isConnected || renewBefore == .zero
        default: true
        }
    }

    var watchdog: MediaWatchdog { MediaWatchdog(interval: mediaSampleInterval) }
}
