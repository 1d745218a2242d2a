import Dispatch
import ICE

/// Asks every 10 ms, on a timer, whether something that nobody announces has come to be.
func settles(within limit: Duration, _ condition: () -> Bool) -> Bool {
    let end = ContinuousClock.now + limit
    while !condition() {
        guard ContinuousClock.now < end else { return false }
        let tick = DispatchSemaphore(value: 0)
        NetworkThread.shared.schedule(after: .milliseconds(10)) { tick.signal() }
        tick.wait()
    }
    return true
}

/// Lets the network thread work off what lies in its sockets.
func letTheNetworkThreadRun() { NetworkThread.shared.sync {} }
