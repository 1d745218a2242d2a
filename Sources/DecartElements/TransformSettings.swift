// What the user set on `decarttransform`. Plain values: nothing is checked against the world before the element starts.
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
    /// Names and values; they may hold secrets.
    var apiKeyHeaders: [(name: String, value: Secret)] = []
    var model = DecartModel.defaultName
    var transport = Transport.auto
    /// Of a session to watch, in place of one of our own.
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
    /// 0: the transport's own.
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
    /// nil: by the source.
    var trackName: String?
    var trackSource = TrackSource.camera
    var muteVideo = false
    var muteAudio = false
    var publishAudio = true
    var publishVideo = true
    /// nil: none. Not checked before it is made.
    var processor: String?
    /// ms; 0 = never.
    var statisticsInterval = 0
    var autoConnect = true
    /// -1 = for ever.
    var maxRetries = 5
    var retryDelayMax = 10
    /// s; 0 = no limit.
    var maxSessionDuration = 0

    static let defaultSTUNServer = "stun://stun.l.google.com:19302"
}
