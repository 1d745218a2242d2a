import DecartSession
import GStreamerKit
import RTP
import WebRTCTransport

/// Interface of a media path to the element; most of it is the path's own.
protocol ElementMedia: MediaTransport {
    var path: MediaPath { get }
    /// Publishes our video track or withdraws it, and turns audio on or off in both directions; the session and the
    /// other media continue. Called on the session's queue, any number of times between start and stop; the value is
    /// kept if there is no connection yet.
    func publish(_ desired: DesiredMedia)
    /// Sends nothing of these kinds while the tracks stay negotiated; a room is informed. Under the same rules as
    /// `publish`.
    /// - Parameter endsServiceMute: lifts a mute that the service has requested.
    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool)
}

extension ElementMedia {
    /// Statistics of each peer connection; the first one sends, if any does.
    var connections: [ConnectionStatistics] {
        path.connections.map { ConnectionStatistics(name: $0.name, statistics: $0.connection.statistics()) }
    }

    var traffic: MediaTraffic { path.traffic }
    func requestKeyframe() { path.requestKeyframe() }
}
