internal import CGStreamer

/// An installed element factory, from the registry; nothing is loaded.
// @unchecked: factories are immutable once they are registered, apart from their rank.
public final class ElementFactory: GObject, @unchecked Sendable {
    private var factory: OpaquePointer { OpaquePointer(raw) }

    /// The factory of this name; nil: no plugin has it.
    public static func named(_ name: String) -> ElementFactory? {
        gst_element_factory_find(name).map { ElementFactory(taking: UnsafeMutableRawPointer($0)) }
    }

    /// Installed decoders of video, of any rank.
    public static var videoDecoders: [ElementFactory] {
        guard let list = gst_element_factory_list_get_elements(kit_video_decoder_type(), GST_RANK_NONE) else {
            return []
        }
        defer { gst_plugin_feature_list_free(list) }
        return sequence(first: list) { $0.pointee.next }.compactMap {
            $0.pointee.data.map { ElementFactory(borrowing: $0) }
        }
    }

    /// The name, as in `gst-launch-1.0`.
    public var name: String { String(taking: gst_object_get_name(raw.assumingMemoryBound(to: GstObject.self))) }

    /// Can change at any time; `GST_PLUGIN_FEATURE_RANK` counts.
    public var rank: Int { Int(gst_plugin_feature_get_rank(factory)) }

    /// Below it, GStreamer takes no element by itself.
    public static let lowestRank = Int(GST_RANK_MARGINAL.rawValue)

    /// True if a sink of the element takes all of these caps.
    public func accepts(_ caps: Caps) -> Bool { gst_element_factory_can_sink_all_caps(factory, caps.pointer) != 0 }

    /// The union of the caps of all sink templates.
    public var sinkCaps: Caps {
        var caps = Caps(taking: gst_caps_new_empty())
        var next = gst_element_factory_get_static_pad_templates(factory).map { UnsafePointer($0) }
        while let item = next {
            next = item.pointee.next.map { UnsafePointer($0) }
            guard let data = item.pointee.data else { continue }
            let template = data.assumingMemoryBound(to: GstStaticPadTemplate.self)
            guard template.pointee.direction == GST_PAD_SINK, let own = gst_static_pad_template_get_caps(template)
            else { continue }
            caps = caps.followed(by: Caps(taking: own))
        }
        return caps
    }
}

extension GStreamerRuntime {
    /// Another number whenever elements were added to the registry or removed from it; ranks do not count.
    public static var registryVersion: UInt32 { gst_registry_get_feature_list_cookie(gst_registry_get()) }

    /// True if an element of this factory can be made.
    public static func hasElement(_ factory: String) -> Bool { ElementFactory.named(factory) != nil }
}
