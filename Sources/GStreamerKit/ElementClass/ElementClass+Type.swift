internal import CGStreamer
internal import Synchronization

/// The data that class_init and the virtual methods need. There is one per GType; it is never freed, as GTypes are not.
private final class ClassBox: Sendable {
    let elementClass: ElementClass
    let parentType: GType
    /// The offset of the pointer to the Swift object, which follows the parent's C struct in an instance.
    let implementationOffset: Int

    init(_ elementClass: ElementClass, parentType: GType, implementationOffset: Int) {
        self.elementClass = elementClass
        self.parentType = parentType
        self.implementationOffset = implementationOffset
    }
}

private let classQuark = g_quark_from_string("gstreamerkit-class")
private let registration = Mutex(())

func registerType(_ elementClass: ElementClass) -> GType {
    registration.withLock { _ in
        let known = g_type_from_name(elementClass.typeName)
        if known != 0 { return known }
        let parentType =
            switch elementClass.parent {
            case .element: gst_element_get_type()
            case .bin: gst_bin_get_type()
            case .videoFilter: gst_video_filter_get_type()
            }
        var parent = GTypeQuery()
        g_type_query(parentType, &parent)
        let offset = (Int(parent.instance_size) + 7) & ~7
        let box = ClassBox(elementClass, parentType: parentType, implementationOffset: offset)
        let data = Unmanaged.passRetained(box).toOpaque()
        var info = GTypeInfo()
        info.class_size = UInt16(clamping: parent.class_size)
        info.class_init = classInit
        info.class_data = UnsafeRawPointer(data)
        info.instance_size = UInt16(clamping: offset + MemoryLayout<UnsafeRawPointer>.size)
        info.instance_init = instanceInit
        let type = g_type_register_static(parentType, elementClass.typeName, &info, GTypeFlags(rawValue: 0))
        g_type_set_qdata(type, classQuark, data)
        return type
    }
}

private func classBox(ofClass pointer: UnsafeMutableRawPointer?) -> ClassBox? {
    guard let pointer else { return nil }
    var type = pointer.assumingMemoryBound(to: GTypeClass.self).pointee.g_type
    while type != 0 {
        if let data = g_type_get_qdata(type, classQuark) {
            return Unmanaged<ClassBox>.fromOpaque(data).takeUnretainedValue()
        }
        type = g_type_parent(type)
    }
    return nil
}

private func classBox(of instance: UnsafeMutableRawPointer) -> ClassBox? {
    classBox(ofClass: UnsafeMutableRawPointer(instance.assumingMemoryBound(to: GTypeInstance.self).pointee.g_class))
}

private func slot(_ instance: UnsafeMutableRawPointer, _ box: ClassBox) -> UnsafeMutablePointer<
    UnsafeMutableRawPointer?
> {
    (instance + box.implementationOffset).assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
}

/// A box for the existential, which is larger than a pointer (class reference and witness table).
private final class ImplementationBox {
    let implementation: any ElementImplementation
    /// The same object, cast once: a cast per frame would cost more than the rest of a virtual method call.
    let filter: (any VideoFilterImplementation)?
    init(_ implementation: any ElementImplementation) {
        self.implementation = implementation
        filter = implementation as? any VideoFilterImplementation
    }
}

private func implementationBox(of instance: UnsafeMutableRawPointer?) -> ImplementationBox? {
    guard let instance, let box = classBox(of: instance), let object = slot(instance, box).pointee else { return nil }
    return Unmanaged<ImplementationBox>.fromOpaque(object).takeUnretainedValue()
}

private func implementation(of instance: UnsafeMutableRawPointer?) -> (any ElementImplementation)? {
    implementationBox(of: instance)?.implementation
}

func filterImplementation(of instance: UnsafeMutableRawPointer) -> (any VideoFilterImplementation)? {
    implementationBox(of: instance)?.filter
}

extension Element {
    /// The Swift object behind an element of a registered class; nil: another kind of element.
    public var implementation: (any ElementImplementation)? { GStreamerKit.implementation(of: raw) }
}

func parentClass<C>(of instance: UnsafeMutableRawPointer, as type: C.Type) -> UnsafeMutablePointer<C>? {
    guard let box = classBox(of: instance) else { return nil }
    return g_type_class_peek(box.parentType)?.assumingMemoryBound(to: C.self)
}

private let stoppingQuark = g_quark_from_string("gstreamerkit-stopping")

