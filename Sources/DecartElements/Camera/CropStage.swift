// The stage between capture and mirror: crops frames to the part that the user asked for and to the aspect ratio that
// is sent, so that the preview shows what the service gets. It knows frames; it must not know devices or sessions.
import GStreamerKit
import MediaPipeline
import MirrorElement
import Synchronization

// @unchecked: elements lock themselves; `stream` belongs to one thread; the rest is in the mutex.
final class CropStage: @unchecked Sendable {
    let elements: [Element]
    private let plain: Element
    private let crop: Element
    /// Formats that videocrop can crop and the mirror can flip; the usual formats of a camera pass without conversion.
    private static let formats = Set(Mirror.formats).intersection(PlainFormats.cropped).sorted()

    private struct Wishes: Sendable {
        var request = CropRequest.all
        var orientation = TransformSettings.OrientationChoice.auto
        /// Counts how often `orientation` has been set.
        var orientations = 0
        /// The model's size, in landscape or portrait; nil keeps the shape, because letterbox and stretch use the whole
        /// frame.
        var target: (width: Int, height: Int)?
    }
    private let wishes = Mutex(Wishes())

    /// Only the streaming thread uses this, and `reset` while there is none.
    private struct Stream {
        var input: VideoInfo?
        /// Caps of the filter behind the converter.
        var formats = PlainFormats.caps(for: nil, among: CropStage.formats)
        var tags = TaggedOrientation()
        var applied = Margins()
        var isPortrait: Bool?
        /// That of `Wishes` to which `isPortrait` belongs.
        var orientations = 0
    }
    private var stream = Stream()
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
        plain.set("caps", caps: try Caps(stream.formats))
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
                if let self, let (bytes, needed) = self.stream.input?.shortage(ofArriving: buffer) {
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

    func set(request: CropRequest) { wishes.withLock { $0.request = request } }

    func set(target: (width: Int, height: Int)?) { wishes.withLock { $0.target = target } }

    func set(orientation: TransformSettings.OrientationChoice) {
        wishes.withLock { ($0.orientation, $0.orientations) = (orientation, $0.orientations &+ 1) }
    }

    /// Called before another start.
    func reset() { (stream.input, stream.isPortrait, stream.tags) = (nil, nil, TaggedOrientation()) }

    private func apply(_ event: Event) {
        switch event.kind {
        case .caps:
            // The probe sees the caps of encoded frames too, which bypass the stage.
            let info = event.caps.flatMap { $0.first?.name == CameraFormat.raw ? VideoInfo(caps: $0) : nil }
            let formats = PlainFormats.caps(for: info, among: Self.formats)
            stream.input = info
            // Even equal caps would make upstream negotiate again.
            if exchange(&stream.formats, with: formats) != formats, let caps = try? Caps(formats) {
                plain.set("caps", caps: caps)
            }
            // Margins for the old size may leave nothing of the new one.
            applyGeometry()
        case .streamStart, .tag: stream.tags.update(event)
        default: break
        }
    }

    /// Runs on the streaming thread, between frames.
    private func applyGeometry() {
        guard let input = stream.input else { return }
        let wishes = self.wishes.withLock { $0 }
        let shape = FrameGeometry(
            width: input.width, height: input.height, pixelAspectRatio: input.pixelAspectRatio,
            isTurned: stream.tags.current.swapsSides)
        var margins = shape.margins(wishes.request)
        let isPortrait =
            switch wishes.orientation {
            case .auto: shape.isPortrait(margins)
            case .landscape: false
            case .portrait: true
            }
        if let (width, height) = wishes.target {
            let (short, long) = (min(width, height), max(width, height))
            margins = shape.margins(toFill: isPortrait ? (short, long) : (long, short), within: margins)
        }
        let isNew = exchange(&stream.isPortrait, with: isPortrait) != isPortrait
        let isSet = exchange(&stream.orientations, with: wishes.orientations) != wishes.orientations
        if wishes.orientation == .auto, isNew || isSet { onShape(isPortrait) }
        guard exchange(&stream.applied, with: margins) != margins else { return }
        crop.set("left", margins.left)
        crop.set("top", margins.top)
        crop.set("right", margins.right)
        crop.set("bottom", margins.bottom)
    }
}
