// Our tracks in a room and the offers that carry them, as a value. One offer of ours is in flight at a time.
import DecartProtocol
import DecartSession
import LiveKitProtocol
import RTP
import Recovery
import WebRTCTransport

struct RoomPublisher: Sendable {
    private let configuration: RoomConfiguration
    private(set) var usesOneConnection: Bool
    var desired = DesiredMedia()
    /// Kinds whose tracks are announced, and those of them that the offer with the announcement holds, while the server has
    /// not confirmed them.
    private var announced: Set<MediaKind> = []
    private var announcedEarly: Set<MediaKind> = []
    /// The server's description of each track that it knows; its SID is empty until the server has sent that.
    private var known: [MediaKind: LiveKitTrackPublishedResponse] = [:]
    /// Kinds that the application mutes, and those that the room mutes. A muted track stays published.
    var muted: Set<MediaKind> = []
    var mutedByRoom: Set<MediaKind> = []
    /// Kinds that are muted on the server.
    private var mutedOnServer: Set<MediaKind> = []
    private var hasMuted = false
    /// Rejected by the server; not requested again in this room.
    private var rejected: Set<MediaKind> = []
    private var lostPublications = 0
    /// Media in the latest offer; nil: no offer was made.
    private var offered: Set<MediaKind>?
    /// An offer waits for its answer.
    private(set) var isOffering = false
    private var offerCount: UInt32 = 0
    /// RIDs of the layers of our video that a participant receives; nil: all.
    private var wantedLayers: Set<String>?
    /// The answer to the last offer was lost, or the server wants another one.
    private var needsOffer = false
    /// The room carries the trailers of our frames.
    private(set) var carriesTrailers = false
    private var codecs: RoomCodecs

    init(_ configuration: RoomConfiguration) {
        self.configuration = configuration
        usesOneConnection = configuration.prefersOneConnection
        codecs = RoomCodecs(configuration)
    }

    /// The room's ID of our video track, while it is published.
    var trackSID: String? { sid(.video)?.printable(limit: 64) }

    // MARK: Codecs

    /// Chooses the codec of our video from what the room allows.
    mutating func choose(from enabled: [LiveKitCodec]) -> [RoomAction] {
        codecs.choose(from: enabled) ? [.useCodec(codecs.chosen)] : []
    }

    /// The error for a room that allows no codec that we can send. No other attempt would end otherwise.
    var codecProblem: SessionError? {
        guard desired.video, codecs.isEmpty else { return nil }
        let name = codecs.chosen.encodingName
        let problem =
            configuration.isInputEncoded
            ? "and the input is \(name). Encode it in what the room allows, or decode it in front of the element."
            : "which this installation cannot send (\(name) was wanted). Install an encoder for it, or change the room."
        return SessionError(
            .webRTC, "The room allows \(codecs.text) to be published, \(problem)", stage: .media, isPermanent: true)
    }

    /// The error for an answer that rejects our video.
    var rejection: SessionError {
        codecProblem
            ?? SessionError(
                .webRTC,
                "The room rejects video in \(codecs.chosen.encodingName); it allows \(codecs.text).", stage: .media)
    }

    // MARK: Tracks

    /// Audio comes first: once the server knows the video track too, one offer holds both.
    private static let kinds = [MediaKind.audio, .video]

    private func sid(_ kind: MediaKind) -> String? {
        known[kind].flatMap { $0.track.sid.isEmpty ? nil : $0.track.sid }
    }

    private func kind(sid: String) -> MediaKind? { known.first { $0.value.track.sid == sid }?.key }

    /// Announces wanted tracks to the server, and removes unwanted ones from the next offer.
    mutating func publish() -> [RoomAction] {
        for kind in Self.kinds where !desired[kind] { forget(kind) }
        let fresh = Self.kinds.filter {
            desired[$0] && !announced.contains($0) && known[$0] == nil && !rejected.contains($0)
        }
        for kind in fresh {
            announced.insert(kind)
            setMutedOnServer(kind, muted.contains(kind))
        }
        return fresh.map { .send(.addTrack(track($0))) }
    }

    private mutating func forget(_ kind: MediaKind) {
        known[kind] = nil
        announced.remove(kind)
        announcedEarly.remove(kind)
    }

