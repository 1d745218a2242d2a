// Virtual cameras that show test patterns, offered by a GstDeviceProvider, so that any GstDeviceMonitor finds them.
// Only GStreamer's C API is used here, because pipelines/switch-camera.sh compiles this file too.
import CGStreamer
import Synchronization

struct VirtualCamera: Sendable {
    var name: String
    var id: String
    /// Value of `device.position`; nil if the provider does not report one.
    var position: String?
    var caps: String
    var pattern: String
    /// Elements after the test pattern, in gst-launch syntax.
    var then = "identity"
    /// Raw caps that jpegenc encodes, for a camera whose caps are image/jpeg.
    var raw: String?

    fileprivate var description: String {
        if let raw { return "videotestsrc is-live=true pattern=\(pattern) ! \(raw) ! jpegenc quality=95 ! \(then)" }
        return "videotestsrc is-live=true pattern=\(pattern) ! capsfilter caps=\"\(caps)\" ! \(then)"
    }
}

/// The cameras of this process, offered by its one provider.
enum VirtualCameras {
    // @unchecked: holds pointers to GStreamer objects, which lock themselves.
    fileprivate struct State: @unchecked Sendable {
        var cameras: [VirtualCamera] = []
        /// Nil unless a monitor has started the provider.
        var provider: UnsafeMutablePointer<GstDeviceProvider>?
        /// Owned GstDevice references, stored as integers.
        var devices: [(id: String, device: UInt)] = []
        var isRegistered = false
    }
    fileprivate static let state = Mutex(State())
    /// A real provider adds and removes devices on one thread, which its `stop` joins: GstDeviceMonitor (1.22) assumes
    /// that an added device keeps its parent while the message is posted, and crashes if the device is removed
    /// meanwhile. Any thread may plug and unplug here, so this lock takes the place of that thread.
    fileprivate static let hotplug = Mutex(())
    fileprivate static let idKey = "device.path"
    fileprivate static let descriptionKey = "virtual.description"

    /// Plugs in these cameras and removes all others; the first call registers the provider with this process.
    static func set(_ cameras: [VirtualCamera]) {
        register()
        for id in state.withLock({ $0.cameras.map(\.id) }) { unplug(id) }
        for camera in cameras { plug(camera) }
    }

    static func plug(_ camera: VirtualCamera) {
        hotplug.withLock { _ in
            let provider = state.withLock { state in
                state.cameras.append(camera)
                return UInt(bitPattern: state.provider)
            }
            if let provider = UnsafeMutablePointer<GstDeviceProvider>(bitPattern: provider) {
                add(camera, to: provider)
            }
        }
    }

    static func unplug(_ id: String) {
        hotplug.withLock { _ in
            let (provider, devices) = state.withLock { state in
                state.cameras.removeAll { $0.id == id }
                defer { state.devices.removeAll { $0.id == id } }
                return (UInt(bitPattern: state.provider), state.devices.filter { $0.id == id }.map(\.device))
            }
            guard let provider = UnsafeMutablePointer<GstDeviceProvider>(bitPattern: provider) else { return }
            for device in devices.compactMap({ UnsafeMutablePointer<GstDevice>(bitPattern: $0) }) {
                gst_device_provider_device_remove(provider, device)
                gst_object_unref(device)
            }
        }
    }

    fileprivate static func add(_ camera: VirtualCamera, to provider: UnsafeMutablePointer<GstDeviceProvider>) {
        guard let device = makeDevice(camera) else { return }
        gst_object_ref_sink(device)
        let number = UInt(bitPattern: device)
        state.withLock { $0.devices.append((camera.id, number)) }
        gst_device_provider_device_add(provider, device)
    }

