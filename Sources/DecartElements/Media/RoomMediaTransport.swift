// Media of one attempt in a LiveKit room (`transport=livekit`). One peer connection sends and receives; rooms of older
// servers have one for each. It knows the room; it must not know the control channel.
//
// The session calls it on its queue, which may block in GStreamer. Any thread may read the properties and call
// `claims`.
import DecartProtocol
import DecartSession
import GStreamerKit
import LiveKitTransport
import MediaPipeline
import RTP
import Signalling
import WebRTCTransport

// @unchecked: the fields belong to the session's queue; `path` protects itself.
final class RoomMediaTransport: ElementMedia, @unchecked Sendable {
    let path: MediaPath
    private var room: RoomConnection?
    private var desired = DesiredMedia()
    /// Kinds that the application mutes, and those that the room mutes.
    private var muted: Set<MediaKind> = []
    private var mutedByRoom: Set<MediaKind> = []

    private let early: RoomHeadStart
    private let onServer: @Sendable (ServerPlace) -> Void

    /// - Parameters:
    ///   - early: what was prepared for the room.
    ///   - onServer: called when the room is connected, on the session's queue.
    init(_ path: MediaPath, early: RoomHeadStart, onServer: @escaping @Sendable (ServerPlace) -> Void) {
        (self.path, self.early, self.onServer) = (path, early, onServer)
    }

    deinit { stop() }

    // A viewer's only connection receives.
    private var publisher: PeerConnection? { path.settings.isViewer ? nil : path.connections.first?.connection }
    private var subscriber: PeerConnection? { path.connections.last?.connection }

    // MARK: Requests

    func start(_ start: MediaStart) {
        guard case .room(let url, let token) = start else { return }
        path.start()
        let settings = path.settings
        let size = settings.video.size.current
        var configuration = RoomConnectionConfiguration(
            room: RoomConfiguration(
                width: size.width, height: size.height, bitrate: settings.connection.bitrateRange.upperBound,
                codec: settings.connection.codec))
        configuration.room.publishes = !settings.isViewer
        configuration.room.sharesScreen = settings.sharesScreen
        // Encoded input has one codec. VP9 has layers of its own, so it replaces no simulcast.
        if settings.encodedInput == nil {
            configuration.room.encodable = [VideoCodec.h264, .vp8, .vp9].filter {
                $0.isAvailable && ($0 != .vp9 || settings.video.layers.isEmpty)
            }
        }
        configuration.room.isInputEncoded = settings.encodedInput != nil
        configuration.room.receivable = settings.receivableCodecs
        configuration.room.remedies = settings.remedies
        configuration.room.usesTrailers = path.host.timing != nil
        configuration.channel.early = early.connection
        configuration.channel.trust = settings.servers.trust
        configuration.channel.route = settings.servers.route
        configuration.channel.refusesLocal = settings.servers.refusesLocal
        configuration.channel.userAgent = DecartElements.userAgent
        configuration.channel.logger = path.host.loggers.signalling
        configuration.allowsInsecure = settings.servers.allowsInsecure
        configuration.peer = settings.connection
        configuration.peer.early = early.gathering
        configuration.peer.loggers = path.host.loggers.transport
        configuration.logger = path.host.loggers.room
        configuration.redactor = path.host.redactor
        let layers = settings.video.layers
        configuration.peer.simulcast = layers.map(\.rid)
        var allocation = settings.video.allocation(of: layers)
        configuration.room.layers = zip(layers, allocation.allocate(configuration.room.bitrate)).map { layer, bitrate in
            let part = layer.size(of: size)
            return RoomConfiguration.Layer(rid: layer.rid, width: part.width, height: part.height, bitrate: bitrate)
        }
        configuration.openTimeout = settings.openTimeout
        do {
            let room = try RoomConnection(
                url: url, token: token, configuration: configuration, scheduler: path.scheduler
            ) { [weak self] in self?.handle($0) }
            self.room = room
            room.publish(desired)
            room.mute(muted)
            room.open()
        } catch {
            path.fail(error)
        }
    }

    /// A room has its own signalling, so the control channel's descriptions and candidates do not apply.
    func apply(answer sdp: String) {}
    func apply(offer sdp: String) {}
    func apply(candidate: CandidateMessage?) {}
    func rollbackOffer() {}

    func recover() { room?.recover() }

    func suspectPath() { room?.suspectPath() }

    func networkChanged(_ addresses: Set<String>) -> Bool {
        room?.networkChanged(addresses)
        return false
    }

    func stop() {
        path.count(connections, isLast: true)
        room?.stop()
        room = nil
        path.stopAudio()
        path.stop()
    }

    func publish(_ desired: DesiredMedia) {
        self.desired = desired
        if !desired.audio { path.stopAudio() }
        if !desired.video { path.setPublished(false) }
        room?.publish(desired)
    }

    func setMuted(_ muted: Set<MediaKind>, endsServiceMute: Bool) {
        self.muted = muted
        if endsServiceMute { mutedByRoom = [] }
        room?.mute(muted, endsRoomMute: endsServiceMute)
        path.setMuted(muted.union(mutedByRoom))
        if endsServiceMute { path.onEvent(.videoMuted(false)) }
    }

    // MARK: Events (on the session's queue, but for `bitrateTarget`)

    private func handle(_ event: RoomConnectionEvent) {
        switch event {
        case .peer(let peer, let name): path.add(peer, as: name)
        case .published(let sid):
            path.set(trackSID: sid)
            path.useTrailers(room?.carriesTrailers ?? false)
            failOnError(startSending)
        case .subscribed:
            failOnError(startReceiving)
        case .connected(let ice, let dtls):
            if let room { onServer(room.server) }
            path.open()
            path.onEvent(.connected(ice: ice, dtls: dtls))
        case .bitrateTarget(let target): path.apply(target: target)
        case .muted(let kinds):
            mutedByRoom = kinds
            path.setMuted(muted.union(kinds))
            path.onEvent(.videoMuted(kinds.contains(.video)))
        case .wanted(let rids): path.setWanted(rids)
        case .media(let event):
            if event == .recovered { path.host.totals.countResume() }
            path.onEvent(event)
        }
    }

    private func startSending() throws {
        guard let publisher else { return }
        try path.send(through: publisher)
        path.setPublished(desired.video && publisher.videoDirection?.sends ?? false)
        try updateAudio()
    }

    /// Runs before the answer leaves, so that the branches exist when the first packet arrives.
    private func startReceiving() throws {
        guard let subscriber else { return }
        try path.receive(from: subscriber)
        try updateAudio()
    }

    private func updateAudio() throws {
        guard let subscriber else { return }
        try path.updateAudio(isWanted: desired.audio, sender: publisher, receiver: subscriber)
    }

    private func failOnError(_ body: () throws -> Void) {
        do { try body() } catch { path.fail(error) }
    }
}
