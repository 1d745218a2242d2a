internal import CGStreamer

/// A GstStructure: a name and typed fields.
// @unchecked: the structure is filled before it is shared and only read afterwards.
public final class Structure: @unchecked Sendable, Equatable, CustomStringConvertible {
    let pointer: UnsafeMutablePointer<GstStructure>

    /// Leaves out the fields without a value.
    public init(_ name: String, _ fields: (name: String, value: GValueBox?)...) {
        pointer = gst_structure_new_empty(name)
        for (field, value) in fields where value != nil { self[field] = value }
    }

    init(taking pointer: UnsafeMutablePointer<GstStructure>) { self.pointer = pointer }
    init(copying other: UnsafePointer<GstStructure>) { pointer = gst_structure_copy(other) }

    deinit { gst_structure_free(pointer) }

    /// Parses the text of a structure; nil: it is none.
    public init?(parsing text: String) {
        guard let parsed = gst_structure_from_string(text, nil) else { return nil }
        pointer = parsed
    }

    /// The name, such as "video/x-raw".
    public var name: String { String(cString: gst_structure_get_name(pointer)) }
    /// The text of the structure.
    public var description: String { String(taking: gst_structure_to_string(pointer)) }

    /// A copy of a field's value; nil removes the field.
    public subscript(field: String) -> GValueBox? {
        get { gst_structure_get_value(pointer, field).map { GValueBox(copying: $0) } }
        set {
            if let newValue {
                newValue.withPointer { gst_structure_set_value(pointer, field, $0) }
            } else {
                gst_structure_remove_field(pointer, field)
            }
        }
    }

    public static func == (one: Structure, other: Structure) -> Bool {
        gst_structure_is_equal(one.pointer, other.pointer) != 0
    }

    /// A field's text; nil: there is none.
    public func string(_ field: String) -> String? { self[field]?.string }
    /// A field's whole number; nil: there is none.
    public func int(_ field: String) -> Int? { self[field]?.int }
    /// A field's gdouble; nil: there is none.
    public func double(_ field: String) -> Double? { self[field]?.double }

    /// The field names in order.
    public var fields: [String] {
        let count = gst_structure_n_fields(pointer)
        return (0..<max(0, count)).map { String(cString: gst_structure_nth_field_name(pointer, UInt32($0))) }
    }

    /// Numerator and denominator of a fraction field.
    public func fraction(_ field: String) -> (Int, Int)? {
        var numerator: Int32 = 0
        var denominator: Int32 = 1
        guard gst_structure_get_fraction(pointer, field, &numerator, &denominator) != 0 else { return nil }
        return (Int(numerator), Int(denominator))
    }
}
