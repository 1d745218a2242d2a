import RTP
import WebRTCTransport

/// A call of two peers over a simulated path, on virtual time: the first one sends video.
struct NetworkSimulation {
    var conditions = SimulatedLink.Conditions()
    var range = 100_000...2_500_000
    var start = 600_000
    var duration = Duration.seconds(60)
    var seed: UInt64 = 1

    struct Result: Equatable, CustomStringConvertible {
        var framesSent = 0
        var frames: [SimulatedDecoder.Frame] = []
        var nacks = 0
        var plis = 0
        var retransmissions = 0
        var packetsLost = 0
        var droppedByLink = 0
        /// Received, bit/s.
        var throughput = 0
        /// Every 250 ms, bit/s.
        var targets: [Int] = []

        /// 0 to 1.
        var framesShown: Double { Double(frames.count) / Double(max(framesSent, 1)) }
        /// From capture until the frame is complete, ms.
        func delivery(percentile: Double) -> Int {
            Self.percentile(percentile, frames.map { $0.delivered - $0.captured })
        }
        /// From capture to display, ms.
        func display(percentile: Double) -> Int {
            Self.percentile(percentile, frames.map { $0.displayed - $0.captured })
        }
        /// Longest time from the display of a frame to that of the next, ms.
        var longestGap: Int { gaps.max() ?? .max }
        var freezes: Int { gaps.filter { $0 > 200 }.count }
        private var gaps: [Int] {
            zip(frames, frames.dropFirst()).map { Self.milliseconds($1.displayed - $0.displayed) }
        }

        private static func milliseconds(_ time: Duration) -> Int { Int(time / .milliseconds(1)) }
        private static func percentile(_ share: Double, _ times: [Duration]) -> Int {
            let sorted = times.sorted()
            guard !sorted.isEmpty else { return .max }
            return milliseconds(sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))])
        }

        var description: String {
            let share = Int(framesShown * 1000)
            return "frames \(share / 10).\(share % 10) %, delivery p50 \(delivery(percentile: 0.5)) p95 "
                + "\(delivery(percentile: 0.95)) ms, display p50 \(display(percentile: 0.5)) p95 "
                + "\(display(percentile: 0.95)) ms, longest gap \(longestGap) ms, freezes \(freezes), NACKs \(nacks), "
                + "PLIs \(plis), retransmissions \(retransmissions), lost \(packetsLost), dropped \(droppedByLink), "
                + "\(throughput / 1000) kbit/s"
        }
    }

    func run() -> Result {
        let sender = SimulatedPeer(
            encoder: SimulatedEncoder(seed: seed), range: range, start: start, seed: seed &+ 1)
        let receiver = SimulatedPeer(encoder: nil, range: range, start: start, seed: seed &+ 2)
        var forth = SimulatedLink(conditions, seed: seed &+ 3)
        var back = SimulatedLink(conditions, seed: seed &+ 4)
        var now = Duration.zero
        while now < duration {
            while let (_, datagram) = forth.receive(at: now) {
                receiver.receive(datagram, at: now) { back.send($0, at: now) }
            }
            while let (_, datagram) = back.receive(at: now) {
                sender.receive(datagram, at: now) { forth.send($0, at: now) }
            }
            if sender.nextWake <= now { sender.wake(at: now) { forth.send($0, at: now) } }
            if receiver.nextWake <= now { receiver.wake(at: now) { back.send($0, at: now) } }
            var next = min(sender.nextWake, receiver.nextWake)
            for arrival in [forth.nextArrival, back.nextArrival] {
                if let arrival { next = min(next, arrival) }
            }
            now = max(next, now)
        }
        return result(sender, receiver, dropped: forth.dropped)
    }

    private func result(_ sender: SimulatedPeer, _ receiver: SimulatedPeer, dropped: Int) -> Result {
        var result = Result()
        result.framesSent = Int(sender.encoder?.frames ?? 0)
        result.frames = receiver.decoder.frames
        let (received, sent) = (receiver.statistics.received, sender.statistics.sent)
        (result.nacks, result.plis) = (Int(received.nacksSent), Int(received.plisSent))
        (result.retransmissions, result.packetsLost) = (Int(sent.retransmissions), received.packetsLost ?? 0)
        result.droppedByLink = dropped
        result.throughput = Int(Double(receiver.bytesReceived) * 8 / (duration / .seconds(1)))
        result.targets = sender.targets
        return result
    }
}
