import RTP
import Testing
import TestSupport
import WebRTCTransport

/// The estimate in front of a link with a queue, on virtual time.
@Suite("The estimate of the receive bitrate", .timeLimit(.minutes(1)))
struct ReceiveBitrateEstimatorTests {
    private struct Link {
        /// bit/s.
        var capacity: Double
        /// s; longer queues lose packets.
        var longestQueue = 0.5
        /// Up to so many seconds are added to each packet's delay.
        var jitter = 0.0
        var lossEach: Int?
        var free = 0.0
    }

    /// A sender that paces frames of equal size, and our receiver behind the link.
    private struct Path {
        var estimator: ReceiveBitrateEstimator
        var link: Link
        /// s; abs-send-time wraps at 64.
        var now: Double
        var isMarked = true
        var sequence: UInt16 = 65_000
        var report: Double
        var sooner = 0
        private var generator = SeededGenerator(seed: 5)
        private var arrived = 0.0

        init(maximum: Int = 8_000_000, _ link: Link, start: Double = 60) {
            (estimator, self.link, now) = (ReceiveBitrateEstimator(maximum: maximum), link, start)
            report = start
        }

        mutating func run(_ seconds: Double, bitrate: Double, size: Int = 1200) {
            let end = now + seconds
            while now < end {
                sequence &+= 1
                link.free = max(link.free, now) + Double(size * 8) / link.capacity
                let isLost =
                    link.free - now > link.longestQueue || link.lossEach.map { Int(sequence) % $0 == 0 } ?? false
                if isLost {
                    link.free -= Double(size * 8) / link.capacity
                } else {
                    arrived = max(arrived, link.free + Double.random(in: 0...1, using: &generator) * link.jitter)
                    receive(size)
                }
                now += Double(size * 8) / bitrate
            }
        }

        private mutating func receive(_ size: Int) {
            while arrived - report >= 0.5 {
                report += 0.5
                estimator.update(now: .seconds(report))
            }
            let sent = isMarked ? UInt32(now.truncatingRemainder(dividingBy: 64) * 262_144) : nil
            if estimator.arrived(size: size, sendTime: sent, now: .seconds(arrived)) { sooner += 1 }
            estimator.packet(sequence: sequence)
        }
    }

    /// 3.5 Mbit/s into 300 kbit/s, with queues of any length: the estimate is what arrives, or somewhat less, and soon.
    @Test(arguments: [0.1, 0.5, 2])
    func aNarrowLink(queue: Double) {
        var path = Path(Link(capacity: 300_000, longestQueue: queue))
        path.run(2, bitrate: 3_500_000)
        for _ in 0..<20 {
            path.run(1, bitrate: 3_500_000)
            #expect((200_000...460_000).contains(path.estimator.estimate), "\(path.estimator.estimate)")
        }
        // A short queue overflows before its growth is certain.
        #expect(queue < 0.5 || path.sooner > 0)
    }

    /// A queue that only grows: no packet is lost that could say so.
    @Test func aQueueWithoutLoss() {
        var path = Path(Link(capacity: 1_000_000, longestQueue: 60))
        path.run(0.5, bitrate: 900_000)
        #expect(path.estimator.estimate == 8_000_000)
        path.run(0.7, bitrate: 1_500_000)
        #expect((700_000...1_000_000).contains(path.estimator.estimate) && path.sooner > 0)
        // The same times without abs-send-time show nothing.
        path = Path(Link(capacity: 1_000_000, longestQueue: 60))
        path.isMarked = false
        path.run(5, bitrate: 1_500_000)
        #expect(path.estimator.estimate == 8_000_000 && path.sooner == 0)
    }

    /// The sender goes down to a smaller layer: the estimate grows again, up to half above what arrives.
    @Test func aSenderThatAdapts() {
        var path = Path(Link(capacity: 1_000_000))
        path.run(3, bitrate: 3_500_000)
        path.run(30, bitrate: 600_000)
        #expect((800_000...1_000_000).contains(path.estimator.estimate), "\(path.estimator.estimate)")
        path.link.capacity = 10_000_000
        path.run(30, bitrate: 900_000)
        let proven = path.estimator.estimate
        #expect((1_200_000...1_400_000).contains(proven), "\(proven)")
        for _ in 0..<30 { path.run(1, bitrate: Double(path.estimator.estimate)) }
        #expect((3_000_000...8_000_000).contains(path.estimator.estimate), "\(path.estimator.estimate)")
    }

    /// Neither jitter nor the wrap of the clock is a queue.
    @Test(arguments: [0, 0.002, 0.01])
    func aPathThatCarriesEverything(jitter: Double) {
        var path = Path(Link(capacity: 20_000_000, jitter: jitter), start: 0)
        path.run(200, bitrate: 2_000_000)
        #expect(path.estimator.estimate == 8_000_000 && path.sooner == 0)
    }

    // MARK: Loss

    @Test(arguments: [true, false]) func lossLowersItNoFurtherThanWhatArrives(isMarked: Bool) {
        var path = Path(maximum: 2_000_000, Link(capacity: 20_000_000, lossEach: 5))
        path.isMarked = isMarked
        path.run(1.2, bitrate: 1_000_000)
        let fallen = path.estimator.estimate
        #expect(fallen > 1_600_000 && fallen < 1_900_000, "\(fallen)")
        path.run(20, bitrate: 1_000_000)
        #expect((600_000...700_000).contains(path.estimator.estimate), "\(path.estimator.estimate)")
        // Between 2 and 10 % it stays.
        path.link.lossEach = 20
        path.run(1, bitrate: 1_000_000)
        let held = path.estimator.estimate
        path.run(5, bitrate: 1_000_000)
        #expect(path.estimator.estimate == held)
        path.link.lossEach = nil
        path.run(5, bitrate: 1_000_000)
        #expect(path.estimator.estimate > held)
    }

    @Test func neverLeavesItsBounds() {
        var path = Path(maximum: 300_000, Link(capacity: 20_000, longestQueue: 10))
        path.run(60, bitrate: 200_000)
        #expect(path.estimator.estimate == 100_000)
        path.link.capacity = 20_000_000
        path.run(60, bitrate: 300_000)
        #expect(path.estimator.estimate == 300_000)
        #expect(ReceiveBitrateEstimator(maximum: -1).estimate == 100_000)
    }

    // MARK: Anything

    @Test func silenceChangesNothing() {
        var path = Path(Link(capacity: 300_000))
        path.run(3, bitrate: 3_500_000)
        let before = path.estimator.estimate
        for second in 100..<200 { path.estimator.update(now: .seconds(second)) }
        #expect(path.estimator.estimate == before)
    }

    @Test func anyNumbersAndTimes() {
        var estimator = ReceiveBitrateEstimator(maximum: 1_000_000)
        var generator = SeededGenerator(seed: 3)
        var now = Duration.zero
        for round in 0..<50_000 {
            now += .microseconds(Int.random(in: 0...(round % 100 == 0 ? 10_000_000 : 20_000), using: &generator))
            let sent: UInt32? = round % 3 == 0 ? nil : UInt32.random(in: 0...UInt32.max, using: &generator)
            _ = estimator.arrived(size: Int.random(in: 12...2048, using: &generator), sendTime: sent, now: now)
            estimator.packet(sequence: UInt16.random(in: 0...UInt16.max, using: &generator))
            if round % 50 == 0 { estimator.update(now: now) }
            #expect((100_000...1_000_000).contains(estimator.estimate))
        }
    }
}
