import EventLoopThreads
import Testing

@Suite(.timeLimit(.minutes(1)))
struct NetworkThreadsTests {
    @Test func connectionsSpreadOverTheThreads() {
        let threads = NetworkThreads(first: { NetworkThread(name: "spread") }, limit: 2)
        #expect(threads.all.isEmpty)
        let first = threads.assign()
        #expect(threads.all.count == 1)
        var others = [threads.assign(), threads.assign(), threads.assign()]
        #expect(threads.all.count == 2)
        #expect(others[0].thread !== first.thread)
        #expect(([first] + others).count { $0.thread === first.thread } == 2)
        // The thread whose connections have ended gets the next ones; no further thread starts.
        let idle = others[0].thread
        others.removeAll { $0.thread === idle }
        #expect(threads.assign().thread === idle)
        #expect(threads.all.count == 2)
        #expect(idle.sync { idle.isCurrent } && !idle.sync { first.thread.isCurrent })
    }

    @Test func oneConnectionAfterAnotherStaysOnOneThread() {
        let threads = NetworkThreads(first: { NetworkThread(name: "spread") }, limit: 8)
        for _ in 0..<5 { _ = threads.assign() }
        #expect(threads.all.count == 1)
    }
}
