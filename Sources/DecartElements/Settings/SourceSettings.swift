// The settings of `decartsrc` itself. All others are those of `decarttransform`.
import DecartProtocol
import GStreamerKit
import MirrorElement

typealias CameraPosition = MirrorSettings.Position

struct SourceSettings: Sendable {
    var source = Self.automatic
    var device: String?
    var position = CameraPosition.front
    var devicePositions: [String] = []
    var mirror = MirrorSettings.Mode.off
    var orientation = TransformSettings.OrientationChoice.auto
    var captureCaps: Caps?
    /// Token of a session to watch; nothing is captured then.
    var subscribeToken: Secret?
    /// The text as the user wrote it; one that cannot be parsed crops nothing.
    var crop = ""
    var muteReleasesCamera = false
    var audioSource = Self.noAudio
    var whepToken: Secret?
    /// Video of a camera that answers offers is not decoded.
    var cameraEncoded = false

    static let automatic = "auto"
    static let test = "test"
    static let noAudio = "none"
    static let liveView = "live-view"
    static let whep = "whep:"
    /// The value of `audio-source` for the audio of a camera that answers offers.
    static let cameraAudio = "camera"

    /// The URL behind `whep:`; nil for another source.
    var whepURL: String? { source.hasPrefix(Self.whep) ? String(source.dropFirst(Self.whep.count)) : nil }

    static let signals = [
        SignalSpec(name: "list-devices", result: .array, isAction: true),
        SignalSpec(name: "list-formats", parameters: [.string], result: .array, isAction: true),
        SignalSpec(name: "switch-camera", result: .string, isAction: true),
        SignalSpec(name: "select-device", parameters: [.string], result: .boolean, isAction: true),
        SignalSpec(name: "select-format", parameters: [.structure], result: .boolean, isAction: true),
        SignalSpec(name: "start-capture", isAction: true),
        SignalSpec(name: "stop-capture", isAction: true),
        // Emitted on the camera's queue, for which NULL waits, as `request-api-key` on the session's.
        SignalSpec(name: "request-live-view", parameters: [.uint64, .string], result: .structure),
        SignalSpec(name: "request-live-view-extension", parameters: [.uint64, .string], result: .structure),
        SignalSpec(name: "live-view-ended", parameters: [.string]),
        SignalSpec(name: "answer-live-view", parameters: [.uint64, .structure], result: .boolean, isAction: true),
        SignalSpec(name: "add-live-view-candidate", parameters: [.string], result: .boolean, isAction: true),
        SignalSpec(name: "extend-live-view", result: .boolean, isAction: true),
    ]
}
