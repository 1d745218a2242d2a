internal import CGStreamer

/// The raw values are those of GstFlowReturn, which has further ones for success and for errors.
public enum FlowReturn: Int32, Sendable {
    case ok = 0
    case notLinked = -1
    case flushing = -2
    case eos = -3
    case notNegotiated = -4
    case error = -5

    init(_ raw: GstFlowReturn) {
        self = FlowReturn(rawValue: raw.rawValue) ?? (raw.rawValue >= 0 ? .ok : .error)
    }
    var raw: GstFlowReturn { GstFlowReturn(rawValue) }
}

/// The direction of a pad (`GstPadDirection`): a source pad produces data, a sink pad takes it.
public enum PadDirection: Sendable { case source, sink }

/// Holds one reference to a GstPad.
public class Pad: GObject, @unchecked Sendable {
    var pad: UnsafeMutablePointer<GstPad> { raw.assumingMemoryBound(to: GstPad.self) }

    /// Creates a pad that accepts any caps and can renegotiate. It has a template with ANY caps because a pad without
    /// one answers caps queries with its current caps.
    public convenience init(name: String, direction: PadDirection) {
        let raw = direction == .source ? GST_PAD_SRC : GST_PAD_SINK
        let any = gst_caps_new_any()
        defer { gst_caps_unref(any) }
        if let template = gst_pad_template_new(name, raw, GST_PAD_ALWAYS, any) {
            g_object_ref_sink(template)
            defer { gst_object_unref(template) }
            self.init(taking: gst_pad_new_from_template(template, name))
        } else {
            self.init(taking: gst_pad_new(name, raw))
        }
    }

    /// The name, which is unique in its element.
    public var name: String { String(taking: gst_object_get_name(raw.assumingMemoryBound(to: GstObject.self))) }

    /// Links this source pad to a sink pad.
    public func link(_ sink: Pad) throws(GStreamerError) {
        let result = gst_pad_link(pad, sink.pad)
        guard result == GST_PAD_LINK_OK else {
            throw GStreamerError(
                .linkFailed, "could not link \(name) to \(sink.name): \(String(cString: gst_pad_link_get_name(result)))"
            )
        }
    }

    /// Unlinks this source pad from a sink pad.
    public func unlink(_ sink: Pad) { gst_pad_unlink(pad, sink.pad) }
    /// True if it has a peer.
    public var isLinked: Bool { gst_pad_is_linked(pad) != 0 }
    /// The pad that it is linked to.
    public var peer: Pad? { gst_pad_get_peer(pad).map { Pad(taking: $0) } }

    /// The format that was negotiated; nil: none yet.
    public var currentCaps: Caps? { gst_pad_get_current_caps(pad).map { Caps(taking: $0) } }
    /// The formats that the pad can have now.
    public func queryCaps() -> Caps { Caps(taking: gst_pad_query_caps(pad, nil)) }
    /// Asks this pad whether it accepts these caps.
    public func accepts(_ caps: Caps) -> Bool { gst_pad_query_accept_caps(pad, caps.pointer) != 0 }
    /// The formats that the peer takes; any without a peer.
    public func queryPeerCaps(filter: Caps?) -> Caps { Caps(taking: gst_pad_peer_query_caps(pad, filter?.pointer)) }

    /// Sets the offset (ns) that is added to the running time of data leaving this pad, from the next buffer on.
    public func setOffset(_ offset: Int64) { gst_pad_set_offset(pad, gint64(offset)) }

    /// Lets data pass, or refuses them and waits for a push that runs.
    public func setActive(_ active: Bool) { gst_pad_set_active(pad, active ? 1 : 0) }

    /// Pushes the buffer to the peer pad, which takes ownership.
    public func push(_ buffer: Buffer) -> FlowReturn {
        guard let owned = buffer.release() else { return .error }
        return FlowReturn(gst_pad_push(pad, owned))
    }

    /// For a pad that is linked while data passes. GStreamer looks for sticky events first and for the peer later: a link
    /// made in between would let the buffer through ahead of its segment.
    public func pushIfLinked(_ buffer: Buffer) -> FlowReturn { isLinked ? push(buffer) : .notLinked }

    /// Runs `body` while no other thread pushes data into this sink pad; waits for one that does.
    public func betweenPushes(_ body: () -> Void) {
        kit_pad_stream_lock(pad)
        defer { kit_pad_stream_unlock(pad) }
        body()
    }

    /// Runs `body` in the function of this pad's task as if the task were between two calls of it: a FLUSH_STOP that comes
    /// from downstream waits for that.
    package func betweenTurns(_ body: () -> Void) {
        kit_pad_stream_unlock(pad)
        defer { kit_pad_stream_lock(pad) }
        body()
    }

    /// Sends an event to the peer. Returns false if it was refused.
    @discardableResult public func push(_ event: Event) -> Bool { gst_pad_push_event(pad, event.copyReference()) != 0 }
    /// Sends an event into the pad, as its peer does.
    @discardableResult public func send(_ event: Event) -> Bool { gst_pad_send_event(pad, event.copyReference()) != 0 }

    /// The latest SEGMENT event; nil: none yet.
    public var stickySegment: Event? { gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0).map { Event(taking: $0) } }

    /// Upstream's answer to a LATENCY query: whether it is live, and its minimum latency. Returns nil if the query
    /// fails.
    public func queryPeerLatency() -> (live: Bool, minimum: ClockTime)? {
        let query = gst_query_new_latency()
        defer { kit_mini_object_unref(query) }
        guard gst_pad_peer_query(pad, query) != 0 else { return nil }
        var live: gboolean = 0
        var minimum: GstClockTime = 0
        gst_query_parse_latency(query, &live, &minimum, nil)
        return (live != 0, ClockTime(minimum))
    }
}

/// A ghost pad: a bin's proxy for a pad of one of its children.
public final class GhostPad: Pad, @unchecked Sendable {
    /// A pad of a bin that stands for one of an element inside.
    public convenience init(name: String, target: Pad) throws(GStreamerError) {
        guard let made = gst_ghost_pad_new(name, target.pad) else {
            throw GStreamerError(.linkFailed, "could not make ghost pad \(name)")
        }
        self.init(taking: made)
    }

    /// A pad without a target.
    public convenience init(name: String, direction: PadDirection) {
        self.init(taking: gst_ghost_pad_new_no_target(name, direction == .source ? GST_PAD_SRC : GST_PAD_SINK))
    }

    /// Stands for another pad from now on, or for none.
    @discardableResult public func setTarget(_ target: Pad?) -> Bool {
        gst_ghost_pad_set_target(raw.assumingMemoryBound(to: GstGhostPad.self), target?.pad) != 0
    }

    /// Passes a buffer on from a sink pad to its target, past the probes of this pad. On the thread that pushes into it.
    @discardableResult package func passOn(_ buffer: Buffer) -> FlowReturn {
        let proxy = raw.assumingMemoryBound(to: GstProxyPad.self)
        guard let inner = gst_proxy_pad_get_internal(proxy) else { return .error }
        defer { gst_object_unref(inner) }
        guard let owned = buffer.release() else { return .error }
        return FlowReturn(gst_pad_push(UnsafeMutableRawPointer(inner).assumingMemoryBound(to: GstPad.self), owned))
    }
}

extension GValueBox {
    /// The object as a pad; nil: it is something else.
    public var pad: Pad? {
        guard let found = object, kit_instance_is(found.raw, gst_pad_get_type()) != 0 else { return nil }
        return Pad(borrowing: found.raw)
    }
}
