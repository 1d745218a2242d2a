import DecartProtocol
package import ICE
import WebRTCTransport

package struct MediaOptions: Sendable {
    /// Bitrate of the transformed video, bit/s.
    package var bitrate = 2_500_000
    /// Ports of media, and whether passive TCP candidates are offered.
    package var network = ICENetwork()
    /// Encoded frames (H.264 and VP8) go back as they came; nothing is decoded, and no look applies.
    package var echoesEncoded = false
    /// Simulated inference time of a frame.
    package var delay = Duration.zero

    package init() {}
}

/// Media that are really received, decoded, painted, encoded and sent back.
struct GStreamerMediaEngine: MediaEngine {
    let options: MediaOptions

    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession {
        if let deed = faults.bareDeed {
            let session = BareMediaSession(deed: deed, network: options.network, painter: painter, onEvent: onEvent)
            session.start(offer: offer)
            return session
        }
        let media = GStreamerMedia(
            options: options, painter: painter, faults: MediaFaults(faults), room: nil, onEvent: onEvent)
        media.start()
        media.receive(offer: offer)
        return media
    }

    func makeViewer(
        offer: String, of viewers: Viewers, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any MediaSession {
        let media = ViewerMedia(options: options, viewers: viewers, onEvent: onEvent)
        media.start(answering: offer)
        return media
    }

    func makeRoomViewer(
        of viewers: Viewers, msid: String, audioMSID: String, takesTrailers: Bool,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia {
        let media = ViewerMedia(
            options: options, viewers: viewers, msid: msid, audioMSID: audioMSID, takesTrailers: takesTrailers,
            onEvent: onEvent)
        media.start()
        return media
    }

    func makeRoom(
        painter: FramePainter, codec: VideoCodec?, faults: FaultPlan, msid: String, audioMSID: String, isSingle: Bool,
        takesTrailers: Bool, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any RoomMedia {
        let media = GStreamerMedia(
            options: options, painter: painter, faults: MediaFaults(faults),
            room: .init(
                codec: codec, msid: msid, audioMSID: audioMSID, isSingle: isSingle, takesTrailers: takesTrailers),
            onEvent: onEvent)
        media.start()
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
