internal import CGStreamer
internal import Synchronization

/// A device that a provider has found, such as a camera or a microphone.
public final class Device: GObject, @unchecked Sendable {
    private var device: UnsafeMutablePointer<GstDevice> { raw.assumingMemoryBound(to: GstDevice.self) }

    /// The name for users.
    public var displayName: String { String(taking: gst_device_get_display_name(device)) }

    /// The formats of the device; nil: its provider does not say.
    public var caps: Caps? { gst_device_get_caps(device).map { Caps(taking: $0) } }
    /// The device properties; their names depend on the provider.
    public var properties: Structure? { gst_device_get_properties(device).map { Structure(taking: $0) } }

    /// An element that captures from the device or plays to it; nil: its provider gives none.
    public func makeElement(name: String? = nil) -> Element? {
        gst_device_create_element(device, name).map { Element(taking: $0) }
    }
}

/// A GstDeviceMonitor: the devices of the classes in its filters, from all installed providers.
public final class DeviceMonitor: GObject, @unchecked Sendable {
    private var monitor: UnsafeMutablePointer<GstDeviceMonitor> { raw.assumingMemoryBound(to: GstDeviceMonitor.self) }

    /// Watches nothing until filters are added.
    public convenience init() { self.init(taking: gst_device_monitor_new()) }

    /// Adds the devices of these classes, such as "Video/Source", whose formats intersect with `caps`.
    public func addFilter(classes: String, caps: Caps) {
        gst_device_monitor_add_filter(monitor, classes, caps.pointer)
    }

    /// Starts monitoring. `handler` runs on a provider's thread for each device added or removed from now on.
    public func start(_ handler: @escaping @Sendable (_ device: Device, _ isThere: Bool) -> Void) -> Bool {
        if let bus = gst_device_monitor_get_bus(monitor) {
            Bus(taking: bus).setSyncHandler { message in
                if let (device, isThere) = message.device { handler(device, isThere) }
            }
        }
        return gst_device_monitor_start(monitor) != 0
    }

    /// Stops the watch. Its handler is not called any more when this returns.
    public func stop() {
        gst_device_monitor_stop(monitor)
        if let bus = gst_device_monitor_get_bus(monitor) { Bus(taking: bus).removeSyncHandler() }
    }

    /// The current devices. If the monitor is not started, the providers probe for them during the call.
    public var devices: [Device] {
        guard let list = gst_device_monitor_get_devices(monitor) else { return [] }
        defer { g_list_free(list) }
        return sequence(first: list) { $0.pointee.next }.compactMap { $0.pointee.data.map { Device(taking: $0) } }
    }
}

extension Message {
    /// The device of a DEVICE_ADDED or DEVICE_REMOVED message, and whether it is present.
    public var device: (Device, isThere: Bool)? {
        var device: UnsafeMutablePointer<GstDevice>?
        switch kind {
        case .deviceAdded: gst_message_parse_device_added(pointer, &device)
        case .deviceRemoved: gst_message_parse_device_removed(pointer, &device)
        default: return nil
        }
        return device.map { (Device(taking: $0), kind == .deviceAdded) }
    }
}

private typealias BusBox = FunctionBox<@Sendable (Message) -> Void>

extension Bus {
    /// Installs a handler that runs on the posting thread and consumes every message. The bus retains the handler, so
    /// it must capture its owner weakly.
    public func setSyncHandler(_ handler: @escaping @Sendable (Message) -> Void) {
        gst_bus_set_sync_handler(
            raw.assumingMemoryBound(to: GstBus.self),
            { _, message, data in
                guard let message, let data else { return GST_BUS_DROP }
                // A handler that returns GST_BUS_DROP owns the message's reference.
                Unmanaged<BusBox>.fromOpaque(data).takeUnretainedValue().function(Message(taking: message))
                return GST_BUS_DROP
            }, retained(BusBox(handler)), releaseBox)
    }

    func removeSyncHandler() { gst_bus_set_sync_handler(raw.assumingMemoryBound(to: GstBus.self), nil, nil, nil) }
}
