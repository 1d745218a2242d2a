import Synchronization

/// Base of objects whose end others wait for: calls back after everything that a subclass holds is released. At the end of
/// its `stop` an object still holds a pipeline, which would live on in a process that has already shut GStreamer down.
class ReleaseNotice: @unchecked Sendable {
    private let callbacks = Mutex<[@Sendable () -> Void]>([])

    final func whenReleased(_ callback: @escaping @Sendable () -> Void) {
        callbacks.withLock { $0.append(callback) }
    }

    // Swift releases the fields of subclasses before it runs this.
    deinit {
        for callback in callbacks.withLock({ $0 }) { callback() }
    }
}
