internal import CGStreamer

/// What a probe sees.
public struct PadProbeType: OptionSet, Sendable {
    /// GstPadProbeType's bits.
    public let rawValue: UInt32
    /// Takes GstPadProbeType's bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    /// Buffers.
    public static let buffer = PadProbeType(rawValue: GST_PAD_PROBE_TYPE_BUFFER.rawValue)
    /// Events that go downstream.
    public static let downstreamEvent = PadProbeType(rawValue: GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM.rawValue)
    /// Events that go upstream.
    public static let upstreamEvent = PadProbeType(rawValue: GST_PAD_PROBE_TYPE_EVENT_UPSTREAM.rawValue)
    /// FLUSH_START and FLUSH_STOP.
    public static let flushEvent = PadProbeType(rawValue: GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue)
    /// Queries in both directions.
    public static let query = PadProbeType(rawValue: GST_PAD_PROBE_TYPE_QUERY_BOTH.rawValue)
}

/// What passes the pad.
public enum ProbeItem {
    case buffer(Buffer)
    case event(Event)
    case query(QueryRef)
}

/// What becomes of it.
public enum ProbeVerdict: Sendable {
    /// Passes the item on.
    case pass
    /// Drops the item. The sender of an event still gets true, the sender of a query gets false.
    case drop
    /// The handler has consumed the item; a query counts as answered.
    case handled
    /// Passes this buffer on instead.
    case replace(Buffer)
    /// Passes this event on instead.
    case replaceEvent(Event)
    /// Drops a buffer, and the thread that pushed it gets this flow return.
    case refuse(FlowReturn)
    /// Passes the item on and removes the probe.
    case remove
}

private typealias ProbeBox = FunctionBox<@Sendable (ProbeItem) -> ProbeVerdict>

extension Pad {
    /// Adds a probe. The handler runs on whichever thread uses the pad, thus `@Sendable`, and must capture its owner weakly.
    public func addProbe(_ kind: PadProbeType, _ handler: @escaping @Sendable (ProbeItem) -> ProbeVerdict) {
        gst_pad_add_probe(
            pad, GstPadProbeType(rawValue: kind.rawValue),
            { _, info, data in
                guard let info, let data else { return GST_PAD_PROBE_OK }
                return dispatch(info, Unmanaged<ProbeBox>.fromOpaque(data).takeUnretainedValue())
            }, retained(ProbeBox(handler)), releaseBox)
    }

    /// For a pad behind a queue that leaks downstream. GStreamer 1.22 moves a caps event that such a queue leaks ahead of
    /// the frame that the queue is pushing, and elements would read that frame by caps that are not its own.
    package func dropFramesOfOtherCaps() {
        // Only for the thread that pushes.
        nonisolated(unsafe) var video: VideoInfo?
        addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { video = VideoInfo(caps: caps) }
            case .buffer(let frame): if video?.shortage(of: frame) != nil { return .drop }
            case .query: break
            }
            return .pass
        }
    }

    /// Passes the buffers of each buffer list one by one, so that a probe for buffers sees them all.
    public func splitBufferLists() {
        gst_pad_add_probe(
            pad, GST_PAD_PROBE_TYPE_BUFFER_LIST,
            { pad, info, _ in
                guard let pad, let info, let data = info.pointee.data else { return GST_PAD_PROBE_OK }
                let list = OpaquePointer(data)
                let isSink = gst_pad_get_direction(pad) == GST_PAD_SINK
                var flow = GST_FLOW_OK
                for index in 0..<gst_buffer_list_length(list) where flow == GST_FLOW_OK {
                    guard let buffer = gst_buffer_list_get(list, index) else { continue }
                    let own = kit_mini_object_ref(buffer).assumingMemoryBound(to: GstBuffer.self)
                    flow = isSink ? gst_pad_chain(pad, own) : gst_pad_push(pad, own)
                }
                // A probe that returns HANDLED owns the list.
                kit_mini_object_unref(data)
                info.pointee.ABI.abi.flow_ret = flow
                return GST_PAD_PROBE_HANDLED
            }, nil, nil)
    }
}

private func dispatch(_ info: UnsafeMutablePointer<GstPadProbeInfo>, _ box: ProbeBox) -> GstPadProbeReturn {
    guard let data = info.pointee.data else { return GST_PAD_PROBE_OK }
    let kind = info.pointee.type.rawValue
    let item: ProbeItem
    if kind & GST_PAD_PROBE_TYPE_BUFFER.rawValue != 0 {
        item = .buffer(Buffer(borrowing: data.assumingMemoryBound(to: GstBuffer.self)))
    } else if kind & (GST_PAD_PROBE_TYPE_EVENT_BOTH.rawValue | GST_PAD_PROBE_TYPE_EVENT_FLUSH.rawValue) != 0 {
        item = .event(Event(borrowing: data.assumingMemoryBound(to: GstEvent.self)))
    } else if kind & GST_PAD_PROBE_TYPE_QUERY_BOTH.rawValue != 0 {
        item = .query(QueryRef(data.assumingMemoryBound(to: GstQuery.self)))
    } else {
        return GST_PAD_PROBE_OK
    }
    switch box.function(item) {
    case .pass: return GST_PAD_PROBE_OK
    case .drop: return GST_PAD_PROBE_DROP
    case .handled:
        // A probe that returns HANDLED owns the event or buffer and must release it; a query stays with its sender.
        if case .query = item { return GST_PAD_PROBE_HANDLED }
        kit_mini_object_unref(data)
        return GST_PAD_PROBE_HANDLED
    case .refuse(let flow):
        guard case .buffer = item else { return GST_PAD_PROBE_DROP }
        kit_mini_object_unref(data)
        info.pointee.ABI.abi.flow_ret = flow.raw
        return GST_PAD_PROBE_HANDLED
    case .replace(let buffer):
        guard let owned = buffer.release() else { return GST_PAD_PROBE_DROP }
        kit_mini_object_unref(data)
        info.pointee.data = UnsafeMutableRawPointer(owned)
        return GST_PAD_PROBE_OK
    case .replaceEvent(let event):
        kit_mini_object_unref(data)
        info.pointee.data = UnsafeMutableRawPointer(event.copyReference())
        return GST_PAD_PROBE_OK
    case .remove: return GST_PAD_PROBE_REMOVE
    }
}
