package import DecartProtocol

/// Which media path a session asks for.
package enum TransportChoice: String, Sendable, CaseIterable {
    /// The one that the service turns out to speak.
    case auto
    case livekit, webrtc
}

/// What a session wants and how patient it is. All clocks are monotonic.
package struct SessionConfiguration: Sendable, Equatable {
    /// The state asked for before any frame is sent.
    package var initial: SessionContent
    package var retry: RetryPolicy
    /// Bounds opening the channel, and again offer → connected.
    package var connectionTimeout: Duration
    package var transport = TransportChoice.webrtc
    /// What other sessions found out about the service, which `auto` then begins with.
    package var known: TransportGeneration?
    /// From asking for a room to hearing of it; stands still in the queue. With `auto`, silence for so long means that
    /// the service knows no rooms.
    package var roomInfoTimeout: Duration = .seconds(15)
    /// From sending the initial state to its ack; stands still in the queue.
    package var initialAckTimeout: Duration = .seconds(30)
    /// For the answer to an offer that changes what goes over a connected path.
    package var laterAnswerTimeout: Duration = .seconds(10)
    package var promptAckTimeout: Duration = .seconds(15)
    package var imageAckTimeout: Duration = .seconds(30)
    /// A retry is less patient, so that an outage costs no more than it must.
    package var retryOpenTimeout: Duration = .seconds(5)
    package var retryMediaTimeout: Duration = .seconds(10)
    /// How long to wait for the service to say whether there is a queue. Services that say nothing cost this once.
    package var statusGrace: Duration = .milliseconds(250)
    /// Frames sent for so long, and none came: the media path is dead.
    package var mediaTimeout: Duration = .seconds(5)
    /// Frames sent for so long after a generation ended, and neither a word of another one nor media came.
    package var generationTimeout: Duration = .seconds(15)
    package var mediaSampleInterval: Duration = .milliseconds(500)
    /// When the channel is lost but pictures still come: keep that media path until the first frame of the next one.
    /// The maker of media paths must then live with two at a time, and show the older one while it is not stopped.
    package var keepsMediaWhileReconnecting = false
    /// After so long a connection, the count of retries starts again.
    package var stableAfter: Duration = .seconds(30)

    /// A session that is there is watched: nothing is asked for, nothing is sent, and nothing changes what it shows.
    package var isViewer = false

    /// From the first connection on; nil: as long as it likes.
    package var maximumDuration: Duration?

    package init(
        initial: SessionContent, retry: RetryPolicy = RetryPolicy(), connectionTimeout: Duration = .seconds(15)
    ) {
        self.initial = initial
        self.retry = retry
        self.connectionTimeout = connectionTimeout
    }
}
