/// The timers that a machine names: one that was cancelled or scheduled again does not fire.
// @unchecked: used on the scheduler's queue only.
package final class MachineTimers<Timer: Hashable & Sendable>: @unchecked Sendable {
    private let scheduler: any SessionScheduler
    private var versions: [Timer: UInt64] = [:]
    private var lastVersion: UInt64 = 0

    package init(_ scheduler: any SessionScheduler) { self.scheduler = scheduler }

    package func schedule(_ timer: Timer, after delay: Duration, _ onFire: @escaping @Sendable () -> Void) {
        lastVersion &+= 1
        versions[timer] = lastVersion
        scheduler.schedule(after: delay) { [weak self, version = lastVersion] in
            guard let self, self.versions[timer] == version else { return }
            self.versions[timer] = nil
            onFire()
        }
    }

    package func cancel(_ timer: Timer) { versions[timer] = nil }
}