/// The last reference of an element that runs is going away, which is a mistake of the application. GstElement only
/// says so, and GObject then frees what the element's threads still use. Returns true if the element lives on until
/// another thread has set it to NULL: this thread may be one that the stop has to wait for.
private func stopsInsteadOfDisposal(_ raw: UnsafeMutableRawPointer) -> Bool {
    let element = raw.assumingMemoryBound(to: GstElement.self)
    let object = raw.assumingMemoryBound(to: CGStreamer.GObject.self)
    let state = element.pointee.current_state
    // One attempt: a state that cannot be left must not keep the element for ever.
    guard state != GST_STATE_NULL, g_object_get_qdata(object, stoppingQuark) == nil else { return false }
    g_object_set_qdata(object, stoppingQuark, raw)
    let text = """
        Trying to dispose element \(Element(unowned: raw).name), but it is in \
        \(String(cString: gst_element_state_get_name(state))) instead of the NULL state: it is set to NULL first.
        """
    text.withCString { text in
        withVaList([text]) { g_logv("GStreamerKit", G_LOG_LEVEL_CRITICAL, "\n%s", $0) }
    }
    // The call keeps a reference until it is done.
    gst_element_call_async(element, { element, _ in _ = gst_element_set_state(element, GST_STATE_NULL) }, nil, nil)
    return true
}

private let instanceInit: GInstanceInitFunc = { instance, objectClass in
    guard let instance, let box = classBox(ofClass: objectClass) else { return }
    let raw = UnsafeMutableRawPointer(instance)
    let made = box.elementClass.make(ElementHandle(raw: raw))
    slot(raw, box).pointee = Unmanaged.passRetained(ImplementationBox(made)).toOpaque()
}

private let classInit: GClassInitFunc = { pointer, data in
    guard let pointer, let data else { return }
    let box = Unmanaged<ClassBox>.fromOpaque(data).takeUnretainedValue()
    let description = box.elementClass

    let object = pointer.assumingMemoryBound(to: GObjectClass.self)
    object.pointee.dispose = { instance in
        guard let instance, !stopsInsteadOfDisposal(UnsafeMutableRawPointer(instance)) else { return }
        parentClass(of: UnsafeMutableRawPointer(instance), as: GObjectClass.self)?.pointee.dispose?(instance)
    }
    object.pointee.finalize = { instance in
        guard let instance else { return }
        let raw = UnsafeMutableRawPointer(instance)
        let parent = parentClass(of: raw, as: GObjectClass.self)
        // Finalises the C parent first: its finaliser may still call closures of the Swift object.
        let kept = classBox(of: raw).flatMap { slot(raw, $0).pointee }
        parent?.pointee.finalize?(instance)
        if let kept { Unmanaged<ImplementationBox>.fromOpaque(kept).release() }
    }
    object.pointee.set_property = { instance, id, value, spec in
        guard let value, let spec, let name = spec.pointee.name else { return }
        implementation(of: instance)?.setProperty(String(cString: name), GValueBox(copying: value))
    }
    object.pointee.get_property = { instance, id, value, spec in
        guard let value, let spec, let name = spec.pointee.name,
            let found = implementation(of: instance)?.property(String(cString: name))
        else { return }
        found.withPointer { if g_value_transform($0, value) == 0 { g_value_copy($0, value) } }
    }
    object.pointee.dispatch_properties_changed = { instance, count, specs in
        guard let instance, let specs else { return }
        let names = (0..<Int(count)).compactMap { specs[$0]?.pointee.name.map { String(cString: $0) } }
        implementation(of: instance)?.propertiesChanged(names)
        let parent = parentClass(of: UnsafeMutableRawPointer(instance), as: GObjectClass.self)
        parent?.pointee.dispatch_properties_changed?(instance, count, specs)
    }
    for (index, property) in description.properties.enumerated() {
        if let spec = property.makeSpec() { g_object_class_install_property(object, guint(index + 1), spec) }
    }

    let element = pointer.assumingMemoryBound(to: GstElementClass.self)
    element.pointee.change_state = { instance, transition in
        guard let instance else { return GST_STATE_CHANGE_FAILURE }
        let parent = parentClass(of: UnsafeMutableRawPointer(instance), as: GstElementClass.self)
        let chainUp = {
            StateChangeReturn(parent?.pointee.change_state?(instance, transition) ?? GST_STATE_CHANGE_FAILURE)
        }
        guard let found = implementation(of: instance) else { return chainUp().raw }
        return found.changeState(StateChange(transition), chainUp: chainUp).raw
    }
    element.pointee.set_clock = { instance, clock in
        guard let instance else { return 0 }
        let parent = parentClass(of: UnsafeMutableRawPointer(instance), as: GstElementClass.self)
        let isTaken = parent?.pointee.set_clock?(instance, clock) ?? 1
        implementation(of: instance)?.clockChanged()
        return isTaken
    }
    element.pointee.send_event = { instance, event in
        guard let instance, let event else { return 0 }
        let owned = Event(taking: event)
        if let result = implementation(of: instance)?.sendEvent(owned) { return result ? 1 : 0 }
        let parent = parentClass(of: UnsafeMutableRawPointer(instance), as: GstElementClass.self)
        return parent?.pointee.send_event?(instance, owned.copyReference()) ?? 0
    }
    if description.pads.contains(where: { $0.presence == .request }) { installRequestPads(element) }
    gst_element_class_set_metadata(
        element, description.longName, description.classification, description.summary, description.author)
    if let page = description.documentation {
        gst_element_class_add_metadata(element, GST_ELEMENT_METADATA_DOC_URI, page)
    }
    for pad in description.pads {
        let caps = gst_caps_from_string(pad.caps)
        if let template = gst_pad_template_new(
            pad.name, pad.direction == .source ? GST_PAD_SRC : GST_PAD_SINK, GstPadPresence(pad.presence.rawValue), caps
        ) {
            gst_element_class_add_pad_template(element, template)
        }
        if let caps { gst_caps_unref(caps) }
    }

    if description.parent == .bin {
        let bin = pointer.assumingMemoryBound(to: GstBinClass.self)
        bin.pointee.handle_message = { instance, message in
            guard let instance, let message else { return }
            let owned = Message(taking: message)
            guard let passed = implementation(of: instance).map({ $0.handleMessage(owned) }) ?? owned else { return }
            let parent = parentClass(of: UnsafeMutableRawPointer(instance), as: GstBinClass.self)
            parent?.pointee.handle_message?(instance, passed.copyReference())
        }
    }

    if description.parent == .videoFilter { installVideoFilter(pointer) }

    let type = pointer.assumingMemoryBound(to: GTypeClass.self).pointee.g_type
    for signal in description.signals { install(signal, on: type) }
}

