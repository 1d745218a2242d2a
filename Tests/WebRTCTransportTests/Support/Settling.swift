import Dispatch
import ICE

/// Polls `condition` every 10 ms, for state that no event announces. False if `limit` passes first.
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

/// Returns after the network threads have handled what was queued before.
func letTheNetworkThreadRun() { for thread in NetworkThreads.shared.all { thread.sync {} } }
