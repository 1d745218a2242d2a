// The properties of `decartsrc` itself. All others are those of `decarttransform`.
import DecartProtocol
import GStreamerKit

extension SourceSettings: PropertyStorage {
    typealias Owner = DecartSource

    static let properties = PropertyTable<SourceSettings>([
        .string(
            "source", \.source, empty: automatic, nick: "Source",
            blurb:
                "auto (a camera), test (a pattern), live-view (signals), whep:URL, rtsp://…, or a bin with one raw video output",
            shown: { shown(source: $0) }
        ).playing { $0.applySource() },
        .optionalString(
            "device", \.device, nick: "Device",
            blurb: "Camera for source=auto: path, id or display name as in list-devices (unset = by position)"),
        .enumeration(
            "position", \.position, nick: "Position",
            blurb: "Side that the camera faces; cameras that do not report it count as front. Updated by switch-camera"
        ).playing { $0.applyPosition() },
        .strings(
            "device-positions", \.devicePositions, nick: "Device positions",
            blurb: "Sides of cameras that do not report them: <\"camera=front\", \"/dev/video2=back\">"),
        .enumeration(
            "mirror", \.mirror, nick: "Mirror",
            blurb: "When frames are mirrored before they are sent; auto: if the camera faces front"
        ).playing { $0.applyMirror() },
        .enumeration(
            "orientation", \.orientation, nick: "Orientation",
            blurb: "Portrait swaps width and height and crops; auto follows the camera as it is displayed"
        ).playing { $0.applyOrientation() },
        Property(
            PropertySpec(
                "capture-caps", nick: "Capture caps",
                blurb: "video/x-raw or image/jpeg caps for the camera (unset = the best match for the model)", .caps),
            get: { $0.captureCaps.map { GValueBox(caps: $0) } }, set: { $0.captureCaps = $1.caps }),
        .string(
            "crop", \.crop, nick: "Crop",
            blurb:
                "left,top,width,height in camera pixels, or a display aspect ratio such as 16:9 (empty = all that fits)"
        ).playing { $0.applyCrop() },
        .string(
            "audio-source", \.audioSource, empty: noAudio, nick: "Audio source",
            blurb:
                "none, auto (a microphone), camera (of live-view, whep: and rtsp:), or a bin with one output of raw audio or Opus"
        ),
        .secret(
            "whep-token", \.whepToken, nick: "WHEP token",
            blurb: "Bearer token for source=whep:, read when a live view begins"
        ).playing { _ in },
        .boolean(
            "camera-encoded", \.cameraEncoded, nick: "Camera encoded",
            blurb:
                "Send H.264 or VP8 of live-view and whep: as it comes, without decoder and encoder; needs the model's size"
        ),
        .secret(
            "subscribe-token", \.subscribeToken, nick: "Subscribe token",
            blurb: "Set: watch that session, capture nothing. Unset: the token for viewers of this one. Keep it secret",
            isReadable: true
        ).onChange { $0.applySubscribeToken() },
        .boolean(
            "mute-releases-camera", \.muteReleasesCamera, nick: "Mute releases camera",
            blurb: "Close the camera while mute-video or standby is set, and open it again afterwards"
        ).playing { $0.applyMute() },
        // The element answers it: the camera changes while it runs.
        Property(
            PropertySpec(
                "current-device", nick: "Current device",
                blurb: "Id of the camera that delivers frames (NULL = none or another source); notify on change",
                .string(default: nil), access: .readOnly)),
    ])
}
