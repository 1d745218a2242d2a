private import Glibc

/// Tests what the process may still open or start. GLib aborts the process if it gets no descriptor for a main context, also
/// for those that libnice creates, or no thread for itself, so callers ask first; another thread of the process may still take
/// the last one in between.
package enum ProcessLimits {
    /// True if the process may open this many descriptors more. It opens none itself: those would be missing in other threads
    /// meanwhile.
    package static func hasDescriptors(_ count: Int) -> Bool {
        // From the top, because the system gives the lowest numbers first.
        var number = CInt(clamping: sysconf(CInt(_SC_OPEN_MAX)))
        // No limit.
        guard number >= 0 else { return true }
        var free = 0
        while free < count, number > 0 {
            number -= 1
            if fcntl(number, F_GETFD) < 0 { free += 1 }
        }
        return free >= count
    }

    /// True if the process may start this many threads more. They end before it returns; the kernel may count one of them a
    /// little longer, so ask for more than are needed.
    package static func hasThreads(_ count: Int) -> Bool {
        let gate = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        pthread_mutex_init(gate, nil)
        defer {
            pthread_mutex_destroy(gate)
            gate.deallocate()
        }
        // All are there at the same time.
        pthread_mutex_lock(gate)
        var threads: [pthread_t] = []
        while threads.count < count, let thread = makeThread(gate, passGate) { threads.append(thread) }
        pthread_mutex_unlock(gate)
        for thread in threads { pthread_join(thread, nil) }
        return threads.count == count
    }
}

private func passGate(_ gate: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let gate = gate?.assumingMemoryBound(to: pthread_mutex_t.self) else { return nil }
    pthread_mutex_lock(gate)
    pthread_mutex_unlock(gate)
    return nil
}
