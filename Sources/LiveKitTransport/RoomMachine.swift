// The signalling of one stay in a LiveKit room as a value: facts in, orders out. No I/O, clock or lock; timers are data.
// `RoomConnection` carries the orders out.
//
//   opening ─opened→ joining ─join→ publishing ─peers connected→ connected
//
// With one peer connection or two: `RoomLink` says what differs. We make one offer at a time. Nothing is resumed: any loss
// is an end, and whoever wants to go on joins anew.
package import DecartProtocol
package import DecartSession
package import LiveKitProtocol
import SwiftProtobuf
package import WebRTCTransport

/// What is published, and to whom is listened.
package struct RoomConfiguration: Sendable, Equatable {
    /// Our names for the tracks, as in the offer's `msid`.
    package var trackID = "camera"
    package var audioTrackID = "microphone"
    /// What others know the picture by.
    package var trackName = "camera"
    /// The pictures are of a screen, not of a camera.
    package var isScreen = false
    package var width: Int
    package var height: Int
    /// At most, bit/s.
    package var bitrate: Int
    /// As LiveKit writes it: `h264`.
    package var codec: String
    /// Of a simulcast, the best one first, with what each is sent at, at most; empty: one stream.
    package var layers: [Layer] = []
    /// Otherwise we only watch: nothing is announced, and there is no connection to send on.
    package var publishes = true
    /// Whose pictures are ours: any other participant is none of our business.
    package var sourcePrefix = "inference-server-"

    package struct Layer: Sendable, Equatable {
        package var rid: String
        package var width: Int
        package var height: Int
        /// bit/s.
        package var bitrate: Int

        package init(rid: String, width: Int, height: Int, bitrate: Int) {
            (self.rid, self.width, self.height, self.bitrate) = (rid, width, height, bitrate)
        }
    }

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
    /// Waiting for the answer to a later offer.
    case answer
}

package enum RoomFact: Sendable, Equatable {
    /// The room is to be joined.
    case open
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
    case wish(MediaWish)
    case stop
}

