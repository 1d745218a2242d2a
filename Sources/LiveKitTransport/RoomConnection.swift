// One stay in a LiveKit room: the WebSocket, the peer connections, and the `RoomMachine` that directs them. It knows no
// element, encoder or decoder: its owner puts the bins of the peer connections into a pipeline.
//
// Everything runs on the scheduler's serial queue, including `onEvent` except for `bitrateTarget`.
package import DecartProtocol
package import DecartSession
import EventLoopThreads
import ICE
import LiveKitProtocol
package import Log
import Recovery
package import RTP
package import Signalling
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
    /// Comes on the network thread, unlike all others.
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
    private(set) var configuration: RoomConnectionConfiguration
    /// The URL of this room, or of the region where it was resumed.
    private var base: String
    private var nextBase: String
    private var url: ServiceURL
    private let scheduler: any SessionScheduler
    private let onEvent: @Sendable (RoomConnectionEvent) -> Void
    private(set) var machine: RoomMachine
    private var channel: WebSocketChannel?
    /// Distinguishes events of the present signalling connection from late ones of a former one.
    private var channelVersion = 0
    /// One network thread for all connections.
    private var place: NetworkThreads.Place?
    /// The last one receives.
    private var peers: [(target: LiveKitSignalTarget, connection: PeerConnection)] = []
    /// Makes our offers.
    private var offerer: PeerConnection? { peers.first { $0.target == .publisher }?.connection }
    var receiver: PeerConnection? { peers.last?.connection }
    /// True once the owner has got the peer connections: it then takes their bins down.
    private var ownerHasPeers = false
    /// The one connection has an m-line to receive audio on.
    private var receivesAudio = false
    /// True once an answer to our offer was applied.
    private var isPublished = false
    private let timers: MachineTimers<RoomTimer>
    private var isStopped = false
    private static let maximumServers = 16
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
        (base, nextBase) = (url, url)
        do throws(ProtocolError) {
            self.url = try RoomURL.make(url, token: token, allowsInsecure: configuration.allowsInsecure)
        } catch {
            throw SessionError(
                .server, "The service sent an unusable room URL or token: \(error.message)", stage: .media)
        }
        var room = configuration.room
        room.prefersOneConnection = room.prefersOneConnection && !TwoConnections.areUsed(at: self.url)
        machine = RoomMachine(configuration: room, token: token)
    }

    package func open() { handle(.request(.open)) }

    /// Reports the loss of each path that uses another address of this host.
    package func networkChanged(_ addresses: Set<String>) {
        guard !isStopped else { return }
        for (target, peer) in peers where peer.hasLostItsAddress(among: addresses) {
            handle(.peer(.pathLost(target)))
        }
    }

    package var server: ServerPlace { ServerPlace(url) }

    /// The room carries the trailers of our frames; known with `published`.
    package var carriesTrailers: Bool { machine.carriesTrailers }

    /// Opens a signalling connection at this URL of the room, to join it or to resume the stay.
    private func dial(_ request: LiveKitJoinRequest, at base: String) {
        do throws(ProtocolError) {
            let url = try RoomURL.make(
                base, token: machine.token, allowsInsecure: configuration.allowsInsecure,
                takesTrailers: configuration.room.usesTrailers, for: request,
                usesOneConnection: machine.usesOneConnection)
            guard url.isSecure || !self.url.isSecure else {
                throw ProtocolError(.server, "The room moves to an unencrypted URL.")
            }
            (self.url, nextBase) = (url, base)
        } catch {
            let error = SessionError(.server, "The room moves to an unusable URL: \(error.message)", stage: .media)
            return scheduler.async { [weak self] in self?.handle(.signalling(.failed(error))) }
        }
        var timeout = configuration.openTimeout
        if request.reconnect {
            timeout = min(timeout, RecoveryPlan.Room.openTimeout)
            configuration.logger.debug("opens the signalling connection again at \(url.host)")
        } else {
            openedAt = .now
            configuration.logger.info("joins the room at \(url.host)")
        }
        channelVersion += 1
        let version = channelVersion
        let channel = WebSocketChannel(url: url, configuration: configuration.channel) { [weak self, scheduler] event in
            scheduler.async { [weak self] in
                guard let self, version == self.channelVersion else { return }
                self.signalling(event)
            }
        }
        // The first channel takes it.
        configuration.channel.early = nil
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
        for (_, peer) in exchange(&peers, with: []) {
            peer.close()
            if !ownerHasPeers { peer.dismantle() }
        }
    }

    /// Sets the media to publish from now on, or once the room is joined.
    package func publish(_ desired: DesiredMedia) { handle(.request(.desired(desired))) }

    /// Mutes exactly these kinds of our tracks, which stay published; the owner stops their media.
    /// - Parameter endsRoomMute: lifts the room's own mute too.
    package func mute(_ kinds: Set<MediaKind>, endsRoomMute: Bool = false) {
        handle(.request(.mute(kinds, endsRoomMute: endsRoomMute)))
    }

    /// Resumes the stay at once, because only then the room restarts ICE on the connection for which it makes the offers.
    package func recover() { handle(.request(.recover)) }

    /// The service does not see our media: judges the publisher's path at once.
    package func suspectPath() { offerer?.suspectPath() }

    // MARK: Events

    func handle(_ event: RoomEvent) {
        for action in machine.handle(event, now: scheduler.now, jitter: .random(in: 0...1)) {
            log(action)
            perform(action)
        }
    }

    private func signalling(_ event: SignallingEvent) {
        switch event {
        case .opened:
            // A server that refuses to let us join with one connection may as well refuse the room.
            if configuration.room.prefersOneConnection, !machine.usesOneConnection { TwoConnections.remember(url) }
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
        let texts: [String] =
            switch response.message {
            case .join(let join): join.iceServers.prefix(Self.maximumServers).map(\.credential)
            case .reconnect(let answer): answer.iceServers.prefix(Self.maximumServers).map(\.credential)
            case .refreshToken(let token): [token]
            case .roomMoved(let moved): [moved.token]
            default: []
            }
        for text in texts { configuration.redactor?.add(text) }
    }

    /// Asks the server for the reason if it refused to let us join without giving one. A resume is not delayed by that.
    /// - Returns: false if there is nothing to ask for; else `failed` follows.
    private func asksForReason(of error: SessionError) -> Bool {
        guard machine.isRefused(with: error), error.refusal == nil else { return false }
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
        (error.isPermanent, error.code) = (false, .server)
        let what = status == 401 || status == 403 ? "its token" : "the connection"
        let details = error.refusal.map { ": \($0)" } ?? ""
        error.message = "The room at \(url.host) rejected \(what) (HTTP \(status)\(details))."
        return error
    }

    // MARK: Log

    private var elapsed: String { "\(Int((ContinuousClock.now - openedAt) / .milliseconds(1))) ms" }

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
        case .useCodec(let codec): logger.info("the room wants \(codec.encodingName)")
        case .dropPeer: logger.info("the room's server does not take one connection, so there will be two")
        case .note(let text): logger.warning(text)
        default: break
        }
    }

    private func peer(_ target: LiveKitSignalTarget, _ event: PeerConnectionEvent) {
        switch event {
        case .localCandidate(let candidate): handle(.peer(.candidateFound(CandidateMessage(candidate), target)))
        case .relaysMissing: emit(.media(.relaysMissing))
        case .stateChanged(.connected): handle(.peer(.peerConnected(target)))
        case .stateChanged(.failed(.closedByPeer)): handle(.peer(.peerClosed))
        case .stateChanged(.failed(let error)): handle(.peer(.peerFailed(SessionError(error))))
        case .disconnected: handle(.peer(.pathLost(target)))
        case .reconnected: handle(.peer(.pathRestored(target)))
        case .iceRestarted(succeeded: true): handle(.peer(.iceRestarted(target)))
        // LiveKit marks the end of candidates with `final`, which we do not send.
        case .gatheringComplete, .bitrateTarget, .iceConnected, .iceRestarted, .stateChanged, .codecArrived,
            .streamArrived:
            break
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
        case .join(let request): dial(request, at: base)
        case .resume(let request, let url): dial(request, at: url ?? base)
        case .makePeer: attempt { () throws(PeerConnectionError) in try makePeers([(.publisher, bothDirections)]) }
        case .useServers(let servers, let relayOnly): useServers(servers, relayOnly: relayOnly)
        case .dropPeer: dropPeers()
        case .addReceivers(let counts):
            receivesAudio = receivesAudio || counts[.audio] ?? 0 > 0
            offerer?.addReceivers(counts)
        case .setFillerTrailer(let bytes): receiver?.setFillerTrailer(bytes)
        case .want(let rids): emit(.wanted(rids))
        case .makeOffer(let kinds): makeOffer(kinds)
        case .restartICE(let kinds): makeOffer(kinds, restartsICE: true)
        case .rollbackOffer: offerer?.rollbackOffer()
        case .applyAnswer(let sdp): applyAnswer(sdp)
        case .makeAnswer(let offer, let id): answer(offer, id)
        case .applyCandidate(let candidate, let target):
            let peer = target == .subscriber ? receiver : offerer
            peer?.addRemoteCandidate(candidate.map(ICECandidate.init))
        case .schedule(let timer, let delay):
            timers.schedule(timer, after: delay) { [weak self] in self?.handle(.timerFired(timer)) }
        case .cancel(let timer): timers.cancel(timer)
        case .reportConnected:
            let times = peers.first?.connection.statistics()
            emit(.connected(ice: times?.iceTime, dtls: times?.dtlsTime))
        case .reportMuted(let kinds): emit(.muted(kinds))
        case .reportResumed:
            base = nextBase
            emit(.media(.recovered))
        case .report(let event): emit(.media(event))
        case .reportLost(let error): emit(.media(.lost(error, again: .room(url: base, token: machine.token))))
        case .useCodec, .note: break
        }
    }

    private func makeOffer(_ kinds: Set<MediaKind>, restartsICE: Bool = false) {
        guard let offerer else { return }
        // On one connection a kind has one RTP session, which the first description configures: it then has the m-line
        // that may send later.
        let maySend = machine.usesOneConnection && configuration.room.publishes
        offerer.setMedia(
            video: kinds.contains(.video) ? .sendonly : maySend ? .inactive : nil,
            audio: kinds.contains(.audio) ? .sendonly : maySend && receivesAudio ? .inactive : nil,
            codec: machine.codec)
        let reason = restartsICE ? "the room is resumed" : nil
        attempt { () throws(PeerConnectionError) in
            handle(.peer(.offerMade(sdp: try offerer.createOffer(restartsICE: restartsICE, reason: reason))))
        }
    }

    private func applyAnswer(_ sdp: String) {
        guard let offerer else { return }
        do throws(PeerConnectionError) {
            try offerer.setAnswer(sdp, wants: machine.isWanted)
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
        if configuration.room.publishes { emit(.published(sid: machine.trackSID)) }
        if machine.usesOneConnection { emit(.subscribed) }
    }

    private func publishing(_ peer: PeerConnectionConfiguration) -> PeerConnectionConfiguration {
        var peer = peer
        peer.direction = .sendonly
        peer.msid = "\(configuration.room.trackID) \(configuration.room.trackID)"
        peer.audioMSID = "\(configuration.room.trackID) \(configuration.room.audioTrackID)"
        return peer
    }

    private var bothDirections: PeerConnectionConfiguration {
        var peer = publishing(configuration.peer)
        if !configuration.room.publishes { peer.direction = nil }
        (peer.offersEachDirection, peer.awaitsServers) = (true, true)
        peer.alternatives = configuration.room.encodable.filter { $0 != machine.codec }
        peer.receivableCodecs = peer.receivableCodecs ?? Set(VideoCodec.decodable)
        return peer
    }

    private func useServers(_ servers: [LiveKitICEServer], relayOnly: Bool) {
        var peer = configuration.peer
        peer.iceServers = iceServers(with: servers)
        if relayOnly { peer.iceTransportPolicy = .relay }
        attempt { () throws(PeerConnectionError) in
            if !ownerHasPeers { try peer.checkRelays() }
            if peers.isEmpty {
                let publisher = configuration.room.publishes ? publishing(peer) : nil
                try makePeers(TwoConnections.peers(peer, publisher: publisher))
            }
            for (_, connection) in peers { connection.addServers(peer.iceServers, policy: peer.iceTransportPolicy) }
            guard !exchange(&ownerHasPeers, with: true) else { return }
            for (target, connection) in peers {
                emit(.peer(connection, name: machine.usesOneConnection ? "room" : "\(target)"))
            }
        }
    }

    private func makePeers(
        _ configurations: [(LiveKitSignalTarget, PeerConnectionConfiguration)]
    ) throws(PeerConnectionError) {
        for (target, var peer) in configurations {
            place = place ?? peer.early?.place ?? NetworkThreads.shared.assign()
            peer.place = place
            let isOnlyOne = peer.offersEachDirection
            if !isOnlyOne { peer.loggers = peer.loggers.naming("\(target)") }
            let connection = try PeerConnection(configuration: peer) { [weak self, scheduler, onEvent] event in
                switch event {
                // A remote peer may send feedback and media at any rate, and the queue must not grow with them.
                case .bitrateTarget(let bitrate): onEvent(.bitrateTarget(bitrate))
                case .iceConnected, .codecArrived, .streamArrived: break
                default:
                    scheduler.async { [weak self] in
                        // Late events of a dropped connection count no more.
                        guard let self, !self.isStopped, isOnlyOne == self.machine.usesOneConnection else { return }
                        self.peer(target, event)
                    }
                }
            }
            peers.append((target, connection))
        }
    }

    /// Joins our ICE servers and the room's. The agent uses only one STUN server, preferably the room's if it is known.
    private func iceServers(with roomServers: [LiveKitICEServer]) -> [ICEServer] {
        let room = roomServers.prefix(Self.maximumServers).flatMap { server in
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

    private func attempt(_ body: () throws(PeerConnectionError) -> Void) {
        do throws(PeerConnectionError) {
            try body()
        } catch {
            handle(.peer(.peerFailed(SessionError(error))))
        }
    }

    func emit(_ event: RoomConnectionEvent) {
        guard !isStopped else { return }
        onEvent(event)
    }
}

/// The name of a message's kind, which is an enum case with a payload, without its content.
private func kind(of message: Any) -> String { Mirror(reflecting: message).children.first?.label ?? "a message" }
