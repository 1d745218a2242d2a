// Our tracks in a room and the offers that carry them, as a value. One offer of ours is in flight at a time.
import DecartProtocol
import DecartSession
import LiveKitProtocol
import RTP
import Recovery
import WebRTCTransport

struct RoomPublisher: Sendable {
    /// A track that is announced to the server.
    private struct Track: Sendable {
        /// Muted on the server, where it stays published; nil: it has never been muted.
        var isMuted: Bool? { didSet { known?.track.muted = isMuted ?? false } }
        /// The offer that goes with the announcement holds this track.
        var isOfferedEarly = false
        /// The server's description, once it knows the track; its SID is empty until the server has sent that.
        var known: LiveKitTrackPublishedResponse?

        var sid: String? { known.flatMap { $0.track.sid.isEmpty ? nil : $0.track.sid } }
    }

    private let configuration: RoomConfiguration
    var desired = DesiredMedia()
    private var tracks: [MediaKind: Track] = [:]
    /// Kinds that the application mutes, and those that the room mutes.
    var muted: Set<MediaKind> = []
    var mutedByRoom: Set<MediaKind> = []
    /// Rejected by the server; not requested again in this room.
    private var rejected: Set<MediaKind> = []
    private var lostPublications = 0
    /// Media in the latest offer; nil: no offer was made.
    private var offered: Set<MediaKind>?
    /// An offer waits for its answer.
    var isOffering = false
    /// The answer to the last offer was lost, or the server needs another one, which its answer fills with its tracks.
    var needsOffer = false
    /// RIDs of the layers of our video that a participant receives; nil: all.
    private var wantedLayers: Set<String>?
    private(set) var codecs: RoomCodecs

    init(_ configuration: RoomConfiguration) {
        self.configuration = configuration
        codecs = RoomCodecs(configuration)
    }

    /// The room's ID of our video track, while it is published.
    var trackSID: String? { tracks[.video]?.sid?.printable(limit: 64) }

    /// The room carries the trailers of our frames.
    var carriesTrailers: Bool {
        configuration.usesTrailers
            && tracks[.video]?.known?.track.packetTrailerFeatures.contains(.ptfUserTimestamp) ?? false
    }

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

    private func kind(sid: String) -> MediaKind? { tracks.first { $0.value.known?.track.sid == sid }?.key }

    /// Announces wanted tracks to the server, and removes unwanted ones from the next offer.
    mutating func publish() -> [RoomAction] {
        Self.kinds.compactMap { kind in
            if !desired[kind] { tracks[kind] = nil }
            guard desired[kind], tracks[kind] == nil, !rejected.contains(kind) else { return nil }
            tracks[kind] = Track(isMuted: muted.contains(kind) ? true : nil)
            return .send(.addTrack(announcement(kind)))
        }
    }

    mutating func published(_ message: LiveKitTrackPublishedResponse) -> [RoomAction] {
        guard let kind = Self.kinds.first(where: { trackID($0) == message.cid }), let track = tracks[kind],
            track.sid == nil
        else { return [] }
        tracks[kind]?.known = message
        var changes: [RoomAction] = []
        if kind == .video {
            if wantedLayers.take() != nil { changes.append(.want(Set(videoLayers.map(\.rid)))) }
            // The codec of an m-line that exists stays; the answer to one with several codecs takes the instructed one.
            if track.isOfferedEarly || !(offered ?? []).contains(.video), codecs.instructed(message.track) {
                changes.append(.useCodec(codecs.chosen))
            }
        }
        return changes + updateMutes()
    }

    // MARK: Layers

