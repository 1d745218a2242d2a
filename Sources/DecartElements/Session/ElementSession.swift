// The only place that creates signalling channels and media transports, which must not know each other.
import DecartProtocol
import DecartSession
import GStreamerKit
import ICE
import MediaPipeline
import RTP
import Signalling
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
        host.input.configure(width: format.width, height: format.height, fit: nil)
    }
}

/// One running session of the element: made in READY to PAUSED, ended in PAUSED to READY.
// @unchecked: `media` is locked, the rest is constant.
final class ElementSession: @unchecked Sendable {
    let controller: SessionController
    private let queue: SessionQueue
    private let reporter: SessionReporter
    private let media: MediaSlot
    private let plan: SessionPlan
    private let addresses: AddressMonitor.Observation
    /// Numbers media paths across all sessions of the process: an element's next session may begin before the last one
    /// is torn down, and their paths must not be confused.
    private static let pathCount = Atomic(0)

    private struct Media: Sendable {
        /// Current media paths: two while one takes over from the other.
        var all: [PathID: any ElementMedia] = [:]
        var desired = DesiredMedia()
        var muted: Set<MediaKind> = []
        /// Changed limits, by transport.
        var limits: [MediaTransportKind: VideoLimits] = [:]

        var newest: MediaPath? { all.max { $0.key < $1.key }?.value.path }
    }

    private final class MediaSlot: Sendable {
        let state = Mutex(Media())
        /// All of one moment.
        var now: Media { state.withLock(\.self) }
        let sendsSmallPackets = Atomic(false)
        let hasDialled = Atomic(false)
        let hasJoinedRoom = Atomic(false)

        // A removed media path is released after the lock.
        func remove(_ id: PathID) { _ = state.withLock { $0.all.removeValue(forKey: id) } }
        func removeAll() { _ = state.withLock { exchange(&$0.all, with: [:]) } }
    }

    init(
        plan: SessionPlan, host: MediaHost, requestKey: @escaping @Sendable () -> String?,
        onChange: @escaping @Sendable (SessionSnapshot, SessionReporter) -> Void,
        onReport: @escaping @Sendable (SessionReport, SessionReporter) -> Void
    ) {
        let redactor = RunRedactor(plan.configuration)
        let host = host.guarded(by: redactor)
        // The queue retains the element while work runs: an application may stop and release it in any callback.
        let queue = SessionQueue(label: "decart-session") { [element = host.element] in element.retained }
        (self.queue, self.plan) = (queue, plan)
        let reporter = SessionReporter(scheduler: queue, onChange: onChange, onReport: onReport)
        self.reporter = reporter
        let slot = MediaSlot()
        media = slot
        let earlyRoom = EarlyRoom()
        controller = SessionController(
            configuration: plan.configuration, scheduler: queue, logger: host.loggers.session, redactor: redactor,
            makeChannel: { _, path, onEvent throws(SessionError) in
                if path != .webrtc { earlyRoom.open(plan) }
                let room = plan.room.adapted(toInput: host.input.encoded.format, output: host.output.encoding)
                // After a loss, that connection has probably lost its path too.
                let isFirst = !slot.hasDialled.exchange(true, ordering: .relaxed)
                return try plan.makeChannel(
                    path: path, serverCodec: room.receivedCodec, applicationKey: requestKey(),
                    early: isFirst ? NextConnection.shared.take(for: plan) : nil, logger: host.loggers.signalling,
                    onEvent: onEvent)
            },
            makeMedia: { _, start, onEvent in
                let id = PathID(Self.pathCount.wrappingAdd(1, ordering: .relaxed).newValue)
                var settings = plan.media(for: start.transport)
                if let limits = slot.now.limits[start.transport] { settings.take(limits) }
                settings = settings.adapted(toInput: host.input.encoded.format, output: host.output.encoding)
                settings.connection.sendsSmallPackets = slot.sendsSmallPackets.load(ordering: .relaxed)
                if settings.encodedInput == nil { plan.adapt(to: settings, host) }
                let path = MediaPath(id: id, host: host, settings: settings, scheduler: queue) { event in
                    if event == .stopped { slot.remove(id) }
                    onEvent(event)
                }
                let early = earlyRoom.take()
                if start.transport == .webrtc { early.close() }
                let transport: any ElementMedia =
                    switch start.transport {
                    case .webrtc: PeerMediaTransport(path)
                    case .livekit:
                        RoomMediaTransport(path, early: early) { server in
                            KnownServices.rooms.set(server, of: plan.service)
                            if !slot.hasJoinedRoom.exchange(true, ordering: .relaxed) {
                                NextConnection.shared.prepare(for: plan)
                            }
                        }
                    }
                let media = slot.state.withLock { state in
                    state.all[id] = transport
                    return state
                }
                transport.publish(media.desired)
                transport.setMuted(media.muted, endsServiceMute: false)
                return transport
            },
            onChange: { [weak reporter] snapshot in
                slot.sendsSmallPackets.store(snapshot.sendsSmallPackets, ordering: .relaxed)
                reporter?.changed(snapshot)
            },
            onEvent: { [weak reporter] report in
                if case .transportDetected(let transport) = report {
                    KnownServices.transports.set(transport, of: plan.service)
                }
                reporter?.report(report)
            })
        addresses = AddressMonitor.shared.observe(plan.direct.connection.network.endpoint) { [weak controller] in
            controller?.networkChanged($0)
        }
    }

