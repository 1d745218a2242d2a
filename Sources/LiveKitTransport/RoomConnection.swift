// One stay in a LiveKit room: the WebSocket, the peer connections, and the `RoomMachine` that directs them. It knows no
// element, encoder or decoder: its owner puts the bins of the peer connections into a pipeline.
//
// Everything runs on the scheduler's serial queue, including `onEvent`.
package import DecartProtocol
package import DecartSession
import ICE
import LiveKitProtocol
package import Signalling
import SwiftProtobuf
import Synchronization
package import WebRTCTransport

package struct RoomConnectionConfiguration: Sendable {
    package var room: RoomConfiguration
    package var trust: TLSTrust = .system
    package var userAgent = "gst-decart"
    /// Permits unencrypted rooms on other machines.
    package var allowsInsecure = false
    /// Settings of both peer connections; codec and bitrates apply to the publisher.
    package var peer = PeerConnectionConfiguration()
    package var openTimeout: Duration = .seconds(15)
    /// Uses one peer connection for both directions if the server supports it.
    package var prefersSingle = false

    package init(room: RoomConfiguration) {
        self.room = room
    }
}

package enum RoomEvent: Sendable {
    /// The peer connections exist, but nothing is negotiated: put their bins into the pipeline now. A viewer has no
    /// publisher; a single connection is both.
    case peers(publisher: PeerConnection?, subscriber: PeerConnection)
    /// The room accepts our media as the publisher's `sendParameters` and `audioSendParameters` describe; `sid` is its
    /// ID of our video track. Emitted again when they change.
    case published(sid: String?)
    /// The transformed media come as the subscriber's `negotiatedCodec` and `audioDirection` describe. Emitted again
    /// when they change.
    case subscribed
    case connected(ice: Duration?, dtls: Duration?)
    case bitrateTarget(BitrateTarget)
    case warning(String)
    /// Emitted once; the room has been left.
    case failed(SessionError)
}

