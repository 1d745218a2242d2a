import GStreamerKit
import Synchronization

final class FrameCount: Sendable {
    private let value = Atomic(0)
    var now: Int { value.load(ordering: .relaxed) }

    /// Counts the frames that reach the element `end`.
    func watch(_ pipeline: Pipeline, countsGaps: Bool = true) {
        pipeline.child(named: "end")?.staticPad("sink")?.addProbe(.buffer) { item in
            if case .buffer(let buffer) = item, countsGaps || !buffer.isGap {
                self.value.wrappingAdd(1, ordering: .relaxed)
            }
            return .pass
        }
    }

    /// Waits until `frames` have come, and counts from then on.
    /// - Returns: Per cent of a core that the process uses, frames a second, and the process at the end.
    func measure(after frames: Int, seconds: Int) throws -> (cpu: Double, rate: Double, process: ProcessStatistics) {
        let begun = ContinuousClock.now
        while now < frames {
            guard .now - begun < .seconds(30) else { throw BenchError("only \(now) frames came within 30 s") }
            pause(.milliseconds(20))
        }
        let (before, start) = (now, ProcessStatistics.now())
        pause(.seconds(seconds))
        let end = ProcessStatistics.now()
        let elapsed = (end.wall - start.wall).inSeconds
        return ((end.cpu - start.cpu).inSeconds / elapsed * 100, Double(now - before) / elapsed, end)
    }
}
