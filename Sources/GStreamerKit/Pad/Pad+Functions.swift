// Swift closures as a pad's chain, event, query and activation functions. The pad retains the closure until it is
// finalised, so a closure must capture its element weakly or unowned.
internal import CGStreamer

private typealias ChainBox = FunctionBox<@Sendable (Buffer) -> FlowReturn>
private typealias ListBox = FunctionBox<@Sendable ([Buffer]) -> FlowReturn>
private typealias EventBox = FunctionBox<@Sendable (Event) -> EventHandling>
private typealias QueryBox = FunctionBox<@Sendable (QueryRef) -> QueryHandling>
private typealias ActivateBox = FunctionBox<@Sendable (Bool) -> Bool>

/// What becomes of an event.
public enum EventHandling: Sendable {
    /// The function has consumed the event, which is not forwarded; the value is the event's result.
    case handled(Bool)
    /// Use GStreamer's default handler, which forwards the event.
    case forward
}

/// The decision of a pad's query function.
public enum QueryHandling: Sendable { case answered, refused, forward }

extension Pad {
    /// Takes the buffers that arrive, on the thread that pushes them. The pad keeps the function.
    public func setChainFunction(_ function: @escaping @Sendable (Buffer) -> FlowReturn) {
        gst_pad_set_chain_function_full(
            pad,
            { pad, _, buffer in
                guard let pad, let buffer, let data = pad.pointee.chaindata else { return GST_FLOW_ERROR }
                return Unmanaged<ChainBox>.fromOpaque(data).takeUnretainedValue().function(Buffer(taking: buffer)).raw
            }, retained(ChainBox(function)), releaseBox)
    }

    /// Without this function, the chain function gets the buffers of a list one by one.
    public func setChainListFunction(_ function: @escaping @Sendable ([Buffer]) -> FlowReturn) {
        gst_pad_set_chain_list_function_full(
            pad,
            { pad, _, list in
                guard let list else { return GST_FLOW_ERROR }
                defer { kit_mini_object_unref(UnsafeMutableRawPointer(list)) }
                guard let pad, let data = pad.pointee.chainlistdata else { return GST_FLOW_ERROR }
                let buffers = (0..<gst_buffer_list_length(list)).compactMap {
                    gst_buffer_list_get(list, $0).map(Buffer.init(borrowing:))
                }
                return Unmanaged<ListBox>.fromOpaque(data).takeUnretainedValue().function(buffers).raw
            }, retained(ListBox(function)), releaseBox)
    }

    /// Takes the events that arrive, on any thread. The pad keeps the function.
    public func setEventFunction(_ function: @escaping @Sendable (Event) -> EventHandling) {
        gst_pad_set_event_function_full(
            pad,
            { pad, parent, event in
                guard let pad, let event, let data = pad.pointee.eventdata else { return 0 }
                let owned = Event(taking: event)
                switch Unmanaged<EventBox>.fromOpaque(data).takeUnretainedValue().function(owned) {
                case .handled(let result): return result ? 1 : 0
                case .forward: return gst_pad_event_default(pad, parent, owned.copyReference())
                }
            }, retained(EventBox(function)), releaseBox)
    }

    /// Answers queries, on any thread. The pad keeps the function.
    public func setQueryFunction(_ function: @escaping @Sendable (QueryRef) -> QueryHandling) {
        gst_pad_set_query_function_full(
            pad,
            { pad, parent, query in
                guard let pad, let query, let data = pad.pointee.querydata else { return 0 }
                switch Unmanaged<QueryBox>.fromOpaque(data).takeUnretainedValue().function(QueryRef(query)) {
                case .answered: return 1
                case .refused: return 0
                case .forward: return gst_pad_query_default(pad, parent, query)
                }
            }, retained(QueryBox(function)), releaseBox)
    }

    /// Called with true when the pad is activated in push mode, and with false when it is deactivated.
    public func setActivateFunction(_ function: @escaping @Sendable (Bool) -> Bool) {
        gst_pad_set_activatemode_function_full(
            pad,
            { pad, _, mode, active in
                guard let pad, mode == GST_PAD_MODE_PUSH, let data = pad.pointee.activatemodedata else { return 0 }
                return Unmanaged<ActivateBox>.fromOpaque(data).takeUnretainedValue().function(active != 0) ? 1 : 0
            }, retained(ActivateBox(function)), releaseBox)
    }

    /// Starts the pad's streaming thread, which calls `function` repeatedly until the task is paused. Returns false if the
    /// process has no thread left.
    @discardableResult
    public func startTask(_ function: @escaping @Sendable () -> Void) -> Bool {
        let isStarted = gst_pad_start_task(
            pad,
            { data in
                guard let data else { return }
                Unmanaged<FunctionBox<@Sendable () -> Void>>.fromOpaque(data).takeUnretainedValue().function()
            }, retained(FunctionBox(function)), releaseBox)
        if isStarted == 0 { abandonTask() }
        return isStarted != 0
    }

    /// Takes the task from the pad. GStreamer would take a second start for done, and wait for ever for the end.
    private func abandonTask() {
        g_mutex_lock(&pad.pointee.object.lock)
        let task = pad.pointee.task
        pad.pointee.task = nil
        g_mutex_unlock(&pad.pointee.object.lock)
        guard let task else { return }
        gst_task_stop(task)
        gst_object_unref(task)
        // The task is still in GStreamer's pool: it ends at once when a thread is free, and calls the pad then.
        gst_object_ref(pad)
    }

    /// Resumes a paused task. The pad must have one: without it, GStreamer starts a task that does nothing, again and again.
    public func resumeTask() { gst_pad_start_task(pad, { _ in }, nil, nil) }
    /// Pauses the pad's task after its present call. The task itself may call it.
    public func pauseTask() { gst_pad_pause_task(pad) }
    /// Ends the pad's task and waits for it, so the task itself must not call it.
    public func stopTask() { gst_pad_stop_task(pad) }
}
