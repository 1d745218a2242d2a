import GStreamerKit
import Testing
import WebRTCTransport

@Suite struct RateLimitTests {
    private static let ms: ClockTime = 1_000_000

    /// Passes 150 frames whose distances repeat, against 25 frames a second. Returns the number that pass.
    private func passed(_ distances: [ClockTime]) -> Int {
        var limit = RateLimit(interval: 40 * Self.ms)
        var time: ClockTime = 0
        return (0..<150).count { index in
            defer { time &+= distances[index % distances.count] * Self.ms }
            return limit.passes(time)
        }
    }

    @Test func aVariableRateBelowTheLimitPassesWhole() {
        #expect(passed([33, 66, 120, 40]) == 150)
        #expect(passed([20, 60]) == 149, "the first one has saved nothing")
        #expect(passed([40]) == 150)
    }

    @Test(arguments: [[33], [20], [17, 16, 17], [10, 30]]) func theAverageStaysBelowTheLimit(_ distances: [ClockTime]) {
        let length = Double(distances.reduce(0, +)) * 150 / Double(distances.count)
        let most = length / 40 + 2
        #expect(Double(passed(distances)) <= most)
        #expect(Double(passed(distances)) >= length / 40 * 0.8)
    }

    @Test func atMostOneFrameIsSavedUp() {
        var limit = RateLimit(interval: 40 * Self.ms)
        let times: [ClockTime] = [0, 1000, 1005, 1010, 1015]
        #expect(times.map { limit.passes($0 * Self.ms) } == [true, true, true, false, false])
    }

    @Test func aTimeThatGoesBackStartsOver() {
        var limit = RateLimit(interval: 40 * Self.ms)
        #expect(limit.passes(10_000 * Self.ms) && limit.passes(0))
        #expect(!limit.passes(5 * Self.ms) && limit.passes(40 * Self.ms))
    }
}
