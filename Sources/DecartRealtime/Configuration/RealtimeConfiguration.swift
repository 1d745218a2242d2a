public import Foundation

/// A prompt: the change that the service makes to the video.
public struct DecartPrompt: Sendable, Equatable {
    /// At most 64 KiB.
    public let text: String
    /// A still JPEG, PNG, WebP or TIFF of at most 10 MiB; nil leaves the image as it is.
    public let referenceImageData: Data?
    /// The service elaborates the text.
    public let enrich: Bool

    /// Checks nothing: `connect` and `setPrompt` refuse what the service would.
    public init(text: String, referenceImageData: Data? = nil, enrich: Bool = false) {
        (self.text, self.referenceImageData, self.enrich) = (text, referenceImageData, enrich)
    }
}

/// The options of a manager.
public struct RealtimeConfiguration: Sendable {
    /// The model that transforms the video.
    public let model: ModelDefinition
    /// Sent before the first frame; nil: frames return untransformed until `setPrompt`.
    public let initialPrompt: DecartPrompt?
    /// How the session is connected.
    public let connection: ConnectionConfig
    /// Settings of the media that the session sends.
    public let media: MediaConfig

    /// Only the model has no default.
    public init(
        model: ModelDefinition, initialPrompt: DecartPrompt? = nil, connection: ConnectionConfig = .init(),
        media: MediaConfig = .init()
    ) {
        (self.model, self.initialPrompt, self.connection, self.media) = (model, initialPrompt, connection, media)
    }

    /// The options of the connection.
    public struct ConnectionConfig: Sendable {
        /// `stun:host:port`; `turn:` and `turns:` with user and password: `turn://user:password@host:port`.
        public var iceServers: [String]
        /// Seconds for the control channel, and again for the media; 1 to 600.
        public var connectionTimeout: TimeInterval
        /// The way of the media.
        public var rtcConfiguration: RTCConfiguration

        /// The timeout is in seconds.
        public init(
            iceServers: [String] = ["stun:stun.l.google.com:19302"], connectionTimeout: TimeInterval = 15,
            rtcConfiguration: RTCConfiguration = .init()
        ) {
            (self.iceServers, self.connectionTimeout) = (iceServers, connectionTimeout)
            self.rtcConfiguration = rtcConfiguration
        }
    }

    /// The part of libwebrtc's configuration that has a meaning here.
    public struct RTCConfiguration: Sendable {
        /// The candidate pairs that may be used.
        public enum ICETransportPolicy: String, Sendable { case all, relay }
        /// The kinds of media connections.
        public enum Transport: String, Sendable { case auto, livekit, webrtc }
        /// `relay`: media passes through TURN servers only.
        public var iceTransportPolicy: ICETransportPolicy
        /// A LiveKit room, a direct peer connection, or what the service uses.
        public var transport: Transport

        /// The defaults are those of the element.
        public init(iceTransportPolicy: ICETransportPolicy = .all, transport: Transport = .auto) {
            (self.iceTransportPolicy, self.transport) = (iceTransportPolicy, transport)
        }
    }

    /// The options of the media.
    public struct MediaConfig: Sendable {
        /// The video that is sent.
        public var video: VideoConfig
        /// Only video has settings.
        public init(video: VideoConfig = .init()) { self.video = video }
    }

    /// The options of the video that is sent.
    public struct VideoConfig: Sendable {
        /// bit/s
        public var maxBitrate: Int
        /// bit/s
        public var minBitrate: Int
        /// Frames per second to send and to return; at most the model's.
        public var maxFramerate: Int
        /// `VP8`, `H264`, `VP9`, or `auto`: what the transport prefers.
        public var preferredCodec: String

        /// Bitrates in bit/s, the frame rate in frames a second.
        public init(
            maxBitrate: Int = 2_500_000, minBitrate: Int = 300_000, maxFramerate: Int = 26,
            preferredCodec: String = "VP8"
        ) {
            (self.maxBitrate, self.minBitrate) = (maxBitrate, minBitrate)
            (self.maxFramerate, self.preferredCodec) = (maxFramerate, preferredCodec)
        }
    }
}
