package import RTP
import WebRTCTransport

/// Notices that the network carries less than the least bitrate of the video. A value; call `add` once a second.
package struct NarrowNetworkWatch: Sendable {
    /// The time after which it is no short squeeze, and the time after which another one is news.
    private static let seconds = (narrow: 5, wide: 60)
    private var narrow = 0
    private var wide = 0
    private var isKnown = false

    package init() {}

    /// - Parameters:
    ///   - target: nil: nothing is sent.
    ///   - minimum: bit/s.
    /// - Returns: true once, until the network has carried more for a minute.
    package mutating func add(_ target: BitrateTarget?, minimum: Int) -> Bool {
        guard let target, target.isLimitedByNetwork, target.sustained <= minimum else {
            (narrow, wide) = (0, min(wide + 1, Self.seconds.wide))
            if wide == Self.seconds.wide { isKnown = false }
            return false
        }
        (narrow, wide) = (min(narrow + 1, Self.seconds.narrow), 0)
        guard narrow == Self.seconds.narrow, !isKnown else { return false }
        isKnown = true
        return true
    }
}
