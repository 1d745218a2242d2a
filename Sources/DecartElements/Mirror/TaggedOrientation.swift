import GStreamerKit

/// The `image-orientation` that holds for a stream. A tag list replaces the one before it of the same scope, and what is
/// said of the stream counts more than what is said of the whole medium, as in videoflip.
struct TaggedOrientation: Sendable {
    private var streamID: String?
    private var ofStream: ImageRotation?
    private var ofMedium: ImageRotation?

    var current: ImageRotation { ofStream ?? ofMedium ?? .none }

    mutating func take(_ event: Event) {
        switch event.kind {
        case .streamStart:
            // The same stream again, as after a seek, keeps its tags.
            if event.streamID == nil || event.streamID != streamID { self = TaggedOrientation() }
            streamID = event.streamID
        case .tag:
            let rotation = event.imageOrientationTag.map(ImageRotation.init(tag:))
            if event.hasGlobalTags { ofMedium = rotation } else { ofStream = rotation }
        default: break
        }
    }
}
