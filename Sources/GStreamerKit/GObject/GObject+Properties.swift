internal import CGStreamer

extension GObject {
    /// True if the object's class has this property.
    public func hasProperty(_ name: String) -> Bool { spec(of: name) != nil }

    private func spec(of name: String) -> UnsafeMutablePointer<GParamSpec>? {
        object.pointee.g_type_instance.g_class?.withMemoryRebound(to: GObjectClass.self, capacity: 1) {
            g_object_class_find_property($0, name)
        }
    }

    /// Type of a property, as far as a caller must know it to set a number.
    public enum PropertyShape: Sendable, Equatable {
        case number(ClosedRange<Int>)
        case structure, other, readOnly, missing
    }

    /// What kind of value the property takes.
    public func shape(of name: String) -> PropertyShape {
        guard let found = spec(of: name) else { return .missing }
        guard found.pointee.flags.rawValue & G_PARAM_WRITABLE.rawValue != 0 else { return .readOnly }
        func number<Spec, Bound: BinaryInteger>(
            _ minimum: KeyPath<Spec, Bound>, _ maximum: KeyPath<Spec, Bound>
        ) -> PropertyShape {
            let spec = UnsafeRawPointer(found).assumingMemoryBound(to: Spec.self).pointee
            let low = Int(clamping: spec[keyPath: minimum])
            return .number(low...max(low, Int(clamping: spec[keyPath: maximum])))
        }
        switch found.pointee.value_type {
        case kit_type_int(): return number(\GParamSpecInt.minimum, \.maximum)
        case kit_type_uint(): return number(\GParamSpecUInt.minimum, \.maximum)
        case kit_type_int64(): return number(\GParamSpecInt64.minimum, \.maximum)
        case kit_type_uint64(): return number(\GParamSpecUInt64.minimum, \.maximum)
        case kit_type_structure(): return .structure
        default: return .other
        }
    }

    /// Sets a property from text, as gst-launch does. Ignores an unknown property, because older releases of an element
    /// lack some.
    public func set(_ name: String, _ text: String) {
        guard hasProperty(name) else { return }
        gst_util_set_object_arg(object, name, text)
    }

    /// Sets a property of any numeric type; nothing happens if there is none of this name.
    public func set(_ name: String, _ value: Int) { set(name, String(value)) }
    /// Sets a property; nothing happens if there is none of this name.
    public func set(_ name: String, _ value: Bool) { set(name, value ? "true" : "false") }

    /// Sets a property; nothing happens if there is none of this name.
    public func set(_ name: String, _ value: GValueBox) {
        guard hasProperty(name) else { return }
        value.withPointer { g_object_set_property(object, name, $0) }
    }

    /// Reads any property. Returns nil if it does not exist or is not readable.
    public func value(_ name: String) -> GValueBox? {
        guard let spec = spec(of: name)?.pointee, spec.flags.rawValue & G_PARAM_READABLE.rawValue != 0
        else { return nil }
        let box = GValueBox(type: spec.value_type)
        box.withMutablePointer { g_object_get_property(object, name, $0) }
        return box
    }

    /// A property's value as text; nil: it has none.
    public func string(_ name: String) -> String? { value(name)?.string }
    /// A property's value as a whole number; nil: it is no number.
    public func int(_ name: String) -> Int? { value(name)?.int }
    /// A property's value; nil: it is no Boolean.
    public func bool(_ name: String) -> Bool? { value(name)?.bool }

    /// Emits `notify` for a property. Call it without a lock: a handler may call back.
    public func notify(_ name: String) { g_object_notify(object, name) }
}
