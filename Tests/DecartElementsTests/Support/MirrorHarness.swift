import CGStreamer
import GStreamerKit
import Synchronization
import Testing

/// Runs one or more elements between two bare pads; `push` returns after the output has arrived, because no element
/// here has a thread of its own.
final class MirrorHarness: Sendable {
    let bin: Bin
    private let source: Pad
    private let sink: Pad
    private let outputs = Mutex<[Buffer]>([])
    private let upstreamEvents = Mutex<[Event]>([])

    /// - Parameter description: a gst-launch description.
    init(_ description: String) throws {
        // Before the pads: no GObject may exist before GStreamer is initialised.
        try #require(ElementTests.isReady)
        source = Pad(name: "src", direction: .source)
        sink = Pad(name: "sink", direction: .sink)
        bin = try Bin(description: description, ghostUnlinkedPads: true)
        sink.setChainFunction { [weak self] buffer in
            self?.outputs.withLock { $0.append(buffer) }
            return .ok
        }
        sink.setEventFunction { _ in .handled(true) }
        source.setEventFunction { [weak self] event in
            self?.upstreamEvents.withLock { $0.append(event) }
            return .handled(true)
        }
        // Answers ALLOCATION queries with support for video metas, as an ordinary sink does.
        gst_pad_set_query_function_full(
            sink.raw.assumingMemoryBound(to: GstPad.self),
            { pad, parent, query in
                guard let query, query.pointee.type == GST_QUERY_ALLOCATION else {
                    return gst_pad_query_default(pad, parent, query)
                }
                gst_query_add_allocation_meta(query, gst_video_meta_api_get_type(), nil)
                return 1
            }, nil, nil)
        try source.link(#require(bin.staticPad("sink")))
        try #require(bin.staticPad("src")).link(sink)
        sink.setActive(true)
        bin.setState(.playing)
        source.setActive(true)
        source.push(Event.streamStart(id: "stream", groupID: 1))
    }

    func close() {
        source.setActive(false)
        bin.setState(.null)
        sink.setActive(false)
        outputs.withLock { $0 = [] }
    }

    /// Goes through NULL to PLAYING and starts another stream.
    func restart() {
        source.setActive(false)
        bin.setState(.null)
        bin.setState(.playing)
        source.setActive(true)
        source.push(Event.streamStart(id: "stream", groupID: 2))
    }

    static func run(_ description: String, _ body: (MirrorHarness) throws -> Void) throws {
        let harness = try MirrorHarness(description)
        defer { harness.close() }
        try body(harness)
    }

    func element(_ name: String) throws -> Element { try #require(bin.child(named: name)) }

    /// Returns false if the element does not accept the caps.
    func set(caps: String) throws -> Bool {
        let parsed = gst_caps_from_string(caps)
        defer { gst_caps_unref(parsed) }
        guard gst_pad_peer_query_accept_caps(source.raw.assumingMemoryBound(to: GstPad.self), parsed) != 0 else {
            return false
        }
        source.push(Event.caps(try Caps(caps)))
        source.push(Event.timeSegment())
        return true
    }

    func set(_ frame: RawFrame) throws { try #require(try set(caps: frame.caps)) }

    @discardableResult func push(_ event: Event) -> Bool { source.push(event) }

    /// Pushes an `image-orientation` tag, or another tag if the orientation is nil.
    func pushTag(orientation: String?, global: Bool = false) {
        let text = orientation.map { "taglist, image-orientation=(string)\($0)" } ?? "taglist, title=(string)a"
        guard let list = gst_tag_list_new_from_string(text) else { return }
        gst_tag_list_set_scope(list, global ? GST_TAG_SCOPE_GLOBAL : GST_TAG_SCOPE_STREAM)
        gst_pad_push_event(source.raw.assumingMemoryBound(to: GstPad.self), gst_event_new_tag(list))
    }

    /// Transfers ownership of the buffer: an element may write to it unless another reference exists.
    func push(_ buffer: Buffer) -> Buffer? {
        outputs.withLock { $0 = [] }
        guard source.push(buffer) == .ok else { return nil }
        return outputs.withLock { $0.popLast() }
    }

    struct Shared {
        let output: Buffer
        /// Bytes of the pushed buffer after the push.
        let input: [UInt8]
        let isSameBuffer: Bool
    }

    /// Pushes a buffer to which the harness keeps a second reference, so that no element may write to it.
    func pushShared(_ buffer: Buffer) throws -> Shared {
        let raw = try RawFrame.pointer(buffer)
        gst_mini_object_ref(&raw.pointee.mini_object)
        defer { gst_mini_object_unref(&raw.pointee.mini_object) }
        let output = try #require(push(buffer))
        var input = [UInt8](repeating: 0, count: Int(gst_buffer_get_size(raw)))
        gst_buffer_extract(raw, 0, &input, gsize(input.count))
        return Shared(output: output, input: input, isSameBuffer: try RawFrame.pointer(output) == raw)
    }

    /// Pushes a mouse-move event upstream from the sink, and returns its coordinates as they arrive at the source.
    func pointer(_ x: Double, _ y: Double) -> (x: Double, y: Double)? {
        upstreamEvents.withLock { $0 = [] }
        let event = gst_navigation_event_new_mouse_move(x, y, GST_NAVIGATION_MODIFIER_NONE)
        gst_pad_push_event(sink.raw.assumingMemoryBound(to: GstPad.self), event)
        guard let structure = upstreamEvents.withLock({ $0.popLast() })?.structure,
            let x = structure.double("pointer_x"), let y = structure.double("pointer_y")
        else { return nil }
        return (x, y)
    }

    /// Sends an ALLOCATION query from the source. Returns whether it was answered, whether it offers video metas, and
    /// how many pools it proposes.
    func queryAllocation(_ caps: String) throws -> (answered: Bool, videoMeta: Bool, pools: Int) {
        let caps = gst_caps_from_string(caps)
        defer { gst_caps_unref(caps) }
        let query = try #require(gst_query_new_allocation(caps, 1))
        defer { kit_mini_object_unref(query) }
        let answered = gst_pad_peer_query(source.raw.assumingMemoryBound(to: GstPad.self), query) != 0
        let meta = gst_query_find_allocation_meta(query, gst_video_meta_api_get_type(), nil) != 0
        return (answered, meta, Int(gst_query_get_n_allocation_pools(query)))
    }
}