// @unchecked: after init, accessed only on the scheduler's queue.
package final class RoomConnection: @unchecked Sendable {
    private let configuration: RoomConnectionConfiguration
    private let base: String
    private let token: APIKey
    private var url: ServiceURL
    private let scheduler: any SessionScheduler
    private let onEvent: @Sendable (RoomEvent) -> Void
    private var machine: RoomMachine
    private var channel: WebSocketChannel?
    private var publisher: PeerConnection?
    private var subscriber: PeerConnection?
    /// True once the owner has got the peer connections: it then takes their bins down.
    private var peersAreTold = false
    private var wish = MediaWish()
    /// True once an answer to our offer was applied.
    private var isPublished = false
    private var timers: [RoomTimer: UInt64] = [:]
    private var timerVersion: UInt64 = 0
    private var isStopped = false

    /// - Parameters:
    ///   - url: the room's URL from the service, without `token`.
    ///   - onEvent: called on the scheduler's queue.
    package init(
        url: String, token: Secret, configuration: RoomConnectionConfiguration, scheduler: any SessionScheduler,
        onEvent: @escaping @Sendable (RoomEvent) -> Void
    ) throws(SessionError) {
        self.configuration = configuration
        self.scheduler = scheduler
        self.onEvent = onEvent
        base = url
        machine = RoomMachine(
            configuration: configuration.room, token: token, link: configuration.prefersSingle ? .single : .dual)
        do throws(ProtocolError) {
            self.token = try APIKey(token.reveal())
            self.url = try RoomLink.url(url, token: self.token, allowsInsecure: configuration.allowsInsecure)
        } catch {
            throw SessionError(
                .server, "The service sent an unusable room URL or token: \(error.message)", stage: .media)
        }
    }

    package func open() { handle(.open) }

    private func connect(_ join: LiveKitJoinRequest?) {
        // Cannot fail: `init` parsed the same base URL.
        if let url = try? RoomLink.url(base, token: token, allowsInsecure: configuration.allowsInsecure, join: join) {
            self.url = url
        }
        var socket = WebSocketChannel.Configuration()
        socket.trust = configuration.trust
        socket.userAgent = configuration.userAgent
        socket.messages = .binary
        let channel = WebSocketChannel(url: url, configuration: socket) { [weak self, scheduler] event in
            scheduler.async { [weak self] in self?.signalling(event) }
        }
        self.channel = channel
        channel.open(timeout: configuration.openTimeout)
    }

    /// Leaves the room and closes both peer connections; their owner takes the bins down. No event follows.
    package func stop() {
        guard !isStopped else { return }
        isStopped = true
        handle(.stop)
        dropPeers()
    }

    private func dropPeers() {
        publisher?.close()
        if subscriber !== publisher { subscriber?.close() }
        if !peersAreTold { publisher?.dismantle() }
        (publisher, subscriber) = (nil, nil)
    }

    /// Sets the media to publish from now on, or once the room is joined.
    package func publish(_ wish: MediaWish) {
        self.wish = wish
        setSubscriberMedia()
        handle(.wish(wish))
    }

    private func setSubscriberMedia() {
        guard subscriber !== publisher else { return }
        subscriber?.setMedia(video: .recvonly, audio: wish.audio ? .recvonly : nil)
    }

    // MARK: Events

    private func handle(_ fact: RoomFact) {
        for order in machine.handle(fact, now: scheduler.now) { perform(order) }
    }

    private func signalling(_ event: SignallingEvent) {
        switch event {
        case .opened: handle(.opened)
        case .text: break
        case .binary(let bytes):
            defer { channel?.messageHandled(size: bytes.count) }
            guard var response = try? LiveKitSignalResponse(serializedBytes: bytes) else {
                return tell(.warning("Ignored: a malformed message of the room"))
            }
            if case .requestResponse(var words) = response.message {
                words.message = url.redacting(words.message)
                response.message = .requestResponse(words)
            }
            handle(.message(response))
        case .closed(let code, let reason): handle(.closed(code: code, reason: reason))
        case .failed(let error): handle(.failed(explained(error)))
        }
    }

    /// Rewords a channel's error: the channel blames keys and models, but this one is about a room and its token.
    private func explained(_ error: SessionError) -> SessionError {
        var error = error
        error.stage = .media
        guard let status = error.httpStatus else { return error }
        error.isPermanent = false
        error.code = .server
        error.message =
            status == 401 || status == 403
            ? "The room at \(url.host) rejected its token (HTTP \(status))."
            : "The room at \(url.host) rejected the connection (HTTP \(status))."
        return error
    }

    private func peer(_ target: LiveKitSignalTarget, _ event: PeerConnectionEvent) {
        guard !isStopped else { return }
        switch event {
        case .localCandidate(let candidate):
            handle(
                .candidateFound(
                    CandidateMessage(candidate),
                    target))
        case .gatheringComplete: handle(.candidateFound(nil, target))
        case .stateChanged(.connected): handle(.peerConnected(target))
        case .stateChanged(.failed(let error)): handle(.peerFailed(SessionError(error), target))
        case .warning(let text): tell(.warning(text))
        case .bitrateTarget(let target): tell(.bitrateTarget(target))
        case .iceConnected, .remoteBitrateEstimate, .stateChanged, .streamArrived: break
        }
    }

    // MARK: Actions

    private func perform(_ order: RoomAction) {
        switch order {
        case .send(let message):
            guard let bytes: [UInt8] = try? LiveKitSignalRequest.with({ $0.message = message }).serializedBytes() else {
                return
            }
            channel?.send(bytes)
        case .close:
            channel?.close()
            channel = nil
        case .connect(let join):
            connect(join)
        case .makePeer:
            attempt(.publisher) { () throws(PeerConnectionError) in
                var both = self.ours
                both.direction = .sendrecv
                (both.separatesDirections, both.gathersLater) = (true, true)
                let peer = try self.makePeer(both, .publisher)
                (self.publisher, self.subscriber) = (peer, peer)
            }
        case .gather(let servers, let relayOnly):
            guard let publisher else { return }
            tellPeers(publisher, publisher)
            publisher.gather(
                servers: iceServers(with: servers), policy: relayOnly ? .relay : configuration.peer.iceTransportPolicy)
        case .dropPeer:
            dropPeers()
        case .makePeers(let servers, let relayOnly):
            makePeers(servers, relayOnly: relayOnly)
        case .addLines(let count):
            publisher?.addLines(count)
        case .makeOffer(let kinds):
            attempt(.publisher) { [publisher, wish] () throws(PeerConnectionError) in
                guard let publisher else { return }
                let link = self.machine.link
                publisher.setMedia(
                    video: link.direction(isPublished: kinds.contains(.video), isWanted: true),
                    audio: link.direction(isPublished: kinds.contains(.audio), isWanted: wish.audio))
                self.handle(.offerMade(sdp: try publisher.createOffer()))
            }
        case .forgetOffer:
            publisher?.forgetOffer()
        case .applyAnswer(let sdp):
            applyAnswer(sdp)
        case .makeAnswer(let offer, let id):
            attempt(.subscriber) { () throws(PeerConnectionError) in try self.answer(offer, id) }
        case .applyCandidate(let candidate, let target):
            let peer = target == .subscriber ? subscriber : publisher
            peer?.addRemoteCandidate(candidate.map(ICECandidate.init))
        case .schedule(let timer, let delay):
            schedule(timer, delay)
        case .cancel(let timer):
            timers[timer] = nil
        case .reportPublished:
            tell(.published(sid: machine.trackSID))
        case .reportConnected:
            let times = (publisher ?? subscriber)?.statistics()
            tell(.connected(ice: times?.iceTime, dtls: times?.dtlsTime))
        case .reportFailed(let error):
            tell(.failed(error))
        case .note(let text):
            tell(.warning(text))
        }
    }

    private func applyAnswer(_ sdp: String) {
        guard let publisher else { return }
        do throws(PeerConnectionError) {
            let machine = machine
            try publisher.setAnswer(sdp) { machine.isWanted(mid: $0, msid: $1) }
        } catch {
            guard isPublished else { return handle(.peerFailed(SessionError(error), .publisher)) }
            publisher.forgetOffer()
            return tell(.warning("The room's answer to a later offer is unusable and ignored: \(error.message)"))
        }
        isPublished = true
        tell(.published(sid: machine.trackSID))
        if subscriber === publisher { tell(.subscribed) }
    }

    private var ours: PeerConnectionConfiguration {
        var ours = configuration.peer
        ours.direction = .sendonly
        ours.msid = "\(configuration.room.trackID) \(configuration.room.trackID)"
        ours.audioMSID = "\(configuration.room.trackID) \(configuration.room.audioTrackID)"
        return ours
    }

    private func tellPeers(_ publisher: PeerConnection?, _ subscriber: PeerConnection) {
        peersAreTold = true
        tell(.peers(publisher: publisher, subscriber: subscriber))
    }

    private func makePeers(_ servers: [LiveKitICEServer], relayOnly: Bool) {
        attempt(.publisher) { () throws(PeerConnectionError) in
            var (ours, theirs) = (self.ours, self.configuration.peer)
            ours.iceServers = self.iceServers(with: servers)
            if relayOnly { ours.iceTransportPolicy = .relay }
            (theirs.iceServers, theirs.iceTransportPolicy) = (ours.iceServers, ours.iceTransportPolicy)
            theirs.direction = .recvonly
            theirs.acceptsDataChannels = true
            let publisher = self.configuration.room.publishes ? try self.makePeer(ours, .publisher) : nil
            let subscriber = try self.makePeer(theirs, .subscriber)
            (self.publisher, self.subscriber) = (publisher, subscriber)
            self.setSubscriberMedia()
            self.tellPeers(publisher, subscriber)
        }
    }

    private func makePeer(
        _ configuration: PeerConnectionConfiguration, _ target: LiveKitSignalTarget
    ) throws(PeerConnectionError) -> PeerConnection {
        let latest = LatestBitrateTarget()
        return try PeerConnection(configuration: configuration) { [weak self, scheduler] event in
            switch event {
            case .iceConnected, .remoteBitrateEstimate, .streamArrived: break
            case .bitrateTarget(let bitrate):
                // A remote peer may send feedback at any rate, so at most one work item waits for it on the queue.
                guard latest.put(bitrate) else { return }
                scheduler.async { [weak self] in
                    if let bitrate = latest.take() { self?.peer(target, .bitrateTarget(bitrate)) }
                }
            case .localCandidate, .gatheringComplete, .stateChanged, .warning:
                scheduler.async { [weak self] in self?.peer(target, event) }
            }
        }
    }

    /// Joins our ICE servers and the room's. The agent uses only one STUN server, preferably the room's.
    private func iceServers(with theirs: [LiveKitICEServer]) -> [ICEServer] {
        let room = theirs.flatMap { server in
            server.urls.prefix(8).compactMap { url in
                try? ICEServer(
                    url: url, username: server.username.isEmpty ? nil : server.username,
                    credential: server.credential.isEmpty ? nil : server.credential)
            }
        }
        let own = configuration.peer.iceServers
        let stun = room.first { $0.kind == .stun } ?? own.first { $0.kind == .stun }
        // Each server costs sockets and time.
        return Array(([stun].compactMap(\.self) + (own + room).filter { $0.kind == .turn }).prefix(16))
    }

    private func answer(_ offer: String, _ id: UInt32) throws(PeerConnectionError) {
        guard let subscriber else { return }
        let answer: String
        do throws(PeerConnectionError) {
            let machine = machine
            answer = try subscriber.createAnswer(to: offer) { machine.isWanted(msid: $0) }
        } catch where error.code == .rejected {
            // The offer holds other participants' media or none; the next one may hold the transformed media.
            return tell(.warning("The room's offer has no usable media: \(error.message)"))
        }
        // Emit this before the answer is sent, so that the pipeline exists when the first packet arrives.
        if subscriber.negotiatedCodec != nil || subscriber.audioDirection != nil { tell(.subscribed) }
        handle(.answerMade(sdp: answer, offer: id))
    }

    private func attempt(_ target: LiveKitSignalTarget, _ body: () throws(PeerConnectionError) -> Void) {
        do throws(PeerConnectionError) {
            try body()
        } catch {
            handle(.peerFailed(SessionError(error), target))
        }
    }

    private func tell(_ event: RoomEvent) {
        guard !isStopped else { return }
        onEvent(event)
    }

    private func schedule(_ timer: RoomTimer, _ delay: Duration) {
        timerVersion &+= 1
        let version = timerVersion
        timers[timer] = version
        scheduler.schedule(after: delay) { [weak self] in
            guard let self, self.timers[timer] == version else { return }
            self.timers[timer] = nil
            self.handle(.timerFired(timer))
        }
    }
}

/// The newest bitrate target that waits for the scheduler's queue.
private final class LatestBitrateTarget: Sendable {
    private let waiting = Mutex<BitrateTarget?>(nil)

    /// - Returns: true if none was waiting.
    func put(_ target: BitrateTarget) -> Bool {
        waiting.withLock { waiting in
            defer { waiting = target }
            return waiting == nil
        }
    }

    func take() -> BitrateTarget? {
        waiting.withLock { waiting in
            defer { waiting = nil }
            return waiting
        }
    }
}

extension SessionError {
    /// Converts the error of a peer connection into an error of the media stage.
    package init(_ error: PeerConnectionError) {
        let text = error.message
        self.init(
            .webRTC, (text.first.map { $0.uppercased() + text.dropFirst() } ?? "") + ".", stage: .media,
            isPermanent: [.fingerprintMismatch, .missingElement].contains(error.code))
    }
}
