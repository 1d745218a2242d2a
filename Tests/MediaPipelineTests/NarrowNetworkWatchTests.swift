import MediaPipeline
import RTP
import Testing
import WebRTCTransport

@Suite struct NarrowNetworkWatchTests {
    private var watch = NarrowNetworkWatch()

    private static func target(_ bitrate: Int, isLimited: Bool = true) -> BitrateTarget {
        BitrateTarget(target: bitrate, estimate: bitrate, reason: .floor, isLimitedByNetwork: isLimited)
    }

    /// Returns the seconds at which it warns.
    private mutating func warnings(_ target: BitrateTarget?, seconds: Int) -> [Int] {
        (1...seconds).filter { _ in watch.add(target, minimum: 100_000) }
    }

    @Test mutating func oneWarningForANarrowNetwork() {
        #expect(warnings(Self.target(100_000), seconds: 300) == [5])
        // A moment of more is the same narrow network.
        #expect(warnings(Self.target(200_000), seconds: 59) == [])
        #expect(warnings(Self.target(90_000), seconds: 60) == [])
        #expect(warnings(Self.target(200_000), seconds: 60) == [])
        #expect(warnings(Self.target(100_000), seconds: 60) == [5])
    }

    @Test mutating func noneForAShortSqueezeAndForWhatIsNotTheNetwork() {
        for _ in 0..<20 {
            #expect(warnings(Self.target(100_000), seconds: 4) == [])
            #expect(warnings(Self.target(150_000), seconds: 1) == [])
        }
        // The configured maximum is as low, or nothing is sent.
        #expect(warnings(Self.target(100_000, isLimited: false), seconds: 30) == [])
        #expect(warnings(nil, seconds: 30) == [])
    }

    /// While a queue drains, the target is lower than what the network carries.
    @Test mutating func theSustainedBitrateCounts() {
        let draining = BitrateTarget(
            target: 100_000, sustained: 180_000, estimate: 180_000, reason: .delay, isLimitedByNetwork: true)
        #expect(warnings(draining, seconds: 30) == [])
    }
}
