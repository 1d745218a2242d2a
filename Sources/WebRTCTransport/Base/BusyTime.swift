import GStreamerKit
import Synchronization

/// Time for which a streaming thread has worked on frames, to see how much of it is left. One thread adds at a time; any
/// thread reads.
package final class BusyTime: Sendable {
    private let nanoseconds = Atomic<UInt64>(0)
    private let longest = Atomic<UInt64>(0)
    private let pieces = Atomic<UInt64>(0)

    package init() {}

    package var total: Duration { .nanoseconds(Int64(clamping: nanoseconds.load(ordering: .relaxed))) }

    /// Pieces of work so far, such as packets.
    package var count: UInt64 { pieces.load(ordering: .relaxed) }

    package func add(_ time: Duration) {
        pieces.wrappingAdd(1, ordering: .relaxed)
        let added = UInt64(max(0, Int64(clamping: time.clockTime)))
        nanoseconds.wrappingAdd(added, ordering: .relaxed)
        longest.max(added, ordering: .relaxed)
    }

    package func takeLongest() -> Duration {
        .nanoseconds(Int64(clamping: longest.exchange(0, ordering: .relaxed)))
    }

    package func measure(_ work: () -> Void) {
        let start = MonotonicTime.now
        work()
        add(MonotonicTime.now - start)
    }
}
