import Dispatch
import MediaPipeline
import Synchronization
import Testing

/// Frames keep their order, and no lock is held while one is delivered.
@Suite(.timeLimit(.minutes(1))) struct FrameLineTests {
    private final class Log: Sendable {
        private let frames = Mutex<[Int]>([])
        var now: [Int] { frames.withLock { $0 } }
        func add(_ frame: Int) { frames.withLock { $0.append(frame) } }
    }

    /// A delivery may pass another frame to the line; with a lock held that would deadlock.
    @Test func aFrameMayComeWhileOneIsHandedOver() {
        let (line, order) = (FrameLine<Int>(), Log())
        func pass(_ frame: Int) -> Bool {
            line.pass({ frame }) { frame in
                if frame < 4 { #expect(pass(frame + 1)) }
                order.add(frame)
            }
        }
        #expect(pass(1))
        #expect(order.now == [1, 2, 3, 4])
    }

    @Test(arguments: [false, true]) func anotherThreadDoesNotWait(clears: Bool) {
        let (line, order) = (FrameLine<Int>(), Log())
        let (isHeld, mayGoOn, isDone) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        DispatchQueue.global().async {
            let isTaken = line.pass({ 1 }) { frame in
                if frame == 1 {
                    isHeld.signal()
                    #expect(mayGoOn.wait(timeout: .now() + 10) == .success)
                }
                order.add(frame)
            }
            #expect(isTaken)
            isDone.signal()
        }
        #expect(isHeld.wait(timeout: .now() + 10) == .success)
        for frame in 2...20 {
            let isTaken = line.pass({ frame }) { _ in Issue.record("two threads hand frames over") }
            // The frame being delivered does not count; sixteen may wait.
            #expect(isTaken == (frame <= 17), "\(frame)")
        }
        mayGoOn.signal()
        #expect(isDone.wait(timeout: .now() + 10) == .success)
        // One thread delivers at most eight frames and leaves the rest to the next caller, which is not held up for
        // long either.
        #expect(order.now == Array(1...8))
        if clears {
            line.clear()
            #expect(line.pass({ 99 }) { frame in order.add(frame) })
            #expect(order.now == Array(1...8) + [99])
            return
        }
        _ = line.pass({ 99 }) { frame in order.add(frame) }
        _ = line.pass({ nil }) { frame in order.add(frame) }
        _ = line.pass({ 100 }) { frame in order.add(frame) }
        #expect(order.now == Array(1...17) + [99, 100])
    }

    @Test func nothingToPassIsNoLoss() {
        let line = FrameLine<Int>()
        #expect(line.pass({ nil }) { _ in Issue.record("nothing was put in") })
    }
}
