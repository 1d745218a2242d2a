import GStreamerKit

/// Shape of the sent frames if the input has another aspect ratio.
package enum Fit: String, PropertyEnumeration {
    case crop, letterbox, stretch

    package static let typeName = "GstDecartFit"
    package var blurb: String {
        switch self {
        case .crop: "Crop two sides"
        case .letterbox: "Add black borders"
        case .stretch: "Change the aspect ratio"
        }
    }
}
