import Foundation
import GStreamerKit
import MediaPipeline
import TestSupport
import Testing

@Suite struct ClockFollowerTests {
    private static let ms: ClockTime = 1_000_000

    /// Passes 100 frames of 40 ms; returns the number of the frame with which the input counts as live.
    private func judge(lead: (Int) -> Int, held: (Int) -> Bool = { _ in false }) -> Int? {
        var follower = ClockFollower()
        for index in 0..<100 {
            if held(index) { follower.restart() }
            let time = ClockTime(index * 40) * Self.ms
            if follower.follows(lead: Int64(lead(index)) * 1_000_000, present: time) { return index }
        }
        return nil
    }

    @Test func aSteadyInputFollowsAfterTwoSeconds() {
        #expect(judge { _ in -30 } == 50)
        #expect(judge { $0 % 3 * 40 } == 50)
        #expect(judge { _ in 1_700_000_000_000 } == 50, "a time of day")
    }

    @Test func aSlowDecoderDoesNotFollow() {
        #expect(judge { -4 * $0 } == nil, "10 % slower than the clock")
        #expect(judge { 4 * $0 } == nil)
    }

    @Test func aFrameThatWaitsStartsOver() {
        #expect(judge(lead: { _ in 0 }, held: { $0 % 20 == 0 }) == nil)
        #expect(judge(lead: { _ in 0 }, held: { $0 == 20 }) == 70)
    }

    @Test func upstreamIsIdleIfItNeedsAGoodPartOfAFrame() {
        var follower = ClockFollower()
        #expect(!follower.wasIdle(at: .zero, step: 40 * Self.ms))
        follower.returns(at: .milliseconds(100))
        #expect(follower.wasIdle(at: .milliseconds(130), step: 40 * Self.ms))
        #expect(!follower.wasIdle(at: .milliseconds(105), step: 40 * Self.ms))
    }

    @Test(arguments: [0, -2_700, 1_700_000_000_000]) func aFileOvertakesTheClock(first: Int) {
        var follower = ClockFollower()
        let leads = [first, first + 40, max(first, 0) + 900, max(first, 0) + 1_100]
        let verdicts = leads.map { follower.overtakes(lead: Int64($0) * 1_000_000) }
        #expect(verdicts == [false, false, false, true])
    }

    /// The verdict on a program behind a pipe, from the times between its frames; nil: undecided.
    @Test func aProgramThatWritesAtThePaceOfTheClockFollowsIt() {
        func judge(_ idle: [Bool]) -> [PaceProbe.Verdict] {
            var probe = PaceProbe()
            return idle.map { probe.add(wasIdle: $0) }
        }
        #expect(judge([true, true, true, true, true]).last == .followsClock)
        #expect(judge([true, true, true, true]).last == .undecided)
        #expect(judge([false, true, true, false, true, true, true]).last == .followsClock, "two frames in one write")
        #expect(judge([false, false, false]) == [.undecided, .undecided, .asFastAsTaken], "a file")
    }

    /// Frames that a pipe has held back are no file: only a burst that is longer than two seconds of it.
    @Test func aPipeRushesIfItIsNeverIdle() {
        func arrivals(_ times: [Int]) -> Bool {
            var follower = ClockFollower()
            return times.reduce(false) { rushes, time in
                follower.rushes(at: .milliseconds(time), step: 40 * Self.ms) || rushes
            }
        }
        #expect(!arrivals(Array(0..<40).map { $0 * 40 }))
        #expect(!arrivals(Array(0..<40)), "1.6 s at once")
        #expect(arrivals(Array(0..<60)), "2.4 s at once")
        #expect(!arrivals(Array(0..<200).map { $0 / 40 * 1_600 + $0 % 40 }), "1.6 s at once, again and again")
    }

    @Test(arguments: [Int64.min, Int64.max]) func extremesDoNotTrap(_ extreme: Int64) {
        var follower = ClockFollower()
        for lead in [0, extreme, -1, extreme] {
            _ = follower.follows(lead: lead, present: .max)
            _ = follower.overtakes(lead: lead)
            _ = follower.rushes(at: .nanoseconds(lead), step: .max)
        }
    }
}

