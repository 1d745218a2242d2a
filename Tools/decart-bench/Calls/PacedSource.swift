import GStreamerKit
import Synchronization

/// A live source on one thread: pushes a buffer 30 times a second by the pipeline's clock. If it falls behind by more
/// than three frames, because a push blocked, it skips to the current time.
// @unchecked: only the streaming thread uses `due`; the rest is constant or atomic.
final class PacedSource: @unchecked Sendable {
    static let interval: ClockTime = 1_000_000_000 / 30

    let pad: Pad
    private let pipeline: Pipeline
    private let caps: String
    /// Makes the next buffer; with `afresh`, one that depends on no earlier frame.
    private let next: (_ afresh: Bool) -> Buffer
    private let keyFrameIsWanted = Atomic(false)
    private let stopped = Atomic(false)
    private let wait = Mutex<ClockWait?>(nil)
    private var due: ClockTime?

    init(caps: String, pipeline: Pipeline, next: @escaping (_ afresh: Bool) -> Buffer) {
        pad = Pad(name: "paced", direction: .source)
        self.pipeline = pipeline
        self.caps = caps
        self.next = next
        pad.setEventFunction { [weak self] event in
            if event.isForceKeyUnit { self?.keyFrameIsWanted.store(true, ordering: .relaxed) }
            return .handled(true)
        }
        // Without this answer, the element would wait for the time of each frame once more.
        pad.setQueryFunction { query in
            guard query.kind == .latency else { return .forward }
            query.answerLatency(live: true, minimum: 0, maximum: nil)
            return .answered
        }
    }

    /// Call after linking the pad. Frames flow once the pipeline has a clock.
    func start() throws {
        pad.setActive(true)
        pad.push(Event.streamStart(id: "decart-bench/paced", groupID: Event.nextGroupID()))
        pad.push(Event.caps(try Caps(caps)))
        pad.push(Event.timeSegment())
        pad.startTask { [weak self] in self?.step() }
    }

    private func step() {
        guard !stopped.load(ordering: .acquiring), let clock = pipeline.currentClock,
            let now = pipeline.currentRunningTime
        else {
            pad.pauseTask()
            return
        }
        var skipped = due == nil
        var time = due ?? now
        if now > time + 3 * Self.interval {
            time = now
            skipped = true
        }
        due = time + Self.interval
        if time > now {
            let wait = clock.makeWait(until: pipeline.baseTime + time)
            self.wait.withLock { $0 = wait }
            _ = wait.wait()
            guard !stopped.load(ordering: .acquiring) else { return }
        }
        if keyFrameIsWanted.exchange(false, ordering: .relaxed) { skipped = true }
        let buffer = next(skipped)
        buffer.pts = time
        buffer.duration = Self.interval
        if pad.push(buffer) == .flushing { pad.pauseTask() }
    }

    /// Call after the pipeline has reached NULL, so that a blocked push has returned.
    func stop() {
        stopped.store(true, ordering: .releasing)
        wait.withLock { $0 }?.cancel()
        pad.setActive(false)
        pad.stopTask()
    }
}
