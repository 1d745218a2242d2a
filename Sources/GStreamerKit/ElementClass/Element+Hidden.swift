internal import CGStreamer
internal import Synchronization

extension Element {
    /// Creates an element of a class derived from that of a factory, in which some properties cannot be read: a dot file
    /// of the pipeline would show their values, and gst-launch with -v too.
    /// - Parameters:
    ///   - typeName: that of the class; one for each factory.
    ///   - properties: names of properties of the factory's own class.
    package convenience init(
        factory: String, typeName: String, hiding properties: [String]
    ) throws(GStreamerError) {
        guard let found = gst_element_factory_find(factory) else { throw GStreamerError.missing(factory) }
        defer { gst_object_unref(UnsafeMutableRawPointer(found)) }
        guard let loaded = gst_plugin_feature_load(found) else { throw GStreamerError.missing(factory) }
        defer { gst_object_unref(UnsafeMutableRawPointer(loaded)) }
        let base = gst_element_factory_get_element_type(loaded)
        self.init(taking: g_object_new_with_properties(hidingType(typeName, base, properties), 0, nil, nil))
    }
}

/// The names of the properties, for class_init; never freed, as GTypes are not.
private final class HiddenNames: Sendable {
    let names: [String]
    init(_ names: [String]) { self.names = names }
}

private let hidingRegistration = Mutex(())

private func hidingType(_ name: String, _ base: GType, _ properties: [String]) -> GType {
    hidingRegistration.withLock { _ in
        let known = g_type_from_name(name)
        if known != 0 { return known }
        var query = GTypeQuery()
        g_type_query(base, &query)
        var info = GTypeInfo()
        info.class_size = UInt16(clamping: query.class_size)
        info.instance_size = UInt16(clamping: query.instance_size)
        info.class_init = hidingInit
        info.class_data = UnsafeRawPointer(Unmanaged.passRetained(HiddenNames(properties)).toOpaque())
        return g_type_register_static(base, name, &info, GTypeFlags(rawValue: 0))
    }
}

private let hidingInit: GClassInitFunc = { pointer, data in
    guard let pointer, let data else { return }
    let hidden = Unmanaged<HiddenNames>.fromOpaque(data).takeUnretainedValue()
    let object = pointer.assumingMemoryBound(to: GObjectClass.self)
    // Each class handles the properties that it has installed, so those of the base class reach its own functions.
    object.pointee.set_property = { instance, _, value, spec in
        guard let instance, let value, let spec, let parent = g_type_class_peek(g_type_parent(spec.pointee.owner_type)),
            let base = g_object_class_find_property(
                parent.assumingMemoryBound(to: GObjectClass.self), spec.pointee.name),
            let owner = g_type_class_peek(base.pointee.owner_type)?.assumingMemoryBound(to: GObjectClass.self)
        else { return }
        owner.pointee.set_property?(instance, base.pointee.param_id, value, base)
    }
    for (index, name) in hidden.names.enumerated() {
        guard let base = g_object_class_find_property(object, name), base.pointee.value_type == kit_type_string(),
            let spec = g_param_spec_string(
                name, g_param_spec_get_nick(base), g_param_spec_get_blurb(base), nil, G_PARAM_WRITABLE)
        else { continue }
        g_object_class_install_property(object, guint(index + 1), spec)
    }
}
