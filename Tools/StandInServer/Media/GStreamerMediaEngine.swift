import DecartProtocol
package import ICE
import WebRTCTransport

package struct MediaOptions: Sendable {
    /// Bitrate of the transformed video, bit/s.
    package var bitrate = 2_500_000
    /// The bitrate follows the network.
    package var adaptsBitrate = true
    /// Ports of media, and whether passive TCP candidates are offered.
    package var network = ICENetwork()
    /// Encoded frames (H.264, VP8 and VP9) go back as they came; nothing is decoded, and no look applies.
    package var echoesEncoded = false
    /// Simulated inference time of a frame.
    package var delay = Duration.zero

    package init() {}
}

/// Media that are really received, decoded, painted, encoded and sent back.
struct GStreamerMediaEngine: MediaEngine {
    let options: MediaOptions

    func makeMedia(
        painter: FramePainter, faults: FaultPlan, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        if room == nil, let deed = faults.bareDeed {
            return BareMediaSession(deed: deed, network: options.network, painter: painter, onEvent: onEvent)
        }
        let media = GStreamerMedia(
            options: options, painter: painter, faults: MediaFaults(faults), room: room, onEvent: onEvent)
        media.start()
        return media
    }

    func makeViewer(
        of viewers: Viewers, room: RoomTracks?, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        let media = ViewerMedia(options: options, viewers: viewers, room: room, onEvent: onEvent)
        if room != nil { media.start() }
        return media
    }
}

extension FaultPlan {
    fileprivate var bareDeed: BareMediaSession.Deed? {
        first { fault in
            switch fault.kind {
            case .dtls(let handshake): .dtls(handshake)
            case .media(.replay): .replay(min(max(fault.n ?? 3, 2), 100))
            default: nil
            }
        }
    }
}
