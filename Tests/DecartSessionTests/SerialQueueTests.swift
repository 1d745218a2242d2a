import Dispatch
import EventLoopThreads
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite("A serial queue", .timeLimit(.minutes(1)))
struct SerialQueueTests {
    private final class Held: Sendable {
        let onRelease: @Sendable () -> Void
        init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }
        deinit { onRelease() }
    }
    /// As in front of a session: a queue that got no thread asks again by a timer of the network thread.
    init() { while !NetworkThread.shared.start() {} }

    private func waits(for semaphore: DispatchSemaphore) -> Bool { semaphore.wait(timeout: .now() + 20) == .success }

    @Test func workRunsInOrderAndNoneIsLost() {
        let (queue, log) = (SerialQueue(label: "test"), Watched<[Int]>([]))
        for index in 0..<20_000 { queue.async { log.change { $0.append(index) } } }
        queue.sync { log.change { $0.append(20_000) } }
        #expect(log.value == Array(0...20_000))
    }

    /// The work counts without a lock: only one piece of it runs at a time.
    @Test func manyThreads() {
        final class Count: @unchecked Sendable { var value = 0 }
        let (queue, count) = (SerialQueue(label: "test"), Count())
        DispatchQueue.concurrentPerform(iterations: 8) { index in
            for round in 0..<2_000 {
                let add = { @Sendable in count.value += 1 }
                if (index &+ round) % 5 == 0 { queue.sync(add) } else { queue.async(add) }
            }
        }
        queue.sync {}
        #expect(count.value == 16_000)
    }

    /// Queues do not wait for each other, and each piece of work knows its queue.
    @Test func queuesRunAtTheSameTime() {
        let queues = (0..<12).map { SerialQueue(label: "test-\($0)") }
        let (arrived, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        for (index, queue) in queues.enumerated() {
            queue.async {
                #expect(queue.isCurrent && !queues[(index + 1) % 12].isCurrent)
                arrived.signal()
                goOn.wait()
            }
        }
        for _ in queues { #expect(waits(for: arrived)) }
        #expect(!queues[0].isCurrent)
        for _ in queues { goOn.signal() }
        for queue in queues { queue.sync { #expect(queue.isCurrent) } }
    }

    @Test func timersFireInTheOrderOfTheirTimes() {
        let (queue, log, isDone) = (SerialQueue(label: "test"), Watched<[Int]>([]), DispatchSemaphore(value: 0))
        let begin = monotonicTime
        queue.schedule(after: .milliseconds(60)) {
            log.change { $0.append(60) }
            isDone.signal()
        }
        queue.schedule(after: .milliseconds(20)) { log.change { $0.append(20) } }
        queue.schedule(after: .milliseconds(20)) { log.change { $0.append(21) } }
        queue.schedule(after: .seconds(-1)) { log.change { $0.append(0) } }
        #expect(waits(for: isDone))
        #expect(log.value == [0, 20, 21, 60] && monotonicTime - begin >= .milliseconds(60))
    }

    @Test func workMayQueueMore() {
        let (queue, log, isDone) = (SerialQueue(label: "test"), Watched<[Int]>([]), DispatchSemaphore(value: 0))
        queue.async {
            queue.async {
                log.change { $0.append(1) }
                queue.schedule(after: .milliseconds(1)) { isDone.signal() }
            }
            log.change { $0.append(0) }
        }
        #expect(waits(for: isDone) && log.value == [0, 1])
    }

    @Test func workIsReleasedAfterItRan() {
        let (queue, released) = (SerialQueue(label: "test"), DispatchSemaphore(value: 0))
        for delay in [nil, Duration.milliseconds(5)] {
            let held = Held { released.signal() }
            let work = { @Sendable in withExtendedLifetime(held) {} }
            if let delay { queue.schedule(after: delay, work) } else { queue.async(work) }
        }
        for _ in 0..<2 { #expect(waits(for: released)) }
    }

    @Test func aQueueLivesUntilItsLastWork() {
        let isDone = DispatchSemaphore(value: 0)
        var queue: SerialQueue? = SerialQueue(label: "test")
        weak var former = queue
        queue?.async { [queue] in
            queue?.async { isDone.signal() }
        }
        queue = nil
        #expect(waits(for: isDone))
        #expect(eventually { former == nil })
    }

    /// An interpreter that ends does this to each thread that calls into it. The rest of the work runs.
    @Test func theApplicationMayEndTheThread() {
        let (queue, log, isDone) = (SerialQueue(label: "test"), Watched<[Int]>([]), DispatchSemaphore(value: 0))
        let held = Held {}
        queue.async {
            log.change { $0.append(0) }
            withExtendedLifetime(held) { pthread_exit(nil) }
        }
        queue.async {
            #expect(queue.isCurrent)
            log.change { $0.append(1) }
        }
        queue.schedule(after: .milliseconds(20)) { isDone.signal() }
        queue.sync { log.change { $0.append(2) } }
        #expect(waits(for: isDone) && log.value == [0, 1, 2])
    }

    /// As if the application's handler waited for a lock that the caller holds.
    @Test func theCallerDoesNotWaitForeverForItsTurn() {
        let (queue, log) = (SerialQueue(label: "test"), Watched<[Int]>([]))
        let (isFree, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        queue.async {
            #expect(waits(for: isFree))
            log.change { $0.append(0) }
        }
        queue.sync(within: .milliseconds(20)) {
            #expect(queue.isCurrent)
            log.change { $0.append(1) }
        }
        #expect(log.value.isEmpty)
        queue.async { isDone.signal() }
        isFree.signal()
        #expect(waits(for: isDone) && log.value == [0, 1])
    }

    @Test func itsThreadTakesNoSignalsOfTheHost() {
        let queue = SerialQueue(label: "test-signals-name")
        let isDone = DispatchSemaphore(value: 0)
        let isRight = Mutex(false)
        queue.async {
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            let blocked = [SIGPIPE, SIGTERM, SIGCHLD].allSatisfy { sigismember(&mask, $0) == 1 }
            var name = [UInt8](repeating: 0, count: 32)
            let file = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC)
            let count = max(0, read(file, &name, name.count))
            close(file)
            let isNamed = String(decoding: name.prefix(count), as: UTF8.self) == "test-signals-na\n"
            isRight.withLock { $0 = blocked && sigismember(&mask, SIGSEGV) == 0 && isNamed }
            isDone.signal()
        }
        #expect(waits(for: isDone))
        #expect(isRight.withLock { $0 })
    }
}
