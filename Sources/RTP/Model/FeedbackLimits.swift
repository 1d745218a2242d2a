/// How far requests of the remote peer are obeyed.
package struct FeedbackLimits: Sendable, Equatable {
    /// The least time between two keyframes of a stream that the remote peer requests.
    package var keyframeInterval = Duration.milliseconds(50)
    /// How often a packet is sent again, and the least time between.
    package var retransmissions = Int.max
    package var retransmissionInterval = Duration.milliseconds(10)

    package init() {}
}
