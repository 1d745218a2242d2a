import CGStreamer
import GStreamerKit

/// One element between two bare pads, run on the caller's thread: the output has arrived when a push returns.
final class ElementHarness {
    private let element: Element
    private let source: UnsafeMutablePointer<GstPad>
    private let sink: UnsafeMutablePointer<GstPad>
    /// The last output buffer; stored in the sink pad's `element_private`.
    private let arrived: UnsafeMutablePointer<UnsafeMutablePointer<GstBuffer>?>

    init(_ factory: String, _ settings: [(String, String)], caps: String) throws {
        element = try Element(factory: factory)
        for (name, value) in settings { element.set(name, value) }
        guard let source = gst_pad_new("src", GST_PAD_SRC), let sink = gst_pad_new("sink", GST_PAD_SINK),
            let first = element.staticPad("sink"), let last = element.staticPad("src")
        else { throw BenchError("\(factory) has no pads") }
        (self.source, self.sink) = (source, sink)
        arrived = .allocate(capacity: 1)
        arrived.initialize(to: nil)
        sink.pointee.element_private = UnsafeMutableRawPointer(arrived)
        gst_pad_set_chain_function_full(
            sink,
            { pad, _, buffer in
                let slot = pad?.pointee.element_private?.assumingMemoryBound(to: UnsafeMutablePointer<GstBuffer>?.self)
                slot?.pointee = buffer
                return GST_FLOW_OK
            }, nil, nil)
        gst_pad_set_event_function_full(
            sink,
            { _, _, event in
                gst_event_unref(event)
                return 1
            }, nil, nil)
        gst_pad_link(source, first.raw.assumingMemoryBound(to: GstPad.self))
        gst_pad_link(last.raw.assumingMemoryBound(to: GstPad.self), sink)
        gst_pad_set_active(sink, 1)
        element.setState(.playing)
        gst_pad_set_active(source, 1)
        gst_pad_push_event(source, gst_event_new_stream_start("flip"))
        let parsed = gst_caps_from_string(caps)
        defer { gst_caps_unref(parsed) }
        guard gst_pad_peer_query_accept_caps(source, parsed) != 0 else {
            throw BenchError("\(factory) does not take \(caps)")
        }
        gst_pad_push_event(source, gst_event_new_caps(parsed))
        var segment = GstSegment()
        gst_segment_init(&segment, GST_FORMAT_TIME)
        gst_pad_push_event(source, gst_event_new_segment(&segment))
    }

    deinit {
        gst_pad_set_active(source, 0)
        element.setState(.null)
        gst_pad_set_active(sink, 0)
        gst_object_unref(source)
        gst_object_unref(sink)
        arrived.deallocate()
    }

    /// Keeps the caller's reference, so that the element must not write into the buffer.
    func pushShared(_ buffer: UnsafeMutablePointer<GstBuffer>) {
        gst_pad_push(source, gst_buffer_ref(buffer))
        if let output = arrived.pointee { gst_buffer_unref(output) }
        arrived.pointee = nil
    }

    /// Takes the only reference to the buffer; returns the output buffer.
    func pushOwned(_ buffer: UnsafeMutablePointer<GstBuffer>) -> UnsafeMutablePointer<GstBuffer>? {
        gst_pad_push(source, buffer)
        defer { arrived.pointee = nil }
        return arrived.pointee
    }
}
