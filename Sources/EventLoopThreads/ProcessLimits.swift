private import CGIO
private import Glibc

/// What is left of the process's limits. GLib and libnice abort the process where they find too little, so it is tried first;
/// another thread may still take the last of it in between.
package enum ProcessLimits {
    /// True if the process may open this many descriptors more.
    package static func hasDescriptors(_ count: Int) -> Bool {
        let probes = (0..<count).map { _ in gst_decart_eventfd_open() }
        for probe in probes where probe >= 0 { close(probe) }
        return probes.allSatisfy { $0 >= 0 }
    }
}
