/// Send times of our last sender reports, so that a reception report yields a round trip without any NTP clock.
package struct SenderReportTimes: Sendable {
    private var sent: [(middle: UInt32, time: Int64)] = []
    package init() {}

    /// Records the sender report with which an outgoing compound packet begins, if it does; `now` in µs.
    package mutating func note(compound: UnsafeRawBufferPointer, now: Int64) {
        guard compound.count >= 28, compound[1] == 200 else { return }
        if sent.count >= 16 { sent.removeFirst() }
        sent.append((compound.bigEndian32(at: 10), now))
    }

    /// Round trip in µs; nil if the report refers to none of our sender reports.
    package func roundTrip(of report: ReceptionReport, now: Int64) -> Int64? {
        guard report.lastSenderReport != 0, let match = sent.last(where: { $0.middle == report.lastSenderReport })
        else { return nil }
        let held = Int64(report.delaySinceLastSenderReport) &* 1_000_000 / 65_536
        let trip = now &- match.time &- held
        // The remote clock may run a little fast; larger errors are invalid.
        guard trip > -20_000, trip < 60_000_000 else { return nil }
        return max(1000, trip)
    }
}
