import RTP
import TestSupport
import WebRTCTransport

/// A link, an encoder that follows the target and a receiver that sends feedback, in virtual time with 1 ms steps.
struct SimulatedCall {
    enum Feedback { case transport, reports }

    // Link. Times in µs, rates in bit/s.
    var capacity: (Int64) -> Int = { _ in 5_000_000 }
    var oneWay: Int64 = 50_000
    var queueLimit: Int64 = 300_000
    var loss = 0.0
    /// Jitter of each packet, ±µs, which may reorder them.
    var jitter: Int64 = 0
    var feedbackLoss = 0.0
    /// Rate of the remote peer's clock.
    var remoteClock = 1.0
    /// No datagram passes in either direction during this time (µs).
    var outage: Range<Int64>?
    // Encoder.
    var isPaced = true
    var demand: (Int64) -> Int = { _ in .max }
    /// Frames a second. Another rate comes with another size, and so with a keyframe.
    var frameRate: (Int64) -> Int64 = { _ in 30 }
    /// Bits produced for each bit of the target.
    var overshoot = 1.0
    /// The rate control follows a new target by this share at each frame.
    var agility = 1.0
    /// What the content makes of the bits, by time: its share of `overshoot`.
    var content: (Int64) -> Double = { _ in 1 }
    /// Padding fills up the probes that the controller asks for.
    var canProbe = false
    // Remote peer.
    var feedback = Feedback.transport
    var feedbackInterval: Int64 = 100_000
    // Congestion controller under test.
    var range = 100_000...2_500_000
    var start = 2_500_000
    var seed: UInt64 = 1

    struct Sample {
        var time: Int64
        var target: BitrateTarget
        /// Queueing delay of the link, µs.
        var queueing: Int64
    }
    struct Result {
        var samples: [Sample] = []
        var events: [(time: Int64, target: BitrateTarget)] = []
        var probes: [(time: Int64, cluster: ProbeCluster)] = []

        func target(at time: Int64) -> Int { samples.last { $0.time <= time }?.target.target ?? 0 }
        func targets(_ range: Range<Int64>) -> [Int] { samples.filter { range.contains($0.time) }.map(\.target.target) }
        func mean(_ range: Range<Int64>) -> Int {
            let values = targets(range)
            return values.isEmpty ? 0 : values.reduce(0, +) / values.count
        }
        /// Returns how long after `from` (µs) the target began to satisfy `holds` for good, up to `until`.
        func timeUntil(_ from: Int64, until: Int64, _ holds: (Int) -> Bool) -> Int64? {
            var since: Int64?
            for sample in samples where sample.time >= from && sample.time < until {
                if holds(sample.target.target) { since = since ?? sample.time } else { since = nil }
            }
            return since.map { $0 - from }
        }
    }

    private struct Packet {
        var sequence: UInt16
        var size: Int
        var entered: Int64
    }

