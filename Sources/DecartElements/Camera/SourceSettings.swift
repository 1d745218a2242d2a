// The settings of `decartsrc` itself and the properties that expose them. All other properties are those of
// `decarttransform`.
import DecartProtocol
import GStreamerKit

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

    var audioSource = Self.noSound

    static let automatic = "auto"
    static let test = "test"
    static let noSound = "none"

    mutating func set(_ name: String, _ value: GValueBox) {
        switch name {
        case "source": source = value.string.flatMap { $0.isEmpty ? nil : $0 } ?? Self.automatic
        case "device": device = value.string.flatMap { $0.isEmpty ? nil : $0 }
        case "position": position = value.int.flatMap(CameraPosition.init) ?? position
        case "device-positions": devicePositions = value.strings ?? []
        case "mirror": mirror = value.int.flatMap(MirrorSettings.Mode.init) ?? mirror
        case "orientation": orientation = value.int.flatMap(TransformSettings.OrientationChoice.init) ?? orientation
        case "capture-caps": captureCaps = value.caps
        case "crop": crop = value.string ?? ""
        case "audio-source": audioSource = value.string.flatMap { $0.isEmpty ? nil : $0 } ?? Self.noSound
        case "subscribe-token": subscribeToken = value.string.flatMap { $0.isEmpty ? nil : Secret($0) }
        case "mute-releases-camera": muteReleasesCamera = value.bool ?? false
        default: break
        }
    }

    func value(_ name: String) -> GValueBox? {
        switch name {
        case "source": GValueBox(source)
        case "device": GValueBox(device)
        case "position": GValueBox(enumeration: MirrorSettings.positionType, position.rawValue)
        case "device-positions": GValueBox(strings: devicePositions)
        case "mirror": GValueBox(enumeration: MirrorSettings.modeType, mirror.rawValue)
        case "orientation": GValueBox(enumeration: "GstDecartOrientation", orientation.rawValue)
        case "capture-caps": captureCaps.map { GValueBox(caps: $0) }
        case "crop": GValueBox(crop)
        case "audio-source": GValueBox(audioSource)
        case "subscribe-token": subscribeToken.map { GValueBox($0.reveal()) }
        case "mute-releases-camera": GValueBox(muteReleasesCamera)
        default: nil
        }
    }

    static let specs: [PropertySpec] = [
        PropertySpec(
            "source", nick: "Source",
            blurb:
                "Where pictures come from: auto (a camera, see device and position), test (a test picture), or a gst-launch description with one output of raw video, whose errors end the element",
            .string(default: automatic)),
        PropertySpec(
            "device", nick: "Device",
            blurb:
                "Camera to use, for source=auto: a path, an id or a display name, as list-devices tells them (unset = the first that looks to position)",
            .string(default: nil)),
        PropertySpec(
            "position", nick: "Position",
            blurb:
                "Which way the camera is to look; one of which nobody says it counts as front, unspecified takes any. Set while playing, it switches; switch-camera sets it",
            MirrorSettings.positionKind(default: .front), mutability: .playing),
        PropertySpec(
            "device-positions", nick: "Device positions",
            blurb:
                "Which way cameras look, where they do not say it themselves: <\"camera=front\", \"/dev/video2=back\">, by path, id or display name",
            .strings),
        PropertySpec(
            "mirror", nick: "Mirror",
            blurb:
                "When the picture is mirrored before it is sent, as displayed; auto: for a camera that looks to the front",
            MirrorSettings.modeKind, mutability: .playing),
        PropertySpec(
            "orientation", nick: "Orientation",
            blurb:
                "Shape of the picture sent and returned: portrait swaps width and height and crops, auto is as the camera's picture is displayed. Pictures are turned by image-orientation tags only",
            .enumeration(
                type: "GstDecartOrientation", values: TransformProperties.orientations,
                default: TransformSettings.OrientationChoice.auto.rawValue), mutability: .playing),
        PropertySpec(
            "capture-caps", nick: "Capture caps",
            blurb:
                "What the camera is to deliver, video/x-raw or image/jpeg (unset = its smallest format that covers the model's size at the model's frame rate, else its largest, else its fastest)",
            .caps),
        PropertySpec(
            "crop", nick: "Crop",
            blurb:
                "Part of the camera's picture to use: left,top,width,height in its own pixels, before turning and mirroring, or an aspect ratio of what is displayed such as 16:9 (empty = all that fits the model's shape)",
            .string(default: ""), mutability: .playing),
        PropertySpec(
            "audio-source", nick: "Audio source",
            blurb:
                "Where sound comes from: none, auto (the default microphone), or a gst-launch description with one output of raw audio, whose errors end the element. What comes back leaves at audio_src",
            .string(default: noSound)),
        PropertySpec(
            "subscribe-token", nick: "Subscribe token",
            blurb:
                "Of a running session, to watch it in place of having one: no camera is opened, nothing is captured or sent, preview stays empty, and the properties of source, camera, encoder and prompt are ignored. Unset, it reads as the token of the own session, for viewers (NULL before the service says it). Keep it like a key; notify is not emitted for it",
            .privateString),
        PropertySpec(
            "mute-releases-camera", nick: "Mute releases camera",
            blurb:
                "Close the camera, or other source, while mute-video is set, so that its light goes out, and open it again afterwards; black goes out meanwhile, and session and output stay. A camera that cannot be opened again is a lost one: a warning, and the next",
            .boolean(default: false), mutability: .playing),
        PropertySpec(
            "current-device", nick: "Current device",
            blurb:
                "Id of the camera that delivers (NULL when none does, or with another source); notify is emitted on change",
            .string(default: nil), access: .readOnly),
    ]

    static let signals = [
        SignalSpec(name: "list-devices", result: .array, isAction: true),
        SignalSpec(name: "list-formats", parameters: [.string], result: .array, isAction: true),
        SignalSpec(name: "switch-camera", result: .string, isAction: true),
        SignalSpec(name: "select-device", parameters: [.string], result: .boolean, isAction: true),
        SignalSpec(name: "select-format", parameters: [.structure], result: .boolean, isAction: true),
        SignalSpec(name: "start-capture", isAction: true),
        SignalSpec(name: "stop-capture", isAction: true),
    ]
}
