import DecartProtocol

/// Media that are really received, decoded, painted, encoded and sent back.
struct GStreamerMediaEngine: MediaEngine {
    /// Of the video that goes back, bit/s.
    let bitrate: Int

    func makeSession(
        offer: String, painter: FramePainter, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession {
        let session = GStreamerMediaSession(bitrate: bitrate, painter: painter, onEvent: onEvent)
        session.start(offer: offer)
        return session
    }
}
