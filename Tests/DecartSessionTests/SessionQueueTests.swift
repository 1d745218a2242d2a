import DecartProtocol
import DecartSession
import Dispatch
import Synchronization
import TestSupport
import Testing

@Suite("A session's queue", .timeLimit(.minutes(1)))
struct SessionQueueTests {
    private final class Element: Sendable {}

    /// Blocks the queue with one work item until the returned semaphore is signalled.
    private func hold(_ queue: SessionQueue) -> DispatchSemaphore {
        let (isHeld, mayGoOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        queue.async {
            isHeld.signal()
            #expect(mayGoOn.wait(timeout: .now() + 10) == .success, "nobody lets the queue go on")
        }
        #expect(isHeld.wait(timeout: .now() + 10) == .success, "the queue does not run")
        return mayGoOn
    }

    @Test func theEndDoesNotWaitForWhatWaits() {
        let queue = SessionQueue(label: "test")
        let (handled, isEnding) = (Watched(0), DispatchSemaphore(value: 0))
        let release = hold(queue)
        for _ in 0..<1000 {
            queue.async {
                // `end` is called before the first of these may run, so none of them runs.
                handled.change { $0 += 1 }
            }
        }
        let isOver = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            isEnding.signal()
            queue.end { handled.change { $0 += 1 } }
            isOver.signal()
        }
        #expect(isEnding.wait(timeout: .now() + 10) == .success)
        // `end` waits for the running work item; until then nothing else can run.
        #expect(
            isOver.wait(timeout: .now() + .milliseconds(100)) == .timedOut, "the end did not wait for what was running")
        release.signal()
        #expect(isOver.wait(timeout: .now() + 10) == .success, "the end waits")
        #expect(handled.value == 1, "\(handled.value) pieces of work ran after the end had begun")
    }

    @Test func nothingBeginsAfterTheEnd() {
        let queue = SessionQueue(label: "test")
        let handled = Watched(0)
        queue.end {}
        queue.async { handled.change { $0 += 1 } }
        queue.schedule(after: .zero) { handled.change { $0 += 1 } }
        #expect(handled.staysFalse(.milliseconds(50)) { $0 > 0 })
    }

    /// Calls `end` from work on the queue, as an application may in a callback.
    @Test func theEndFromWithinComesBehindWhatRuns() {
        let queue = SessionQueue(label: "test")
        let order = Watched<[String]>([])
        let isDone = DispatchSemaphore(value: 0)
        queue.async {
            queue.async { order.change { $0.append("waited") } }
            queue.end {
                order.change { $0.append("last") }
                isDone.signal()
            }
            #expect(queue.isCurrent)
            order.change { $0.append("first") }
        }
        #expect(isDone.wait(timeout: .now() + 10) == .success, "the last piece of work does not run")
        #expect(order.value == ["first", "last"])
        #expect(!queue.isCurrent)
    }

    @Test func theElementIsHeldWhileWorkRuns() {
        let owner = Watched<Element?>(Element())
        let queue = SessionQueue(label: "test") { owner.value }
        let (wasThere, isDone) = (Watched<[Bool]>([]), DispatchSemaphore(value: 0))
        let look = { @Sendable [weak element = owner.value] in wasThere.change { $0.append(element != nil) } }
        queue.async {
            queue.end {
                look()
                isDone.signal()
            }
            owner.change { $0 = nil }
            look()
        }
        #expect(isDone.wait(timeout: .now() + 10) == .success)
        #expect(wasThere.value == [true, true])
    }

    /// An application's `connect` races with the element's stop.
    @Test func aSessionDoesNotBeginAfterItsEnd() throws {
        let queue = SessionQueue(label: "test")
        let opened = Watched(0)
        let controller = SessionController(
            configuration: SessionConfiguration(initial: SessionContent(prompt: try Prompt("Lego World"))),
            scheduler: queue,
            makeChannel: { _, _, onEvent throws(SessionError) in
                opened.change { $0 += 1 }
                return FakeChannel(answersClose: true, onEvent: onEvent)
            },
            makeMedia: { _, _, onEvent throws(SessionError) in FakeMedia(answersStop: true, onEvent: onEvent) },
            onChange: { _ in }, onEvent: { _ in })
        controller.start()
        queue.end { controller.end() }
        let before = opened.value
        controller.start()
        #expect(opened.staysFalse(.milliseconds(50)) { $0 != before })
        #expect(controller.snapshot.state == .disconnected || before == 0)
    }
}

