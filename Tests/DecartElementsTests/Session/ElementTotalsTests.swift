import DecartElements
import MediaPipeline
import Testing

/// Counters over the life of an element, without a session.
@Suite(.timeLimit(.minutes(1)), .indifferentToTransport) struct ElementTotalsTests {
    private static func counters(_ packets: UInt64) -> PathCounters {
        var counters = PathCounters()
        counters.packetsSent = packets
        return counters
    }

    @Test func pathsAddUp() {
        let totals = ElementTotals()
        for path in [PathID(1), PathID(2)] {
            totals.begin(path)
            totals.count(path, Self.counters(10), isLast: false)
        }
        totals.count(1, Self.counters(12), isLast: true)
        #expect(totals.sum.packetsSent == 22)
    }

    @Test func aCounterNeverFalls() {
        let totals = ElementTotals()
        totals.begin(1)
        totals.count(1, Self.counters(10), isLast: false)
        totals.count(1, Self.counters(3), isLast: true)
        #expect(totals.sum.packetsSent == 10)
    }

    /// A thread that reads `stats` has read its counters, and the path ends before it adds them.
    @Test func aReadingThatComesAfterTheEndIsNotCountedAgain() {
        let totals = ElementTotals()
        totals.begin(1)
        totals.count(1, Self.counters(10), isLast: true)
        totals.count(1, Self.counters(10), isLast: false)
        #expect(totals.sum.packetsSent == 10)
    }
}
