/// Rotation that an `image-orientation` tag asks for; the raw values are the tag's.
package enum ImageRotation: String, Sendable, CaseIterable {
    case none = "rotate-0"
    case right = "rotate-90"
    case half = "rotate-180"
    case left = "rotate-270"
    case flipped = "flip-rotate-0"
    case flippedRight = "flip-rotate-90"
    case flippedHalf = "flip-rotate-180"
    case flippedLeft = "flip-rotate-270"

    package init(tag: String) { self = ImageRotation(rawValue: tag) ?? .none }

    package var swapsSides: Bool {
        switch self {
        case .right, .left, .flippedRight, .flippedLeft: true
        default: false
        }
    }

    /// Value of videoflip's `video-direction`, mapped like gst_video_orientation_from_tag.
    package var videoDirection: String {
        switch self {
        case .none: "identity"
        case .right: "90r"
        case .half: "180"
        case .left: "90l"
        case .flipped: "horiz"
        case .flippedRight: "ur-ll"
        case .flippedHalf: "vert"
        case .flippedLeft: "ul-lr"
        }
    }
}