private func installRequestPads(_ element: UnsafeMutablePointer<GstElementClass>) {
    element.pointee.request_new_pad = { instance, template, _, _ in
        guard let name = template?.pointee.name_template else { return nil }
        // The element holds the returned pad's reference; gst_element_request_pad adds another one for its caller.
        return implementation(of: instance)?.requestPad(template: String(cString: name))?.pad
    }
    element.pointee.release_pad = { instance, pad in
        guard let pad else { return }
        implementation(of: instance)?.releasePad(Pad(borrowing: pad))
    }
}

private func install(_ signal: SignalSpec, on type: GType) {
    var parameters = signal.parameters.map(\.type)
    let flags =
        signal.isAction
        ? GSignalFlags(rawValue: G_SIGNAL_RUN_LAST.rawValue | G_SIGNAL_ACTION.rawValue) : G_SIGNAL_RUN_LAST
    var closure: UnsafeMutablePointer<GClosure>?
    if signal.isAction {
        // The class closure's data is the signal's name, which is never freed, as the type is not.
        closure = g_closure_new_simple(UInt32(MemoryLayout<GClosure>.size), g_strdup(signal.name))
        g_closure_set_marshal(closure) { closure, result, count, parameters, _, _ in
            guard let name = closure?.pointee.data, let parameters, let instance = g_value_get_object(parameters) else {
                return
            }
            let arguments = (1..<max(1, Int(count))).map { GValueBox(copying: parameters + $0) }
            let text = String(cString: name.assumingMemoryBound(to: CChar.self))
            if let value = implementation(of: instance)?.actionSignal(text, arguments), let result {
                value.withPointer { if g_value_transform($0, result) == 0 { return } }
            }
        }
    }
    g_signal_newv(
        signal.name, type, flags, closure, nil, nil, nil, signal.result?.type ?? kit_type_none(),
        guint(parameters.count), &parameters)
}

extension SignalSpec.Kind {
    fileprivate var type: GType {
        switch self {
        case .boolean: kit_type_boolean()
        case .int: kit_type_int()
        case .uint: kit_type_uint()
        case .uint64: kit_type_uint64()
        case .string: kit_type_string()
        case .element: kit_type_element()
        case .structure: kit_type_structure()
        case .bytes: g_bytes_get_type()
        case .array: kit_type_value_array()
        }
    }
}
