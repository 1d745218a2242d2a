// Properties of `decarttransform` as plain values; nothing is validated before the element starts.
import DecartProtocol
import GStreamerKit

struct TransformSettings: Sendable {
    enum Fit: Int, Sendable, CaseIterable { case crop, letterbox, stretch }
    enum OutputSize: Int, Sendable, CaseIterable { case model, received }
    enum Codec: Int, Sendable, CaseIterable { case auto, vp8, h264, vp9 }
    enum Transport: Int, Sendable, CaseIterable { case auto, livekit, webrtc }
    enum Resolution: Int, Sendable, CaseIterable { case standard, hd, fullHD }
    enum Speed: Int, Sendable, CaseIterable { case standard, fast }
    enum Timestamps: Int, Sendable, CaseIterable { case arrival, capture }
    enum ICEPolicy: Int, Sendable, CaseIterable { case all, relay }
    enum TrackSource: Int, Sendable, CaseIterable { case camera, screen }
    enum OrientationChoice: Int, Sendable, CaseIterable { case auto, landscape, portrait }

    var baseURL = ServiceURL.defaultBase
    var insecure = false
    var caFile: String?
    var apiKey: Secret?
    var apiKeyFile: String?
    var apiKeyURL: String?
    /// Header names and values; the values may be secrets.
    var apiKeyHeaders: [(name: String, value: Secret)] = []
    var model = DecartModel.defaultName
    var transport = Transport.auto
    /// Token of another session to watch; nil: the element runs a session of its own.
    var watchedToken: Secret?
    var resolution = Resolution.standard
    var speed = Speed.standard
    var width = 0
    var height = 0
    var framerate = 0
    var orientation = OrientationChoice.auto
    var fit = Fit.crop
    var prompt = ""
    var enrich = false
    var referenceImage: String?
    var stunServer = Self.defaultSTUNServer
    var stunServerIsDefault = true
    var turnServers: [String] = []
    var icePolicy = ICEPolicy.all
    var singleConnection = false
    var connectionTimeout = 15
    var minBitrate = 300_000
    /// bit/s, as `minBitrate`; 0: the transport's default.
    var maxBitrate = 0
    var maxFramerate = 0
    var codec = Codec.auto
    var encoder = ""
    var simulcast = false
    var latency = 100
    var timestamps = Timestamps.arrival
    /// ms.
    var minLatency = 500
    var outputSize = OutputSize.model
    var fallback = Fallback.freeze
    /// nil: derived from `trackSource`.
    var trackName: String?
    var trackSource = TrackSource.camera
    var muteVideo = false
    var muteAudio = false
    var publishAudio = true
    var publishVideo = true
    /// Pipeline description; nil: no processor. Checked only when the processor is built.
    var processor: String?
    /// ms; 0 = never.
    var statisticsInterval = 0
    var autoConnect = true
    /// -1 = unlimited.
    var maxRetries = 5
    var retryDelayMax = 10
    /// s; 0 = no limit.
    var maxSessionDuration = 0

    static let defaultSTUNServer = "stun://stun.l.google.com:19302"
}
