// The settings of `mirror` and the properties that expose them.
import GStreamerKit

package struct MirrorSettings: PropertyStorage {
    var mode = Mode.off
    var position = Position.unspecified

    package init() {}

    var isActive: Bool {
        switch mode {
        case .off: false
        case .auto: position == .front
        case .on: true
        }
    }

    static let properties = PropertyTable<MirrorSettings>([
        .enumeration(
            "mode", \.mode, nick: "Mode",
            blurb: "When frames are mirrored; off and an inactive auto pass buffers on untouched"
        ).playing { _ in },
        .enumeration(
            "position", \.position, nick: "Position",
            blurb: "Side that the camera faces, for mode=auto; set by the application, for sources do not report it"
        ).playing { _ in },
        .readOnly(
            "active", nick: "Active", blurb: "True if the next frame will be mirrored, by mode and position",
            { .boolean(default: $0) }, { GValueBox($0) }, \.isActive),
    ])
}

extension MirrorSettings {
    package enum Mode: String, PropertyEnumeration {
        case off, auto, on

        package static let typeName = "GstDecartMirrorMode"
        package var blurb: String {
            switch self {
            case .off: "Never"
            case .auto: "If position is front, as people expect of a selfie"
            case .on: "Always"
            }
        }
    }

    package enum Position: String, PropertyEnumeration {
        case unspecified, front, back

        package static let typeName = "GstDecartCameraPosition"
        package var blurb: String {
            switch self {
            case .unspecified: "Unknown; mode=auto does not mirror it"
            case .front: "Towards the user"
            case .back: "Away from the user"
            }
        }
    }
}
