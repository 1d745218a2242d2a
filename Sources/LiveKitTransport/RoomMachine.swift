// The signalling of one stay in a LiveKit room as a value: facts in, orders out. No I/O, clock or lock; timers are data.
// `RoomConnection` carries the orders out.
//
//   opening ─opened→ joining ─join→ publishing ─both peers connected→ connected
//
// Two peer connections (the protocol's version 0, which every server speaks): the publisher's is offered by us when the
// server knows our track, the subscriber's by the server whenever what we are subscribed to changes. Nothing is resumed:
// any loss is an end, and whoever wants to go on joins anew.
package import DecartProtocol
package import DecartSession
package import LiveKitProtocol
import SwiftProtobuf

/// What is published, and to whom is listened.
package struct RoomConfiguration: Sendable, Equatable {
    /// Our name for the track, as in the offer's `msid`.
    package var trackID = "camera"
    /// What others know it by.
    package var trackName = "camera"
    /// The pictures are of a screen, not of a camera.
    package var isScreen = false
    package var width: Int
    package var height: Int
    /// At most, bit/s.
    package var bitrate: Int
    /// As LiveKit writes it: `h264`.
    package var codec: String
    /// Otherwise we only watch: nothing is announced, and there is no connection to send on.
    package var publishes = true
    /// Whose pictures are ours: any other participant is none of our business.
    package var sourcePrefix = "inference-server-"

    package init(width: Int, height: Int, bitrate: Int, codec: String) {
        self.width = width
        self.height = height
        self.bitrate = bitrate
        self.codec = codec
    }
}

package enum RoomTimer: Sendable, Hashable {
    case ping
    /// No word since the last ping.
    case pong
}

package enum RoomFact: Sendable, Equatable {
    case opened
    case message(LiveKitSignalResponse)
    case closed(code: Int?, reason: String)
    case failed(SessionError)
    /// The publisher's.
    case offerMade(sdp: String)
    /// The subscriber's.
    case answerMade(sdp: String, offer: UInt32)
    /// nil: no more.
    case candidateFound(CandidateMessage?, LiveKitSignalTarget)
    case peerConnected(LiveKitSignalTarget)
    case peerFailed(SessionError, LiveKitSignalTarget)
    case timerFired(RoomTimer)
    case stop
}

package enum RoomOrder: Sendable, Equatable {
    case send(LiveKitSignalRequest.OneOf_Message)
    case close
    /// Of the room; servers that cannot be used are left out by whoever makes the peers.
    case makePeers([LiveKitICEServer], relayOnly: Bool)
    case makeOffer
    case applyAnswer(sdp: String)
    case makeAnswer(offer: String, id: UInt32)
    case applyCandidate(CandidateMessage?, LiveKitSignalTarget)
    case schedule(RoomTimer, after: Duration)
    case cancel(RoomTimer)
    /// Our pictures can flow, and others to us.
    case reportConnected
    case reportFailed(SessionError)
    case note(String)
}