@Suite("Reports of a session", .timeLimit(.minutes(1)))
struct SessionReporterTests {
    private final class Heard: Sendable {
        let seconds = Mutex<[Double]>([])
        let reports = Mutex<[SessionReport]>([])
    }

    private func make(at now: Duration = .zero) -> (ManualScheduler, SessionReporter, Heard) {
        let (scheduler, received) = (ManualScheduler(), Heard())
        scheduler.advance(now)
        let reporter = SessionReporter(
            scheduler: scheduler,
            onChange: { snapshot, _ in received.seconds.withLock { $0.append(snapshot.generationSeconds ?? -1) } },
            onReport: { report, _ in received.reports.withLock { $0.append(report) } })
        return (scheduler, reporter, received)
    }

    private func snapshot(_ seconds: Int) -> SessionSnapshot {
        var snapshot = SessionSnapshot()
        snapshot.generationSeconds = Double(seconds)
        return snapshot
    }

    private func warning(_ number: Int) -> SessionReport {
        .warning(SessionError(.server, "\(number)", stage: .generation))
    }

    @Test func aBurstGoesOnAndThenTheLatest() {
        let (scheduler, reporter, received) = make(at: .seconds(1000))
        for second in 1...1000 { reporter.changed(snapshot(second)) }
        #expect(received.seconds.withLock { $0 } == (1...50).map(Double.init))
        scheduler.advance(.milliseconds(49))
        #expect(received.seconds.withLock(\.count) == 50)
        scheduler.advance(.milliseconds(1))
        #expect(received.seconds.withLock { $0 }.dropFirst(50) == [1000])
        scheduler.advance(.seconds(10))
        #expect(received.seconds.withLock(\.count) == 51 && scheduler.pendingTimers == 0)
    }

    @Test func aFloodIsTwentyASecond() {
        let (scheduler, reporter, received) = make()
        for millisecond in 1...10_000 {
            reporter.changed(snapshot(millisecond))
            reporter.report(warning(millisecond))
            scheduler.advance(.milliseconds(1))
        }
        scheduler.advance(.seconds(1))
        let (snapshots, warnings) = (received.seconds.withLock { $0 }, received.reports.withLock { $0 })
        #expect(snapshots.count <= 251 && warnings.count <= 251, "\(snapshots.count), \(warnings.count)")
        #expect(snapshots.last == 10_000 && warnings.last == warning(10_000))
        #expect(zip(snapshots, snapshots.dropFirst()).allSatisfy { $0 < $1 })
    }

    /// A service that mixes messages of unknown types into a flood must not get past the limit with them.
    @Test func notesAreLimitedAndTakeNothingWithThem() {
        let (scheduler, reporter, received) = make()
        for millisecond in 1...10_000 {
            reporter.changed(snapshot(millisecond))
            reporter.report(.note("\(millisecond)"))
            scheduler.advance(.milliseconds(1))
        }
        scheduler.advance(.seconds(1))
        let (snapshots, notes) = (received.seconds.withLock { $0 }, received.reports.withLock { $0 })
        #expect(snapshots.count <= 251 && notes.count <= 251, "\(snapshots.count), \(notes.count)")
        #expect(snapshots.last == 10_000 && notes.first == .note("1"))
    }

    /// An error is reported after the state that it caused.
    @Test func theEndIsNotHeldBack() {
        let (_, reporter, received) = make()
        for second in 1...100 { reporter.changed(snapshot(second)) }
        let end = SessionReport.failed(SessionError(.server, "over", stage: .generation))
        reporter.report(end)
        #expect(received.seconds.withLock(\.last) == 100 && received.reports.withLock { $0 } == [end])
    }

    @Test func nothingIsToldOnceSilent() {
        let (scheduler, reporter, received) = make()
        for second in 1...100 { reporter.changed(snapshot(second)) }
        reporter.silence()
        reporter.flush()
        reporter.report(warning(1))
        scheduler.advance(.seconds(10))
        #expect(received.seconds.withLock(\.count) == 50 && received.reports.withLock(\.count) == 0)
    }
}
