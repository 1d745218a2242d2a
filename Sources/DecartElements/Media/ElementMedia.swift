import DecartSession
import GStreamerKit
import WebRTCTransport

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
    /// Publishes our video track or withdraws it, under the same rules as `setAudio`. The session and its output
    /// continue without the track.
    func setVideoPublished(_ isPublished: Bool)
    /// Sends nothing of these kinds while the tracks stay negotiated; a room is informed. Under the same rules as
    /// `setAudio`.
    /// - Parameter endsServiceMute: lifts a mute that the service has requested.
    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool)
}

extension ElementMedia {
    var traffic: MediaTraffic { path.traffic }
    func requestKeyframe() { path.requestKeyframe() }
}