/// The gate at the end of a real source.
@Suite(.serialized, .timeLimit(.minutes(2))) struct InputGateTests {
    private final class Run: Sendable {
        let pipeline: Pipeline
        let gate = InputGate(pacing: InputPacing())
        let source: Element
        private let start = ContinuousClock.now
        /// Frames that the gate has passed or dropped: `framesIn` also counts one that it still looks at.
        private let judged = Watched(0)

        /// - Parameter source: has an `appsrc name=s`.
        init(_ source: String) throws {
            GStreamerRuntime.initialise()
            pipeline = try Pipeline(description: "\(source) ! fakesink name=out sync=false")
            self.source = try #require(pipeline.child(named: "s"))
            let output = try #require(pipeline.child(named: "out"))
            let pad = try #require(output.staticPad("sink"))
            gate.set(framerate: (25, 1))
            let (own, element) = (pad.unowned, output.unowned)
            pad.addProbe([.buffer, .downstreamEvent]) { [gate, judged] item in
                switch item {
                case .event(let event):
                    if event.kind == .segment { gate.set(segment: event) }
                    if event.kind == .streamStart { gate.apply(streamStart: event) }
                case .buffer(let buffer):
                    defer { judged.change { $0 += 1 } }
                    guard case .passes = gate.admit(buffer, pad: own, element: element) else { return .drop }
                    gate.countDropped()
                case .query: break
                }
                return .pass
            }
            gate.set(playing: true)
            pipeline.setState(.playing)
        }

        /// Frames that have passed.
        var passed: Int { Int(gate.counters.droppedBusy) }
        /// Waits until the gate has judged `count` frames in all.
        func hasJudged(_ count: Int) -> Bool { judged.wait { $0 == count } }
        /// Waits until the gate has judged as many, or more.
        func hasJudged(atLeast count: Int) -> Bool { judged.wait { $0 >= count } }
        /// Times of the frames that the gate has kept and passed on.
        let kept = Watched<[ClockTime?]>([])

        func keepFrames() {
            gate.onKept { [kept] buffer, time in kept.change { $0.append(buffer.pts == time ? time : nil) } }
            gate.beginCaps(keeps: true)
        }
        var queued: Int { source.int("current-level-buffers") ?? 0 }

        func push(_ index: Int) { push(at: ClockTime(index) * 40_000_000) }

        /// Stamps the frame with the time, as an application that reads the clock does.
        func pushNow(ahead: Duration = .zero) {
            push(at: ClockTime((ContinuousClock.now - start + ahead) / .nanoseconds(1)))
        }

        func push(at pts: ClockTime?) {
            let buffer = Buffer(size: 100)
            buffer.pts = pts
            source.emit("push-buffer", [GValueBox(buffer: buffer)])
        }

        /// Pushes a frame every 40 ms, as the application of a camera does, until the gate finds the input live: after
        /// two seconds without a late frame, which a busy machine may need longer for.
        /// - Parameter awaitsGate: Pushes the next frame after the gate has judged the one before.
        /// - Returns: the number of frames.
        func pushUntilLive(awaitsGate: Bool) -> Int {
            for count in 1...1_000 {
                pushNow()
                if awaitsGate, !hasJudged(count) { return count }
                Thread.sleep(forTimeInterval: 0.04)
                // The gate judges the source by the first frame, and counts an unknown one as live.
                if gate.counters.framesIn > 1, gate.isLive { return count }
            }
            return 1_000
        }

        deinit {
            gate.stop()
            pipeline.setState(.null)
        }
    }

    @Test(arguments: ["", "! queue max-size-buffers=2 ! identity"]) func clockStampsAreLive(between: String) throws {
        let run = try Run("appsrc name=s do-timestamp=true format=time \(between)")
        for _ in 0..<4 { run.push(at: nil) }
        #expect(run.hasJudged(4), "no frame waits")
        #expect(run.gate.isLive && run.gate.counters.droppedWithoutSession == 4)
    }

    @Test func theRateLimitCountsWhatItDrops() throws {
        let run = try Run("appsrc name=s is-live=true format=time")
        run.gate.setMaximumRate(framesPerSecond: 5)
        run.gate.open(path: 1)
        for index in 0..<10 { run.push(index) }
        #expect(run.hasJudged(10) && run.passed == 2 && run.gate.counters.framesRateLimited == 8)
    }

    /// Nothing takes frames at first; the application continues to push.
    @Test func aQueueThatGrowsWithTheClockIsLive() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        let count = run.pushUntilLive(awaitsGate: false)
        #expect(run.gate.isLive && run.hasJudged(count))
        #expect(run.gate.counters.droppedWithoutSession > 0 && run.passed == 0)
    }

    /// A session takes frames from the beginning, and then none.
    @Test func anInputThatFollowsTheClockIsLive() throws {
        let run = try Run("appsrc name=s format=time")
        run.gate.open(path: 1)
        let count = run.pushUntilLive(awaitsGate: true)
        #expect(run.gate.isLive && run.hasJudged(count))
        run.gate.close(path: 1)
        for _ in 0..<10 { run.pushNow() }
        #expect(run.hasJudged(count + 10) && run.gate.counters.droppedWithoutSession == 10)
        // It is a file after all: the whole rest comes at once, and waits again.
        run.gate.open(path: 2)
        for index in 0..<50 { run.pushNow(ahead: .milliseconds(40 * index)) }
        #expect(eventually { !run.gate.isLive })
    }

    @Test func anotherStreamHasAnotherLiveness() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        func isLive(after stream: String, isCamera: Bool) -> Bool {
            run.source.set("do-timestamp", isCamera)
            run.gate.apply(streamStart: Event.streamStart(id: stream, groupID: 1))
            for index in 0..<2 { run.push(index) }
            #expect(eventually { run.queued == 0 })
            return run.gate.isLive
        }
        #expect(!isLive(after: "file", isCamera: false))
        #expect(isLive(after: "camera", isCamera: true))
        #expect(isLive(after: "camera", isCamera: false), "the same stream again, as after a seek")
        #expect(!isLive(after: "file", isCamera: false))
    }

    @Test func aNewPadHasAnotherLivenessAndIsOpen() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        run.gate.open(path: 1)
        run.push(0)
        #expect(run.hasJudged(1) && run.passed == 1 && !run.gate.isLive)
        run.gate.close()
        run.push(1)
        #expect(run.hasJudged(2) && run.gate.isLeaving && run.passed == 1)
        run.source.set("do-timestamp", true)
        run.gate.renew()
        // The segment was that of the old pad.
        run.gate.set(segment: Event.timeSegment())
        run.push(2)
        #expect(run.hasJudged(3) && run.passed == 2)
        #expect(run.gate.isLive && !run.gate.isLeaving)
    }

    @Test func aFileLosesNothingWhileTheSessionConnects() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        run.gate.set(playing: false)
        run.keepFrames()
        for index in 0..<30 { run.push(index) }
        run.gate.set(playing: true)
        #expect(run.hasJudged(atLeast: 2), "a frame waits for a second at most")
        #expect(run.kept.value.isEmpty && run.passed == 0)
        run.gate.open(path: 1)
        #expect(run.hasJudged(30))
        let times = run.kept.value
        #expect(times.count >= 2 && times == (0..<times.count).map { ClockTime($0) * 40_000_000 })
        #expect(run.passed + times.count == 30 && run.gate.counters.framesDropped == run.passed, "none is lost")
    }

    @Test(arguments: [true, false]) func whatIsKeptLeavesBeforeTheEnd(isOpen: Bool) throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        run.keepFrames()
        run.push(0)
        #expect(run.hasJudged(1) && run.kept.value.isEmpty)
        if isOpen { run.gate.open(path: 1) }
        run.gate.finish(try #require(run.pipeline.child(named: "out")))
        #expect(run.kept.value == (isOpen ? [0] : []) && run.gate.counters.droppedWithoutSession == (isOpen ? 0 : 1))
    }

    @Test func aFlushAndOtherCapsDropWhatIsKept() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        run.keepFrames()
        run.push(0)
        #expect(run.hasJudged(1))
        run.gate.set(flushing: true)
        run.gate.set(flushing: false)
        run.gate.set(segment: Event.timeSegment())
        run.push(1)
        #expect(run.hasJudged(2))
        run.gate.beginCaps(keeps: false)
        run.gate.open(path: 1)
        run.push(2)
        #expect(run.hasJudged(3) && run.kept.value.isEmpty && run.passed == 1)
    }

    @Test func aFileWaitsForTheSession() throws {
        let run = try Run("appsrc name=s format=time max-bytes=0")
        // The gate looks at the queue once all frames are there: one that grows for a second would be a camera's.
        run.gate.set(playing: false)
        for index in 0..<30 { run.push(index) }
        run.gate.set(playing: true)
        // A frame waits for a second at most, longer than the gate needs to find that the queue does not grow.
        #expect(eventually { run.gate.counters.droppedWithoutSession > 0 })
        #expect(!run.gate.isLive && run.passed == 0)
        run.gate.open(path: 1)
        #expect(run.hasJudged(30) && run.passed + Int(run.gate.counters.droppedWithoutSession) == 30)
        #expect(!run.gate.isLive && run.passed > 0 && run.gate.counters.framesIn == 30)
    }
}