    // These apply to all media paths, including later ones. Any thread.

    func publish(_ track: WritableKeyPath<DesiredMedia, Bool>, _ isWanted: Bool) {
        media.state.withLock { $0.desired[keyPath: track] = isWanted }
        forEachPath { $0.publish($1.desired) }
    }

    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool) {
        media.state.withLock { $0.muted = muted }
        controller.mute(muted.contains(.video))
        forEachPath { $0.setMuted($1.muted, endsServiceMute: endsServiceMute) }
    }

    /// Applies changed frame rates and bitrates.
    func setLimits(_ settings: TransformSettings) {
        media.state.withLock { state in
            for transport in MediaTransportKind.allCases {
                state.limits[transport] = plan.limits(settings, transport) ?? state.limits[transport]
            }
        }
        forEachPath { path, media in
            if let limits = media.limits[path.path.settings.transport] { path.path.setLimits(limits) }
        }
    }

    /// The settings are read on the queue, so that the newest value counts, whichever call reaches it first.
    private func forEachPath(_ body: @escaping @Sendable (any ElementMedia, Media) -> Void) {
        queue.async { [media] in
            let now = media.now
            for path in now.all.values { body(path, now) }
        }
    }

    /// Returns the connections of the newest media path, the sending one first, and adds the counters of all paths to
    /// the element's totals. Waits for the network thread.
    func readConnections() -> [ConnectionStatistics] {
        var newest: [ConnectionStatistics] = []
        for (_, media) in media.now.all.sorted(by: { $0.key < $1.key }) {
            newest = media.connections
            media.path.count(newest)
        }
        return newest
    }

    /// The newest media path.
    var path: MediaPath? { media.now.newest }

    /// True if the message comes from a media path, which then handles it itself.
    func claims(_ message: Message) -> Bool {
        media.now.all.values.contains { $0.path.claims(message) }
    }

    /// State of our video track on the newest media path, and its SID in a room.
    var publication: (state: VideoTrackStats.Publication, sid: String?) {
        let now = media.now
        guard let path = now.newest else { return (.none, nil) }
        return now.desired.video ? path.publication : (.withdrawn, nil)
    }

    /// Runs work on the session's queue, after the work that waits there.
    func async(_ work: @escaping @Sendable () -> Void) { queue.async(work) }

    func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) { queue.schedule(after: delay, work) }

    /// Ends the session and returns when its media paths have left the element; the control channel closes on its own.
    /// Drops all work that waits in the session's queue. Called on that queue, from an application's callback, it
    /// returns at once and nothing more is reported: the running work finishes first, then the session is torn down.
    func stop() {
        if media.hasJoinedRoom.load(ordering: .relaxed) { NextConnection.shared.prepare(for: plan) }
        if queue.isCurrent { reporter.silence() }
        queue.end { [controller, reporter, media] in
            controller.end()
            reporter.flush()
            media.removeAll()
        }
    }
}
