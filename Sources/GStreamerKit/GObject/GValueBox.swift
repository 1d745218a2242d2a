internal import CGStreamer

/// A GValue on the heap, unset and freed with the Swift object.
// @unchecked: the value is set before the box is shared and only read afterwards.
public final class GValueBox: @unchecked Sendable, Equatable {
    /// For the accessors of upper layers, which end with the call; the box keeps the value alive.
    let storage: UnsafeMutablePointer<GValue>

    init(type: GType) {
        storage = .allocate(capacity: 1)
        storage.initialize(to: GValue())
        g_value_init(storage, type)
    }

    init(copying other: UnsafePointer<GValue>) {
        storage = .allocate(capacity: 1)
        storage.initialize(to: GValue())
        g_value_init(storage, kit_type_of_value(other))
        g_value_copy(other, storage)
    }

    deinit {
        g_value_unset(storage)
        storage.deallocate()
    }

    public static func == (one: GValueBox, other: GValueBox) -> Bool {
        gst_value_compare(one.storage, other.storage) == GST_VALUE_EQUAL
    }

    /// A string; nil is NULL.
    public convenience init(_ value: String?) {
        self.init(type: kit_type_string())
        g_value_set_string(storage, value)
    }
    /// A Boolean.
    public convenience init(_ value: Bool) {
        self.init(type: kit_type_boolean())
        g_value_set_boolean(storage, value ? 1 : 0)
    }
    /// A gint; greater values become the greatest.
    public convenience init(int value: Int) {
        self.init(type: kit_type_int())
        g_value_set_int(storage, Int32(clamping: value))
    }
    /// A guint; values outside become the nearest.
    public convenience init(uint value: Int) {
        self.init(type: kit_type_uint())
        g_value_set_uint(storage, UInt32(clamping: value))
    }
    /// A gint64.
    public convenience init(int64 value: Int) {
        self.init(type: kit_type_int64())
        g_value_set_int64(storage, value)
    }
    /// A guint64.
    public convenience init(uint64 value: UInt64) {
        self.init(type: kit_type_uint64())
        g_value_set_uint64(storage, UInt(value))
    }
    /// A gdouble.
    public convenience init(double value: Double) {
        self.init(type: kit_type_double())
        g_value_set_double(storage, value)
    }
    /// A GstBitmask.
    public convenience init(bitmask value: UInt64) {
        self.init(type: gst_bitmask_get_type())
        gst_value_set_bitmask(storage, guint64(value))
    }
    /// An object, of which the value holds a reference.
    public convenience init(object: GObject) {
        self.init(type: kit_type_of_instance(object.raw))
        g_value_set_object(storage, object.raw)
    }
    /// A GstValueArray of strings.
    public convenience init(strings: [String]) {
        self.init(type: kit_type_value_array())
        // `withPointer` keeps each item alive during the call; an escaped pointer would dangle.
        for string in strings { GValueBox(string).withPointer { gst_value_array_append_value(storage, $0) } }
    }

    func withPointer<R>(_ body: (UnsafePointer<GValue>) -> R) -> R {
        withExtendedLifetime(self) { body(UnsafePointer(storage)) }
    }
    func withMutablePointer<R>(_ body: (UnsafeMutablePointer<GValue>) -> R) -> R {
        withExtendedLifetime(self) { body(storage) }
    }

    func holds(_ type: GType) -> Bool { kit_value_holds(storage, type) != 0 }

    /// The text; nil: NULL, or another type.
    public var string: String? {
        if holds(kit_type_string()) { return g_value_get_string(storage).map { String(cString: $0) } }
        return gst_value_serialize(storage).map { String(taking: $0) }
    }

    /// The value of an integer, enum or flags type, widened; nil for another type or if it does not fit.
    public var int: Int? {
        if holds(kit_type_int()) { return Int(g_value_get_int(storage)) }
        if holds(kit_type_uint()) { return Int(g_value_get_uint(storage)) }
        if holds(kit_type_int64()) { return Int(g_value_get_int64(storage)) }
        if holds(kit_type_uint64()) { return Int(exactly: g_value_get_uint64(storage)) }
        if holds(kit_type_enum()) { return Int(g_value_get_enum(storage)) }
        if holds(kit_type_flags()) { return Int(g_value_get_flags(storage)) }
        return nil
    }

    /// The Boolean; nil: another type.
    public var bool: Bool? { holds(kit_type_boolean()) ? g_value_get_boolean(storage) != 0 : nil }
    /// The gdouble; nil: another type.
    public var double: Double? { holds(kit_type_double()) ? g_value_get_double(storage) : nil }

    /// A copy of the bytes of a GBytes.
    public var bytes: [UInt8]? {
        guard holds(g_bytes_get_type()), let found = g_value_get_boxed(storage) else { return nil }
        var size: gsize = 0
        guard let data = g_bytes_get_data(OpaquePointer(found), &size) else { return [] }
        return Array(UnsafeRawBufferPointer(start: data, count: Int(size)))
    }

    /// A GBytes with a copy.
    public convenience init(bytes: [UInt8]) {
        self.init(type: g_bytes_get_type())
        g_value_take_boxed(storage, UnsafeRawPointer(g_bytes_new(bytes, gsize(bytes.count))))
    }

    /// The object, with a reference of its own; nil: NULL, or another type.
    public var object: GObject? {
        guard g_type_is_a(kit_type_of_value(storage), g_object_get_type()) != 0,
            let found = g_value_get_object(storage)
        else { return nil }
        return GObject(borrowing: found)
    }

    /// The strings of an array; nil: another type.
    public var strings: [String]? {
        guard holds(kit_type_value_array()) else { return nil }
        return (0..<gst_value_array_get_size(storage)).compactMap { index in
            gst_value_array_get_value(storage, index).flatMap { GValueBox(copying: $0).string }
        }
    }
}
