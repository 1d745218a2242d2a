import EventLoopThreads
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1)))
struct NetworkThreadTests {
    @Test
    func runsInOrderOnItsOwnThread() async {
        let log = EventLog<Int>()
        #expect(!NetworkThread.shared.isCurrent)
        for number in 0..<1_000 {
            NetworkThread.shared.async { log.append(NetworkThread.shared.isCurrent ? number : -1) }
        }
        #expect(await log.first { $0 == 999 } != nil)
        #expect(log.elements == Array(0..<1_000))
    }

    @Test
    func syncAnswersAndThrows() throws {
        struct Refusal: Error, Equatable {}
        #expect(NetworkThread.shared.sync { NetworkThread.shared.isCurrent })
        // `sync` runs inline on the network thread itself; otherwise it would deadlock.
        #expect(NetworkThread.shared.sync { NetworkThread.shared.sync { 42 } } == 42)
        #expect(throws: Refusal()) { try NetworkThread.shared.sync { () throws(Refusal) -> Int in throw Refusal() } }
    }

    @Test
    func timersFireInOrderAndNotBeforeTheirTime() async {
        let log = EventLog<Int>()
        let clock = ContinuousClock()
        let start = clock.now
        // Scheduled on the thread itself, so that no timer can fire before all are set.
        NetworkThread.shared.sync {
            NetworkThread.shared.schedule(after: .milliseconds(800)) { log.append(800) }
            NetworkThread.shared.schedule(after: .milliseconds(10)) { log.append(10) }
            NetworkThread.shared.schedule(after: .seconds(-1)) { log.append(0) }
        }
        #expect(await log.first { $0 == 800 } != nil)
        #expect(log.elements.last == 800)
        #expect(Set(log.elements) == [0, 10, 800])
        #expect(clock.now - start >= .milliseconds(800))
    }

    @Test
    func cancelledTimersStaySilentAndLetGo() async {
        final class Token: Sendable {}
        let log = EventLog<Int>()
        weak var kept: Token?
        do {
            let token = Token()
            kept = token
            // Cancelled on the thread itself, so that the timer cannot fire before.
            NetworkThread.shared.sync {
                let timer = NetworkThread.shared.schedule(after: .milliseconds(5)) {
                    log.append(-1)
                    withExtendedLifetime(token) {}
                }
                timer.cancel()
                timer.cancel()
            }
        }
        // The thread has released the work above once it runs this.
        NetworkThread.shared.sync {}
        #expect(kept == nil)
        NetworkThread.shared.schedule(after: .milliseconds(30)) { log.append(1) }
        #expect(await log.first { $0 == 1 } != nil)
        #expect(log.elements == [1])
    }

    /// Cancelled timers are cleared away from time to time; the others must stay, in their order.
    @Test
    func manyCancelledTimersLeaveTheOthersInOrder() async {
        let log = EventLog<Int>()
        NetworkThread.shared.sync {
            for number in 0..<1_000 {
                let timer = NetworkThread.shared.schedule(after: .milliseconds(100)) { log.append(number) }
                if number % 10 != 0 { timer.cancel() }
            }
        }
        #expect(await log.first { $0 == 990 } != nil)
        #expect(log.elements == Array(stride(from: 0, to: 1_000, by: 10)))
    }

    @Test
    func aTimerMovesToAnEarlierAndToALaterTime() async {
        let log = EventLog<String>()
        NetworkThread.shared.sync {
            var (advanced, postponed): (NetworkTimer?, NetworkTimer?)
            NetworkThread.shared.move(&advanced, after: .milliseconds(300)) { log.append("late") }
            NetworkThread.shared.move(&advanced, after: .milliseconds(20)) { log.append("earlier") }
            NetworkThread.shared.move(&postponed, after: .milliseconds(50)) { log.append("early") }
            NetworkThread.shared.move(&postponed, after: .milliseconds(350)) { log.append("later") }
        }
        #expect(await log.first { $0 == "later" } != nil)
        #expect(log.elements == ["earlier", "later"])
    }

    @Test
    func aTimerThatIsOverKeepsNothingBack() async {
        let log = EventLog<String>()
        NetworkThread.shared.sync {
            var timer: NetworkTimer?
            NetworkThread.shared.move(&timer, after: .milliseconds(50)) { log.append("cancelled") }
            timer?.cancel()
            NetworkThread.shared.move(&timer, after: .milliseconds(50)) { log.append("again") }
        }
        #expect(await log.first { $0 == "again" } != nil)
        #expect(log.elements == ["again"])
    }
}
