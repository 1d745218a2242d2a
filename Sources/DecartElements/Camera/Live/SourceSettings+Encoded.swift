// Refuses settings that need raw video together with `camera-encoded`: encoded frames bypass crop, mirror and preview.
import MirrorElement

extension SourceSettings {
    /// True if the source's frames go into the session as the camera encoded them. A viewer has no source.
    var sendsEncodedCamera: Bool { cameraEncoded && subscribeToken == nil }

    /// A sentence about the first setting that an encoded camera rules out; nil: there is none.
    /// - Parameters:
    ///   - property: of the transform; nil: none of them is in the way.
    ///   - hasPreview: the pad `preview` exists.
    func conflictWithEncodedCamera(transform property: String?, hasPreview: Bool) -> String? {
        guard isLiveCamera else {
            return
                "camera-encoded needs a network camera. Set source=live-view, source=whep:URL or source=rtsp://…, or "
                + "camera-encoded=false."
        }
        let name = conflictingProperty() ?? property ?? (hasPreview ? "The pad preview" : nil)
        return name.map(Self.conflict)
    }

    /// The same if one property of this element is set while the element runs.
    func conflictWithEncodedCamera(by property: String) -> String? { conflictingProperty(property).map(Self.conflict) }

    static let encodedPreviewConflict = conflict("The pad preview")

    private static func conflict(_ name: String) -> String {
        "\(name) needs raw video, but camera-encoded is set. Use only one of them."
    }

    /// `mirror=auto` is no conflict: it does not mirror then.
    private func conflictingProperty(_ property: String? = nil) -> String? {
        let rows: [(property: String, name: String, isSet: Bool)] = [
            ("mirror", "mirror=on", mirror == .on), ("crop", "crop", !crop.isEmpty),
        ]
        return rows.first { $0.isSet && $0.property == property ?? $0.property }?.name
    }
}
