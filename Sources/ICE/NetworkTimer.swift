private import CNice
private import Synchronization

/// A one-shot timer on the network thread. `cancel()` can be called from any thread and repeatedly.
///
/// After a cancel on the network thread the work never runs. After a cancel on another thread, work that is already
/// running finishes.
package final class NetworkTimer: Sendable {
    private let state: State

    init(context: MainContext, milliseconds: UInt32, work: @escaping @Sendable () -> Void) {
        state = State(work: work)
        let source = g_timeout_source_new(milliseconds)
        g_source_set_callback(
            source,
            { data in
                guard let data else { return 0 }
                Unmanaged<State>.fromOpaque(data).takeUnretainedValue().fire()
                return 0
            }, Unmanaged.passRetained(state).toOpaque(),
            { data in
                guard let data else { return }
                Unmanaged<State>.fromOpaque(data).release()
            })
        // The state holds our reference to the source until the timer fires or is cancelled.
        state.source.withLock { $0 = Source(pointer: source) }
        g_source_attach(source, context.pointer)
    }

    package func cancel() { state.cancel() }

    // @unchecked: GSource's reference count and g_source_destroy are thread-safe.
    private struct Source: @unchecked Sendable {
        let pointer: UnsafeMutablePointer<GSource>?
    }

    private final class State: Sendable {
        let work: Mutex<(@Sendable () -> Void)?>
        let source = Mutex<Source?>(nil)

        init(work: @escaping @Sendable () -> Void) {
            self.work = Mutex(work)
        }

        func fire() {
            let work = takeWork()
            if let source = takeSource() { g_source_unref(source) }
            work?()
        }

        func cancel() {
            // Release the closure now: what it captures must not live until the main loop's next iteration.
            _ = takeWork()
            guard let source = takeSource() else { return }
            g_source_destroy(source)
            g_source_unref(source)
        }

        private func takeWork() -> (@Sendable () -> Void)? {
            work.withLock { held in
                defer { held = nil }
                return held
            }
        }

        private func takeSource() -> UnsafeMutablePointer<GSource>? {
            source.withLock { held in
                defer { held = nil }
                return held?.pointer
            }
        }
    }
}