    /// The server names the qualities of our video that participants receive; the others need not be sent.
    mutating func wanted(_ update: LiveKitSubscribedQualityUpdate) -> [RoomAction] {
        guard tracks[.video]?.sid == update.trackSid else { return [] }
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
    /// - Parameter repeats: sends known mutes again, because the last request may have been lost with its connection.
    mutating func updateMutes(repeats: Bool = false) -> [RoomAction] {
        MediaKind.allCases.compactMap { kind in
            let isMuted = muted.contains(kind) || mutedByRoom.contains(kind)
            guard let track = tracks[kind], let sid = track.sid,
                isMuted != track.isMuted ?? false || repeats && track.isMuted != nil
            else { return nil }
            tracks[kind]?.isMuted = isMuted
            return .send(.mute(.with { ($0.sid, $0.muted) = (sid, isMuted) }))
        }
    }

    /// The server has muted or unmuted one of our tracks. A track that the application mutes stays muted.
    mutating func roomMutes(_ message: LiveKitMuteTrackRequest) -> [RoomAction] {
        guard let kind = kind(sid: message.sid) else { return [.note("Ignored: a mute of an unknown track")] }
        tracks[kind]?.isMuted = message.muted
        if message.muted { mutedByRoom.insert(kind) } else { mutedByRoom.remove(kind) }
        return [.reportMuted(mutedByRoom)] + updateMutes()
    }

    /// - Returns: true if the track is to be published again, which is so a limited number of times.
    mutating func unpublished(_ sid: String) -> Bool {
        guard let kind = kind(sid: sid), lostPublications < 8 else { return false }
        lostPublications += 1
        tracks[kind] = nil
        mutedByRoom.remove(kind)
        offered?.remove(kind)
        return true
    }

    mutating func reject(_ kind: MediaKind) {
        tracks[kind] = nil
        rejected.insert(kind)
    }

    private func trackID(_ kind: MediaKind) -> String {
        kind == .video ? configuration.trackID : configuration.audioTrackID
    }

    // MARK: Offers

    /// Offers the tracks that the server knows, and those whose announcements go with the offer.
    /// - Parameter isTimed: false while the first connections are being established: the session's own timeout for
    ///   connecting media covers the answer.
    private mutating func offer(isTimed: Bool, restartsICE: Bool = false) -> [RoomAction] {
        let kinds = offerable
        (isOffering, needsOffer, offered) = (true, false, kinds)
        let limit: [RoomAction] = isTimed ? [.schedule(.answer, after: RecoveryPlan.Room.renegotiationTimeout)] : []
        return limit + [restartsICE ? .restartICE(kinds) : .makeOffer(kinds)]
    }

    private var offerable: Set<MediaKind> {
        Set(tracks.filter { $0.value.isOfferedEarly || $0.value.known != nil }.keys)
    }

    /// Offers what is wanted at once, for the request to join with one connection, which holds the announcements too.
    mutating func offerEarly() -> [RoomAction] {
        if configuration.publishes { _ = publish() }
        for kind in tracks.keys { tracks[kind]?.isOfferedEarly = true }
        return offer(isTimed: false)
    }

    func joinRequest(_ offer: LiveKitSessionDescription) -> LiveKitJoinRequest {
        .with { ($0.publisherOffer, $0.addTrackRequests) = (offer, announcements) }
    }

    /// The server did not take the request with the first offer.
    mutating func beginAgain() { (tracks, offered, isOffering) = ([:], nil, false) }

    mutating func offerIfDue(isConnected: Bool) -> [RoomAction] {
        let kinds = offerable
        // The first offer waits for the video track if video is wanted. An empty first offer is never made.
        guard !isOffering, needsOffer || kinds != offered ?? [],
            offered != nil || !desired.video || kinds.contains(.video)
        else { return [] }
        return offer(isTimed: isConnected || offered != nil)
    }

    // MARK: Resuming

    /// The signalling connection is lost, and with it the answer to an offer in flight.
    mutating func signallingLost() -> [RoomAction] {
        guard isOffering else { return [] }
        (isOffering, needsOffer) = (false, true)
        return [.cancel(.answer), .rollbackOffer]
    }

    /// Our tracks that the server knows.
    var publishedTracks: [LiveKitTrackPublishedResponse] {
        Self.kinds.compactMap { tracks[$0]?.sid == nil ? nil : tracks[$0]?.known }
    }

    /// Repeats the announcements and mutes that the server may not have received.
    mutating func announceAgain() -> [RoomAction] {
        announcements.map { .send(.addTrack($0)) } + updateMutes(repeats: true)
    }

    /// Offers what is published, with new ICE credentials. Nothing happens if nothing was offered yet.
    mutating func restartICE() -> [RoomAction] {
        isOffering || offered == nil ? [] : offer(isTimed: true, restartsICE: true)
    }

    // MARK: Requests

    /// The announcements that the server has not answered.
    private var announcements: [LiveKitAddTrackRequest] {
        Self.kinds.filter { tracks[$0] != nil && tracks[$0]?.known == nil }.map(announcement)
    }

    private func announcement(_ kind: MediaKind) -> LiveKitAddTrackRequest {
        let layers = videoLayers
        return .with {
            $0.cid = trackID(kind)
            $0.muted = muted.contains(kind)
            ($0.name, $0.type, $0.source) = ("microphone", .audio, .microphone)
            guard kind == .video else { return }
            // As LiveKit's clients name them.
            $0.name = configuration.sharesScreen ? "screen_share" : "camera"
            $0.type = .video
            $0.source = configuration.sharesScreen ? .screenShare : .camera
            $0.width = UInt32(clamping: configuration.width)
            $0.height = UInt32(clamping: configuration.height)
            $0.layers = layers
            if configuration.usesTrailers { $0.packetTrailerFeatures = [.ptfUserTimestamp, .ptfFrameID] }
            $0.simulcastCodecs = [
                .with { ($0.codec, $0.cid, $0.layers) = (codecs.chosen.rawValue, configuration.trackID, layers) }
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
                ($0.quality, $0.rid) = (quality, layer.rid)
                $0.width = UInt32(clamping: layer.width)
                $0.height = UInt32(clamping: layer.height)
                $0.bitrate = UInt32(clamping: layer.bitrate)
            }
        }
    }
}
