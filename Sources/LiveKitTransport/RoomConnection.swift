// One stay in a LiveKit room: the WebSocket, the peer connections, and the `RoomMachine` that directs them. It knows no
// element, encoder or decoder: its owner puts the bins of the peer connections into a pipeline.
//
// Everything runs on the scheduler's serial queue, including `onEvent`.
package import DecartProtocol
package import DecartSession
import EventLoopThreads
import ICE
import LiveKitProtocol
package import Log
import Recovery
package import RTP
package import Signalling
import Synchronization
package import WebRTCTransport

package struct RoomConnectionConfiguration: Sendable {
    package var room: RoomConfiguration
    /// The signalling connection. `early` leads to the server of an earlier room, which is probably that of this one.
    package var channel = WebSocketChannel.Configuration()
    /// Permits unencrypted rooms on other machines.
    package var allowsInsecure = false
    /// Settings of the peer connections; codec and bitrates apply to the publisher.
    package var peer = PeerConnectionConfiguration()
    package var openTimeout = RecoveryPlan.Session.connectionTimeout
    /// INFO: one line for each phase. DEBUG: the kind of each signal message.
    package var logger = Logger.none
    /// Learns the tokens and credentials that the room names.
    package var redactor: RunRedactor?

    package init(room: RoomConfiguration) {
        self.room = room
        (channel.messages, channel.maximumMessageSize) = (.binary, Self.maximumMessageSize)
    }

    /// Protobuf of this size becomes up to 40 MB of Swift values; a room's messages have a few KiB.
    private static let maximumMessageSize = 256 << 10
}

package enum RoomConnectionEvent: Sendable {
    /// A peer connection exists, but nothing is negotiated: put its bin into the pipeline now. There is one for both
    /// directions, or a publisher and then a subscriber; a viewer has no publisher.
    case peer(PeerConnection, name: String)
    /// The room accepts our media as the publisher's `sendParameters` and `audioSendParameters` describe; `sid` is its
    /// ID of our video track. Emitted again when they change.
    case published(sid: String?)
    /// The transformed media come as the subscriber's `negotiatedCodec` and `audioDirection` describe. Emitted again
    /// when they change.
    case subscribed
    case connected(ice: Duration?, dtls: Duration?)
    case bitrateTarget(BitrateTarget)
    /// The room mutes exactly these kinds of our tracks.
    case muted(Set<MediaKind>)
    /// Participants receive exactly these layers of our video, by RID; a single stream has an empty RID.
    case wanted(Set<String>)
    /// Concerns the session. After `closedByPeer` or `lost` the stay is over; one of them is emitted once.
    case media(MediaEvent)
}

