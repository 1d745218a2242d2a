internal import CGStreamer

/// A property as GObject knows it.
public struct PropertySpec: Sendable {
    /// The type, with range and default.
    public enum Kind: Sendable {
        case string(default: String?)
        /// A string for the application only, initially unset. Graph dumps omit it, and it emits no `notify`, because
        /// `gst-launch-1.0 -v` prints notified values.
        case privateString
        case boolean(default: Bool)
        case int(ClosedRange<Int>, default: Int)
        case uint(ClosedRange<Int>, default: Int)
        case double(ClosedRange<Double>, default: Double)
        /// GType name, then (value, nick, blurb).
        case enumeration(type: String, values: [(value: Int, nick: String, blurb: String)], default: Int)
        case strings
        case structure
        case caps
    }

    /// Whether the application reads and sets it.
    public enum Access: Sendable { case readWrite, readOnly, writeOnly }
    /// The highest state in which a change takes effect (GST_PARAM_MUTABLE_*).
    public enum Mutability: Sendable { case ready, playing }

    /// The name, with hyphens.
    public var name: String
    /// A name for users.
    public var nick: String
    /// The description, with the unit and the meaning of special values.
    public var blurb: String
    /// The type, with range and default.
    public var kind: Kind
    /// Whether the application reads and sets it.
    public var access: Access
    /// Until which state it may be set.
    public var mutability: Mutability

    /// Describes a property; `PropertyTable` makes most of them.
    public init(
        _ name: String, nick: String, blurb: String, _ kind: Kind, access: Access = .readWrite,
        mutability: Mutability = .ready
    ) {
        self.name = name
        self.nick = nick
        self.blurb = blurb
        self.kind = kind
        self.access = access
        self.mutability = mutability
    }

    var isPrivate: Bool { if case .privateString = kind { true } else { false } }

    private var flags: GParamFlags {
        var bits: UInt32 = 0
        if access != .writeOnly { bits |= UInt32(G_PARAM_READABLE.rawValue) }
        if access != .readOnly { bits |= UInt32(G_PARAM_WRITABLE.rawValue) }
        if access != .readOnly {
            switch mutability {
            case .ready: bits |= 1 << 10
            case .playing: bits |= 1 << 12
            }
        }
        return GParamFlags(rawValue: numericCast(bits))
    }

    func makeSpec() -> UnsafeMutablePointer<GParamSpec>? {
        switch kind {
        case .string(let initial): return g_param_spec_string(name, nick, blurb, initial, flags)
        case .privateString:
            let flags = GParamFlags(rawValue: flags.rawValue | numericCast(G_PARAM_EXPLICIT_NOTIFY.rawValue))
            let spec = g_param_spec_internal(privateStringType(), name, nick, blurb, flags)
            return spec?.assumingMemoryBound(to: GParamSpec.self)
        case .boolean(let initial): return g_param_spec_boolean(name, nick, blurb, initial ? 1 : 0, flags)
        case .int(let range, let initial):
            return g_param_spec_int(
                name, nick, blurb, Int32(clamping: range.lowerBound), Int32(clamping: range.upperBound),
                Int32(clamping: initial), flags)
        case .uint(let range, let initial):
            return g_param_spec_uint(
                name, nick, blurb, UInt32(clamping: range.lowerBound), UInt32(clamping: range.upperBound),
                UInt32(clamping: initial), flags)
        case .double(let range, let initial):
            return g_param_spec_double(name, nick, blurb, range.lowerBound, range.upperBound, initial, flags)
        case .enumeration(let typeName, let values, let initial):
            let type = registerEnumeration(typeName, values)
            return g_param_spec_enum(name, nick, blurb, type, Int32(clamping: initial), flags)
        case .strings:
            let item = g_param_spec_string("item", "Item", "One entry", nil, flags)
            return gst_param_spec_array(name, nick, blurb, item, flags)
        case .structure: return g_param_spec_boxed(name, nick, blurb, kit_type_structure(), flags)
        case .caps: return g_param_spec_boxed(name, nick, blurb, kit_type_caps(), flags)
        }
    }
}

/// A string type whose values all compare equal to the default: dumps omit properties that have their default value.
private func privateStringType() -> GType {
    let name = "GStreamerKitParamPrivateString"
    let known = g_type_from_name(name)
    if known != 0 { return known }
    var query = GTypeQuery()
    g_type_query(kit_type_param_string(), &query)
    var info = GTypeInfo()
    info.class_size = UInt16(clamping: query.class_size)
    info.instance_size = UInt16(clamping: query.instance_size)
    info.class_init = { pointer, _ in
        pointer?.assumingMemoryBound(to: GParamSpecClass.self).pointee.values_cmp = { _, _, _ in 0 }
    }
    return g_type_register_static(kit_type_param_string(), name, &info, GTypeFlags(rawValue: 0))
}

private func registerEnumeration(_ name: String, _ values: [(value: Int, nick: String, blurb: String)]) -> GType {
    let known = g_type_from_name(name)
    if known != 0 { return known }
    // GObject keeps this table for the life of the process.
    let table = UnsafeMutablePointer<GEnumValue>.allocate(capacity: values.count + 1)
    for (index, value) in values.enumerated() {
        table[index] = GEnumValue(
            value: Int32(clamping: value.value), value_name: g_strdup(value.blurb), value_nick: g_strdup(value.nick))
    }
    table[values.count] = GEnumValue(value: 0, value_name: nil, value_nick: nil)
    let type = g_enum_register_static(name, table)
    gst_type_mark_as_plugin_api(type, GstPluginAPIFlags(rawValue: 0))
    return type
}

extension GValueBox {
    /// A value of a registered enum type, or an int if the type is not registered yet.
    public convenience init(enumeration type: String, _ value: Int) {
        let found = g_type_from_name(type)
        self.init(type: found != 0 ? found : kit_type_int())
        withMutablePointer {
            if found != 0 {
                g_value_set_enum($0, Int32(clamping: value))
            } else {
                g_value_set_int($0, Int32(clamping: value))
            }
        }
    }
}
