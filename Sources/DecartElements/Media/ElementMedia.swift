import DecartSession
import GStreamerKit
import WebRTCTransport

/// Interface of a media path to the element.
protocol ElementMedia: MediaTransport {
    var statistics: PeerConnectionStatistics? { get }
    /// True if the message comes from the media path, which then handles it itself.
    func claims(_ message: Message) -> Bool
    /// Size of the decoded frames before scaling.
    var receivedSize: (width: Int, height: Int)? { get }
    /// True while our video track goes to the remote peer.
    var isPublished: Bool { get }
    /// RIDs of the simulcast layers that are sent now, highest resolution first; empty: one stream.
    var sentLayers: [String] { get }
    /// SID of our video track in a room.
    var trackSID: String? { get }
    /// Turns audio on or off in both directions; the video never stops for it. Called on the session's queue, any
    /// number of times between start and stop; the value is kept if there is no connection yet.
    func setAudio(_ isWanted: Bool)
    /// Publishes our video track or withdraws it, under the same rules as `setAudio`. The session and its output go on
    /// without the track.
    func setVideoPublished(_ isPublished: Bool)
}
