internal import CGIO
internal import Glibc

/// Waits for descriptors: few of them by `poll`, which visits each; many by an epoll instance.
///
/// The kernel keeps an open file, not its number, in the instance, and GLib names numbers only. So each difference makes a
/// new instance, and so does a second: a number that was closed and opened again meanwhile does not stay unnoticed.
struct DescriptorPoller {
    private static let fewest = 8
    private static let longest: gint64 = 1_000_000

    private var instance: CInt = -1
    private var known: [GPollFD] = []
    private var madeAt: gint64 = 0

    /// Makes the next `watch` begin again.
    mutating func forget() {
        if instance >= 0 { Glibc.close(instance) }
        instance = -1
        known.removeAll(keepingCapacity: true)
    }

    /// Sets the descriptors for which the next calls of `wait` wait.
    mutating func watch(_ polled: UnsafeMutableBufferPointer<GPollFD>) {
        let now = g_get_monotonic_time()
        guard now - madeAt >= Self.longest || !isKnown(polled) else { return }
        forget()
        known.append(contentsOf: polled)
        madeAt = now
        guard polled.count >= Self.fewest else { return }
        instance = gst_decart_epoll_open()
        guard instance >= 0 else { return }
        for (index, descriptor) in polled.enumerated() {
            var descriptor = descriptor
            guard gst_decart_epoll_add(instance, &descriptor, guint(index)) == 0 else {
                // `poll` serves all kinds of files.
                Glibc.close(instance)
                instance = -1
                return
            }
        }
    }

    private func isKnown(_ polled: UnsafeMutableBufferPointer<GPollFD>) -> Bool {
        polled.count == known.count
            && zip(polled, known).allSatisfy { $0.fd == $1.fd && $0.events == $1.events }
    }

    /// Sets `revents`, which must be 0. Returns the number of ready descriptors.
    func wait(_ polled: UnsafeMutableBufferPointer<GPollFD>, _ timeout: gint) -> gint {
        instance >= 0
            ? gst_decart_epoll_wait(instance, polled.baseAddress, guint(polled.count), timeout)
            : g_poll(polled.baseAddress, guint(polled.count), timeout)
    }
}
