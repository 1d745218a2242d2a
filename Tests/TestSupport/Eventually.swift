import Dispatch

/// Polls every 10 ms; for changes that send no notification, such as the end of a thread or the release of a last
/// reference. The limit is generous, because a condition that comes true ends the wait.
package func eventually(seconds: Double = 60, _ condition: () -> Bool) -> Bool {
    let deadline = DispatchTime.now() + seconds
    let never = DispatchSemaphore(value: 0)
    while !condition() {
        guard DispatchTime.now() < deadline else { return condition() }
        _ = never.wait(timeout: .now() + .milliseconds(10))
    }
    return true
}
