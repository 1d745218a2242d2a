// Properties of `decarttransform` as plain values; nothing is validated before the element starts.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import RTP
import Recovery
import Signalling
import WebRTCTransport

struct TransformSettings: Sendable {
    var service = Service()
    var network = Network()
    var encoding = Encoding()
    var session = Session()
    var content = Content()
    var sending = Sending()
    var model = DecartModel.defaultName
    var transport = TransportChoice.auto
    /// Token of another session to watch; nil: the element runs a session of its own.
    var subscribeToken: Secret?
    var resolution = Resolution.standard
    var speed = Speed.standard
    var width = 0
    var height = 0
    var framerate = 0
    var orientation = OrientationChoice.auto
    var fit = Fit.crop
    /// ms; -1: it adapts.
    var latency = -1
    /// ns; nil: it adapts.
    var playoutLatency: ClockTime? { latency < 0 ? nil : ClockTime(latency) &* 1_000_000 }
    var timestamps = Timestamps.arrival
    var outputSize = OutputSize.model
    /// Zero: the service's frames have the keyframes that they have.
    var keyframeInterval: Duration = .seconds(2)
    var fallback = Fallback.freeze
    /// Pipeline description; nil: no processor. Checked only when the processor is built.
    var processor: String?

    /// URL of the service, trust in its certificates, credentials and query items.
    struct Service: Sendable {
        /// nil: the environment's, else the service's.
        var ownBaseURL: String?
        var insecure = false
        var caFile: String?
        var apiKey: Secret?
        var apiKeyFile: String?
        var apiKeyURL: String?
        /// Header names and values; the values may be secrets.
        var apiKeyHeaders: [(name: String, value: Secret)] = []
        /// Further query items of the service's URL; the values may be secrets.
        var queryItems: Secret?

        /// Trust for rooms and TURN servers, which may have certificates of any authority: the system's authorities and
        /// `ca-file`.
        var serverTrust: TLSTrust { caFile.map { .systemAnd(file: $0) } ?? .system }

        var baseURL: String { ownBaseURL ?? Environment.value("DECART_BASE_URL") ?? ServiceURL.defaultBase }
    }

    struct Network: Sendable {
        var stunServer = Self.defaultSTUNServer
        var turnServers: [String] = []
        var icePolicy = ICEPolicy.all
        /// `FIRST-LAST`; nil: any port.
        var rtpPortRange: String?
        /// An address or the name of an interface; nil: all.
        var localAddress: String?
        /// May contain a password.
        var httpProxy: String?

        var stunServerIsDefault: Bool { stunServer == Self.defaultSTUNServer }

        static let defaultSTUNServer = "stun://stun.l.google.com:19302"
    }

    struct Encoding: Sendable {
        /// bit/s.
        var minBitrate = 100_000
        /// bit/s; 0: the transport's default.
        var maxBitrate = 0
        var congestionControl = CongestionControl.auto
        var degradation = Degradation.balanced
        var codec = Codec.auto
        var encoder = ""
        var simulcast = false
    }

    /// When the session begins, how long it waits, and when it ends.
    struct Session: Sendable {
        var autoConnect = true
        var connectionTimeout = RecoveryPlan.Session.connectionTimeout
        /// Zero: never.
        var mediaTimeout = RecoveryPlan.Session.mediaTimeout
        /// -1 = unlimited.
        var maxRetries = 5
        var maxRetryDelay = RecoveryPlan.Session.longestRetryDelay
        /// Zero: never.
        var renewBefore: Duration = .seconds(10)
        /// Seconds; -1 = for ever.
        var limitWait = -1
        /// Zero: no limit.
        var maxSessionDuration: Duration = .zero

        var maximumDuration: Duration? { maxSessionDuration > .zero ? maxSessionDuration : nil }

        var longestLimitWait: Duration? { limitWait < 0 ? nil : .seconds(limitWait) }

        var retryPolicy: RetryPolicy {
            RetryPolicy(maximumRetries: maxRetries < 0 ? nil : maxRetries, maximumDelay: maxRetryDelay)
        }
    }

    /// The prompt and the image that the service gets.
    struct Content: Sendable {
        var prompt = ""
        var enrich = false
        var passthrough = false
        var referenceImage: ReferenceImageSource?

        var referenceImageText: String? {
            get { if case .text(let text) = referenceImage { text } else { nil } }
            set { referenceImage = newValue.map { .text($0) } }
        }
    }

    /// The kinds of media that are sent, and whether they are muted.
    struct Sending: Sendable {
        var muteVideo = false
        var standby = false
        var muteAudio = false
        var audioDTX = false
        var publishAudio = true
        var track = Track.camera
        var publishVideo = true

        /// Frames of the input leave: not black ones, and not none.
        var takesVideo: Bool { publishVideo && !muteVideo && !standby }

