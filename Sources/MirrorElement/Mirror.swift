// The element `mirror` shows a front camera's video the way a mirror would. It flips in display orientation: if a tag
// says that the frame is displayed rotated by 90 or 270 degrees, it swaps rows instead of columns. (A rotation that
// swaps the sides turns the one flip into the other, whether it is itself flipped or not; any other rotation leaves the
// flip as it is. So the tags need not be rewritten.)
package import GStreamerKit
import Synchronization

package final class Mirror: VideoFilterImplementation {
    // MARK: Class

    package static let elementClass = ElementClass(
        typeName: "GstDecartMirror", parent: .videoFilter, longName: "Video mirror",
        classification: "Filter/Effect/Video",
        summary:
            "Mirrors the video as it will be displayed, always or for front cameras; passes it on untouched otherwise",
        author: "The gst-decart authors",
        documentation: "file:///usr/share/doc/gstreamer1.0-decart/docs/PROPERTIES.md#mirror",
        pads: [
            PadTemplate(name: "sink", direction: .sink, presence: .always, caps: caps),
            PadTemplate(name: "src", direction: .source, presence: .always, caps: caps),
        ],
        properties: MirrorSettings.properties.specs, make: { Mirror($0) })

    /// System memory only: memory that cannot be mapped must fail to negotiate.
    static let caps = """
        video/x-raw, format=(string){ \(formats.joined(separator: ", ")) }, width=(int)[ 1, max ], height=(int)[ 1, max ], \
        framerate=(fraction)[ 0, max ]
        """

    package static let formats = [
        "I420", "YV12", "Y42B", "Y444", "NV12", "NV21", "NV16", "YUY2", "UYVY", "YVYU", "VYUY", "AYUV", "RGB", "BGR",
        "RGBx", "BGRx", "xRGB", "xBGR", "RGBA", "BGRA", "ARGB", "ABGR", "GRAY8", "GRAY16_LE", "GRAY16_BE",
        "I420_10LE", "I420_10BE", "I420_12LE", "I420_12BE", "I422_10LE", "I422_10BE", "I422_12LE", "I422_12BE",
        "Y444_10LE", "Y444_10BE", "Y444_12LE", "Y444_12BE", "Y444_16LE", "Y444_16BE",
        "P010_10LE", "P010_10BE", "P012_LE", "P012_BE", "P016_LE", "P016_BE",
    ]

    private static let log = DebugCategory("decartmirror", "Video mirror")

    // MARK: Settings and state

    private struct State {
        var settings = MirrorSettings()
        var orientation = TaggedOrientation()
        var size = (width: 0, height: 0)
        /// Flip of the frame in progress: a property may change between `changesFrames` and `transformed`.
        var flip = Flip.leftToRight
        /// A frame lacked bytes: there is one warning for the caps.
        var hasWarned = false

        var nextFlip: Flip? {
            guard settings.isActive else { return nil }
            return orientation.current.swapsSides ? .topToBottom : .leftToRight
        }
    }
    private let state = Mutex(State())
    private let handle: ElementHandle

    private init(_ handle: ElementHandle) {
        self.handle = handle
        handle.disableQoS()
    }

    // MARK: Properties

    package func setProperty(_ name: String, _ value: GValueBox) {
        let changed = state.withLock { state in
            let before = state.settings.isActive
            MirrorSettings.properties.set(name, value, in: &state.settings)
            return state.settings.isActive != before
        }
        if changed { handle.unowned.notify("active") }
    }

    package func property(_ name: String) -> GValueBox? {
        state.withLock { MirrorSettings.properties.value(name, in: $0.settings) }
    }

    // MARK: Virtual methods

    package func changeState(_ change: StateChange, chainUp: () -> StateChangeReturn) -> StateChangeReturn {
        let result = chainUp()
        if change == .pausedToReady { state.withLock { $0.orientation = TaggedOrientation() } }
        return result
    }

    package func negotiated(_ video: VideoInfo) {
        state.withLock { ($0.size, $0.hasWarned) = ((video.width, video.height), false) }
    }

    package func dropped(bytes: Int, needed: Int) {
        guard state.withLock({ !exchange(&$0.hasWarned, with: true) }) else { return }
        handle.unowned.postWarning(
            ElementProblem(
                .streamFormat,
                "A buffer has \(bytes) bytes, but its caps need \(needed): such frames are dropped. Pad the rows, or add a "
                    + "GstVideoMeta."))
    }

    package func changesFrames() -> Bool {
        state.withLock { state in
            guard let flip = state.nextFlip else { return false }
            state.flip = flip
            return true
        }
    }

    package func transform(_ source: VideoFrameRef, into target: VideoFrameRef) -> Bool {
        let done = FrameFlip.run(state.withLock(\.flip), source, into: target)
        if !done {
            Self.log(.warning, handle.unowned, "dropped a frame that has less memory than its size and strides say")
        }
        return done
    }

    package func transformed(_ buffer: BufferRef, size: (width: Int, height: Int)) {
        buffer.flipMetas(state.withLock(\.flip), size: size)
    }

    package func downstream(_ event: Event) {
        switch event.kind {
        case .streamStart, .tag: state.withLock { $0.orientation.update(event) }
        default: break
        }
    }

    package func upstream(_ event: Event) -> Event {
        let (flip, size) = state.withLock { ($0.nextFlip, $0.size) }
        return flip.map { event.beforeFlip($0, size: size) } ?? event
    }
}
