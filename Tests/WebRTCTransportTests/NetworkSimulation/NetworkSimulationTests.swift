import TestSupport
import Testing

/// Simulations use a processor for seconds, and tests beside them would run into their time limits.
@Suite(.serialized) enum Simulation {
    static let seeds = UInt64(1)...(Verification.isOn ? 3 : 1)
}

extension Simulation {
    /// The networks on which the transport is compared with libwebrtc, here in one direction and at the defaults. The bounds
    /// describe the behaviour as it is; they are no goals.
    @Suite(.timeLimit(.minutes(10)))
    struct NetworkSimulationTests {
        struct Network: CustomTestStringConvertible {
            var name: String
            /// Of both directions.
            var conditions = SimulatedLink.Conditions()
            var framesShown: ClosedRange<Double>
            /// The 95th percentile from capture until a frame is complete, ms.
            var delivery: Int
            var longestGap: Int
            /// Received, kbit/s.
            var throughput: ClosedRange<Int>

            var testDescription: String { name }
        }

        static let networks = [
            Network(
                name: "clean", framesShown: 1...1, delivery: 10, longestGap: 40, throughput: 2400...2600),
            Network(
                name: "wifi",
                conditions: .init(
                    delay: .milliseconds(5), jitter: .milliseconds(2), loss: 0.01, burst: 2, rate: 100_000_000,
                    queue: 200_000),
                framesShown: 0.99...1, delivery: 40, longestGap: 300, throughput: 2400...2600),
            Network(
                name: "wifi lossy",
                conditions: .init(
                    delay: .milliseconds(15), jitter: .milliseconds(10), loss: 0.05, burst: 2, rate: 50_000_000,
                    queue: 100_000),
                framesShown: 0.98...1, delivery: 160, longestGap: 500, throughput: 1800...2700),
            Network(
                name: "cellular",
                conditions: .init(
                    delay: .milliseconds(50), jitter: .milliseconds(15), loss: 0.02, burst: 2, rate: 30_000_000,
                    queue: 100_000),
                framesShown: 0.98...1, delivery: 200, longestGap: 500, throughput: 2000...2900),
            Network(
                name: "wifi congested",
                conditions: .init(
                    delay: .milliseconds(10), jitter: .milliseconds(20), loss: 0.09, burst: 2, rate: 5_000_000,
                    queue: 30_000),
                framesShown: 0.98...1, delivery: 250, longestGap: 700, throughput: 2200...2800),
            Network(
                name: "1 Mbit/s", conditions: .init(delay: .milliseconds(20), rate: 1_000_000, queue: 50_000),
                framesShown: 0.99...1, delivery: 140, longestGap: 200, throughput: 860...1000),
            Network(
                name: "500 kbit/s", conditions: .init(delay: .milliseconds(20), rate: 500_000, queue: 40_000),
                framesShown: 0.98...1, delivery: 150, longestGap: 400, throughput: 430...500),
            Network(
                name: "far", conditions: .init(delay: .milliseconds(120), jitter: .milliseconds(5), loss: 0.005),
                framesShown: 0.98...1, delivery: 400, longestGap: 700, throughput: 2300...2700),
        ]

        @Test(arguments: networks) func aMinuteAtTheDefaults(network: Network) {
            for seed in Simulation.seeds {
                let result = NetworkSimulation(conditions: network.conditions, seed: seed).run()
                let row = "\(network.name), seed \(seed): \(result)"
                print(row)
                #expect(network.framesShown.contains(result.framesShown), "\(row)")
                #expect(result.delivery(percentile: 0.95) <= network.delivery, "\(row)")
                #expect(result.longestGap <= network.longestGap, "\(row)")
                #expect(network.throughput.contains(result.throughput / 1000), "\(row)")
                #expect(result.retransmissions <= result.nacks && result.packetsLost <= result.droppedByLink, "\(row)")
                #expect(network.name != "clean" || result.nacks + result.plis == 0, "\(row)")
            }
        }

        /// At the start it may cost the first frames: a packet that overtakes the first one begins the stream.
        @Test func reorderingAloneCostsNoLaterFrame() {
            let conditions = SimulatedLink.Conditions(
                delay: .milliseconds(15), jitter: .milliseconds(10), keepsOrder: false)
            let result = NetworkSimulation(conditions: conditions, duration: .seconds(20)).run()
            #expect(result.framesShown >= 0.99 && result.freezes == 0 && result.plis <= 2, "\(result)")
        }

        @Test func theSameSeedGivesTheSameResult() {
            func run(_ seed: UInt64) -> NetworkSimulation.Result {
                NetworkSimulation(conditions: Self.networks[4].conditions, duration: .seconds(10), seed: seed).run()
            }
            let first = run(7)
            #expect(run(7) == first && run(8) != first)
        }
    }
}
