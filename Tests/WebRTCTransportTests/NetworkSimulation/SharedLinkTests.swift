import Testing

extension Simulation {
    /// Narrow, changing and shared links, 20 ms long in each direction, from the first frame on.
    @Suite(.timeLimit(.minutes(10)))
    struct SharedLinkTests {
        private func simulation(_ rate: Int, queue: Int, seed: UInt64) -> SharedLinkSimulation {
            SharedLinkSimulation(
                conditions: .init(delay: .milliseconds(20), rate: rate, queue: queue), seed: seed)
        }

        /// The queue could delay a packet by 0.4 to 0.8 s.
        @Test(arguments: [(2_500_000, 60_000), (1_000_000, 50_000), (500_000, 40_000), (300_000, 30_000)])
        func theQueueOfANarrowLinkStaysShort(rate: Int, queue: Int) {
            for seed in Simulation.seeds {
                let call = simulation(rate, queue: queue, seed: seed).run().calls[0]
                let row = "\(rate / 1000) kbit/s, seed \(seed): \(call.summary(3, 60)); start: \(call.summary(0, 3))"
                print(row)
                #expect(call.dropped == 0 && call.plis == 0, "\(row)")
                #expect(call.wait(percentile: 0.5, 3, 60) <= 30 && call.wait(percentile: 0.95, 3, 60) <= 85, "\(row)")
                #expect(call.throughput(3, 60) >= rate * 85 / 100, "\(row)")
                // The keyframe at the start alone takes more than 0.3 s at 300 kbit/s.
                #expect(rate < 500_000 || call.wait(percentile: 1, 0, 3) <= 250, "\(row)")
            }
        }

        @Test func aGoodLinkIsUsedSoon() {
            let simulation = SharedLinkSimulation(conditions: .init(delay: .milliseconds(20)), duration: .seconds(5))
            #expect(simulation.run().calls[0].time(from: 0) { $0 >= 2_400_000 } <= 1.5)
        }

        /// From 2.5 to 0.5 Mbit/s and back.
        @Test func aChangeOfCapacityIsFollowed() {
            for seed in Simulation.seeds {
                var simulation = simulation(2_500_000, queue: 50_000, seed: seed)
                simulation.changes = [(.seconds(20), 500_000), (.seconds(40), 2_500_000)]
                let call = simulation.run().calls[0]
                let (down, up) = (call.time(from: 20) { $0 <= 550_000 }, call.time(from: 40) { $0 >= 2_000_000 })
                let row =
                    "seed \(seed): \(down) s down, then \(call.summary(23, 40)); "
                    + "\(up) s up, then \(call.summary(50, 60))"
                print(row)
                #expect(down <= 1 && call.wait(percentile: 0.95, 23, 40) <= 75, "\(row)")
                #expect(call.throughput(23, 40) >= 420_000 && up <= 15, "\(row)")
            }
        }

        /// Frames that do not need the path's capacity do not hide that it falls below what they need.
        @Test func aFallOfTheCapacityBelowTheEstimateIsFollowed() {
            for seed in Simulation.seeds {
                var simulation = simulation(2_500_000, queue: 60_000, seed: seed)
                (simulation.most, simulation.changes) = (1_050_000, [(.seconds(20), 500_000)])
                simulation.duration = .seconds(40)
                let call = simulation.run().calls[0]
                let row = "seed \(seed): \(call.summary(20, 24)), then \(call.summary(24, 40))"
                print(row)
                #expect(call.time(from: 20) { $0 <= 500_000 } <= 1 && call.dropped == 0 && call.plis == 0, "\(row)")
                #expect(call.wait(percentile: 0.95, 24, 40) <= 75 && call.throughput(24, 40) >= 420_000, "\(row)")
            }
        }

        @Test func twoCallsAndTCPShareALink() {
            for seed in Simulation.seeds {
                var simulation = simulation(5_000_000, queue: 100_000, seed: seed)
                (simulation.calls, simulation.tcpFlows) = (2, 1)
                let result = simulation.run()
                let (rates, tcp) = (result.calls.map { $0.throughput(0, 60) }, result.tcpThroughput(0, 60))
                let row = "seed \(seed): calls \(rates), TCP \(tcp), Jain \(result.fairness(0, 60))"
                print(row)
                #expect(result.fairness(0, 60) >= 0.8 && rates.allSatisfy { $0 >= 500_000 } && tcp >= 500_000, "\(row)")
            }
        }

        @Test func twoCallsShareALinkWithAShortQueue() {
            for seed in Simulation.seeds {
                var simulation = simulation(3_000_000, queue: 100_000, seed: seed)
                simulation.calls = 2
                let result = simulation.run()
                let rates = result.calls.map { $0.throughput(10, 60) }
                let row =
                    "seed \(seed): calls \(rates), " + result.calls.map { $0.summary(10, 60) }.joined(separator: ", ")
                print(row)
                #expect(result.fairness(10, 60) >= 0.8 && rates.reduce(0, +) >= 2_500_000, "\(row)")
                #expect(result.calls.allSatisfy { $0.wait(percentile: 0.95, 10, 60) <= 90 }, "\(row)")
            }
        }

        /// Loss and jitter that the sender does not cause. An encoder that leaves room for retransmissions sends less.
        @Test(arguments: [
            SimulatedLink.Conditions(
                delay: .milliseconds(10), jitter: .milliseconds(20), loss: 0.09, burst: 2, rate: 5_000_000,
                queue: 30_000),
            SimulatedLink.Conditions(delay: .milliseconds(20), loss: 0.09, rate: 20_000_000, queue: 100_000),
            SimulatedLink.Conditions(delay: .milliseconds(20), loss: 0.05, rate: 20_000_000, queue: 100_000),
            SimulatedLink.Conditions(
                delay: .milliseconds(50), jitter: .milliseconds(15), loss: 0.02, burst: 2, rate: 30_000_000,
                queue: 100_000),
        ])
        func lossAndJitterOfTheLinkDoNotLowerTheRate(conditions: SimulatedLink.Conditions) {
            for seed in Simulation.seeds {
                let call = SharedLinkSimulation(conditions: conditions, seed: seed).run().calls[0]
                print("loss \(conditions.loss), seed \(seed): \(call.summary(0, 60))")
                #expect(call.throughput(10, 60) >= 2_000_000, "\(call.summary(10, 60))")
            }
        }
    }
}
