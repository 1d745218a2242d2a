// The settings of `mirror` and the properties that expose them.
import GStreamerKit

struct MirrorSettings: Sendable {
    enum Mode: Int, Sendable, CaseIterable { case off, auto, on }
    enum Position: Int, Sendable, CaseIterable { case unspecified, front, back }

    var mode = Mode.off
    var position = Position.unspecified

    var isActive: Bool {
        switch mode {
        case .off: false
        case .auto: position == .front
        case .on: true
        }
    }

    mutating func set(_ name: String, _ value: GValueBox) {
        guard let number = value.int else { return }
        switch name {
        case "mode": mode = Mode(rawValue: number) ?? mode
        case "position": position = Position(rawValue: number) ?? position
        default: break
        }
    }

    func value(_ name: String) -> GValueBox? {
        switch name {
        case "mode": GValueBox(enumeration: Self.modeType, mode.rawValue)
        case "position": GValueBox(enumeration: Self.positionType, position.rawValue)
        case "active": GValueBox(isActive)
        default: nil
        }
    }

    static let modeType = "GstDecartMirrorMode"
    static let modeKind = PropertySpec.Kind.enumeration(
        type: modeType,
        values: [
            (0, "off", "Never"), (1, "auto", "When position is front, as people expect of a picture of themselves"),
            (2, "on", "Always"),
        ], default: Mode.off.rawValue)

    static let positionType = "GstDecartCameraPosition"
    static func positionKind(default position: Position) -> PropertySpec.Kind {
        .enumeration(
            type: positionType,
            values: [
                (0, "unspecified", "Not known; not mirrored by mode=auto"), (1, "front", "Towards the user"),
                (2, "back", "Away from the user"),
            ], default: position.rawValue)
    }

    static let specs: [PropertySpec] = [
        PropertySpec(
            "mode", nick: "Mode",
            blurb: "When the picture is mirrored; off and an inactive auto pass buffers on untouched",
            modeKind, mutability: .playing),
        PropertySpec(
            "position", nick: "Position",
            blurb:
                "Which way the camera looks, for mode=auto; GStreamer's sources do not say it, so the application does",
            positionKind(default: .unspecified), mutability: .playing),
        PropertySpec(
            "active", nick: "Active", blurb: "Whether the next picture will be mirrored, by mode and position",
            .boolean(default: false), access: .readOnly),
    ]
}

extension MirrorSettings.Mode {
    var nick: String {
        switch self {
        case .off: "off"
        case .auto: "auto"
        case .on: "on"
        }
    }
}
