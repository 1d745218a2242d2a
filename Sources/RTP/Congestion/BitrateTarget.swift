/// The bitrate that the encoder may send, and its reason. All rates in bit/s.
package struct BitrateTarget: Sendable, Equatable {
    package enum Reason: String, Sendable {
        /// No feedback and no report has arrived yet.
        case start
        /// The queue on the path grew or has to drain, or feedback ceased.
        case delay
        case loss
        case remb
        /// Loss or round trip in the remote peer's receiver reports, as no transport-cc feedback arrives.
        case reports
        /// The upper bound of the configured range; the network would carry more.
        case ceiling
        /// The lower bound of the configured range; the network carries less.
        case floor
        case off
    }
    package var target: Int
    /// The target without the temporary reduction that drains a queue.
    package var sustained: Int
    /// Estimated capacity of the network, before the configured range is applied.
    package var estimate: Int
    package var reason: Reason
    /// True while a queue stands, and from a fall of the estimate until it is back at the configured maximum. Otherwise
    /// the network carries what is sent: the estimate still rises, or the configured maximum is the limit.
    package var isLimitedByNetwork: Bool

    package init(
        target: Int, sustained: Int? = nil, estimate: Int, reason: Reason, isLimitedByNetwork: Bool = false
    ) {
        self.target = target
        self.sustained = sustained ?? target
        self.estimate = estimate
        self.reason = reason
        self.isLimitedByNetwork = isLimitedByNetwork
    }
}