    mutating func published(_ message: LiveKitTrackPublishedResponse) -> [RoomAction] {
        guard let kind = Self.kinds.first(where: { trackID($0) == message.cid }),
            announced.contains(kind) || known[kind]?.track.sid.isEmpty == true
        else { return [] }
        forget(kind)
        known[kind] = message
        var changes: [RoomAction] = []
        if kind == .video {
            if wantedLayers.take() != nil { changes.append(.want(Set(videoLayers.map(\.rid)))) }
            // The codec of an m-line that exists stays; the answer to one with several codecs takes the instructed one.
            if !(offered ?? []).contains(.video) || usesOneConnection,
                codecs.instructed(message.track)
            {
                changes.append(.useCodec(codecs.chosen))
            }
            carriesTrailers =
                configuration.usesTrailers && message.track.packetTrailerFeatures.contains(.ptfUserTimestamp)
        }
        return changes + updateMutes()
    }

    // MARK: Layers

    /// The server names the qualities of our video that participants receive; the others need not be sent.
    mutating func wanted(_ update: LiveKitSubscribedQualityUpdate) -> [RoomAction] {
        guard sid(.video) == update.trackSid else { return [] }
        let own = update.subscribedCodecs.first {
            RoomCodecs.name(ofMIMEType: $0.codec) == codecs.chosen.encodingName
        }
        let qualities = own?.qualities ?? update.subscribedQualities
        let layers = videoLayers
        guard !qualities.isEmpty, let lowest = layers.first else { return [] }
        let enabled = qualities.filter { $0.enabled && $0.quality != .off }
        // If there are fewer layers than qualities, each layer stands for the qualities up to the next one.
        let rids = Set(
            enabled.map { wanted in
                (layers.last { $0.quality.varint <= wanted.quality.varint } ?? lowest).rid
            })
        guard rids != wantedLayers ?? Set(layers.map(\.rid)) else { return [] }
        wantedLayers = rids
        return [.want(rids)]
    }

    // MARK: Muted tracks

    /// Informs the server of each track that is muted or no longer muted.
    mutating func updateMutes() -> [RoomAction] {
        MediaKind.allCases.compactMap { kind in
            let isMuted = muted.contains(kind) || mutedByRoom.contains(kind)
            guard let sid = sid(kind), isMuted != mutedOnServer.contains(kind) else { return nil }
            setMutedOnServer(kind, isMuted)
            return .send(.mute(.with { ($0.sid, $0.muted) = (sid, isMuted) }))
        }
    }

    /// The server has muted or unmuted one of our tracks. A track that the application mutes stays muted.
    mutating func roomMutes(_ message: LiveKitMuteTrackRequest) -> [RoomAction] {
        guard let kind = kind(sid: message.sid) else { return [.note("Ignored: a mute of an unknown track")] }
        setMutedOnServer(kind, message.muted)
        if message.muted { mutedByRoom.insert(kind) } else { mutedByRoom.remove(kind) }
        return [.reportMuted(mutedByRoom)] + updateMutes()
    }

    /// Repeats the state of all tracks after a resume: the last request may have been lost with its connection.
    mutating func repeatMutes() -> [RoomAction] {
        guard hasMuted || !muted.isEmpty else { return [] }
        mutedOnServer = Set(MediaKind.allCases).subtracting(muted.union(mutedByRoom))
        return updateMutes()
    }

    private mutating func setMutedOnServer(_ kind: MediaKind, _ isMuted: Bool) {
        hasMuted = hasMuted || isMuted
        known[kind]?.track.muted = isMuted
        if isMuted { mutedOnServer.insert(kind) } else { mutedOnServer.remove(kind) }
    }

    /// - Returns: true if the track is to be published again, which is so a limited number of times.
    mutating func unpublished(_ sid: String) -> Bool {
        guard let kind = kind(sid: sid), lostPublications < 8 else { return false }
        lostPublications += 1
        forget(kind)
        mutedByRoom.remove(kind)
        offered?.remove(kind)
        return true
    }

    mutating func reject(_ kind: MediaKind) {
        forget(kind)
        rejected.insert(kind)
    }

    private func trackID(_ kind: MediaKind) -> String {
        kind == .video ? configuration.trackID : configuration.audioTrackID
    }

    // MARK: Offers

    /// Kinds that an offer holds.
    private var offerable: Set<MediaKind> { announcedEarly.union(known.keys) }

    /// Offers what is wanted at once, for the request to join with one connection, which holds the announcements too.
    mutating func offerEarly() -> [RoomAction] {
        if configuration.publishes { _ = publish() }
        announcedEarly = announced
        (isOffering, offered) = (true, announcedEarly)
        return [.makeOffer(announcedEarly)]
    }