// @unchecked: after init, accessed only on the scheduler's queue.
package final class RoomConnection: @unchecked Sendable {
    private let configuration: RoomConnectionConfiguration
    /// The URL of this room, or of the region where it was resumed.
    private var base: String
    private var nextBase: String
    private var url: ServiceURL
    private let scheduler: any SessionScheduler
    private let onEvent: @Sendable (RoomConnectionEvent) -> Void
    private var machine: RoomMachine
    private var channel: WebSocketChannel?
    /// Distinguishes events of the present signalling connection from late ones of a former one.
    private var channelVersion = 0
    private var hasOpened = false
    /// Distinguishes events of present peer connections from those of a dropped one.
    private var peerVersion = 0
    /// One network thread for both connections.
    private var place: NetworkThreads.Place?
    private var publisher: PeerConnection?
    private var subscriber: PeerConnection?
    /// Makes our offers.
    private var offerer: PeerConnection? { machine.usesOneConnection ? subscriber : publisher }
    /// True once the owner has got the peer connections: it then takes their bins down.
    private var ownerHasPeers = false
    /// The codec of our offers.
    private var codec: VideoCodec
    /// The one connection has an m-line to receive audio on.
    private var receivesAudio = false
    /// True once an answer to our offer was applied.
    private var isPublished = false
    private let timers: MachineTimers<RoomTimer>
    private var isStopped = false
    private var early: EarlyConnection?
    /// Start of joining the room.
    private var openedAt = ContinuousClock.Instant.now

    /// - Parameters:
    ///   - url: the room's URL from the service, without `token`.
    ///   - onEvent: called on the scheduler's queue.
    package init(
        url: String, token: Secret, configuration: RoomConnectionConfiguration, scheduler: any SessionScheduler,
        onEvent: @escaping @Sendable (RoomConnectionEvent) -> Void
    ) throws(SessionError) {
        self.configuration = configuration
        (self.scheduler, timers) = (scheduler, MachineTimers(scheduler))
        self.onEvent = onEvent
        (base, nextBase, early) = (url, url, configuration.channel.early)
        codec = configuration.room.codec
        do throws(ProtocolError) {
            self.url = try RoomURL.make(url, token: token, allowsInsecure: configuration.allowsInsecure)
        } catch {
            throw SessionError(
                .server, "The service sent an unusable room URL or token: \(error.message)", stage: .media)
        }
        var room = configuration.room
        room.prefersOneConnection = room.prefersOneConnection && !OlderRoomServers.shared.contains(self.url)
        machine = RoomMachine(configuration: room, token: token)
    }

    package func open() { handle(.request(.open)) }

    /// Reports the loss of each path that uses another address of this host.
    package func networkChanged(_ addresses: Set<String>) {
        guard !isStopped else { return }
        let paths = [
            (LiveKitSignalTarget.publisher, offerer), (.subscriber, machine.usesOneConnection ? nil : subscriber),
        ]
        for (target, peer) in paths where peer?.hasLostItsAddress(among: addresses) == true {
            handle(.peer(.pathLost(target)))
        }
    }

    package var server: ServerPlace { ServerPlace(url) }

    /// The room carries the trailers of our frames; known with `published`.
    package var carriesTrailers: Bool { machine.carriesTrailers }

    private func connect(_ request: LiveKitJoinRequest = .init()) {
        // Cannot fail: `init` parsed the same base URL.
        if let url = try? makeURL(base, request) { self.url = url }
        openedAt = .now
        configuration.logger.info("joins the room at \(url.host)")
        openChannel(timeout: configuration.openTimeout, over: early.take())
    }

    private func resume(_ request: LiveKitJoinRequest, at region: String) {
        do throws(ProtocolError) {
            let url = try makeURL(region, request)
            guard url.isSecure || !self.url.isSecure else {
                throw ProtocolError(.server, "The room moves to an unencrypted URL.")
            }
            (self.url, nextBase) = (url, region)
        } catch {
            let error = SessionError(.server, "The room moves to an unusable URL: \(error.message)", stage: .media)
            return scheduler.async { [weak self] in self?.handle(.signalling(.failed(error))) }
        }
        configuration.logger.debug("opens the signalling connection again at \(url.host)")
        openChannel(timeout: min(configuration.openTimeout, RecoveryPlan.Room.openTimeout))
    }

    private func makeURL(_ base: String, _ request: LiveKitJoinRequest) throws(ProtocolError) -> ServiceURL {
        try RoomURL.make(
            base, token: machine.token, allowsInsecure: configuration.allowsInsecure,
            takesTrailers: configuration.room.usesTrailers, for: request, usesOneConnection: machine.usesOneConnection)
    }

    private func openChannel(timeout: Duration, over early: EarlyConnection? = nil) {
        var socket = configuration.channel
        socket.early = early
        channelVersion += 1
        let version = channelVersion
        let channel = WebSocketChannel(url: url, configuration: socket) { [weak self, scheduler] event in
            scheduler.async { [weak self] in
                guard let self, version == self.channelVersion else { return }
                self.signalling(event)
            }
        }
        self.channel = channel
        channel.open(timeout: timeout)
    }

    /// Leaves the room and closes the peer connections; their owner takes the bins down. No event follows.
    package func stop() {
        guard !isStopped else { return }
        isStopped = true
        handle(.request(.stop))
        dropPeers()
    }

    private func dropPeers() {
        publisher?.close()
        subscriber?.close()
        if !ownerHasPeers { subscriber?.dismantle() }
        (publisher, subscriber) = (nil, nil)
    }

    /// Sets the media to publish from now on, or once the room is joined.
    package func publish(_ desired: DesiredMedia) {
        handle(.request(.desired(desired)))
        setSubscriberMedia()
    }

    /// Mutes exactly these kinds of our tracks, which stay published; the owner stops their media.
    /// - Parameter endsRoomMute: lifts the room's own mute too.
    package func mute(_ kinds: Set<MediaKind>, endsRoomMute: Bool = false) {
        handle(.request(.mute(kinds, endsRoomMute: endsRoomMute)))
    }

    /// Resumes the stay at once, because only then the room restarts ICE on the connection for which it makes the offers.
    package func recover() { handle(.request(.recover)) }

    /// The service does not see our media: judges the publisher's path at once.
    package func suspectPath() { publisher?.suspectPath() }

    private func setSubscriberMedia() {
        if machine.usesOneConnection { return }
        subscriber?.setMedia(video: .recvonly, audio: machine.desired.audio ? .recvonly : nil)
    }

    // MARK: Events

    private func handle(_ event: RoomEvent) {
        for action in machine.handle(event, now: scheduler.now, jitter: .random(in: 0...1)) {
            log(action)
            perform(action)
        }
    }

    private func signalling(_ event: SignallingEvent) {
        switch event {
        case .opened:
            hasOpened = true
            // A server that refuses to let us join with one connection may as well refuse the room.
            if configuration.room.prefersOneConnection, !machine.usesOneConnection {
                OlderRoomServers.shared.insert(url)
            }
            handle(.signalling(.opened))
        case .text: break
        case .binary(let bytes):
            defer { channel?.messageHandled(size: bytes.count) }
            guard var response = try? LiveKitSignalResponse(serializedBytes: bytes) else {
                return configuration.logger.warning("ignored a malformed message of the room")
            }
            if case .requestResponse(var refusal) = response.message {
                refusal.message = url.redacting(refusal.message)
                response.message = .requestResponse(refusal)
            }
            learn(response)
            log(response)
            handle(.signalling(.message(response)))
        case .closed(let code, let reason): handle(.signalling(.closed(code: code, reason: reason)))
        case .silent(let error): handle(.signalling(.failed(explained(error))))
        case .failed(let error): if !asksForReason(of: error) { handle(.signalling(.failed(explained(error)))) }
        case .answered: break
        }
    }

    private func learn(_ response: LiveKitSignalResponse) {
        guard let redactor = configuration.redactor else { return }
        let texts: [String] =
            switch response.message {
            case .join(let join): join.iceServers.prefix(RoomMachine.maximumServers).map(\.credential)
            case .reconnect(let answer): answer.iceServers.prefix(RoomMachine.maximumServers).map(\.credential)
            case .refreshToken(let token): [token]
            case .roomMoved(let moved): [moved.token]
            default: []
            }
        for text in texts { redactor.add(text) }
    }

    /// Asks the server for the reason if it refused to let us join without giving one. A resume is not delayed by that.
    /// - Returns: false if there is nothing to ask for; else `failed` follows.
    private func asksForReason(of error: SessionError) -> Bool {
        guard !hasOpened, error.httpStatus ?? 0 >= 400, error.refusal == nil,
            !machine.fallsBack(after: error)
        else { return false }
        let socket = configuration.channel
        let server = HTTPConfiguration(trust: socket.trust, route: socket.route, userAgent: socket.userAgent)
        RoomValidation.reason(refusing: url, refusesLocal: socket.refusesLocal, configuration: server) {
            [weak self, scheduler, version = channelVersion] in
            var error = error
            error.refusal = $0
            scheduler.async { [weak self, error] in
                guard let self, version == self.channelVersion, !self.isStopped else { return }
                self.handle(.signalling(.failed(self.explained(error))))
            }
        }
        return true
    }

    /// Rewords a channel's error: the channel blames keys and models, but this one is about a room and its token.
    private func explained(_ error: SessionError) -> SessionError {
        var error = error
        error.stage = .media
        guard let status = error.httpStatus else { return error }
        error.isPermanent = false
        error.code = .server
        let what = status == 401 || status == 403 ? "its token" : "the connection"
        let details = error.refusal.map { ": \($0)" } ?? ""
        error.message = "The room at \(url.host) rejected \(what) (HTTP \(status)\(details))."
        return error
    }

    // MARK: Log

    private var elapsed: String {
        "\(Int((ContinuousClock.now - openedAt) / .milliseconds(1))) ms"
    }

    private func log(_ response: LiveKitSignalResponse) {
        let logger = configuration.logger
        logger.debug("received \(response.message.map(kind) ?? "nothing")")
        switch response.message {
        case .join(let join): logger.info("joined after \(elapsed): \(join.otherParticipants.count) other participants")
        case .leave(let leave): logger.info("the room asks to leave: reason \(leave.reason), action \(leave.action)")
        default: break
        }
    }

    private func log(_ action: RoomAction) {
        let logger = configuration.logger
        switch action {
        case .send(let message): logger.debug("sends \(kind(of: message))")
        case .reportConnected: logger.info("the peer connections are up after \(elapsed)")
        case .report(.recovering(let error)): logger.info("resumes: \(error.message)")
        case .reportResumed(let time, let attempts):
            logger.info(
                "resumed after \(Int(time / .milliseconds(1))) ms, \(attempts == 1 ? "1 attempt" : "\(attempts) attempts")"
            )
        case .reportLost(let error): logger.info("lost after \(elapsed): \(error.description)")
        case .report(.closedByPeer(let error)): logger.info("failed after \(elapsed): \(error.description)")
        case .reportMuted(let kinds): logger.info("the room mutes \(kinds.isEmpty ? "nothing" : kinds.listed)")
        case .note(let text): logger.warning(text)
        default: break
        }
    }

    private func peer(_ target: LiveKitSignalTarget, _ version: Int, _ event: PeerConnectionEvent) {
        guard !isStopped, version == peerVersion else { return }
        switch event {
        case .localCandidate(let candidate): handle(.peer(.candidateFound(CandidateMessage(candidate), target)))
        case .gatheringComplete: handle(.peer(.candidateFound(nil, target)))
        case .relaysMissing: emit(.media(.relaysMissing))
        case .stateChanged(.connected): handle(.peer(.peerConnected(target)))
        case .stateChanged(.failed(.closedByPeer)): handle(.peer(.peerClosed))
        case .stateChanged(.failed(let error)): handle(.peer(.peerFailed(SessionError(error))))
        case .bitrateTarget(let target): emit(.bitrateTarget(target))
        case .disconnected: handle(.peer(.pathLost(target)))
        case .reconnected: handle(.peer(.pathRestored(target)))
        case .iceRestarted(succeeded: true): handle(.peer(.iceRestarted(target)))
        case .iceConnected, .iceRestarted, .stateChanged, .codecArrived, .streamArrived: break
        }
    }

    // MARK: Actions

    private func perform(_ action: RoomAction) {
        switch action {
        case .send(let message): channel?.send(LiveKitSignalRequest.with { $0.message = message }.serializedBytes())
        case .close:
            channel?.close()
            channel = nil
            channelVersion += 1
        case .connect: connect()
        case .join(let request): connect(request)
        case .makePeer: makePeer()
        case .useServers(let servers, let relayOnly): useServers(servers, relayOnly: relayOnly)
        case .dropPeer:
            peerVersion += 1
            configuration.logger.info("the room's server does not take one connection, so there will be two")
            dropPeers()
        case .addReceivers(let counts):
            receivesAudio = receivesAudio || counts[.audio] ?? 0 > 0
            offerer?.addReceivers(counts)
        case .resume(let request, let url): resume(request, at: url ?? base)
        case .makePeers(let servers, let relayOnly): makePeers(servers, relayOnly: relayOnly)
        case .setFillerTrailer(let bytes): subscriber?.setFillerTrailer(bytes)
        case .want(let rids): emit(.wanted(rids))
        case .useCodec(let codec):
            self.codec = codec
            configuration.logger.info("the room wants \(codec.encodingName)")
        case .makeOffer(let kinds): makeOffer(kinds)
        case .setServers(let servers, let relayOnly):
            let list = iceServers(with: servers)
            let policy = relayOnly ? .relay : configuration.peer.iceTransportPolicy
            publisher?.setServers(list, policy: policy)
            subscriber?.setServers(list, policy: policy)
        case .restartICE(let kinds): makeOffer(kinds, restartsICE: true)
        case .rollbackOffer: offerer?.rollbackOffer()
        case .applyAnswer(let sdp): applyAnswer(sdp)
        case .makeAnswer(let offer, let id): answer(offer, id)
        case .applyCandidate(let candidate, let target):
            let peer = target == .subscriber ? subscriber : offerer
            peer?.addRemoteCandidate(candidate.map(ICECandidate.init))
        case .schedule(let timer, let delay):
            timers.schedule(timer, after: delay) { [weak self] in self?.handle(.timerFired(timer)) }
        case .cancel(let timer): timers.cancel(timer)
        case .reportConnected:
            let times = (publisher ?? subscriber)?.statistics()
            emit(.connected(ice: times?.iceTime, dtls: times?.dtlsTime))
        case .reportMuted(let kinds): emit(.muted(kinds))
        case .reportResumed:
            base = nextBase
            emit(.media(.recovered))
        case .report(let event): emit(.media(event))
        case .reportLost(let error): emit(.media(.lost(error, again: .room(url: base, token: machine.token))))
        case .note: break
        }
    }

    private func makeOffer(_ kinds: Set<MediaKind>, restartsICE: Bool = false) {
        attempt { [offerer] () throws(PeerConnectionError) in
            guard let offerer else { return }
            // On one connection a kind has one RTP session, which the first description configures: it then has the m-line
            // that may send later.
            let maySend = self.machine.usesOneConnection && self.configuration.room.publishes
            offerer.setMedia(
                video: kinds.contains(.video) ? .sendonly : maySend ? .inactive : nil,
                audio: kinds.contains(.audio) ? .sendonly : maySend && self.receivesAudio ? .inactive : nil,
                codec: self.codec)
            let reason = restartsICE ? "the room is resumed" : nil
            self.handle(.peer(.offerMade(sdp: try offerer.createOffer(restartsICE: restartsICE, reason: reason))))
        }
    }

    private func applyAnswer(_ sdp: String) {
        guard let offerer else { return }
        do throws(PeerConnectionError) {
            let machine = machine
            try offerer.setAnswer(sdp) { machine.isWanted(msid: $0) }
        } catch {
            guard isPublished else {
                return handle(.peer(error.code == .rejected ? .videoRejected : .peerFailed(SessionError(error))))
            }
            offerer.rollbackOffer()
            return configuration.logger.warning("ignored an unusable answer to a later offer: \(error.message)")
        }
        isPublished = true
        // Encoder and decoder take long to start: what the server sent with the answer comes first.
        scheduler.async { [weak self] in self?.reportNegotiated() }
    }

    private func reportNegotiated() {
        if publisher != nil { emit(.published(sid: machine.trackSID)) }
        if machine.usesOneConnection { emit(.subscribed) }
    }

    private func publishing(_ peer: PeerConnectionConfiguration) -> PeerConnectionConfiguration {
        var peer = peer
        peer.direction = .sendonly
        peer.msid = "\(configuration.room.trackID) \(configuration.room.trackID)"
        peer.audioMSID = "\(configuration.room.trackID) \(configuration.room.audioTrackID)"
        return peer
    }

    /// The connection for both directions.
    private func makePeer() {
        attempt { () throws(PeerConnectionError) in
            var peer = self.publishing(self.configuration.peer)
            let room = self.configuration.room
            if !room.publishes { peer.direction = nil }
            (peer.offersEachDirection, peer.awaitsServers) = (true, true)
            peer.alternatives = room.encodable.filter { $0 != self.codec }
            peer.receivableCodecs = peer.receivableCodecs ?? Set(VideoCodec.decodable)
            let subscriber = try self.makePeer(peer, .publisher)
            (self.publisher, self.subscriber) = (room.publishes ? subscriber : nil, subscriber)
        }
    }

    private func useServers(_ servers: [LiveKitICEServer], relayOnly: Bool) {
        guard let subscriber else { return }
        attempt { () throws(PeerConnectionError) in
            let peer = try self.using(servers, relayOnly: relayOnly)
            subscriber.addServers(peer.iceServers, policy: peer.iceTransportPolicy)
            self.ownerHasPeers = true
            self.emit(.peer(subscriber, name: "room"))
        }
    }

    private func makePeers(_ servers: [LiveKitICEServer], relayOnly: Bool) {
        attempt { () throws(PeerConnectionError) in
            var receiving = try self.using(servers, relayOnly: relayOnly)
            let sending = self.publishing(receiving)
            receiving.direction = .recvonly
            receiving.acceptsDataChannels = true
            receiving.usableCodecs = receiving.usableCodecs ?? Set(VideoCodec.decodable)
            let publisher = self.configuration.room.publishes ? try self.makePeer(sending, .publisher) : nil
            let subscriber = try self.makePeer(receiving, .subscriber)
            (self.publisher, self.subscriber) = (publisher, subscriber)
            self.setSubscriberMedia()
            self.ownerHasPeers = true
            if let publisher { self.emit(.peer(publisher, name: "publisher")) }
            self.emit(.peer(subscriber, name: "subscriber"))
        }
    }

    private func using(
        _ servers: [LiveKitICEServer], relayOnly: Bool
    ) throws(PeerConnectionError) -> PeerConnectionConfiguration {
        var peer = configuration.peer
        peer.iceServers = iceServers(with: servers)
        if relayOnly { peer.iceTransportPolicy = .relay }
        try peer.checkRelays()
        return peer
    }

    private func makePeer(
        _ configuration: PeerConnectionConfiguration, _ target: LiveKitSignalTarget
    ) throws(PeerConnectionError) -> PeerConnection {
        let latest = LatestBitrateTarget()
        var configuration = configuration
        place = place ?? configuration.early?.place ?? NetworkThreads.shared.assign()
        configuration.place = place
        if !configuration.offersEachDirection {
            configuration.loggers = configuration.loggers.naming(target == .publisher ? "publisher" : "subscriber")
        }
        let version = peerVersion
        return try PeerConnection(configuration: configuration) { [weak self, scheduler] event in
            switch event {
            case .iceConnected, .codecArrived, .streamArrived: break
            case .bitrateTarget(let bitrate):
                // A remote peer may send feedback at any rate, so at most one work item waits for it on the queue.
                guard latest.put(bitrate) else { return }
                scheduler.async { [weak self] in
                    if let bitrate = latest.take() { self?.peer(target, version, .bitrateTarget(bitrate)) }
                }
            case .localCandidate, .gatheringComplete, .relaysMissing, .disconnected, .reconnected, .iceRestarted,
                .stateChanged:
                scheduler.async { [weak self] in self?.peer(target, version, event) }
            }
        }
    }

    /// Joins our ICE servers and the room's. The agent uses only one STUN server, preferably the room's if it is known.
    private func iceServers(with roomServers: [LiveKitICEServer]) -> [ICEServer] {
        let room = roomServers.flatMap { server in
            server.urls.prefix(8).compactMap { url in
                configuration.peer.serverNamedByPeer(
                    url, username: server.username.isEmpty ? nil : server.username,
                    credential: server.credential.isEmpty ? nil : server.credential)
            }
        }
        let own = configuration.peer.iceServers
        let ownSTUN = own.first { $0.kind == .stun }
        // Without one of our own, none is to be asked.
        let stun = ownSTUN == nil ? nil : room.first { $0.kind == .stun } ?? ownSTUN
        // Each server costs sockets and time.
        return Array(([stun].compactMap(\.self) + (own + room).filter { $0.kind == .turn }).prefix(16))
    }

    private func answer(_ offer: String, _ id: UInt32) {
        guard let subscriber else { return }
        let answer: String
        do throws(PeerConnectionError) {
            let machine = machine
            answer = try subscriber.createAnswer(to: offer) { machine.isWanted(msid: $0) }
        } catch {
            guard error.code == .rejected else { return handle(.peer(.answerFailed(SessionError(error)))) }
            // The offer holds other participants' media or none; the next one may hold the transformed media.
            return configuration.logger.warning("ignored an offer without usable media: \(error.message)")
        }
        // Emit this before the answer is sent, so that the pipeline exists when the first packet arrives.
        if subscriber.negotiatedCodec != nil || subscriber.audioDirection != nil { emit(.subscribed) }
        handle(.peer(.answerMade(sdp: answer, offer: id)))
    }

    private func attempt(_ body: () throws(PeerConnectionError) -> Void) {
        do throws(PeerConnectionError) {
            try body()
        } catch {
            handle(.peer(.peerFailed(SessionError(error))))
        }
    }

    private func emit(_ event: RoomConnectionEvent) {
        guard !isStopped else { return }
        onEvent(event)
    }
}

/// The newest bitrate target that waits for the scheduler's queue.
private final class LatestBitrateTarget: Sendable {
    private let waiting = Mutex<BitrateTarget?>(nil)

    /// - Returns: true if none was waiting.
    func put(_ target: BitrateTarget) -> Bool { waiting.withLock { exchange(&$0, with: target) == nil } }

    func take() -> BitrateTarget? { waiting.withLock { $0.take() } }
}

/// The name of a message's kind, which is an enum case with a payload, without its content.
private func kind(of message: Any) -> String { Mirror(reflecting: message).children.first?.label ?? "a message" }

/// Servers that took a request to join with two peer connections after they had refused one. The process remembers them.
private final class OlderRoomServers: Sendable {
    static let shared = OlderRoomServers()
    private let hosts = Mutex<Set<String>>([])
    private static let maximumCount = 64

    func contains(_ url: ServiceURL) -> Bool { hosts.withLock { $0.contains(url.http.hostHeader) } }

    func insert(_ url: ServiceURL) {
        hosts.withLock { if $0.count < Self.maximumCount { $0.insert(url.http.hostHeader) } }
    }
}
