// Resolves server names without blocking the network thread. libnice can resolve names itself, but 0.1.21 then never
// finishes gathering if one does not resolve, and reports that only as a GLib warning.
private import CNice

/// The name lookups of one agent. Belongs to the network thread.
// @unchecked: used only on the network thread; GResolver calls back on the thread that started the lookup.
final class HostLookup: @unchecked Sendable {
    private let cancellable = g_cancellable_new()

    deinit { if let cancellable { g_object_unref(cancellable) } }

    /// Starts a lookup by the system's resolver. `answer` receives the addresses as literals, or an empty list if the
    /// name did not resolve; it is not called after `cancel()`.
    func resolve(_ host: String, answer: @escaping ([String]) -> Void) {
        let resolver = g_resolver_get_default()
        defer { if let resolver { g_object_unref(resolver) } }
        let request = Request(answer)
        g_resolver_lookup_by_name_async(
            resolver, host, cancellable,
            { source, result, data in
                guard let data else { return }
                let request = Unmanaged<Request>.fromOpaque(data).takeRetainedValue()
                var error: UnsafeMutablePointer<GError>?
                let list = g_resolver_lookup_by_name_finish(source.map { resolverPointer($0) }, result, &error)
                defer { g_resolver_free_addresses(list) }
                if let failure = error {
                    let cancelled = g_error_matches(failure, g_io_error_quark(), Int32(G_IO_ERROR_CANCELLED.rawValue))
                    g_error_free(failure)
                    if cancelled != 0 { return }
                }
                request.answer(HostLookup.literals(in: list))
            }, Unmanaged.passRetained(request).toOpaque())
    }

    func cancel() { g_cancellable_cancel(cancellable) }

    private static func literals(in list: UnsafeMutablePointer<GList>?) -> [String] {
        var addresses: [String] = []
        var item = list
        while let node = item {
            if let address = node.pointee.data,
                let text = g_inet_address_to_string(address.assumingMemoryBound(to: GInetAddress.self))
            {
                addresses.append(String(cString: text))
                g_free(text)
            }
            item = node.pointee.next
        }
        return addresses
    }

    private final class Request {
        let answer: ([String]) -> Void
        init(_ answer: @escaping ([String]) -> Void) { self.answer = answer }
    }
}

/// Casts the source object that GLib passes to the callback.
private func resolverPointer(_ object: UnsafeMutablePointer<GObject>) -> UnsafeMutablePointer<GResolver> {
    UnsafeMutableRawPointer(object).assumingMemoryBound(to: GResolver.self)
}
