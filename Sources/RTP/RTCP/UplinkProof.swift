/// Tells from the RTCP of a remote peer whether our video arrives there. A report that does not advance proves nothing: a
/// peer repeats its last one for as long as it lives. A value.
package struct UplinkProof: Sendable {
    /// The SSRCs of our video.
    private let ssrcs: Range<UInt32>
    private var highest: [UInt32: UInt32] = [:]
    /// The time of the last report that advanced.
    package private(set) var reportedAt: Duration?

    package init(ssrcs: Range<UInt32>) { self.ssrcs = ssrcs }

    /// - Returns: true if the packet shows that video packets have arrived since the one before.
    package mutating func received(_ compound: RTCPCompound, now: Duration) -> Bool {
        var proves = compound.transportFeedback.contains { feedback in feedback.packets.contains { $0.status != .lost }
        }
        for report in compound.receptionReports where ssrcs.contains(report.ssrc) {
            guard highest.updateValue(report.highestSequence, forKey: report.ssrc) != report.highestSequence else {
                continue
            }
            (proves, reportedAt) = (true, now)
        }
        return proves
    }

    /// True if the last report is too old to describe the path.
    package func isStale(now: Duration) -> Bool { reportedAt.map { now - $0 > .seconds(10) } ?? true }
}
