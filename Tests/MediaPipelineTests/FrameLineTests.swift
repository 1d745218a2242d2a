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
        let (line, order) = (FrameLine<Int, Int>(0), Log())
        func pass(_ frame: Int) -> Bool {
            line.pass({ _ in frame }) { frame, _ in
                if frame < 4 { #expect(pass(frame + 1)) }
                order.add(frame)
            }
        }
        #expect(pass(1))
        #expect(order.now == [1, 2, 3, 4])
    }

    @Test(arguments: [false, true]) func anotherThreadDoesNotWait(clears: Bool) {
        let (line, order) = (FrameLine<Int, Int>(0), Log())
        let (isHeld, mayGoOn, isDone) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        DispatchQueue.global().async {
            let isTaken = line.pass({ _ in 1 }) { frame, _ in
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
            let isTaken = line.pass({ _ in frame }) { _, _ in Issue.record("two threads hand frames over") }
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
            #expect(line.pass({ _ in 99 }) { frame, _ in order.add(frame) })
            #expect(order.now == Array(1...8) + [99])
            return
        }
        _ = line.pass({ _ in 99 }) { frame, _ in order.add(frame) }
        _ = line.pass({ _ in nil }) { frame, _ in order.add(frame) }
        _ = line.pass({ _ in 100 }) { frame, _ in order.add(frame) }
        #expect(order.now == Array(1...17) + [99, 100])
    }

    @Test func nothingToPassIsNoLoss() {
        let line = FrameLine<Int, Int>(0)
        #expect(line.pass({ _ in nil }) { _, _ in Issue.record("nothing was put in") })
    }

    @Test func aFrameGoesToTheConsumersOfItsTime() {
        let (line, order) = (FrameLine<Int, Int>(0), Log())
        func pass(_ frame: Int) {
            _ = line.pass({ _ in frame }) { frame, consumers in
                for path in consumers.keys.sorted() where consumers[path]?(frame) == true { order.add(frame) }
            }
        }
        pass(1)
        line.set({ $0 < 4 }, path: 1)
        pass(2)
        line.set({ _ in true }, path: 2)
        pass(3)
        pass(4)
        line.set(nil, path: 1)
        line.set(nil, path: 2)
        pass(5)
        #expect(order.now == [2, 3, 3, 4])
    }

    @Test func theSourcesKnowOfEachOtherUntilTheLineIsCleared() {
        let line = FrameLine<Int, Int>(7)
        line.change { $0 += 1 }
        var seen: [Int] = []
        for _ in 0..<2 {
            _ = line.pass({ exchange(&$0, with: 20) }) { frame, _ in seen.append(frame) }
        }
        line.clear()
        _ = line.pass({ $0 }) { frame, _ in seen.append(frame) }
        #expect(seen == [8, 20, 7])
    }
}
