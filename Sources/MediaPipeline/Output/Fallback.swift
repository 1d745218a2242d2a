import GStreamerKit

/// Output while the service sends no frames.
package enum Fallback: String, PropertyEnumeration {
    case freeze, black, passthrough, none

    package static let typeName = "GstDecartFallback"
    package var blurb: String {
        switch self {
        case .freeze: "The last transformed frame; black before the first one"
        case .black: "Black frames, after half a second"
        case .passthrough: "The raw input, after half a second: only if viewers may see it"
        case .none: "GAP events"
        }
    }
}
