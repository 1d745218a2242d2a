import ICE
import Testing

@Suite(.timeLimit(.minutes(1)))
struct AddressMonitorTests {
    /// An observer that has ended is not called; the socket is opened and closed with the observers.
    @Test func observersComeAndGo() {
        let monitor = AddressMonitor(network: .shared)
        for _ in 0..<20 {
            var observations = (0..<3).map { _ in monitor.observe { _ in } }
            NetworkThread.shared.sync {}
            observations.removeAll()
            NetworkThread.shared.sync {}
        }
    }
}
