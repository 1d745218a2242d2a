private import CGIO
private import Glibc

/// Tests how many descriptors the process may still open. GLib aborts the process if it gets none for a main context, also for
/// those that libnice creates, so callers ask first; another thread may still take the last one in between.
package enum ProcessLimits {
    /// True if the process may open this many descriptors more.
    package static func hasDescriptors(_ count: Int) -> Bool {
        let probes = (0..<count).map { _ in gst_decart_eventfd_open() }
        for probe in probes where probe >= 0 { close(probe) }
        return probes.allSatisfy { $0 >= 0 }
    }
}