    func run(until end: Int64) -> Result {
        var random = SeededGenerator(seed: seed)
        var controller = CongestionController(range: range, start: start)
        var history = SentPacketHistory()
        var resolver = FeedbackAdapter()
        var result = Result()

        var outbox: [(time: Int64, size: Int)] = []
        var sequence: UInt16 = 65_000
        var queue: [Packet] = []
        var queuedBytes = 0
        var credit = 0.0
        var arrivals: [(packet: Packet, time: Int64)] = []
        var received: [UInt16: Int64] = [:]
        var nextReported: UInt16 = 65_000
        var feedbackCount: UInt8 = 0
        var returning: [(time: Int64, bytes: [UInt8])] = []
        var reports: [(time: Int64, report: ReceptionReport, trip: Int64)] = []
        var highest: UInt32 = 0
        var expectedBefore: UInt32 = 0
        var arrivedSince = 0
        var lastTransit: Int64 = 0
        var late: [UInt16] = []
        var (frame, frameRate, firstFrame) = (Int64(0), self.frameRate(0), Int64(0))
        var debt = 0.0
        var lastShare: Double?
        var probe: (cluster: ProbeCluster, began: Int64, bytesBefore: UInt64)?

        func note(_ target: BitrateTarget?, _ now: Int64) {
            if let target { result.events.append((now, target)) }
        }

        for now in stride(from: Int64(0), to: end, by: 1000) {
            // Encoder: frames sized around the target; an oversized frame makes the next ones smaller.
            if self.frameRate(now) != frameRate { (frame, frameRate, firstFrame) = (0, self.frameRate(now), now) }
            if now >= firstFrame + frame * 1_000_000 / frameRate {
                let rate = min(controller.target.target, demand(now))
                let wanted = overshoot * content(now) * Double(rate) / Double(frameRate) / 8
                let share = (lastShare ?? wanted) + agility * (wanted - (lastShare ?? wanted))
                lastShare = share
                var size = share * Double.random(in: 0.8...1.2, using: &random) - debt * 0.1
                if frame == 0 { size = share * 5 }
                size = max(200, size)
                debt += size - share
                debt = max(-share * 5, min(share * 10, debt))
                let packets = Int((size / 1100).rounded(.up))
                for index in 0..<packets {
                    // The pacer sends at 2.5 times the target rate.
                    let delay = isPaced ? Int64(Double(index) * size / Double(packets) * 8e6 / (2.5 * Double(rate))) : 0
                    outbox.append((now + delay, Int(size / Double(packets)) + 20))
                }
                frame += 1
            }
            if let running = probe {
                if now - running.began >= running.cluster.duration {
                    controller.probeEnded(totalBytes: history.totalBytes, now: now)
                    probe = nil
                } else {
                    let due = Int64(running.cluster.rate / 8) * (now - running.began + 5000) / 1_000_000
                    let waiting = outbox.filter { $0.time <= now }.reduce(0) { $0 + $1.size }
                    var missing = Int(due) - Int(history.totalBytes - running.bytesBefore) - waiting
                    while missing > 0 {
                        outbox.append((now, min(1100, max(80, missing))))
                        missing -= 1100
                    }
                    outbox.sort { $0.time < $1.time }
                }
            } else if canProbe, now % 20_000 == 0,
                let cluster = controller.nextProbe(totalBytes: history.totalBytes, now: now)
            {
                probe = (cluster, now, history.totalBytes)
                result.probes.append((now, cluster))
            }
            // Sender to the link's queue.
            let isOut = outage?.contains(now) ?? false
            let bitrate = capacity(now)
            let limit = Int(queueLimit) * (bitrate / 8) / 1_000_000
            while let first = outbox.first, first.time <= now {
                outbox.removeFirst()
                history.record(sequence: sequence, size: first.size, now: now)
                highest += 1
                let isLost = Double.random(in: 0..<1, using: &random) < loss
                if !isLost, queuedBytes + first.size <= limit, !isOut {
                    queue.append(Packet(sequence: sequence, size: first.size, entered: now))
                    queuedBytes += first.size
                }
                sequence &+= 1
            }
            // Bottleneck.
            let perStep = Double(bitrate) / 8000
            credit = queue.isEmpty ? 0 : credit + perStep
            var spent = 0.0
            while let first = queue.first, credit >= Double(first.size) {
                queue.removeFirst()
                queuedBytes -= first.size
                credit -= Double(first.size)
                spent += Double(first.size)
                let leaves = now + Int64(1000 * min(1, spent / perStep))
                let wobble = jitter == 0 ? 0 : Int64.random(in: -jitter...jitter, using: &random)
                lastTransit = leaves - first.entered + oneWay
                arrivals.append((first, leaves + oneWay + jitter + wobble))
            }
            // Remote peer; its clock has another epoch.
            for arrival in arrivals where arrival.time <= now {
                received[arrival.packet.sequence] = Int64(Double(arrival.time) * remoteClock) + 7_000_000_000
                if Int16(bitPattern: arrival.packet.sequence &- nextReported) < 0 {
                    late.append(arrival.packet.sequence)
                }
                arrivedSince += 1
            }
            arrivals.removeAll { $0.time <= now }
            if now % feedbackInterval == 0, now > 0 {
                let lostOnTheWay = Double.random(in: 0..<1, using: &random) < feedbackLoss || isOut
                switch feedback {
                case .transport:
                    // Report up to the newest received packet, starting at the oldest late one that was reported lost.
                    let newest = received.keys.max {
                        Int16(bitPattern: $0 &- nextReported) < Int16(bitPattern: $1 &- nextReported)
                    }
                    let base =
                        late.min { Int16(bitPattern: $0 &- nextReported) < Int16(bitPattern: $1 &- nextReported) }
                        ?? nextReported
                    late.removeAll()
                    if let newest, Int16(bitPattern: newest &- nextReported) >= 0 {
                        let times = (0...Int(newest &- base)).map { received[base &+ UInt16($0)] }
                        let bytes = FeedbackBytes.message(base: base, arrivals: times, feedbackCount: feedbackCount)
                        feedbackCount &+= 1
                        nextReported = newest &+ 1
                        if !lostOnTheWay { returning.append((now + oneWay, bytes)) }
                    }
                    received = received.filter { Int16(bitPattern: nextReported &- $0.key) < 200 }
                case .reports:
                    let expected = highest - expectedBefore
                    let lost = max(0, Int(expected) - arrivedSince)
                    let fraction = expected == 0 ? 0 : min(255, lost * 256 / Int(expected))
                    let report = ReceptionReport(
                        ssrc: 1, fractionLost: UInt8(fraction), highestSequence: highest, lastSenderReport: 1,
                        delaySinceLastSenderReport: 0)
                    (expectedBefore, arrivedSince) = (highest, 0)
                    if !lostOnTheWay { reports.append((now + oneWay, report, lastTransit + oneWay)) }
                }
            }
            // Feedback arrives at the sender.
            while let first = returning.first, first.time <= now {
                returning.removeFirst()
                for message in FeedbackBytes.parse(first.bytes) {
                    let resolved = resolver.resolve(message, with: &history)
                    note(controller.feedback(resolved, totalBytes: history.totalBytes, now: now), now)
                }
            }
            while let first = reports.first, first.time <= now {
                reports.removeFirst()
                note(
                    controller.report(first.report, roundTrip: first.trip, totalBytes: history.totalBytes, now: now),
                    now)
            }
            if now % 250_000 == 0 { note(controller.tick(totalBytes: history.totalBytes, now: now), now) }
            if now % 20_000 == 0 {
                let waiting = Int64(Double(queuedBytes) * 8e6 / Double(bitrate))
                result.samples.append(Sample(time: now, target: controller.target, queueing: waiting))
            }
        }
        return result
    }
}

let second: Int64 = 1_000_000
