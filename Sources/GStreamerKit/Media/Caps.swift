internal import CGStreamer

/// A set of formats, which never changes.
// @unchecked: these caps are never modified and their reference count is atomic.
public final class Caps: @unchecked Sendable, Equatable, CustomStringConvertible {
    let pointer: UnsafeMutablePointer<GstCaps>

    init(taking pointer: UnsafeMutablePointer<GstCaps>) { self.pointer = pointer }
    init(borrowing pointer: UnsafeMutablePointer<GstCaps>) {
        self.pointer = kit_mini_object_ref(pointer).assumingMemoryBound(to: GstCaps.self)
    }
    deinit { kit_mini_object_unref(pointer) }

    /// Parses the text of caps, such as "video/x-raw, format=I420".
    public convenience init(_ text: String) throws(GStreamerError) {
        guard let parsed = gst_caps_from_string(text) else {
            throw GStreamerError(.badCaps, "'\(text)' does not describe caps")
        }
        self.init(taking: parsed)
    }

    /// The text of the caps.
    public var description: String { String(taking: gst_caps_to_string(pointer)) }

    /// They allow nothing.
    public var isEmpty: Bool { gst_caps_is_empty(pointer) != 0 }
    /// They allow everything.
    public var isAny: Bool { gst_caps_is_any(pointer) != 0 }
    /// They describe one format.
    public var isFixed: Bool { gst_caps_is_fixed(pointer) != 0 }

    /// The first structure's feature for memory other than the system's, such as `memory:GLMemory`; nil: the system's.
    public var memory: String? {
        guard gst_caps_get_size(pointer) > 0, let features = gst_caps_get_features(pointer, 0),
            gst_caps_features_is_any(features) == 0
        else { return nil }
        return (0..<gst_caps_features_get_size(features))
            .compactMap { gst_caps_features_get_nth(features, $0).map { String(cString: $0) } }
            .first { $0.hasPrefix("memory:") && $0 != "memory:SystemMemory" }
    }

    /// A copy of the first structure; nil: there is none.
    public var first: Structure? {
        guard gst_caps_get_size(pointer) > 0, let found = gst_caps_get_structure(pointer, 0) else { return nil }
        return Structure(copying: found)
    }

    /// Copies of all structures.
    public var structures: [Structure] {
        (0..<gst_caps_get_size(pointer)).compactMap {
            gst_caps_get_structure(pointer, $0).map { Structure(copying: $0) }
        }
    }

    public static func == (one: Caps, other: Caps) -> Bool { gst_caps_is_equal(one.pointer, other.pointer) != 0 }
    /// What both allow.
    public func intersection(_ other: Caps) -> Caps { Caps(taking: gst_caps_intersect(pointer, other.pointer)) }
    /// These formats, and the others after them.
    public func followed(by other: Caps) -> Caps {
        Caps(taking: gst_caps_merge(gst_caps_copy(pointer), gst_caps_copy(other.pointer)))
    }
    /// These caps, with the value of a field in each structure.
    public func setting(_ field: String, _ value: GValueBox) -> Caps {
        guard let copy = gst_caps_copy(pointer) else { return self }
        value.withPointer { gst_caps_set_value(copy, field, $0) }
        return Caps(taking: copy)
    }
    /// True if the others allow all of these.
    public func isSubset(of other: Caps) -> Bool { gst_caps_is_subset(pointer, other.pointer) != 0 }
    /// True if both allow a common format.
    public func canIntersect(_ other: Caps) -> Bool { gst_caps_can_intersect(pointer, other.pointer) != 0 }

    /// Fixates the caps to the allowed values nearest to the given size and frame rate.
    public func fixated(width: Int, height: Int, framerate: (Int, Int)) -> Caps? {
        guard !isEmpty, !isAny, let single = gst_caps_truncate(gst_caps_copy(pointer)),
            let structure = gst_caps_get_structure(single, 0)
        else { return nil }
        gst_structure_fixate_field_nearest_int(structure, "width", Int32(clamping: width))
        gst_structure_fixate_field_nearest_int(structure, "height", Int32(clamping: height))
        gst_structure_fixate_field_nearest_fraction(
            structure, "framerate", Int32(clamping: framerate.0), Int32(clamping: max(1, framerate.1)))
        guard let fixed = gst_caps_fixate(single) else { return nil }
        return Caps(taking: fixed)
    }
}
