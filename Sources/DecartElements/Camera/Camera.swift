// The cameras of this machine, as GStreamer's device providers report them.
import DecartProtocol
import GStreamerKit
import MirrorElement
import Glibc

struct Camera: Identifiable, Sendable {
    let device: Device
    let name: String
    /// Usually unchanged when the camera is unplugged and plugged in again.
    let id: String
    let position: CameraPosition

    /// A camera of unknown position counts as a front camera.
    var side: CameraPosition { position == .back ? .back : .front }

    func matches(_ text: String) -> Bool { text == id || text == name }
    func looks(to position: CameraPosition) -> Bool { position == .unspecified || side == position }

    init(_ device: Device, positions: [String]) {
        self.device = device
        name = device.displayName
        let properties = device.properties
        let known = ["device.path", "api.v4l2.path", "device.id", "object.path", "node.name", "object.serial"]
        let (name, id) = (name, known.lazy.compactMap { properties?.string($0) }.first ?? device.displayName)
        self.id = id
        let mapped = positions.lazy.compactMap(Self.mapping).first { $0.camera == id || $0.camera == name }?.position
        position =
            mapped ?? properties.flatMap(Self.position) ?? (id.hasPrefix("/dev/video") ? V4L2Position.read(id) : nil)
            ?? .unspecified
    }

    /// Parses `camera=front`. The camera's name may itself contain "=".
    private static func mapping(_ text: String) -> (camera: String, position: CameraPosition)? {
        guard let equals = text.lastIndex(of: "=") else { return nil }
        let side = CameraPosition(rawValue: String(text[text.index(after: equals)...]))
        return side.map { (String(text[..<equals]), $0) }
    }

    /// Reads the position from the properties that libcamera (through PipeWire), Android and other providers use.
    private static func position(_ properties: Structure) -> CameraPosition? {
        ["api.libcamera.location", "device.position", "camera.position", "device.facing"].lazy
            .compactMap { properties.string($0).flatMap { CameraPosition(rawValue: $0.lowercased()) } }.first
    }

    func formats(wished: VideoFormat?) -> [CameraFormat] {
        device.caps.map { CameraFormat.all(in: $0, wished: wished) } ?? []
    }

    func structure(isCurrent: Bool) -> Structure {
        Structure(
            "device", ("name", GValueBox(name)), ("id", GValueBox(id)), ("position", GValueBox(position.rawValue)),
            ("current", GValueBox(isCurrent)))
    }
}

/// Reads the control V4L2_CID_CAMERA_ORIENTATION, which drivers of built-in cameras have.
enum V4L2Position {
    private static let control = UInt32(0x009a_0922)
    /// VIDIOC_G_CTRL is _IOWR('V', 27, struct v4l2_control); the struct has an ID and a value of 32 bits each.
    private static let readControl = UInt(0xc008_561b)

    static func read(_ path: String) -> CameraPosition? {
        let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var request = (control, Int32(-1))
        guard
            withUnsafeMutablePointer(to: &request, { ioctl(descriptor, readControl, UnsafeMutableRawPointer($0)) }) == 0
        else { return nil }
        switch request.1 {
        case 0: return .front
        case 1: return .back
        default: return nil
        }
    }
}

extension DeviceMonitor {
    static func ofCameras() -> DeviceMonitor {
        let monitor = DeviceMonitor()
        for type in [CameraFormat.raw, CameraFormat.jpeg] {
            if let caps = try? Caps(type) { monitor.addFilter(classes: "Video/Source", caps: caps) }
        }
        return monitor
    }

    /// Returns each camera once: V4L2's provider and PipeWire's may both offer the same one.
    /// - Parameter positions: the user's mapping.
    func cameras(positions: [String]) -> [Camera] {
        var ids: Set<String> = []
        return devices.map { Camera($0, positions: positions) }.filter { ids.insert($0.id).inserted }
    }
}