    fileprivate static func makeDevice(_ camera: VirtualCamera) -> UnsafeMutablePointer<GstDevice>? {
        guard let structure = gst_structure_new_empty("virtual-camera") else { return nil }
        defer { gst_structure_free(structure) }
        func set(_ field: String, _ text: String) {
            var value = GValue()
            g_value_init(&value, kit_type_string())
            g_value_set_string(&value, text)
            gst_structure_take_value(structure, field, &value)
        }
        set(idKey, camera.id)
        set(descriptionKey, camera.description)
        if let position = camera.position { set("device.position", position) }
        let names = ["display-name", "device-class", "caps", "properties"].map { (name: String) in strdup(name) }
        defer { for name in names { free(name) } }
        var values = [GValue](repeating: GValue(), count: 4)
        g_value_init(&values[0], kit_type_string())
        g_value_set_string(&values[0], camera.name)
        g_value_init(&values[1], kit_type_string())
        g_value_set_string(&values[1], "Video/Source")
        g_value_init(&values[2], kit_type_caps())
        let caps = gst_caps_from_string(camera.caps)
        gst_value_set_caps(&values[2], caps)
        gst_caps_unref(caps)
        g_value_init(&values[3], kit_type_structure())
        gst_value_set_structure(&values[3], structure)
        defer { for index in values.indices { g_value_unset(&values[index]) } }
        var pointers = names.map { UnsafePointer<CChar>($0) }
        return g_object_new_with_properties(deviceType, 4, &pointers, values)?.withMemoryRebound(
            to: GstDevice.self, capacity: 1
        ) { $0 }
    }

    private static func register() {
        let isFirst = state.withLock { state in
            defer { state.isRegistered = true }
            return !state.isRegistered
        }
        if isFirst { gst_device_provider_register(nil, "decartvirtualcameras", 256, providerType) }
    }
}

/// Registers a subclass without instance fields of its own.
private func subclass(of parent: GType, _ name: String, _ initialise: @escaping GClassInitFunc) -> GType {
    var query = GTypeQuery()
    g_type_query(parent, &query)
    return g_type_register_static_simple(
        parent, name, query.class_size, initialise, query.instance_size, nil, GTypeFlags(rawValue: 0))
}

private let deviceType = subclass(of: gst_device_get_type(), "DecartVirtualCamera") { pointer, _ in
    pointer?.assumingMemoryBound(to: GstDeviceClass.self).pointee.create_element = { device, _ in
        guard let properties = gst_device_get_properties(device) else { return nil }
        defer { gst_structure_free(properties) }
        return gst_parse_bin_from_description_full(
            gst_structure_get_string(properties, VirtualCameras.descriptionKey), 1, nil, GST_PARSE_FLAG_FATAL_ERRORS,
            nil)
    }
}

private let providerType = subclass(of: gst_device_provider_get_type(), "DecartVirtualCameraProvider") { pointer, _ in
    guard let type = pointer?.assumingMemoryBound(to: GstDeviceProviderClass.self) else { return }
    gst_device_provider_class_set_metadata(
        type, "Virtual cameras", "Video/Source", "Test pictures as cameras", "The gst-decart authors")
    type.pointee.start = { provider in
        let number = UInt(bitPattern: provider)
        VirtualCameras.hotplug.withLock { _ in
            let cameras = VirtualCameras.state.withLock { state in
                state.provider = UnsafeMutablePointer(bitPattern: number)
                return state.cameras
            }
            guard let provider = UnsafeMutablePointer<GstDeviceProvider>(bitPattern: number) else { return }
            for camera in cameras { VirtualCameras.add(camera, to: provider) }
        }
        return 1
    }
    type.pointee.stop = { _ in
        VirtualCameras.hotplug.withLock { _ in
            let devices = VirtualCameras.state.withLock { state in
                defer { (state.provider, state.devices) = (nil, []) }
                return state.devices.map(\.device)
            }
            // The base class removes the devices from the provider's list itself.
            for device in devices { gst_object_unref(UnsafeMutableRawPointer(bitPattern: device)) }
        }
    }
    type.pointee.probe = { _ in
        var list: UnsafeMutablePointer<GList>?
        for camera in VirtualCameras.state.withLock(\.cameras) {
            if let device = VirtualCameras.makeDevice(camera) {
                list = g_list_append(list, gst_object_ref_sink(device))
            }
        }
        return list
    }
}
