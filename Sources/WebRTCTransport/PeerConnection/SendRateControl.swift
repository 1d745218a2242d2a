// Connects the peer connection with the congestion controller. It knows packets, RTCP bytes and the thread that brings
// them; it must not know where they come from or what an encoder does with the target.
import Synchronization
package import RTP

// @unchecked: `controller` and `resolver` are touched on the network thread only; the rest is locked or constant.
package final class SendRateControl: @unchecked Sendable {
    /// Streaming threads write this for each packet.
    private struct Outgoing {
        var history = SentPacketHistory()
        var senderReports = SenderReportTimes()
    }
    private let outgoing = Mutex(Outgoing())
    private let ssrc: UInt32
    private var controller: CongestionController
    private var resolver = FeedbackAdapter()
    private var fullPackets = FullPacketWatch()
    private var hasTransportFeedback = false
    /// Set once the path is seen to lose each packet of full length. Network thread only.
    private(set) var fullPacketsVanish = false
    /// The latest report about our stream. Network thread only.
    private(set) var lastReport: ReceptionReport?
    /// The round trip by the latest report. Network thread only.
    private(set) var lastRoundTrip: Duration?

    /// The target without congestion control, bit/s; nil: the controller's. Network thread only.
    private var fixed: Int?

    /// - Parameter adapts: false: the target stays at `start`; round trip, reports and estimate are still measured.
    package init(range: ClosedRange<Int>, start: Int, adapts: Bool = true, ssrc: UInt32) {
        self.ssrc = ssrc
        fixed = adapts ? nil : start
        controller = CongestionController(range: range, start: start)
    }

    // MARK: Streaming threads

    /// Records an RTP packet. Call before it leaves, because its feedback may be fast.
    /// - Parameters:
    ///   - size: bytes before protection.
    ///   - sequence: the transport-wide sequence number; nil: it has none.
    ///   - number: the packet's own number in the stream whose reports count; nil: it belongs to another one.
    package func willSend(
        rtp size: Int, sequence: UInt16?, _ purpose: PacketPurpose, number: UInt16? = nil, now: Duration
    ) {
        outgoing.withLock {
            $0.history.record(sequence: sequence, size: size, purpose, number: number, now: now.inMicroseconds)
        }
    }

    package var bytesSent: UInt64 { outgoing.withLock(\.history.totalBytes) }
    package var paddingBytes: UInt64 { outgoing.withLock(\.history.paddingBytes) }

    package func willSend(rtcp packet: UnsafeRawBufferPointer, now: Duration) {
        outgoing.withLock { $0.senderReports.note(compound: packet, now: now.inMicroseconds) }
    }

    // MARK: Network thread; each returns the target if it has changed

    package func received(_ compound: RTCPCompound, now: Duration) -> BitrateTarget? {
        let now = now.inMicroseconds
        var news: BitrateTarget?
        if let estimate = compound.remoteBitrateEstimate { news = controller.remoteEstimate(estimate, now: now) }
        for feedback in compound.transportFeedback {
            let (resolved, total) = outgoing.withLock {
                (resolver.resolve(feedback, with: &$0.history), $0.history.totalBytes)
            }
            hasTransportFeedback = true
            if fullPackets.update(resolved, now: now) { fullPacketsVanish = true }
            news = controller.feedback(resolved, totalBytes: total, now: now) ?? news
        }
        for report in compound.receptionReports where report.ssrc == ssrc {
            let (trip, total, full) = outgoing.withLock {
                (
                    $0.senderReports.roundTrip(of: report, now: now), $0.history.totalBytes,
                    $0.history.fullPackets(upTo: UInt16(truncatingIfNeeded: report.highestSequence))
                )
            }
            if !hasTransportFeedback, fullPackets.update(report, full: full, now: now) { fullPacketsVanish = true }
            lastReport = report
            lastRoundTrip = trip.map { .microseconds($0) } ?? lastRoundTrip
            news = controller.report(report, roundTrip: trip, totalBytes: total, now: now) ?? news
        }
        return fixed == nil ? news : nil
    }

    /// Without congestion control, the target is the range's upper bound then.
    package func setRange(_ range: ClosedRange<Int>, now: Duration) -> BitrateTarget? {
        let news = controller.setRange(range, now: now.inMicroseconds)
        guard let before = fixed else { return news }
        fixed = range.upperBound
        return before == range.upperBound ? nil : target
    }

    package func tick(now: Duration) -> BitrateTarget? {
        let (total, retransmitted) = outgoing.withLock { ($0.history.totalBytes, $0.history.retransmittedBytes) }
        controller.retransmitted(totalBytes: retransmitted, now: now.inMicroseconds)
        let news = controller.tick(totalBytes: total, now: now.inMicroseconds)
        return fixed == nil ? news : nil
    }

    /// See `CongestionController.nextProbe`.
    package func nextProbe(now: Duration) -> ProbeCluster? {
        fixed == nil ? controller.nextProbe(totalBytes: bytesSent, now: now.inMicroseconds) : nil
    }

    package func probeEnded(now: Duration) { controller.probeEnded(totalBytes: bytesSent, now: now.inMicroseconds) }

    package var target: BitrateTarget {
        fixed.map { BitrateTarget(target: $0, estimate: controller.target.estimate, reason: .off) }
            ?? controller.target
    }
    /// Round trip without the remote peer's own delay; nil before its first receiver report.
    package var roundTrip: Duration? { controller.pathRoundTrip.map { .microseconds($0) } }
}
