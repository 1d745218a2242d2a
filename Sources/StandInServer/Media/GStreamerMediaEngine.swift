import DecartProtocol

/// Media that are really received, decoded, painted, encoded and sent back.
struct GStreamerMediaEngine: MediaEngine {
    /// Bitrate of the transformed video, bit/s.
    let bitrate: Int
    let latency: Duration

    func makeSession(
        offer: String, painter: FramePainter, faults: FaultPlan, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession {
        if let deed = faults.bareDeed {
            let session = BareMediaSession(deed: deed, painter: painter, onEvent: onEvent)
            session.start(offer: offer)
            return session
        }
        let session = GStreamerMediaSession(
            bitrate: bitrate, latency: latency, painter: painter, faults: MediaFaults(faults), onEvent: onEvent)
        session.start(offer: offer)
        return session
    }

    func makeViewer(
        offer: String, of viewers: Viewers, onEvent: @escaping @Sendable (MediaEvent) -> Void
    ) -> any MediaSession {
        let media = ViewerMedia(bitrate: bitrate, viewers: viewers) { event in
            switch event {
            case .answered(let sdp): onEvent(.answered(sdp: sdp))
            case .localCandidate(let candidate): onEvent(.localCandidate(candidate))
            case .failed(let words): onEvent(.failed(words))
            case .offered, .connected: break
            }
        }
        media.start(answering: offer)
        return media
    }

    func makeRoomViewer(
        of viewers: Viewers, msid: String, onEvent: @escaping @Sendable (RoomMediaEvent) -> Void
    ) -> any RoomMedia {
        let media = ViewerMedia(bitrate: bitrate, viewers: viewers, msid: msid) { event in
            switch event {
            case .offered(let sdp): onEvent(.offered(sdp: sdp))
            case .localCandidate(let candidate): onEvent(.localCandidate(candidate, .subscriber))
            case .connected: onEvent(.connected(.subscriber))
            case .failed(let words): onEvent(.failed(words))
            case .answered: break
            }
        }
        media.start()
        return media
    }

    func makeRoom(
        painter: FramePainter, faults: FaultPlan, msid: String, audioMSID: String, isSingle: Bool,
        onEvent: @escaping @Sendable (RoomMediaEvent) -> Void
    ) -> any RoomMedia {
        let media = GStreamerRoomMedia(
            bitrate: bitrate, latency: latency, painter: painter, faults: MediaFaults(faults), msid: msid,
            audioMSID: audioMSID, isSingle: isSingle, onEvent: onEvent)
        media.start()
        return media
    }
}

extension FaultPlan {
    /// The fault that needs access below the transport, if there is one.
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
