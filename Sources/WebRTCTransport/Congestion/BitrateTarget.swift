/// What the encoder may send, and why; bit/s.
package struct BitrateTarget: Sendable, Equatable {
    package enum Reason: String, Sendable {
        /// Nothing was heard from the far side yet.
        case start
        /// The queue on the path grew or has to drain, or feedback ceased.
        case delay
        case loss
        /// The far side's receive estimate.
        case remb
        /// Loss or round trip of the far side's receiver reports: it sends no transport-cc feedback.
        case reports
        /// The upper end of the configured range; the network would carry more.
        case ceiling
        /// The lower end of the configured range; the network carries less.
        case floor
    }
    package var target: Int
    /// What the target will be when a queue has drained for which something is held back; else the target.
    package var sustained: Int
    /// What the network is believed to carry, before the configured range is applied.
    package var estimate: Int
    package var reason: Reason
    /// A queue stands, or the network made the estimate fall and it has not come back to the configured maximum since.
    /// Otherwise the network carries what is sent: the estimate still rises, or the configured maximum is the limit.
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
