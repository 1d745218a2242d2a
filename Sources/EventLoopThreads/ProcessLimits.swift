private import Glibc

/// Tests how many descriptors the process may still open. GLib aborts the process if it gets none for a main context, also for
/// those that libnice creates, so callers ask first; another thread may still take the last one in between.
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
}