    func joinRequest(_ offer: LiveKitSessionDescription) -> LiveKitJoinRequest {
        .with {
            $0.publisherOffer = offer
            $0.addTrackRequests = Self.kinds.filter(announcedEarly.contains).map(track)
        }
    }

    /// The server did not take the request with the first offer.
    mutating func beginAgain() {
        usesOneConnection = false
        (known, announced, announcedEarly, offered, isOffering) = ([:], [], [], nil, false)
    }

    /// The server needs an offer, which its answer fills with its tracks.
    mutating func demandOffer() { needsOffer = true }

    /// - Parameter isConnected: false while the first connections are being established.
    mutating func offerIfDue(isConnected: Bool) -> [RoomAction] {
        let kinds = offerable
        // The first offer waits for the video track if video is wanted. An empty first offer is never made.
        guard !isOffering, needsOffer || kinds != offered ?? [],
            offered != nil || !desired.video || kinds.contains(.video)
        else { return [] }
        // The session's own timeout for connecting media covers the answer to the first offer.
        let limit: [RoomAction] =
            isConnected || offered != nil ? [.schedule(.answer, after: RecoveryPlan.Room.renegotiationTimeout)] : []
        (isOffering, needsOffer, offered) = (true, false, kinds)
        return limit + [.makeOffer(kinds)]
    }

    mutating func nextOfferID() -> UInt32 {
        offerCount &+= 1
        return offerCount
    }

    /// - Returns: false if the answer belongs to no offer.
    mutating func answered() -> Bool { exchange(&isOffering, with: false) }

    /// The offer was not answered.
    mutating func rollBack() { isOffering = false }

    // MARK: Resuming

    /// The signalling connection is lost, and with it the answer to an offer in flight.
    mutating func signallingLost() -> [RoomAction] {
        guard isOffering else { return [] }
        (isOffering, needsOffer) = (false, true)
        return [.cancel(.answer), .rollbackOffer]
    }

    /// Our tracks that the server knows.
    var publishedTracks: [LiveKitTrackPublishedResponse] {
        Self.kinds.compactMap { sid($0) == nil ? nil : known[$0] }
    }

    /// Repeats the announcements whose answer was lost.
    func announceAgain() -> [RoomAction] {
        Self.kinds.filter(announced.contains).map { .send(.addTrack(track($0))) }
    }

    /// Offers what is published, with new ICE credentials. Nothing happens if nothing was offered yet.
    mutating func restartICE() -> [RoomAction] {
        guard !isOffering, offered != nil else { return [] }
        let kinds = offerable
        (isOffering, needsOffer, offered) = (true, false, kinds)
        return [.schedule(.answer, after: RecoveryPlan.Room.renegotiationTimeout), .restartICE(kinds)]
    }

    // MARK: Requests

    private func track(_ kind: MediaKind) -> LiveKitAddTrackRequest { kind == .video ? videoTrack : audioTrack }

    private var audioTrack: LiveKitAddTrackRequest {
        .with {
            $0.cid = configuration.audioTrackID
            $0.name = "microphone"
            $0.type = .audio
            $0.source = .microphone
            $0.muted = muted.contains(.audio)
        }
    }

    private static let trailerFeatures: [LiveKitPacketTrailerFeature] = [.ptfUserTimestamp, .ptfFrameID]

    private var videoTrack: LiveKitAddTrackRequest {
        let layers = videoLayers
        return .with {
            $0.cid = configuration.trackID
            // As LiveKit's clients name them.
            $0.name = configuration.sharesScreen ? "screen_share" : "camera"
            $0.type = .video
            $0.source = configuration.sharesScreen ? .screenShare : .camera
            $0.muted = muted.contains(.video)
            $0.width = UInt32(clamping: configuration.width)
            $0.height = UInt32(clamping: configuration.height)
            $0.layers = layers
            if configuration.usesTrailers { $0.packetTrailerFeatures = Self.trailerFeatures }
            $0.simulcastCodecs = [
                .with {
                    $0.codec = codecs.chosen.rawValue
                    $0.cid = configuration.trackID
                    $0.layers = layers
                }
            ]
        }
    }

    /// Lowest layer first, as servers expect; a single layer has high quality.
    private var videoLayers: [LiveKitVideoLayer] {
        let single = RoomConfiguration.Layer(
            rid: "", width: configuration.width, height: configuration.height, bitrate: configuration.bitrate)
        let qualities: [LiveKitVideoQuality] = [.high, .medium, .low]
        let layers = configuration.layers.isEmpty ? [single] : configuration.layers
        // Two layers have the qualities medium and low, according to their rids h and q.
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
}
