// The sockets of this process's own that a loop serves, beside those of GLib's sources: one epoll instance, which the loop
// polls as one more descriptor. A change of interest costs one system call, and no socket costs GLib a visit.
private import CGIO
private import Glibc

/// The operations that a socket is ready for. An error or a hang-up makes it ready for both.
package struct SocketReadiness: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = SocketReadiness(rawValue: 1)
    package static let writable = SocketReadiness(rawValue: 2)
    /// Both directions have ended, or the connection has failed. Reported also if nothing else is awaited.
    package static let ended = SocketReadiness(rawValue: 4)
}

/// Belongs to its loop's thread.
package struct SocketPoller {
    private struct Entry {
        var number: UInt32
        var interest: SocketReadiness
        var handler: (SocketReadiness) -> Void
    }
    private static let batch = 64

    /// −1 until the first socket comes.
    private(set) package var instance: CInt = -1
    private var entries: [CInt: Entry] = [:]
    private var lastNumber: UInt32 = 0
    private var data = [guint64](repeating: 0, count: batch)
    private var events = [guint](repeating: 0, count: batch)

    package init() {}

    /// Adds the socket, or changes what it awaits.
    /// - Returns: 0, or the system's error.
    package mutating func watch(
        _ descriptor: CInt, for interest: SocketReadiness, _ handler: @escaping (SocketReadiness) -> Void
    ) -> CInt {
        if instance < 0 {
            instance = gst_decart_epoll_open()
            guard instance >= 0 else { return errno }
        }
        let isKnown = entries[descriptor] != nil
        if !isKnown { lastNumber &+= 1 }
        let number = entries[descriptor]?.number ?? lastNumber
        if entries[descriptor]?.interest != interest {
            let operation = isKnown ? gst_decart_epoll_modify : gst_decart_epoll_insert
            let status = set(descriptor, operation, interest, number)
            guard status == 0 else { return status }
        }
        entries[descriptor] = Entry(number: number, interest: interest, handler: handler)
        return 0
    }

    /// Call it before the descriptor is closed.
    package mutating func remove(_ descriptor: CInt) {
        guard entries.removeValue(forKey: descriptor) != nil else { return }
        _ = set(descriptor, gst_decart_epoll_delete, [], 0)
    }

    private func set(_ descriptor: CInt, _ operation: Int, _ interest: SocketReadiness, _ number: UInt32) -> CInt {
        var mask: guint = 0
        if interest.contains(.readable) { mask |= guint(EPOLLIN.rawValue) }
        if interest.contains(.writable) { mask |= guint(EPOLLOUT.rawValue) }
        let data = guint64(number) << 32 | guint64(UInt32(bitPattern: descriptor))
        return gst_decart_epoll_set(instance, CInt(operation), descriptor, mask, data)
    }

    /// Returns the sockets that are ready now, by the key that `handler` takes. The caller looks each up at its turn: the
    /// handler of an earlier one may have removed it.
    package mutating func collect() -> [(key: UInt, readiness: SocketReadiness)] {
        guard instance >= 0 else { return [] }
        let count = Int(gst_decart_epoll_collect(instance, &data, &events, CInt(Self.batch)))
        return zip(data, events).prefix(max(0, count)).map { key, mask in
            var readiness: SocketReadiness = []
            if mask & guint(EPOLLIN.rawValue) != 0 { readiness.insert(.readable) }
            if mask & guint(EPOLLOUT.rawValue) != 0 { readiness.insert(.writable) }
            if mask & guint(EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { readiness.insert(.ended) }
            return (key, readiness)
        }
    }

    /// Returns nil if the socket was removed, also if another one has its number now.
    package func handler(_ key: UInt) -> ((SocketReadiness) -> Void)? {
        let descriptor = CInt(bitPattern: UInt32(truncatingIfNeeded: key))
        guard let entry = entries[descriptor], UInt(entry.number) == key >> 32 else { return nil }
        return entry.handler
    }
}