        /// Kinds of media of which nothing is sent.
        func silentKinds(isEncoded: Bool) -> Set<MediaKind> {
            if standby { return Set(MediaKind.allCases) }
            return muteVideo && isEncoded ? [.video] : []
        }
    }
}

/// The reference image as the application set it: by the property (a path, read again at each start, a `data:` URL or the
/// ID of an uploaded file) or by `set-image`.
enum ReferenceImageSource: Sendable {
    case text(String)
    case memory([UInt8])

    /// Reads and checks the image.
    func image() throws(ProtocolError) -> SessionImage {
        switch self {
        case .text(let text): try SessionImage(text)
        case .memory(let bytes): .image(try ReferenceImage(bytes: bytes))
        }
    }
}

// MARK: Choices

extension TransformSettings {
    enum CongestionControl: String, PropertyEnumeration {
        case auto, off

        static let typeName = "GstDecartCongestionControl"
        var blurb: String {
            switch self {
            case .auto: "The bitrate follows what the network carries"
            case .off: "The bitrate stays at its maximum"
            }
        }
    }

    /// The values of webrtc's `degradationPreference`.
    enum Degradation: String, PropertyEnumeration {
        case balanced
        case maintainFramerate = "maintain-framerate"
        case maintainResolution = "maintain-resolution"

        static let typeName = "GstDecartDegradationPreference"
        var blurb: String {
            switch self {
            case .balanced: "Size and frame rate together, as keeps the best picture"
            case .maintainFramerate: "The size"
            case .maintainResolution: "The frame rate"
            }
        }

        var preference: DegradationPreference {
            switch self {
            case .balanced: .balanced
            case .maintainFramerate: .maintainFramerate
            case .maintainResolution: .maintainResolution
            }
        }
    }

    enum OutputSize: String, PropertyEnumeration {
        case model, received

        static let typeName = "GstDecartOutputSize"
        var blurb: String {
            switch self {
            case .model: "Constant: the size of model and resolution, or the size that downstream caps fix"
            case .received: "The size that the service sends; caps follow it"
            }
        }
    }

    enum Track: String, PropertyEnumeration {
        case camera
        case screenShare = "screen-share"

        static let typeName = "GstDecartTrack"
        var blurb: String {
            switch self {
            case .camera: "camera, the video of a camera"
            case .screenShare: "screen_share, the video of a screen"
            }
        }
    }

    enum Codec: String, PropertyEnumeration {
        case auto, vp8, h264, vp9

        static let typeName = "GstDecartCodec"
        var blurb: String {
            switch self {
            case .auto: "The service's default: VP8, in a room H.264"
            case .vp8: "VP8"
            case .h264: "H.264 constrained baseline"
            case .vp9: "VP9 profile 0"
            }
        }
    }

    enum Resolution: String, PropertyEnumeration {
        case standard = "default"
        case hd = "720p"
        case fullHD = "1080p"

        static let typeName = "GstDecartResolution"
        var blurb: String {
            switch self {
            case .standard: "The model's"
            case .hd: "1280x720"
            case .fullHD: "1080 pixels on the shorter side"
            }
        }
    }

    enum Speed: String, PropertyEnumeration {
        case standard, fast

        static let typeName = "GstDecartSpeed"
        var blurb: String {
            switch self {
            case .standard: "The model's"
            case .fast: "Lower latency at twice the price, in the US only; the same quality"
            }
        }
    }

    enum Timestamps: String, PropertyEnumeration {
        case arrival, capture

        static let typeName = "GstDecartTimestamps"
        var blurb: String {
            switch self {
            case .arrival: "Arrival time of the frame"
            case .capture:
                "Running time of the input frame, measured by trailers of the frames in a room, else by a 192x32 marker"
            }
        }
    }

    enum ICEPolicy: String, PropertyEnumeration {
        case all, relay

        static let typeName = "GstDecartICETransportPolicy"
        var blurb: String {
            switch self {
            case .all: "Any candidate pair"
            case .relay: "Only relayed candidates (TURN)"
            }
        }
    }

    enum OrientationChoice: String, PropertyEnumeration {
        case auto, landscape, portrait

        static let typeName = "GstDecartOrientation"
        var blurb: String {
            switch self {
            case .auto: "As the input is displayed"
            case .landscape: "Wider than high"
            case .portrait: "Higher than wide"
            }
        }
    }
}

extension TransportChoice: PropertyEnumeration {
    package static let typeName = "GstDecartTransport"

    package var blurb: String {
        switch self {
        case .auto: "The transport that the service uses"
        case .livekit: "A LiveKit room (the live service)"
        case .webrtc: "A direct peer connection, negotiated over the control channel"
        }
    }
}
