internal import CGStreamer

/// A connected handler, for `GObject.disconnect`.
public struct SignalHandler: Sendable { let id: UInt }

private typealias SignalBox = FunctionBox<@Sendable ([GValueBox]) -> GValueBox?>

extension GObject {
    /// Connects a handler, which runs on the emitting thread and must capture its owner weakly. It receives the
    /// signal's arguments without the emitter; its result becomes the signal's return value, if the signal has one.
    @discardableResult
    public func connect(_ signal: String, _ handler: @escaping @Sendable ([GValueBox]) -> GValueBox?) -> SignalHandler {
        let box = retained(SignalBox(handler))
        guard let closure = g_closure_new_simple(UInt32(MemoryLayout<GClosure>.size), box) else {
            return SignalHandler(id: 0)
        }
        g_closure_add_finalize_notifier(closure, box) { data, _ in releaseBox(data) }
        g_closure_set_marshal(closure) { closure, result, count, parameters, _, _ in
            guard let data = closure?.pointee.data, let parameters else { return }
            let box = Unmanaged<SignalBox>.fromOpaque(data).takeUnretainedValue()
            let arguments = (1..<max(1, Int(count))).map { GValueBox(copying: parameters + $0) }
            if let value = box.function(arguments), let result { value.withPointer { g_value_copy($0, result) } }
        }
        return SignalHandler(id: UInt(g_signal_connect_closure(raw, signal, closure, 0)))
    }

    /// Removes a handler; a call that runs goes on to its end.
    public func disconnect(_ handler: SignalHandler) {
        if handler.id != 0 { g_signal_handler_disconnect(raw, handler.id) }
    }

    /// True if a handler of the signal is connected.
    public func hasHandler(_ signal: String) -> Bool {
        let id = g_signal_lookup(signal, kit_type_of_instance(raw))
        return id != 0 && g_signal_has_handler_pending(raw, id, 0, 0) != 0
    }

    /// Emits a signal (an action signal, or one of this plugin's own) and returns its result. Returns nil if the signal
    /// has no return value, does not exist or takes another number of arguments.
    @discardableResult
    public func emit(_ signal: String, _ arguments: [GValueBox] = []) -> GValueBox? {
        let id = g_signal_lookup(signal, kit_type_of_instance(raw))
        guard id != 0 else { return nil }
        var query = GSignalQuery()
        g_signal_query(id, &query)
        guard Int(query.n_params) == arguments.count else { return nil }
        let values = UnsafeMutablePointer<GValue>.allocate(capacity: arguments.count + 1)
        values.initialize(repeating: GValue(), count: arguments.count + 1)
        defer {
            for index in 0...arguments.count { g_value_unset(values + index) }
            values.deallocate()
        }
        g_value_init(values, kit_type_of_instance(raw))
        g_value_set_instance(values, raw)
        for (index, argument) in arguments.enumerated() {
            argument.withPointer {
                g_value_init(values + index + 1, kit_type_of_value($0))
                g_value_copy($0, values + index + 1)
            }
        }
        guard query.return_type != kit_type_none() else {
            g_signal_emitv(values, id, 0, nil)
            return nil
        }
        let result = GValueBox(type: query.return_type & ~GType(1))
        result.withMutablePointer { g_signal_emitv(values, id, 0, $0) }
        return result
    }
}
