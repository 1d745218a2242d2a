// The stage between capture and mirror: crops frames to the part that the user asked for and to the aspect ratio that
// is sent, so that the preview shows what the service gets. It knows frames; it must not know devices or sessions.
import GStreamerKit
import MediaPipeline
import MirrorElement
import Synchronization

// @unchecked: elements lock themselves; mutable state is in the mutex.
final class CropStage: @unchecked Sendable {
    let elements: [Element]
    private let plain: Element
    private let crop: Element
    /// Formats that videocrop can crop and the mirror can flip; the usual formats of a camera pass without conversion.
    private static let formats = Set(Mirror.formats).intersection(PlainFormats.cropped).sorted()

    private struct State {
        var request = CropRequest.all
        var orientation = TransformSettings.OrientationChoice.auto
        /// The model's size, in landscape or portrait; nil keeps the shape, because letterbox and stretch use the whole
        /// frame.
        var target: (width: Int, height: Int)?
        var input: VideoInfo?
        /// Caps of the filter behind the converter.
        var formats = PlainFormats.caps(for: nil, among: CropStage.formats)
        var tags = TaggedOrientation()
        var applied = Margins()
        var isPortrait: Bool?
    }
    private let state = Mutex(State())
    private let onShape: @Sendable (_ isPortrait: Bool) -> Void
    private let onShortage: @Sendable (_ bytes: Int, _ needed: Int) -> Void

    /// - Parameter onShape: called on the streaming thread, only while the orientation is `auto`: before the first
    ///   frame, and before the display orientation changes between portrait and landscape.
    /// - Parameter onShortage: called for each frame that is dropped because it is smaller than its caps.
    init(
        onShape: @escaping @Sendable (_ isPortrait: Bool) -> Void,
        onShortage: @escaping @Sendable (_ bytes: Int, _ needed: Int) -> Void
    ) throws(GStreamerError) {
        (self.onShape, self.onShortage) = (onShape, onShortage)
        let unify = try Element(factory: "videoconvert", name: "camera-unify")
        plain = try Element(factory: "capsfilter", name: "camera-plain")
        plain.set("caps", caps: try Caps(state.withLock(\.formats)))
        crop = try Element(factory: "videocrop", name: "camera-crop")
        elements = [unify, plain, crop]
        for element in elements { element.set("qos", false) }
    }

    /// Installs the probe on `source`, the pad that feeds the first of the elements.
    func watch(_ source: Pad) {
        source.offerNoCropping()
        source.addProbe([.downstreamEvent, .buffer]) { [weak self] item in
            switch item {
            case .event(let event):
                let flat = event.asProgressive(below: VideoInfo.fewestInterlacedRows)
                self?.apply(flat ?? event)
                if let flat { return .replaceEvent(flat) }
            case .buffer(let buffer):
                // The elements of the stage map frames by their caps alone.
                if let self, let (bytes, needed) = self.state.withLock(\.input)?.shortage(ofArriving: buffer) {
                    self.onShortage(bytes, needed)
                    return .drop
                }
                self?.applyGeometry()
                if let whole = buffer.withoutCropping() { return .replace(whole) }
            case .query: break
            }
            return .pass
        }
    }

    func set(request: CropRequest) { state.withLock { $0.request = request } }

    func set(target: (width: Int, height: Int)?) { state.withLock { $0.target = target } }

    func set(orientation: TransformSettings.OrientationChoice) {
        state.withLock {
            $0.orientation = orientation
            $0.isPortrait = nil
        }
    }

    /// Called before another start.
    func reset() {
        state.withLock {
            ($0.input, $0.isPortrait) = (nil, nil)
            $0.tags = TaggedOrientation()
        }
    }

    private func apply(_ event: Event) {
        switch event.kind {
        case .caps:
            // The probe sees the caps of encoded frames too, which bypass the stage.
            let info = event.caps.flatMap { $0.first?.name == CameraFormat.raw ? VideoInfo(caps: $0) : nil }
            let formats = PlainFormats.caps(for: info, among: Self.formats)
            let changes = state.withLock { state in
                state.input = info
                return exchange(&state.formats, with: formats) != formats
            }
            // Even equal caps would make upstream negotiate again.
            if changes, let caps = try? Caps(formats) { plain.set("caps", caps: caps) }
            // Margins for the old size may leave nothing of the new one.
            applyGeometry()
        case .streamStart, .tag: state.withLock { $0.tags.update(event) }
        default: break
        }
    }

    /// Runs on the streaming thread, between frames.
    private func applyGeometry() {
        let (margins, shape) = state.withLock { state -> (Margins?, Bool?) in
            guard let input = state.input else { return (nil, nil) }
            let shape = FrameGeometry(
                width: input.width, height: input.height, pixelAspectRatio: input.pixelAspectRatio,
                isTurned: state.tags.current.swapsSides)
            var margins = shape.margins(state.request)
            let isPortrait: Bool
            switch state.orientation {
            case .auto: isPortrait = shape.isPortrait(margins)
            case .landscape: isPortrait = false
            case .portrait: isPortrait = true
            }
            if let (width, height) = state.target {
                let (short, long) = (min(width, height), max(width, height))
                margins = shape.margins(toFill: isPortrait ? (short, long) : (long, short), within: margins)
            }
            let changes = (
                margins == state.applied ? nil : margins,
                state.orientation == .auto && state.isPortrait != isPortrait ? isPortrait : nil
            )
            (state.applied, state.isPortrait) = (margins, isPortrait)
            return changes
        }
        if let shape { onShape(shape) }
        guard let margins else { return }
        crop.set("left", margins.left)
        crop.set("top", margins.top)
        crop.set("right", margins.right)
        crop.set("bottom", margins.bottom)
    }
}
