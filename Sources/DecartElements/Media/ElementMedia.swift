import DecartSession
import GStreamerKit
import WebRTCTransport

/// Statistics of one of a media path's peer connections.
struct ConnectionStatistics: Sendable {
    /// `direct`; in a room `publisher` and `subscriber`, or `room` for a single connection.
    var name: String
    var statistics: PeerConnectionStatistics
}

/// Encoder and decoder of a media path.
struct CodecStatistics: Sendable {
    var codec: VideoCodec?
    /// Element factories.
    var encoder: String?
    var decoder: String?
    var encoding = CodingTime()
    var decoding = CodingTime()
    /// Fraction of the frames that the CPU carries.
    var cpuShare = 1.0

    var isLimitedByCPU: Bool { cpuShare < 1 }
}

/// Interface of a media path to the element; most of it is the path's own.
protocol ElementMedia: MediaTransport {
    var path: MediaPath { get }
    /// Statistics of each peer connection; the first one sends, if any does.
    var connections: [ConnectionStatistics] { get }
    /// SID of our video track in a room.
    var trackSID: String? { get }
    /// Turns audio on or off in both directions; the video never stops for it. Called on the session's queue, any
    /// number of times between start and stop; the value is kept if there is no connection yet.
    func setAudio(_ isWanted: Bool)
    /// Publishes our video track or withdraws it, under the same rules as `setAudio`. The session and its output go on
    /// without the track.
    func setVideoPublished(_ isPublished: Bool)
    /// Sends nothing of these kinds while the tracks stay negotiated; a room is informed. Under the same rules as
    /// `setAudio`.
    /// - Parameter endsServiceMute: lifts a mute that the service has requested.
    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool)
}

extension ElementMedia {
    var traffic: MediaTraffic { path.traffic }
}
