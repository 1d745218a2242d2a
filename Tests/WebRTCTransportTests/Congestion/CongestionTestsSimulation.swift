import Glibc
import RTP
import Testing
import WebRTCTransport

extension Simulation {
    /// Tests the whole controller on a simulated link in virtual time: RTT 100 ms, drop-tail queue of 300 ms.
    @Suite(.timeLimit(.minutes(10)))
    struct CongestionSimulationTests {
        static let seeds: [UInt64] = [1, 2, 3, 4]

        /// A seed also selects pacing and feedback interval.
        static func call(_ seed: UInt64) -> SimulatedCall {
            var call = SimulatedCall()
            call.seed = seed
            call.start = 1_500_000
            call.isPaced = seed % 2 == 0
            call.feedbackInterval = seed > 2 ? 100_000 : 33_000
            return call
        }

        private static func dip(_ now: Int64) -> Int { now >= 10 * second && now < 40 * second ? 500_000 : 5_000_000 }

        @Test(arguments: seeds)
        func aDipOfTheCapacity(seed: UInt64) throws {
            var call = Self.call(seed)
            call.capacity = Self.dip
            let result = call.run(until: 80 * second)
            let samples = result.samples
            // The network counts as the limit from the dip until it has proven to carry the maximum again.
            #expect(!samples.contains { $0.time < 10 * second && $0.target.isLimitedByNetwork })
            let noticed = try #require(samples.first { $0.time >= 10 * second && $0.target.isLimitedByNetwork })
            #expect(noticed.time < 11 * second)
            #expect(
                samples.allSatisfy { !(noticed.time..<(40 * second)).contains($0.time) || $0.target.isLimitedByNetwork }
            )
            #expect(samples.last?.target.isLimitedByNetwork == false)
            // Recovery is gradual: the target never rises by more than half within a second.
            for sample in samples where sample.time >= 40 * second && sample.time < 79 * second {
                #expect(result.target(at: sample.time + second) <= sample.target.target * 3 / 2)
            }
            // Events are changes, and not too many.
            let events = result.events
            let reasons = Set(events.map(\.target.reason))
            #expect(reasons.contains(.delay) && reasons.contains(.ceiling))
            for (before, after) in zip(events, events.dropFirst()) {
                #expect(after.time - before.time >= 100_000)
                #expect(
                    after.target.reason != before.target.reason
                        || after.target.isLimitedByNetwork != before.target.isLimitedByNetwork
                        || abs(after.target.target - before.target.target) * 50 >= before.target.target)
            }
        }

        /// The encoder produces twice the user's maximum, more than the network carries: only the standing queue shows it.
        @Test(arguments: seeds)
        func aQueueAtTheMaximumIsALimitOfTheNetwork(seed: UInt64) {
            var call = Self.call(seed)
            call.range = 100_000...600_000
            call.start = 600_000
            call.capacity = { _ in 900_000 }
            call.overshoot = 2
            let result = call.run(until: 20 * second)
            let queueing = result.samples.filter { $0.time > 2 * second && $0.queueing > 150_000 }
            #expect(!queueing.isEmpty)
            // A queue counts as standing after half a second and a round trip.
            let limited = queueing.filter(\.target.isLimitedByNetwork)
            #expect(limited.count * 2 > queueing.count, "\(limited.count) of \(queueing.count)")
        }

        @Test(arguments: seeds)
        func reorderingAloneDoesNotCollapse(seed: UInt64) {
            var call = Self.call(seed)
            call.jitter = 20_000
            #expect(call.run(until: 60 * second).mean((20 * second)..<(60 * second)) >= 1_500_000)
        }

        @Test(arguments: seeds)
        func lostFeedbackIsTolerated(seed: UInt64) throws {
            var call = Self.call(seed)
            call.feedbackLoss = 0.5
            #expect(call.run(until: 60 * second).mean((10 * second)..<(60 * second)) >= 2_250_000)
            call.capacity = Self.dip
            let result = call.run(until: 80 * second)
            let down = try #require(result.timeUntil(10 * second, until: 40 * second) { $0 <= 650_000 })
            #expect(down <= 6 * second)
        }

        @Test(arguments: seeds)
        func anOutageHalvesAndIsForgotten(seed: UInt64) {
            var call = Self.call(seed)
            call.outage = (10 * second)..<(13 * second)
            let result = call.run(until: 45 * second)
            #expect(result.target(at: 12_900_000) <= 1_300_000)
            // At most two halvings, however many packets were lost.
            #expect(result.targets((10 * second)..<(20 * second)).min() ?? 0 >= 620_000)
            #expect(result.target(at: 44 * second) >= 2_000_000)
        }

        @Test(arguments: seeds)
        func withoutTrafficTheEstimateDoesNotClimb(seed: UInt64) {
            var call = Self.call(seed)
            call.demand = { $0 < 20 * second ? 200_000 : .max }
            let result = call.run(until: 60 * second)
            let idle = result.samples.filter { $0.time < 20 * second }
            #expect(idle.allSatisfy { $0.target.target == 1_500_000 })
            #expect(result.target(at: 59 * second) == 2_500_000)
        }

        @Test(arguments: seeds)
        func afterCongestionIdleTimeIsNoEvidence(seed: UInt64) {
            var call = Self.call(seed)
            call.capacity = Self.dip
            // The encoder produces little after the dip.
            call.demand = { $0 < 38 * second ? .max : 200_000 }
            let result = call.run(until: 90 * second)
            #expect(result.target(at: 89 * second) <= 700_000)
        }

        /// An encoder that follows slowly, with content that needs more and less: what a probe of six packets says of a
        /// narrow path, and windows that hold a frame more, must not make it forget the capacity.
        @Test(arguments: [1_000_000, 2_500_000], [1, 0.93, 0.85])
        func aKnownCapacityIsKept(capacity: Int, share: Double) {
            for seed in Self.seeds {
                var call = Self.call(seed)
                (call.range, call.start) = (100_000...3_500_000, 872_000)
                (call.oneWay, call.jitter, call.queueLimit, call.canProbe) = (20_000, 1_000, 400_000, true)
                call.capacity = { _ in capacity }
                call.frameRate = { _ in 22 }
                (call.overshoot, call.agility) = (share, 0.22)
                call.content = { 1 + 0.15 * sin(Double($0) / 2.7e6 * 2 * .pi) }
                let result = call.run(until: 25 * second)
                let later = result.samples.filter { $0.time > 4 * second }
                let highest = Double(later.map(\.target.target).max() ?? 0) / Double(capacity)
                #expect(highest < 1.25, "seed \(seed): \(highest) of the capacity")
                #expect(later.allSatisfy { $0.queueing < 170_000 }, "seed \(seed)")
            }
        }

        /// Free, 300 kbit/s for 20 s with a queue of a second, free: what a link does that others share for a moment.
        @Test(arguments: seeds)
        func aSqueezeIsOverWhenItIsOver(seed: UInt64) throws {
            var call = Self.call(seed)
            call.range = 100_000...3_500_000
            call.start = 1_400_000
            (call.oneWay, call.queueLimit, call.canProbe) = (20_000, 1_000_000, true)
            call.capacity = { (8 * second..<28 * second).contains($0) ? 300_000 : 20_000_000 }
            let result = call.run(until: 45 * second)
            #expect(result.target(at: 7 * second) == 3_500_000)
            // In the squeeze the probes cost neither rate nor delay.
            #expect((150_000...330_000).contains(result.mean((12 * second)..<(28 * second))))
            let queues = result.samples.filter { (14 * second..<28 * second).contains($0.time) }.map(\.queueing)
                .sorted()
            #expect(queues[queues.count * 95 / 100] < 300_000, "\(queues[queues.count * 95 / 100])")
            let up = try #require(result.timeUntil(28 * second, until: 45 * second) { $0 >= 3_400_000 })
            #expect(up <= 8 * second, "\(up)")
        }

        /// As above, with the few and small frames of degraded video: a packet that takes 30 ms itself is no queue.
        @Test(arguments: seeds, [50_000, 100_000])
        func fewFramesInASqueeze(seed: UInt64, interval: Int64) throws {
            var call = Self.call(seed)
            call.range = 100_000...3_500_000
            call.start = 1_400_000
            (call.oneWay, call.jitter, call.queueLimit, call.canProbe) = (20_000, 2_000, 1_000_000, true)
            call.feedbackInterval = interval
            call.capacity = { (8 * second..<28 * second).contains($0) ? 300_000 : 20_000_000 }
            call.frameRate = { $0 < 9 * second ? 22 : $0 < 11 * second ? 15 : $0 < 28 * second ? 10 : 22 }
            let result = call.run(until: 45 * second)
            let mean = result.mean((12 * second)..<(28 * second))
            let queues = result.samples.filter { (14 * second..<28 * second).contains($0.time) }.map(\.queueing)
                .sorted()
            let high = queues[queues.count * 95 / 100]
            #expect((180_000...330_000).contains(mean), "\(mean)")
            #expect(high < 300_000, "\(high)")
        }

        /// The path carries less than the start rate, which the spread of the first packets shows before the queue is full.
        @Test(arguments: seeds)
        func aPathThatRefusesTheStart(seed: UInt64) throws {
            var call = Self.call(seed)
            call.range = 100_000...3_500_000
            (call.start, call.canProbe) = (1_160_000, true)
            (call.oneWay, call.queueLimit) = (20_000, 640_000)
            call.capacity = { _ in 500_000 }
            let result = call.run(until: 20 * second)
            let down = try #require(result.timeUntil(0, until: 5 * second) { $0 < 500_000 })
            #expect(down <= 400_000, "\(down)")
            // Most of it is the first frame.
            #expect(result.samples.map(\.queueing).max() ?? 0 < 560_000)
            #expect(result.probes.allSatisfy { $0.time > down })
            #expect((330_000...520_000).contains(result.mean((5 * second)..<(20 * second))))
        }

        /// Jitter spreads packets too, and is no refusal.
        @Test(arguments: seeds)
        func aPathWithJitterCarriesTheStart(seed: UInt64) throws {
            var call = Self.call(seed)
            call.range = 100_000...3_500_000
            (call.start, call.canProbe, call.jitter) = (1_160_000, true, 15_000)
            call.capacity = { _ in 30_000_000 }
            let result = call.run(until: 10 * second)
            #expect(result.targets(0..<(10 * second)).min() ?? 0 >= 1_160_000)
            let up = try #require(result.timeUntil(0, until: 10 * second) { $0 >= 3_400_000 })
            #expect(up <= 2 * second, "\(up)")
        }

        /// The content needs a tenth of what the path carries, and then all: the path is known by then.
        @Test(arguments: seeds)
        func anApplicationThatNeedsLittle(seed: UInt64) throws {
            var call = Self.call(seed)
            call.range = 100_000...3_500_000
            (call.start, call.canProbe) = (600_000, true)
            call.demand = { $0 < 10 * second ? 150_000 : .max }
            let result = call.run(until: 30 * second)
            #expect(result.target(at: 10 * second) == 3_500_000)
            #expect(result.targets((12 * second)..<(30 * second)).min() ?? 0 >= 2_500_000)
            // A path that has shown to carry the maximum is not probed.
            #expect(result.probes.allSatisfy { $0.time < 10 * second && $0.cluster.rate <= 3_500_000 })
            #expect(result.probes.allSatisfy { $0.cluster.rate / 8 * Int($0.cluster.duration) / 1_000_000 < 16_000 })
        }

        /// What is behind a narrow path stays unknown, and each probe is short.
        @Test(arguments: seeds)
        func probesOfAFullPathAreFewAndShort(seed: UInt64) {
            var call = Self.call(seed)
            call.canProbe = true
            call.capacity = { _ in 1_000_000 }
            let result = call.run(until: 60 * second)
            let late = result.probes.filter { $0.time > 10 * second }
            #expect((5...20).contains(late.count), "\(late.count)")
            #expect((700_000...1_050_000).contains(result.mean((10 * second)..<(60 * second))))
            let queues = result.samples.filter { $0.time > 10 * second }.map(\.queueing).sorted()
            #expect(queues[queues.count * 95 / 100] < 110_000, "\(queues[queues.count * 95 / 100])")
        }

        /// A clock that is slewed, as by ntpd or chronyd, is no queue.
        @Test(arguments: [0.999, 0.9995, 1.0005, 1.0007, 1.001])
        func aRemoteClockOfAnotherRate(rate: Double) {
            var call = Self.call(2)
            call.remoteClock = rate
            #expect(call.run(until: 80 * second).targets((20 * second)..<(80 * second)).min() == 2_500_000)
        }

        @Test(arguments: seeds)
        func receiverReportsAloneFollowTheCapacityToo(seed: UInt64) throws {
            var call = Self.call(seed)
            call.feedback = .reports
            call.feedbackInterval = second
            call.capacity = Self.dip
            let result = call.run(until: 80 * second)
            let down = try #require(result.timeUntil(10 * second, until: 40 * second) { $0 <= 600_000 })
            #expect(down <= 8 * second)
            #expect(result.mean((15 * second)..<(40 * second)) > 300_000)
            let up = try #require(result.timeUntil(40 * second, until: 80 * second) { $0 >= 2_000_000 })
            #expect(up <= 30 * second)
            #expect(result.events.contains { $0.target.reason == .reports })
            #expect(!result.events.contains { $0.target.reason == .delay || $0.target.reason == .loss })
        }

        @Test(arguments: [(50_000, 0.03), (200_000, 0.1)] as [(Int64, Double)])
        func slowLossyLinks(oneWay: Int64, loss: Double) {
            for seed in Self.seeds {
                var call = Self.call(seed)
                call.capacity = { _ in 500_000 }
                call.oneWay = oneWay
                call.loss = loss
                let result = call.run(until: 60 * second)
                #expect((150_000...550_000).contains(result.mean((5 * second)..<(60 * second))))
            }
        }
    }
}
