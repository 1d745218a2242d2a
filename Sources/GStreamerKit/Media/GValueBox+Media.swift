internal import CGStreamer

extension GValueBox {
    public convenience init(caps: Caps) {
        self.init(type: kit_type_caps())
        gst_value_set_caps(storage, caps.pointer)
    }
    public convenience init(buffer: Buffer) {
        self.init(type: kit_type_buffer())
        g_value_set_boxed(storage, buffer.pointer)
    }
    public convenience init(structure: Structure) {
        self.init(type: kit_type_structure())
        gst_value_set_structure(storage, structure.pointer)
    }
    public convenience init(structures: [Structure]) {
        self.init(type: kit_type_value_array())
        for item in structures { GValueBox(structure: item).withPointer { gst_value_array_append_value(storage, $0) } }
    }

    public var structure: Structure? {
        guard holds(kit_type_structure()), let found = gst_value_get_structure(storage) else { return nil }
        return Structure(copying: found)
    }

    public var caps: Caps? {
        guard holds(kit_type_caps()), let found = gst_value_get_caps(storage) else { return nil }
        return Caps(borrowing: UnsafeMutablePointer(mutating: found))
    }

    public var buffer: Buffer? {
        guard holds(kit_type_buffer()), let found = g_value_get_boxed(storage) else { return nil }
        return Buffer(borrowing: found.assumingMemoryBound(to: GstBuffer.self))
    }

    public var structures: [Structure]? {
        guard holds(kit_type_value_array()) else { return nil }
        return (0..<gst_value_array_get_size(storage)).compactMap { index in
            gst_value_array_get_value(storage, index).flatMap { GValueBox(copying: $0).structure }
        }
    }
}

extension GObject {
    public func set(_ name: String, caps: Caps) { set(name, GValueBox(caps: caps)) }
    public func set(_ name: String, structure: Structure) { set(name, GValueBox(structure: structure)) }
    public func structure(_ name: String) -> Structure? { value(name)?.structure }
}
