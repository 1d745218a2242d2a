// One running session of the element: the only place that creates its signalling channels and media transports, which
// must not know each other.
import DecartProtocol
import DecartSession
import GStreamerKit
import MediaPipeline
import Synchronization
import WebRTCTransport

extension SessionPlan {
    /// Changes the size of the sent frames, but not their orientation, if `auto` found another transport than expected.
    fileprivate func adapt(to settings: MediaSettings, _ host: MediaHost) {
        let now = size.current
        var format = settings.format
        if (now.height > now.width) != (format.height > format.width) { swap(&format.width, &format.height) }
        guard (format.width, format.height) != now else { return }
        size.set(width: format.width, height: format.height)
        host.input.resize(width: format.width, height: format.height)
    }
}

/// One running session of the element: made in READY to PAUSED, ended in PAUSED to READY.
// @unchecked: `media` is locked, the rest is constant.
final class ElementSession: @unchecked Sendable {
    let controller: SessionController
    private let queue: SessionQueue
    private let reporter: SessionReporter
    private let media: MediaSlot
    /// Numbers media paths across all sessions of the process: an element's next session may begin before the last one
    /// is torn down, and their paths must not be confused.
    private static let attempts = Atomic(0)

    /// Current media paths by attempt: two while one takes over from the other.
    private final class MediaSlot: Sendable {
        let all = Mutex<[Int: any ElementMedia]>([:])
        let wantsAudio = Atomic(false)
        let publishesVideo = Atomic(true)
        var newest: (any ElementMedia)? { all.withLock { all in all.max { $0.key < $1.key }?.value } }
    }

    init(
        plan: SessionPlan, host: MediaHost, requestKey: @escaping @Sendable () -> String?,
        onChange: @escaping @Sendable (SessionSnapshot, SessionReporter) -> Void,
        onReport: @escaping @Sendable (SessionReport, SessionReporter) -> Void
    ) {
        // The queue retains the element while work runs: an application may stop and release it in any callback.
        let queue = SessionQueue(label: "decart-session") { [element = host.element] in element.retained }
        self.queue = queue
        let reporter = SessionReporter(scheduler: queue, onChange: onChange, onReport: onReport)
        self.reporter = reporter
        let slot = MediaSlot()
        media = slot
        controller = SessionController(
            configuration: plan.configuration, scheduler: queue,
            makeChannel: { _, path, onEvent throws(SessionError) in
                try plan.makeChannel(path: path, applicationKey: requestKey(), onEvent: onEvent)
            },
            makeMedia: { _, start, onEvent in
                let attempt = Self.attempts.wrappingAdd(1, ordering: .relaxed).newValue
                let settings = plan.media(for: start.transport)
                plan.adapt(to: settings, host)
                let onMediaEvent = { @Sendable (event: MediaEvent) in
                    if event == .stopped { slot.all.withLock { $0[attempt] = nil } }
                    onEvent(event)
                }
                let path = MediaPath(
                    attempt: attempt, host: host, settings: settings, perform: { queue.async($0) },
                    onEvent: onMediaEvent)
                let transport: any ElementMedia =
                    switch start.transport {
                    case .webrtc: PeerMediaTransport(path: path, onEvent: onMediaEvent)
                    case .livekit: RoomMediaTransport(path: path, scheduler: queue, onEvent: onMediaEvent)
                    }
                if slot.wantsAudio.load(ordering: .acquiring) { transport.setAudio(true) }
                if !slot.publishesVideo.load(ordering: .acquiring) { transport.setVideoPublished(false) }
                slot.all.withLock { $0[attempt] = transport }
                return transport
            },
            onChange: { [weak reporter] in reporter?.changed($0) },
            onEvent: { [weak reporter] report in
                if case .transportDetected(let transport) = report {
                    TransportCache.shared.set(transport, of: plan.service)
                }
                reporter?.report(report)
            })
    }

    /// Applies to all media paths, including later ones. Any thread.
    func setAudio(_ isWanted: Bool) {
        media.wantsAudio.store(isWanted, ordering: .releasing)
        queue.async { [media] in
            // Read here so that the newest value counts, whichever call reaches the queue first.
            let isWanted = media.wantsAudio.load(ordering: .acquiring)
            for path in media.all.withLock({ Array($0.values) }) { path.setAudio(isWanted) }
        }
    }

    /// Applies to all media paths, including later ones. Any thread.
    func setVideoPublished(_ isPublished: Bool) {
        media.publishesVideo.store(isPublished, ordering: .releasing)
        queue.async { [media] in
            // Read here so that the newest value counts, whichever call reaches the queue first.
            let isPublished = media.publishesVideo.load(ordering: .acquiring)
            for path in media.all.withLock({ Array($0.values) }) { path.setVideoPublished(isPublished) }
        }
    }

    var statistics: PeerConnectionStatistics? { media.newest?.statistics }

    /// True if the message comes from a media path, which then handles it itself.
    func claims(_ message: Message) -> Bool { media.all.withLock { Array($0.values) }.contains { $0.claims(message) } }

    var receivedSize: (width: Int, height: Int)? { media.newest?.receivedSize }

    /// State of our video track on the newest media path, and its SID in a room.
    var publication: (state: VideoTrackStats.Publication, sid: String?) {
        guard let path = media.newest else { return (.none, nil) }
        guard media.publishesVideo.load(ordering: .acquiring) else { return (.withdrawn, nil) }
        return path.isPublished ? (.published, path.trackSID) : (.publishing, nil)
    }

    /// RIDs of the simulcast layers that are sent now, highest resolution first.
    var sentLayers: [String] { media.newest?.sentLayers ?? [] }

    /// Runs work on the session's queue, after the work that waits there.
    func async(_ work: @escaping @Sendable () -> Void) { queue.async(work) }

    func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) { queue.schedule(after: delay, work) }

    /// Ends the session and returns when its media paths have left the element; the control channel closes on its own.
    /// Drops all work that waits in the session's queue. Called on that queue, from an application's callback, it
    /// returns at once and nothing more is reported: the running work finishes first, then the session is torn down.
    func stop() {
        if queue.isCurrent { reporter.silence() }
        queue.end { [controller, reporter, media] in
            controller.end()
            reporter.flush()
            media.all.withLock { $0.removeAll() }
        }
    }
}