package enum RoomOrder: Sendable, Equatable {
    case send(LiveKitSignalRequest.OneOf_Message)
    case close
    /// The room's signalling; with a request that holds an offer, by way of one connection for both directions.
    case connect(LiveKitJoinRequest?)
    /// The one connection, for an offer before the room is joined; it looks for no candidates yet …
    case makePeer
    /// … but now, with the room's servers; or is not needed after all.
    case gather([LiveKitICEServer], relayOnly: Bool)
    case dropPeer
    /// Two of them. Servers of the room that cannot be used are left out by whoever makes the peers.
    case makePeers([LiveKitICEServer], relayOnly: Bool)
    /// So many m-lines more for what comes, in offers from now on.
    case addLines([MediaKind: Int])
    /// Of the publisher; these are sent and no others.
    case makeOffer(Set<MediaKind>)
    /// The latest one was not answered.
    case forgetOffer
    case applyAnswer(sdp: String)
    case makeAnswer(offer: String, id: UInt32)
    case applyCandidate(CandidateMessage?, LiveKitSignalTarget)
    case schedule(RoomTimer, after: Duration)
    case cancel(RoomTimer)
    /// The room's name for our picture became known after the answer.
    case reportPublished
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
    package private(set) var link: RoomLink
    private var phase = Phase.opening
    /// The newest, for whoever joins anew.
    package private(set) var token: Secret
    private var needsSubscriber = true
    private var connected: Set<Int> = []
    /// What becomes of a track of ours.
    private enum Publication: Equatable {
        case asked
        /// The server knows it, under this name; empty while it has not told us.
        case known(sid: String)
    }
    /// The room's name for our picture, while it is published.
    package var trackSID: String? {
        guard case .known(let sid) = publications[.video], !sid.isEmpty else { return nil }
        return sid.printable(limit: 64)
    }
    private var wish = MediaWish()
    private var publications: [MediaKind: Publication] = [:]
    /// Not asked for again in this room.
    private var refused: Set<MediaKind> = []
    private var lostPublications = 0
    /// In the latest offer; nil: there was none.
    private var offered: Set<MediaKind>?
    private var isOffering = false
    private var offerCount: UInt32 = 0
    /// The server wants an offer: it has something else to send.
    private var offerIsWanted = false
    private var pingInterval: Duration?
    private var pingTimeout: Duration = .seconds(15)
    private var lastPing: Duration?
    private var awaitsWord = false
    private var roundTrip: Duration = .zero
    private var subscriptions: RoomSubscriptions
    private var orders: [RoomOrder] = []

    private static let laterAnswerTimeout: Duration = .seconds(10)

    /// - Parameter link: which is tried first. Who only watches has two connections in any case.
    package init(configuration: RoomConfiguration, token: Secret, link: RoomLink = .dual) {
        self.configuration = configuration
        self.token = token
        self.link = configuration.publishes ? link : .dual
        subscriptions = RoomSubscriptions(sourcePrefix: configuration.sourcePrefix)
    }

    /// - Parameter now: monotonic, from any origin.
    package mutating func handle(_ fact: RoomFact, now: Duration) -> [RoomOrder] {
        if phase != .ended { take(fact, now) }
        defer { orders = [] }
        return orders
    }

    private mutating func take(_ fact: RoomFact, _ now: Duration) {
        switch fact {
        case .open:
            begin()
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
            if phase == .opening, link == .single, error.httpStatus == 404 { return fallBack() }
            fail(error)
        case .offerMade(let sdp):
            offerCount &+= 1
            let offer = description("offer", sdp, id: offerCount)
            order(phase == .opening ? .connect(joinRequest(offer)) : .send(.offer(offer)))
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
        case .timerFired(.answer):
            isOffering = false
            order(.forgetOffer)
            order(.note("The room did not answer a change of what is published"))
            offerIfDue()
        case .wish(let wish):
            guard wish != self.wish else { return }
            let hadSound = self.wish.audio
            self.wish = wish
            if hadSound != wish.audio { carryOut(subscriptions.listen(wish.audio)) }
            publish()
            checkConnected()
        case .stop:
            if phase != .opening { order(.send(.leave(goodbye))) }
            end()
        }
    }

    // MARK: The beginning

    private mutating func begin() {
        guard link == .single else { return order(.connect(nil)) }
        let wanted = Set(MediaKind.allCases.filter { wish[$0] })
        for kind in wanted { publications[kind] = .known(sid: "") }
        (offered, isOffering) = (wanted, true)
        order(.makePeer)
        order(.makeOffer(wanted))
    }

    /// What the first offer holds is announced with it.
    private func joinRequest(_ offer: LiveKitSessionDescription) -> LiveKitJoinRequest {
        .with {
            $0.publisherOffer = offer
            if offered?.contains(.audio) ?? false { $0.addTrackRequests.append(audioTrack) }
            if offered?.contains(.video) ?? false { $0.addTrackRequests.append(videoTrack) }
        }
    }

    /// The server knows no single connection.
    private mutating func fallBack() {
        link = .dual
        publications = [:]
        (offered, isOffering, offerCount) = (nil, false, 0)
        order(.dropPeer)
        begin()
    }

    // MARK: The server's words

    private mutating func received(_ message: LiveKitSignalResponse.OneOf_Message, _ now: Duration) {
        switch message {
        case .join(let join):
            joined(join)
        case .trackPublished(let published):
            guard let kind = MediaKind.allCases.first(where: { trackID($0) == published.cid }),
                [.asked, .known(sid: "")].contains(publications[kind])
            else { return }
            let isOffered = publications[kind] != .asked
            publications[kind] = .known(sid: published.track.sid)
            if isOffered, !isOffering { order(.reportPublished) }
            offerIfDue()
        case .trackUnpublished(let unpublished):
            lost(unpublished.trackSid)
        case .requestResponse(let response):
            guard response.reason != .ok, response.reason != .queued else { return }
            let words = response.message.isEmpty ? "\(response.reason)" : response.message.printable(limit: 200)
            if case .addTrack(let request) = response.request, request.cid == configuration.trackID, wish.video {
                fail("The room does not take our video: \(words).")
            } else if case .addTrack(let request) = response.request, request.cid == configuration.audioTrackID {
                publications[.audio] = nil
                refused.insert(.audio)
                order(.note("The room does not take our sound: \(words)"))
            } else {
                order(.note("The room refuses a request: \(words)"))
            }
        case .answer(let answer):
            answered(answer)
        case .offer where link == .single:
            fail("The room makes an offer where only we do.")
        case .offer(let offer):
            guard phase != .joining else { return order(.note("Ignored: an offer before joining")) }
            order(.makeAnswer(offer: offer.sdp, id: offer.id))
        case .trickle(let trickle):
            guard phase != .joining else { return }
            if let candidate = CandidateText.read(trickle.candidateInit) {
                order(.applyCandidate(candidate, link.side(trickle.target)))
            } else if !trickle.candidateInit.isEmpty {
                order(.note("Ignored: a candidate that cannot be read"))
            }
            if trickle.final { order(.applyCandidate(nil, link.side(trickle.target))) }
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
            case .seCodecUnsupported where link == .single:
                fail("The room has the result in another codec than ours, which takes a connection of its own.")
            case .seCodecUnsupported: fail("The room has the result in no codec that can be decoded here.")
            default: order(.note("The room refuses a subscription: \(response.err)"))
            }
        case .streamStateUpdate(let update):
            for stream in update.streamStates where stream.state == .paused {
                order(.note("The room pauses the result: the network is too narrow"))
            }
        case .mute(let mute):
            order(.note("The room \(mute.muted ? "mutes" : "unmutes") a track"))
        case .mediaSectionsRequirement(let needed):
            guard link == .single else { return order(.note("Ignored: the room takes us for another kind of client")) }
            let lines = [MediaKind.video: needed.numVideos, .audio: needed.numAudios].mapValues { Int(min($0, 16)) }
            if lines.contains(where: { $0.value > 0 }) { order(.addLines(lines)) }
            offerIsWanted = true
            offerIfDue()
        case .reconnect, .pong, .roomUpdate, .connectionQuality, .subscribedQualityUpdate, .trackSubscribed:
            break
        }
    }

    private mutating func joined(_ join: LiveKitJoinResponse) {
        guard phase == .joining || phase == .opening else { return order(.note("Ignored: joined twice")) }
        phase = .publishing
        needsSubscriber = join.subscriberPrimary && link == .dual
        if join.pingInterval > 0 {
            pingInterval = .seconds(min(max(join.pingInterval, 1), 60))
            pingTimeout = .seconds(min(max(join.pingTimeout, 5), 120))
            schedulePing()
        }
        let (servers, relayOnly) = (Array(join.iceServers.prefix(16)), join.clientConfiguration.forceRelay == .enabled)
        order(link == .single ? .gather(servers, relayOnly: relayOnly) : .makePeers(servers, relayOnly: relayOnly))
        publish()
        subscribe(to: join.otherParticipants)
    }

    // MARK: Publishing

    private func trackID(_ kind: MediaKind) -> String {
        kind == .video ? configuration.trackID : configuration.audioTrackID
    }

    /// Tells the server of tracks that are wanted, and forgets those that are not: they leave the next offer. The sound
    /// first: when the picture is known too, one offer holds both.
    private mutating func publish() {
        guard configuration.publishes, phase == .publishing || phase == .connected else { return }
        for kind in [MediaKind.audio, .video] {
            guard wish[kind] else {
                publications[kind] = nil
                continue
            }
            guard publications[kind] == nil, !refused.contains(kind) else { continue }
            publications[kind] = .asked
            order(.send(.addTrack(kind == .video ? videoTrack : audioTrack)))
        }
        offerIfDue()
    }

    private mutating func answered(_ answer: LiveKitSessionDescription) {
        guard isOffering, link == .dual || answer.id == 0 || answer.id == offerCount, phase != .joining else {
            return order(.note("Ignored: an answer without an offer"))
        }
        isOffering = false
        subscriptions.note(answer.midToTrackID)
        order(.cancel(.answer))
        order(.applyAnswer(sdp: answer.sdp))
        offerIfDue()
    }

    private mutating func offerIfDue() {
        let known = Set(publications.filter { $0.value != .asked }.keys)
        // The first one waits for the picture, where there is to be one; with nothing in it there is none.
        guard phase == .publishing || phase == .connected, !isOffering, offerIsWanted || known != offered ?? [],
            offered != nil || !wish.video || known.contains(.video)
        else { return }
        // Whoever waits for the connection waits for the answer too.
        if phase == .connected || offered != nil { order(.schedule(.answer, after: Self.laterAnswerTimeout)) }
        (isOffering, offerIsWanted) = (true, false)
        offered = known
        order(.makeOffer(known))
    }

    /// The server has let go of a track: it is published anew, but not for ever.
    private mutating func lost(_ sid: String) {
        guard let kind = publications.first(where: { $0.value == .known(sid: sid) })?.key, lostPublications < 8 else { return }
        lostPublications += 1
        publications[kind] = nil
        offered?.remove(kind)
        publish()
    }

    private var audioTrack: LiveKitAddTrackRequest {
        .with {
            $0.cid = configuration.audioTrackID
            $0.name = "microphone"
            $0.type = .audio
            $0.source = .microphone
        }
    }

    private var videoTrack: LiveKitAddTrackRequest {
        let layers = videoLayers
        return .with {
            $0.cid = configuration.trackID
            $0.name = configuration.trackName
            $0.type = .video
            $0.source = configuration.isScreen ? .screenShare : .camera
            $0.width = UInt32(clamping: configuration.width)
            $0.height = UInt32(clamping: configuration.height)
            $0.layers = layers
            $0.simulcastCodecs = [
                .with {
                    $0.codec = configuration.codec
                    $0.cid = configuration.trackID
                    $0.layers = layers
                }
            ]
        }
    }

    /// The least one first, as servers expect them; a single one is of high quality.
    private var videoLayers: [LiveKitVideoLayer] {
        let single = RoomConfiguration.Layer(
            rid: "", width: configuration.width, height: configuration.height, bitrate: configuration.bitrate)
        let qualities: [LiveKitVideoQuality] = [.high, .medium, .low]
        let layers = configuration.layers.isEmpty ? [single] : configuration.layers
        // Two are called low and medium, by their rids q and h.
        let best = configuration.layers.count == 2 ? 1 : 0
        return zip(layers, qualities.dropFirst(best)).reversed().map { layer, quality in
            .with {
                $0.quality = quality
                $0.rid = layer.rid
                $0.width = UInt32(clamping: layer.width)
                $0.height = UInt32(clamping: layer.height)
                $0.bitrate = UInt32(clamping: layer.bitrate)
            }
        }
    }

    // MARK: Subscribing

    private mutating func subscribe(to participants: [LiveKitParticipantInfo]) {
        carryOut(subscriptions.take(participants, withSound: wish.audio))
    }

    private mutating func carryOut(_ changes: [RoomSubscriptions.Change]) {
        for change in changes {
            switch change {
            case .ask(let update):
                order(.send(.subscription(update)))
            // Who publishes hears of it from the service. A room in which somebody watches may stay open for good.
            case .left(leavesNothing: true) where !configuration.publishes:
                return fail("The session has ended: its pictures left the room.")
            case .left:
                order(.note("The inference server left the room"))
            }
        }
    }

    /// Whether a track, by the m-line of an answer or as `stream track`, was asked for: nobody else's picture is shown.
    package func isWanted(mid: String? = nil, msid: String?) -> Bool { subscriptions.isWanted(mid: mid, msid: msid) }

    private mutating func checkConnected() {
        let receives = needsSubscriber || !configuration.publishes
        let sends = configuration.publishes && (wish.video || !receives)
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
        order(.cancel(.answer))
        order(.close)
    }

    private mutating func order(_ order: RoomOrder) {
        orders.append(order)
    }
}
