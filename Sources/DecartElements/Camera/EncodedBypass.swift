// Links the camera directly to the transform, for encoded frames. The elements for raw frames (crop, mirror, preview)
// are then linked to nothing.
import GStreamerKit
import MediaPipeline

// @unchecked: elements and pads lock themselves. Made and removed below PAUSED only.
final class EncodedBypass: @unchecked Sendable {
    private let filter: Element
    /// Links for raw frames, which it replaces.
    private let replaced: [(source: Pad, sink: Pad)]

    /// - Parameters:
    ///   - source: the pad that gives the camera's frames.
    ///   - sink: that of the transform.
    init(in bin: Bin, from source: Pad, to sink: Pad) throws(GStreamerError) {
        // Its caps tell the transform before the first frame that no encoder is needed.
        filter = try Element(factory: "capsfilter", name: "camera-encoded")
        filter.set("caps", caps: try Caps(EncodedInput.caps))
        guard let entry = filter.staticPad("sink"), let exit = filter.staticPad("src"), let rawSink = source.peer,
            let rawSource = sink.peer
        else { throw GStreamerError(.linkFailed, "the camera's elements are not linked") }
        replaced = [(source, rawSink), (rawSource, sink)]
        for (source, sink) in replaced { source.unlink(sink) }
        bin.add(filter)
        do throws(GStreamerError) {
            try source.link(entry)
            try exit.link(sink)
        } catch {
            remove(from: bin)
            throw error
        }
    }

    /// Restores the links for raw frames.
    func remove(from bin: Bin) {
        bin.takeOut([filter])
        // Removal has unlinked the filter's pads.
        for (source, sink) in replaced { try? source.link(sink) }
    }
}