package struct RoomMachine: Sendable {
    private enum Phase: Sendable, Equatable {
        case opening, joining, publishing, connected, ended
    }

    private let configuration: RoomConfiguration
    private var phase = Phase.opening
    /// The newest, for whoever joins anew.
    package private(set) var token: Secret
    /// The room's name for our track.
    package private(set) var trackSID: String?
    private var needsSubscriber = true
    private var connected: Set<Int> = []
    private var isOffered = false
    private var hasAnswer = false
    private var pingInterval: Duration?
    private var pingTimeout: Duration = .seconds(15)
    private var lastPing: Duration?
    private var awaitsWord = false
    private var roundTrip: Duration = .zero
    /// Tracks that we asked for, by participant.
    private var subscribed: [String: Set<String>] = [:]
    private var orders: [RoomOrder] = []

    /// Of a peer's: more participants or tracks than any session has.
    private static let maximumParticipants = 64

    package init(configuration: RoomConfiguration, token: Secret) {
        self.configuration = configuration
        self.token = token
    }

    /// - Parameter now: monotonic, from any origin.
    package mutating func handle(_ fact: RoomFact, now: Duration) -> [RoomOrder] {
        if phase != .ended { take(fact, now) }
        defer { orders = [] }
        return orders
    }

    private mutating func take(_ fact: RoomFact, _ now: Duration) {
        switch fact {
        case .opened:
            if phase == .opening { phase = .joining }
        case .message(let response):
            // Any word shows that the server lives.
            if awaitsWord { order(.cancel(.pong)) }
            awaitsWord = false
            guard let message = response.message else { return }
            received(message, now)
        case .closed(let code, let reason):
            let words = [code.map(String.init), reason.isEmpty ? nil : reason.printable(limit: 123)].compactMap(\.self)
            fail("The room closed the connection" + (words.isEmpty ? "." : " (\(words.joined(separator: ": "))."))
        case .failed(let error):
            fail(error)
        case .offerMade(let sdp):
            order(.send(.offer(description("offer", sdp, id: 1))))
        case .answerMade(let sdp, let id):
            order(.send(.answer(description("answer", sdp, id: id))))
        case .candidateFound(let candidate, let target):
            if let message = CandidateText.write(candidate, target) { order(.send(.trickle(message))) }
        case .peerConnected(let target):
            connected.insert(target.rawValue)
            checkConnected()
        case .peerFailed(let error, _):
            fail(error)
        case .timerFired(.ping):
            ping(now)
        case .timerFired(.pong):
            fail("The room is silent: the connection is dead.")
        case .stop:
            if phase != .opening { order(.send(.leave(goodbye))) }
            end()
        }
    }

    // MARK: The server's words

    private mutating func received(_ message: LiveKitSignalResponse.OneOf_Message, _ now: Duration) {
        switch message {
        case .join(let join):
            joined(join)
        case .trackPublished(let published):
            guard phase == .publishing, published.cid == configuration.trackID, !isOffered else { return }
            trackSID = published.track.sid.isEmpty ? nil : published.track.sid.printable(limit: 64)
            isOffered = true
            order(.makeOffer)
        case .requestResponse(let response):
            guard response.reason != .ok, response.reason != .queued else { return }
            let words = response.message.isEmpty ? "\(response.reason)" : response.message.printable(limit: 200)
            if case .addTrack(let request) = response.request, request.cid == configuration.trackID {
                fail("The room does not take our video: \(words).")
            } else {
                order(.note("The room refuses a request: \(words)"))
            }
        case .answer(let answer):
            guard isOffered, !hasAnswer else { return order(.note("Ignored: an answer without an offer")) }
            hasAnswer = true
            order(.applyAnswer(sdp: answer.sdp))
        case .offer(let offer):
            guard phase != .joining else { return order(.note("Ignored: an offer before joining")) }
            order(.makeAnswer(offer: offer.sdp, id: offer.id))
        case .trickle(let trickle):
            guard phase != .joining else { return }
            if let candidate = CandidateText.read(trickle.candidateInit) {
                order(.applyCandidate(candidate, trickle.target))
            } else if !trickle.candidateInit.isEmpty {
                order(.note("Ignored: a candidate that cannot be read"))
            }
            if trickle.final { order(.applyCandidate(nil, trickle.target)) }
        case .update(let update):
            subscribe(to: update.participants)
        case .leave(let leave):
            left(leave)
        case .refreshToken(let fresh):
            if !fresh.isEmpty, fresh.utf8.count <= 8192 { token = Secret(fresh) }
        case .roomMoved(let moved):
            if !moved.token.isEmpty, moved.token.utf8.count <= 8192 { token = Secret(moved.token) }
            subscribe(to: moved.otherParticipants)
        case .pongResp(let pong):
            if let lastPing, milliseconds(lastPing) == pong.lastPingTimestamp { roundTrip = max(now - lastPing, .zero) }
        case .subscriptionResponse(let response):
            switch response.err {
            case .seCodecUnsupported: fail("The room has the result in no codec that can be decoded here.")
            default: order(.note("The room refuses a subscription: \(response.err)"))
            }
        case .streamStateUpdate(let update):
            for stream in update.streamStates where stream.state == .paused {
                order(.note("The room pauses the result: the network is too narrow"))
            }
        case .mute(let mute):
            order(.note("The room \(mute.muted ? "mutes" : "unmutes") a track"))
        case .mediaSectionsRequirement:
            order(.note("Ignored: the room takes us for another kind of client"))
        case .reconnect, .pong, .roomUpdate, .connectionQuality, .subscribedQualityUpdate, .trackUnpublished,
            .trackSubscribed:
            break
        }
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        guard phase == .joining || phase == .opening else { return order(.note("Ignored: joined twice")) }
        phase = .publishing
        needsSubscriber = join.subscriberPrimary
        if join.pingInterval > 0 {
            pingInterval = .seconds(min(max(join.pingInterval, 1), 60))
            pingTimeout = .seconds(min(max(join.pingTimeout, 5), 120))
            schedulePing()
        }
        order(
            .makePeers(
                Array(join.iceServers.prefix(16)), relayOnly: join.clientConfiguration.forceRelay == .enabled))
        if configuration.publishes { order(.send(.addTrack(track))) }
        subscribe(to: join.otherParticipants)
    }

    private var track: LiveKitAddTrackRequest {
        let layer = LiveKitVideoLayer.with {
            $0.quality = .high
            $0.width = UInt32(clamping: configuration.width)
            $0.height = UInt32(clamping: configuration.height)
            $0.bitrate = UInt32(clamping: configuration.bitrate)
        }
        return .with {
            $0.cid = configuration.trackID
            $0.name = configuration.trackName
            $0.type = .video
            $0.source = configuration.isScreen ? .screenShare : .camera
            $0.width = layer.width
            $0.height = layer.height
            $0.layers = [layer]
            $0.simulcastCodecs = [
                .with {
                    $0.codec = configuration.codec
                    $0.cid = configuration.trackID
                    $0.layers = [layer]
                }
            ]
        }
    }

    /// Asks for new video tracks of the inference server, and of nobody else.
    private mutating func subscribe(to participants: [LiveKitParticipantInfo]) {
        for participant in participants.prefix(Self.maximumParticipants)
        where participant.identity.hasPrefix(configuration.sourcePrefix) {
            guard participant.state != .disconnected else {
                let wasShown = subscribed.removeValue(forKey: participant.sid) != nil
                // Who publishes hears of it from the service. A room in which somebody watches may stay open for good.
                if wasShown, subscribed.isEmpty, !configuration.publishes {
                    return fail("The session has ended: its pictures left the room.")
                }
                order(.note("The inference server left the room"))
                continue
            }
            let known = subscribed[participant.sid] ?? []
            let fresh = participant.tracks.prefix(Self.maximumParticipants)
                .filter { $0.type == .video && !$0.sid.isEmpty && !known.contains($0.sid) }.map(\.sid)
            guard !fresh.isEmpty, subscribed.count < Self.maximumParticipants else { continue }
            // What is gone may come back under its old name.
            subscribed[participant.sid] = Set(participant.tracks.prefix(Self.maximumParticipants).map(\.sid))
            order(
                .send(
                    .subscription(
                        .with {
                            $0.trackSids = fresh
                            $0.subscribe = true
                            $0.participantTracks = [
                                .with {
                                    $0.participantSid = participant.sid
                                    $0.trackSids = fresh
                                }
                            ]
                        })))
        }
    }

    /// Whether a track of the subscriber's offer, `stream track`, was asked for: nobody else's picture is shown.
    package func isWanted(msid: String?) -> Bool {
        guard let msid else { return false }
        let parts = msid.split(separator: " ").flatMap { $0.split(separator: "|") }.map(String.init)
        return subscribed.contains { participant, tracks in
            parts.contains(participant) || parts.contains { tracks.contains($0) }
        }
    }

    private mutating func checkConnected() {
        let (sends, receives) = (configuration.publishes, needsSubscriber || !configuration.publishes)
        guard phase == .publishing, !sends || connected.contains(LiveKitSignalTarget.publisher.rawValue),
            !receives || connected.contains(LiveKitSignalTarget.subscriber.rawValue)
        else { return }
        phase = .connected
        order(.reportConnected)
    }

    // MARK: Liveness

    private mutating func ping(_ now: Duration) {
        guard pingInterval != nil else { return }
        lastPing = now
        order(
            .send(
                .pingReq(
                    .with {
                        $0.timestamp = milliseconds(now)
                        $0.rtt = milliseconds(roundTrip)
                    })))
        // From the first ping that was not answered.
        if !awaitsWord { order(.schedule(.pong, after: pingTimeout)) }
        awaitsWord = true
        schedulePing()
    }

    private mutating func schedulePing() {
        if let pingInterval { order(.schedule(.ping, after: pingInterval)) }
    }

    private func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds &* 1000 &+ attoseconds / 1_000_000_000_000_000
    }

    // MARK: The end

    /// All of them are an end here. Whether to try again is the session's affair: it asks for a new room.
    private mutating func left(_ leave: LiveKitLeaveRequest) {
        let action = leave.action == .disconnect && leave.canReconnect ? .reconnect : leave.action
        fail(
            "The room sends us away (\(leave.reason), \(action))"
                + (leave.reason == .duplicateIdentity ? ": somebody joined with our token." : "."))
    }

    private var goodbye: LiveKitLeaveRequest {
        .with {
            $0.action = .disconnect
            $0.reason = .clientInitiated
        }
    }

    private func description(_ type: String, _ sdp: String, id: UInt32) -> LiveKitSessionDescription {
        .with {
            $0.type = type
            $0.sdp = sdp
            $0.id = id
        }
    }

    private mutating func fail(_ words: String) {
        fail(SessionError(.webRTC, words, stage: .media))
    }

    private mutating func fail(_ error: SessionError) {
        if phase != .opening { order(.send(.leave(goodbye))) }
        end()
        order(.reportFailed(error))
    }

    private mutating func end() {
        phase = .ended
        order(.cancel(.ping))
        order(.cancel(.pong))
        order(.close)
    }

    private mutating func order(_ order: RoomOrder) {
        orders.append(order)
    }
}
