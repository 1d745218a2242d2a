import EventLoopThreads
import ICE
import Testing

@Suite(.timeLimit(.minutes(1)))
struct AddressMonitorTests {
    /// The socket is opened with the first observer and closed with the last.
    @Test func observersComeAndGo() {
        let monitor = AddressMonitor(network: .shared)
        for _ in 0..<20 {
            var observations = (0..<3).map { _ in monitor.observe { _ in } }
            NetworkThread.shared.sync {}
            #expect(monitor.isOpen)
            observations.removeFirst(2)
            NetworkThread.shared.sync {}
            #expect(monitor.isOpen)
            observations.removeAll()
            NetworkThread.shared.sync {}
            #expect(!monitor.isOpen)
        }
    }
}
