/// Counts the packets of one inbound stream and makes its block of a receiver report (RFC 3550 section 6.4.1 and appendix A).
/// A value without a clock.
package struct ReceptionStatistics: Sendable {
    /// A larger step, and a packet that follows it, are a restart of the sender's numbering (RFC 3550 A.1).
    static let maximumDropout: Int64 = 3000
    static let maximumMisorder: Int64 = 1000

    private let clockRate: Double
    private var sequences = SerialNumber<UInt16>()
    private var first: Int64 = 0
    /// The number after that of a packet that may begin a new numbering.
    private var restart: UInt16?
    private var received = 0
    /// Expected and received at the last report.
    private var reported = (expected: 0, received: 0)
    private var transit: Double?
    /// In RTP clock units.
    private var jitterUnits = 0.0
    private var senderReport: (middle: UInt32, time: Duration)?
    private var hasNews = false

    package init(clockRate: Int) { self.clockRate = Double(max(clockRate, 1)) }

    private var expected: Int { sequences.highest.map { Int($0 - first) + 1 } ?? 0 }
    package var packetsLost: Int { expected - received }
    package var jitter: Duration { .seconds(jitterUnits / clockRate) }

    package mutating func received(sequence: UInt16, timestamp: UInt32, now: Duration) {
        hasNews = true
        let count = sequences.extended(sequence)
        let step = count - (sequences.highest ?? count)
        if step > Self.maximumDropout || step < -Self.maximumMisorder {
            guard sequence == restart else {
                restart = sequence &+ 1
                return
            }
            sequences = SerialNumber()
            (received, reported, transit) = (0, (0, 0), nil)
        }
        restart = nil
        let number = sequences.record(sequence)
        if received == 0 { first = number }
        received &+= 1
        let arrival = now / .seconds(1) * clockRate
        // Timestamps wrap, and so does their difference to the time of arrival.
        let units = (arrival - Double(timestamp)).truncatingRemainder(dividingBy: 4_294_967_296)
        if let transit {
            let change = abs(units - transit)
            let deviation = min(change, 4_294_967_296 - change)
            jitterUnits += (deviation - jitterUnits) / 16
        }
        transit = units
    }

    /// - Parameter middle: the middle 32 bits of the report's NTP time.
    package mutating func senderReported(_ middle: UInt32, now: Duration) { senderReport = (middle, now) }

    /// Ends an interval; nil if no packet has arrived in it.
    package mutating func report(on ssrc: UInt32, now: Duration) -> ReceptionReport? {
        guard hasNews else { return nil }
        hasNews = false
        let interval = (expected: expected - reported.expected, received: received - reported.received)
        reported = (expected, received)
        let lost = interval.expected - interval.received
        let fraction = interval.expected > 0 && lost > 0 ? lost * 256 / interval.expected : 0
        let delay = senderReport.map { (now - $0.time) / .seconds(1) * 65_536 } ?? 0
        return ReceptionReport(
            ssrc: ssrc, fractionLost: UInt8(clamping: fraction), packetsLost: packetsLost,
            highestSequence: UInt32(truncatingIfNeeded: sequences.highest ?? 0),
            jitter: UInt32(clamping: Int64(jitterUnits)), lastSenderReport: senderReport?.middle ?? 0,
            delaySinceLastSenderReport: UInt32(clamping: Int64(max(0, min(delay, 4e9)))))
    }
}
