/// The current `image-orientation` of a stream. A tag list replaces the previous one of the same scope, and a stream
/// tag takes precedence over a global one, as in videoflip.
package struct TaggedOrientation: Sendable {
    private var streamID: String?
    private var ofStream: ImageRotation?
    private var ofMedium: ImageRotation?

    package init() {}

    package var current: ImageRotation { ofStream ?? ofMedium ?? .none }

    /// Reads STREAM_START and TAG; ignores any other event.
    package mutating func update(_ event: Event) {
        switch event.kind {
        case .streamStart:
            // The same stream ID again, as after a seek, keeps its tags.
            if event.streamID == nil || event.streamID != streamID { self = TaggedOrientation() }
            streamID = event.streamID
        case .tag:
            let rotation = event.imageOrientationTag.map(ImageRotation.init(tag:))
            if event.hasGlobalTags { ofMedium = rotation } else { ofStream = rotation }
        default: break
        }
    }
}
