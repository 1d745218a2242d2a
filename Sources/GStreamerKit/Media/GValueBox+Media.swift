internal import CGStreamer

extension GValueBox {
    /// Caps, of which the value holds a reference.
    public convenience init(caps: Caps) {
        self.init(type: kit_type_caps())
        gst_value_set_caps(storage, caps.pointer)
    }
    /// A buffer, of which the value holds a reference.
    public convenience init(buffer: Buffer) {
        self.init(type: kit_type_buffer())
        g_value_set_boxed(storage, buffer.pointer)
    }
    /// A copy of a structure.
    public convenience init(structure: Structure) {
        self.init(type: kit_type_structure())
        gst_value_set_structure(storage, structure.pointer)
    }
    /// A GstValueArray with copies of structures.
    public convenience init(structures: [Structure]) {
        self.init(type: kit_type_value_array())
        for item in structures { GValueBox(structure: item).withPointer { gst_value_array_append_value(storage, $0) } }
    }

    /// A copy of the structure; nil: NULL, or another type.
    public var structure: Structure? {
        guard holds(kit_type_structure()), let found = gst_value_get_structure(storage) else { return nil }
        return Structure(copying: found)
    }

    /// The caps, with a reference of their own; nil: NULL, or another type.
    public var caps: Caps? {
        guard holds(kit_type_caps()), let found = gst_value_get_caps(storage) else { return nil }
        return Caps(borrowing: UnsafeMutablePointer(mutating: found))
    }

    /// The buffer, with a reference of its own; nil: NULL, or another type.
    public var buffer: Buffer? {
        guard holds(kit_type_buffer()), let found = g_value_get_boxed(storage) else { return nil }
        return Buffer(borrowing: found.assumingMemoryBound(to: GstBuffer.self))
    }

    /// Copies of the structures of an array; nil: another type.
    public var structures: [Structure]? {
        guard holds(kit_type_value_array()) else { return nil }
        return (0..<gst_value_array_get_size(storage)).compactMap { index in
            gst_value_array_get_value(storage, index).flatMap { GValueBox(copying: $0).structure }
        }
    }
}

extension GObject {
    /// Sets a property; nothing happens if there is none of this name.
    public func set(_ name: String, caps: Caps) { set(name, GValueBox(caps: caps)) }
    /// Sets a property; nothing happens if there is none of this name.
    public func set(_ name: String, structure: Structure) { set(name, GValueBox(structure: structure)) }
    /// A property's value; nil: it is no structure.
    public func structure(_ name: String) -> Structure? { value(name)?.structure }
}
