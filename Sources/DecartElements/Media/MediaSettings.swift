import DecartProtocol
import MediaPipeline
import Signalling
import WebRTCTransport

/// Settings of the media of one session, for one of the two transports.
struct MediaSettings: Sendable {
    var video: VideoSendSettings
    var connection = PeerConnectionConfiguration()
    /// Size of the sent frames for this transport; `video.size` adapts to it, and to the input's orientation.
    var format: VideoFormat
    var followsReceived: Bool
    /// True for a viewer, which sends nothing.
    var isViewer = false
    var label = TrackLabel()
    /// Set in rooms only.
    var room: RoomAccess?
}

/// Settings for joining a room, besides the URL and the token that the service sends.
struct RoomAccess: Sendable {
    var trust: TLSTrust
    var allowsInsecure: Bool
    var openTimeout: Duration
    /// Uses one peer connection for both directions if the server supports it.
    var prefersSingle: Bool
}
