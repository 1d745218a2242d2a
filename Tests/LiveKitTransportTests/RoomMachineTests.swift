import DecartProtocol
import DecartSession
import LiveKitProtocol
import LiveKitTransport
import RTP
import TestSupport
import Testing
import WebRTCTransport

@Suite("A room's signalling", .timeLimit(.minutes(1)))
struct RoomMachineTests {
    private let leaveRequest = RoomAction.send(
        .leave(
            .with {
                $0.action = .disconnect
                $0.reason = .clientInitiated
            }))

    /// A machine that has joined, and the track that it has announced.
    private static func join(_ configuration: RoomConfiguration) -> (RoomMachine, LiveKitAddTrackRequest?) {
        var machine = RoomMachine(configuration: configuration, token: Secret("t"))
        _ = machine.handle(.signalling(.opened), now: .zero)
        let actions = machine.handle(.signalling(.message(.with { $0.join = RoomDriver.join })), now: .zero)
        let track = actions.lazy.compactMap { action -> LiveKitAddTrackRequest? in
            if case .send(.addTrack(let track)) = action { track } else { nil }
        }.first
        return (machine, track)
    }

    @Test func theTrackIsAnnouncedAsConfigured() throws {
        let configuration = RoomConfiguration(width: 640, height: 352, bitrate: 1_000_000, codec: .vp8)
        let (joined, track) = Self.join(configuration)
        var machine = joined
        #expect(track?.name == "camera" && track?.source == .camera && track?.cid == "camera")
        var screen = configuration
        screen.sharesScreen = true
        let shared = Self.join(screen).1
        #expect(shared?.name == "screen_share" && shared?.source == .screenShare)
        #expect(machine.trackSID == nil)
        let published = LiveKitTrackPublishedResponse.with {
            $0.cid = "camera"
            $0.track.sid = "TR_\n" + String(repeating: "x", count: 100)
        }
        _ = machine.handle(.signalling(.message(.with { $0.trackPublished = published })), now: .zero)
        // IDs from a peer are limited to one short line.
        #expect(machine.trackSID == "TR_ " + String(repeating: "x", count: 60) + "…")
    }

    /// Trailers are used if the server confirms their times.
    @Test(arguments: [
        (true, [LiveKitPacketTrailerFeature.ptfFrameID, .ptfUserData, .ptfUserTimestamp], true),
        (true, [.ptfUserTimestamp], true), (true, [.ptfFrameID, .ptfUserData], false), (true, [], false),
        (false, [.ptfUserTimestamp, .ptfFrameID], false),
    ])
    func trailersAreAgreedOn(wants: Bool, answer: [LiveKitPacketTrailerFeature], uses: Bool) throws {
        var configuration = RoomConfiguration(width: 640, height: 352, bitrate: 1_000_000, codec: .vp8)
        configuration.usesTrailers = wants
        let (joined, track) = Self.join(configuration)
        var machine = joined
        #expect(track?.packetTrailerFeatures == (wants ? [.ptfUserTimestamp, .ptfFrameID] : []))
        #expect(!machine.carriesTrailers)
        let published = LiveKitTrackPublishedResponse.with {
            $0.cid = "camera"
            $0.track.sid = "TR_1"
            $0.track.packetTrailerFeatures = answer
        }
        _ = machine.handle(.signalling(.message(.with { $0.trackPublished = published })), now: .zero)
        #expect(machine.carriesTrailers == uses)
    }

    /// The smallest layer comes first; two layers are called low and medium.
    @Test(arguments: [3, 2])
    func aSimulcastIsAnnounced(count: Int) throws {
        var configuration = RoomConfiguration(width: 1280, height: 704, bitrate: 3_500_000, codec: .h264)
        let all = ["f", "h", "q"].enumerated().map { index, rid in
            RoomConfiguration.Layer(
                rid: rid, width: 1280 >> index, height: 704 >> index, bitrate: 2_000_000 >> (2 * index))
        }
        configuration.layers = all.suffix(count)
        let track = try #require(Self.join(configuration).1)
        #expect(track.width == 1280 && track.height == 704)
        #expect(track.layers.map(\.rid) == ["q", "h", "f"].prefix(count).map(\.self))
        #expect(track.layers.map(\.quality) == [.low, .medium, .high].prefix(count).map(\.self))
        #expect(track.layers.map(\.width) == [320, 640, 1280].prefix(count).map(\.self))
        #expect(track.layers.map(\.bitrate) == [125_000, 500_000, 2_000_000].prefix(count).map(\.self))
        #expect(track.simulcastCodecs.first?.layers == track.layers)
    }

    @Test func relayOnlyWhenTheRoomSaysSo() {
        var driver = RoomDriver()
        driver.walkToPublishing(.with { $0.clientConfiguration = .with { $0.forceRelay = .enabled } })
        #expect(driver.takeActions().first == .useServers([], relayOnly: true))
    }

    // MARK: Subscriptions

    @Test func onlyTheInferenceServerIsListenedTo() {
        var driver = RoomDriver(at: .publishing)
        _ = driver.takeActions()
        let other = LiveKitParticipantInfo.with {
            $0.sid = "PA_other"
            $0.identity = "viewer-inference-server-"
            $0.tracks = [RoomDriver.track("TR_other")]
        }
        driver.update(other)
        #expect(driver.takeActions() == [])
        driver.update(other, RoomDriver.worker)
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_out", true)])
        // A track is subscribed to once; audio was not requested.
        driver.update(RoomDriver.worker)
        #expect(driver.takeActions() == [])
        var more = RoomDriver.worker
        more.tracks += [RoomDriver.track("TR_sound", type: .audio)]
        driver.update(more)
        #expect(driver.takeActions() == [])
    }

    /// Servers list tracks in any order.
    @Test(arguments: [["TR_out", "TR_next"], ["TR_next", "TR_out"]])
    func theNewestVideoIsShown(order: [String]) {
        var driver = RoomDriver(at: .publishing)
        driver.update(RoomDriver.worker)
        _ = driver.takeActions()
        var both = RoomDriver.worker
        both.tracks = order.map { RoomDriver.track($0) }
        driver.update(both)
        // The next track is subscribed to before the previous one is not.
        #expect(
            driver.takeActions() == [
                RoomDriver.subscription("TR_next", true), RoomDriver.subscription("TR_out", false),
            ])
        #expect(driver.machine.isWanted(msid: "PA_worker|TR_next TR_next"))
        #expect(!driver.machine.isWanted(msid: "PA_worker|TR_out TR_out"))
        driver.update(both)
        #expect(driver.takeActions() == [])
        // The previous track ends as planned.
        both.tracks = [RoomDriver.track("TR_next")]
        driver.update(both)
        #expect(driver.takeActions() == [])
        // If the newest ends, an older one is shown again.
        both.tracks = order.map { RoomDriver.track($0) }
        driver.update(both)
        #expect(driver.sent().count == 2)
        both.tracks = [RoomDriver.track("TR_next")]
        driver.update(both)
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_next", true)])
    }

    @Test func theNewestServerIsShown() {
        var driver = RoomDriver(at: .publishing)
        driver.update(RoomDriver.worker)
        _ = driver.takeActions()
        var second = LiveKitParticipantInfo.with {
            ($0.sid, $0.identity, $0.state) = ("PA_second", "inference-server-8", .active)
            $0.tracks = [RoomDriver.track("TR_other")]
        }
        driver.update(second)
        let sids = driver.sent().map { message -> [String] in
            if case .subscription(let update) = message { update.trackSids + ["\(update.subscribe)"] } else { [] }
        }
        #expect(sids == [["TR_other", "true"], ["TR_out", "false"]])
        second.state = .disconnected
        driver.update(second)
        #expect(driver.takeActions().contains(RoomDriver.subscription("TR_out", true)))
        #expect(driver.failures().isEmpty)
    }

    /// Of participants and tracks that no session has, and of any length.
    @Test func aRoomsListsAreBounded() {
        var driver = RoomDriver(at: .publishing)
        func server(_ number: Int, _ state: LiveKitParticipantInfo.State, _ tracks: [String]) -> LiveKitParticipantInfo
        {
            .with {
                ($0.sid, $0.identity, $0.state) = ("PA_\(number)", "inference-server-\(number)", state)
                $0.tracks = tracks.map { RoomDriver.track($0) }
            }
        }
        _ = driver.takeActions()
        let strangers = (0..<64).map { server($0, .disconnected, []) }
        let long = server(0, .active, [String(repeating: "a", count: 257)])
        for participants in [strangers, [long]] {
            driver.server(.update(.with { $0.participants = participants }))
            #expect(driver.takeActions().isEmpty, "nobody has left, and nothing is to be shown")
        }
        for number in 0..<8 {
            driver.update(server(number, .active, (0..<64).map { "TR_\(number)_\($0)" }))
        }
        let sids = driver.sent().map { message -> [String] in
            if case .subscription(let update) = message { update.trackSids } else { [] }
        }
        #expect(sids.last(where: { $0 != ["TR_2_63"] }) == ["TR_3_63"], "\(sids)")
    }

    @Test func whoIsThereAlreadyIsListenedTo() {
        var driver = RoomDriver()
        driver.walkToPublishing(RoomDriver.joinWithWorker)
        #expect(driver.sent().count == 2)
    }

    @Test func whoComesBackIsListenedToAgain() {
        var driver = RoomDriver(at: .publishing)
        driver.update(RoomDriver.worker)
        driver.update(RoomDriver.goneWorker)
        _ = driver.takeActions()
        #expect(!driver.machine.isWanted(msid: "PA_worker|camera TR_out"))
        driver.update(RoomDriver.worker)
        #expect(driver.sent().count == 1)
    }

    @Test(arguments: [
        ("PA_worker|camera TR_out", true), ("PA_worker|TR_out x", true), ("- TR_out", true), ("PA_worker TR_new", true),
        ("PA_other|camera TR_other", false), ("PA_wor", false), ("", false),
    ])
    func wantedTracks(msid: String, isWanted: Bool) {
        var driver = RoomDriver(at: .publishing)
        driver.update(RoomDriver.worker)
        #expect(driver.machine.isWanted(msid: msid) == isWanted)
        #expect(!driver.machine.isWanted(msid: nil))
    }

    @Test func aCodecThatCannotBeHadIsAFailure() {
        var driver = RoomDriver(at: .connected)
        driver.server(.subscriptionResponse(.with { $0.err = .seTrackNotfound }))
        #expect(driver.failures().isEmpty)
        driver.server(.subscriptionResponse(.with { ($0.err, $0.trackSid) = (.seCodecUnsupported, "TR_elsewhere") }))
        #expect(driver.failures().isEmpty)
        driver.server(.subscriptionResponse(.with { $0.err = .seCodecUnsupported }))
        #expect(driver.failures().count == 1)
    }

    @Test(arguments: [
        ("video/H265", "H265 in the room, which cannot be received here: install a decoder."),
        ("video/AV1", "AV1 in the room, which cannot be received here."),
        ("video/H264", "H264 in the room, in a form that was not accepted."),
    ])
    func aMissingDecoderIsNamed(mimeType: String, expected: String) throws {
        var driver = RoomDriver(at: .connected)
        var worker = RoomDriver.worker
        worker.tracks = [RoomDriver.track("TR_out", mimeType: mimeType)]
        driver.update(worker)
        driver.server(.subscriptionResponse(.with { ($0.err, $0.trackSid) = (.seCodecUnsupported, "TR_out") }))
        let text = try #require(driver.failures().first).message
        #expect(text.hasSuffix(expected), "\(text)")
    }

    // MARK: Codecs

    private static func allowing(_ types: String...) -> LiveKitJoinResponse {
        var join = RoomDriver.join
        join.enabledPublishCodecs = types.map { type in .with { $0.mime = type } }
        return join
    }

    /// The machine asks for what the room allows before it announces anything.
    @Test func anotherCodecThatTheRoomAllows() {
        var driver = RoomDriver(encodable: [.vp8, .vp9])
        driver.walkToPublishing(Self.allowing("audio/opus", "video/AV1", "video/VP9", "video/vp8"))
        let actions = driver.takeActions()
        #expect(actions.contains(.useCodec(.vp8)))
        guard case .send(.addTrack(let track)) = actions.last else {
            Issue.record("no track was announced")
            return
        }
        #expect(track.simulcastCodecs.map(\.codec) == ["vp8"])
    }

    @Test func theWantedCodecComesFirst() {
        var driver = RoomDriver(encodable: [.vp8])
        driver.walkToPublishing(Self.allowing("video/VP8", "video/H264"))
        #expect(!driver.takeActions().contains { if case .useCodec = $0 { true } else { false } })
    }

    @Test(arguments: [["video/AV1", "audio/opus"], ["audio/opus"]])
    func aRoomWithoutACodecOfOurs(types: [String]) throws {
        var join = RoomDriver.join
        join.enabledPublishCodecs = types.map { type in .with { $0.mime = type } }
        var driver = RoomDriver(encodable: [.vp8])
        driver.walkToPublishing(join)
        let actions = driver.takeActions()
        #expect(!actions.contains { if case .send(.addTrack) = $0 { true } else { false } })
        guard case .report(.closedByPeer(let error)) = actions.last else {
            Issue.record("no failure")
            return
        }
        // Another attempt would meet the same room.
        #expect(error.isPermanent && error.message.contains(types.count == 2 ? "AV1" : "no video"), "\(error.message)")
        // Whoever gives it encoded has other ways out.
        var configuration = RoomConfiguration(width: 640, height: 352, bitrate: 1_000_000, codec: .h264)
        (configuration.prefersOneConnection, configuration.isInputEncoded) = (false, true)
        var encoded = RoomDriver(configuration)
        encoded.walkToPublishing(Self.allowing("video/VP8"))
        let text = encoded.failures().first?.message ?? ""
        #expect(text.contains("VP8") && text.contains("the input is H264"), "\(text)")
        // Whoever sends no video, does not mind.
        var silent = RoomDriver(encodable: [.vp8])
        silent.handle(.desired(DesiredMedia(video: false, audio: true)))
        silent.walkToPublishing(join)
        #expect(silent.failures().isEmpty)
    }

    private func published(_ mimeType: String) -> LiveKitSignalResponse.Message {
        .trackPublished(
            .with {
                $0.cid = "camera"
                $0.track = RoomDriver.track("TR_1")
                $0.track.codecs = [.with { $0.mimeType = mimeType }]
            })
    }

    /// A server without a list of codecs names the one that it wants in its answer to the announcement.
    @Test func theAnswerToTheAnnouncementIsAnInstruction() {
        var driver = RoomDriver(encodable: [.vp8], at: .publishing)
        _ = driver.takeActions()
        driver.server(published("video/vp8"))
        #expect(driver.takeActions() == [.useCodec(.vp8), .makeOffer([.video])])
    }

    @Test(arguments: [("video/h264", false, "H264"), ("video/AV1", true, "AV1")])
    func aRejectedVideo(mimeType: String, isPermanent: Bool, named: String) throws {
        var driver = RoomDriver(encodable: [.vp8], at: .publishing)
        driver.server(published(mimeType))
        driver.handle(.offerMade(sdp: "our offer"))
        driver.server(.answer(.with { $0.sdp = "no video" }))
        _ = driver.takeActions()
        driver.handle(.videoRejected)
        let error = try #require(driver.failures().first)
        #expect(error.isPermanent == isPermanent && error.message.contains(named), "\(error.message)")
    }

    @Test func framesOfTheServerAreMarked() {
        var driver = RoomDriver()
        driver.walkToPublishing(.with { $0.sifTrailer = [1, 2, 3] })
        #expect(driver.takeActions().contains(.setFillerTrailer([1, 2, 3])))
        var hostile = RoomDriver()
        hostile.walkToPublishing(.with { $0.sifTrailer = Array(repeating: 0, count: 257) })
        #expect(!hostile.takeActions().contains { if case .setFillerTrailer = $0 { true } else { false } })
    }

    // MARK: Layers that are received

    private func wanted(_ qualities: [LiveKitVideoQuality], codec: String = "h264") -> LiveKitSignalResponse.Message {
        let list: [LiveKitSubscribedQuality] = [LiveKitVideoQuality.low, .medium, .high].map { quality in
            .with { ($0.quality, $0.enabled) = (quality, qualities.contains(quality)) }
        }
        return .subscribedQualityUpdate(
            .with {
                $0.trackSid = "TR_camera"
                $0.subscribedCodecs = [.with { ($0.codec, $0.qualities) = (codec, list) }]
            })
    }

    private static let receivedLayers: [(Int, [LiveKitVideoQuality], [String]?)] = [
        (3, [.low, .medium], ["h", "q"]), (3, [.low], ["q"]), (3, [], []), (2, [.high], ["h"]), (2, [.low], ["q"]),
        (1, [.low], nil), (1, [], []), (3, [.low, .medium, .high], nil),
    ]

    /// Of fewer layers than qualities, each stands for several.
    @Test(arguments: receivedLayers)
    func layersThatNothingReceives(layers: Int, qualities: [LiveKitVideoQuality], expected: [String]?) {
        var configuration = RoomConfiguration(width: 1280, height: 704, bitrate: 3_500_000, codec: .h264)
        let rids = layers == 1 ? [] : Array(["f", "h", "q"].suffix(layers))
        configuration.layers = rids.map { .init(rid: $0, width: 640, height: 352, bitrate: 1_000_000) }
        var driver = RoomDriver(configuration)
        driver.walkToPublishing()
        driver.published("camera", "TR_camera")
        _ = driver.takeActions()
        driver.server(wanted(qualities))
        #expect(driver.takeActions() == (expected.map { [.want(Set($0))] } ?? []))
        driver.server(wanted(qualities))
        driver.server(wanted([], codec: "vp8"))
        #expect(driver.takeActions() == [])
        driver.server(wanted([.low, .medium, .high]))
        #expect(driver.takeActions() == (expected == nil ? [] : [.want(rids.isEmpty ? [""] : Set(rids))]))
        // A track that is published again begins with all layers.
        driver.server(wanted([]))
        driver.server(.trackUnpublished(.with { $0.trackSid = "TR_camera" }))
        _ = driver.takeActions()
        driver.published("camera", "TR_next")
        #expect(driver.takeActions().contains(.want(rids.isEmpty ? [""] : Set(rids))))
    }

    // MARK: Paused and muted video

    private func paused(_ sid: String, _ state: LiveKitStreamState) -> LiveKitSignalResponse.Message {
        .streamStateUpdate(.with { $0.streamStates = [.with { ($0.trackSid, $0.state) = (sid, state) }] })
    }

    @Test func aPauseIsAState() {
        var driver = RoomDriver(at: .connected)
        driver.update(RoomDriver.worker)
        _ = driver.takeActions()
        driver.server(paused("TR_out", .active))
        driver.server(paused("TR_elsewhere", .paused))
        #expect(driver.takeActions() == [])
        // The session may have forgotten the first one.
        for _ in 0..<2 {
            driver.server(paused("TR_out", .paused))
            #expect(driver.takeActions() == [.report(.hold(.pausedByNetwork))])
        }
        driver.server(paused("TR_out", .active))
        #expect(driver.takeActions() == [.report(.hold(nil))])
    }

    /// Also from its first announcement on.
    @Test func aMuteOfTheServiceIsAState() {
        var driver = RoomDriver(at: .connected)
        _ = driver.takeActions()
        var worker = RoomDriver.worker
        worker.tracks = [RoomDriver.track("TR_out", muted: true)]
        driver.update(worker)
        #expect(driver.takeActions() == [RoomDriver.subscription("TR_out", true), .report(.hold(.mutedBySender))])
        driver.update(RoomDriver.worker)
        #expect(driver.takeActions() == [.report(.hold(nil))])
        driver.update(worker)
        // The next track is not muted.
        worker.tracks.append(RoomDriver.track("TR_next"))
        driver.update(worker)
        #expect(driver.takeActions().last == .report(.hold(nil)))
    }

    // MARK: Candidates

    @Test func candidatesBothWays() throws {
        var driver = RoomDriver(at: .offered)
        _ = driver.takeActions()
        let candidate = CandidateMessage(candidate: "candidate:1", sdpMid: "0", sdpMLineIndex: 0)
        driver.handle(.candidateFound(candidate, .publisher))
        driver.handle(.candidateFound(CandidateMessage(candidate: "candidate:1"), .subscriber))
        let text = #"{"candidate":"candidate:1","sdpMLineIndex":0,"sdpMid":"0"}"#
        #expect(
            driver.sent() == [
                .trickle(.with { $0.candidateInit = text }),
                .trickle(
                    .with {
                        $0.candidateInit = text
                        $0.target = .subscriber
                    }),
            ])
        driver.server(
            .trickle(
                .with {
                    $0.candidateInit =
                        #"{"candidate":"candidate:2","sdpMid":"0","sdpMLineIndex":0,"usernameFragment":null}"#
                    $0.target = .subscriber
                    $0.final = true
                }))
        #expect(
            driver.takeActions() == [
                .applyCandidate(CandidateMessage(candidate: "candidate:2", sdpMid: "0", sdpMLineIndex: 0), .subscriber),
                .applyCandidate(nil, .subscriber),
            ])
        for text in ["", "x", "[]", "{}", #"{"candidate":1}"#] {
            driver.server(.trickle(.with { $0.candidateInit = text }))
            #expect(!driver.takeActions().contains { if case .applyCandidate = $0 { true } else { false } })
        }
    }

    // MARK: Keepalive and tokens

    @Test func pingsAndTheirAnswers() {
        var driver = RoomDriver(at: .connected)
        _ = driver.takeActions()
        var trips: [Int64] = []
        driver.wait(.seconds(5))
        for _ in 0..<10 {
            let sent = driver.sent()
            guard case .pingReq(let ping) = sent.first else {
                Issue.record("no ping")
                return
            }
            trips.append(ping.rtt)
            driver.wait(.milliseconds(20))
            driver.server(.pongResp(.with { $0.lastPingTimestamp = ping.timestamp }))
            driver.wait(.milliseconds(4980))
        }
        #expect(trips == [0] + Array(repeating: 20, count: 9))
        // Any message counts as a sign of life.
        for _ in 0..<10 {
            driver.wait(.seconds(5))
            driver.server(.roomUpdate(.init()))
        }
        #expect(driver.failures().isEmpty)
        // The last ping was just sent when silence begins.
        driver.wait(.seconds(19))
        #expect(driver.failures().isEmpty)
        driver.wait(.seconds(2))
        let causes = driver.takeActions().compactMap {
            if case .report(.recovering(let error)) = $0 { error.message } else { nil }
        }
        #expect(causes == ["The room did not answer a ping; the signalling connection is lost."])
    }

    @Test func aServerThatWantsNoPings() {
        var driver = RoomDriver()
        driver.walkToPublishing(.init())
        #expect(driver.timers.isEmpty)
    }

    @Test func theNewestTokenIsKept() {
        var driver = RoomDriver(at: .connected)
        driver.server(.refreshToken("second"))
        #expect(driver.machine.token == Secret("second"))
        driver.server(.refreshToken(""))
        #expect(driver.machine.token == Secret("second"))
        driver.server(.roomMoved(.with { $0.token = "third" }))
        #expect(driver.machine.token == Secret("third"))
    }

    @Test func tokensAreBounded() {
        let (longest, tooLong) = (String(repeating: "t", count: 8192), String(repeating: "x", count: 8193))
        let ways: [(String) -> LiveKitSignalResponse.Message] = [
            { .refreshToken($0) }, { token in .roomMoved(.with { $0.token = token }) },
        ]
        for way in ways {
            var driver = RoomDriver(at: .connected)
            driver.server(way(longest))
            #expect(driver.machine.token == Secret(longest))
            driver.server(way(tooLong))
            #expect(driver.machine.token == Secret(longest))
        }
    }

    /// The machine publishes a track again that the server unpublished, but only a limited number of times.
    @Test func publishingAnewEnds() {
        var driver = RoomDriver(at: .connected)
        _ = driver.takeActions()
        var announced = 0
        for round in 0..<9 {
            driver.server(.trackPublished(.with { ($0.cid, $0.track.sid) = ("camera", "TR_\(round)") }))
            driver.server(.trackUnpublished(.with { $0.trackSid = "TR_\(round)" }))
            announced += driver.sent().count { if case .addTrack = $0 { true } else { false } }
        }
        #expect(announced == 8)
    }

    // MARK: The end

    /// The connection ends while a pong is awaited.
    @Test func noTimerOutlivesTheEnd() {
        let ends: [RoomEvent] = [
            .request(.stop), .peer(.peerFailed(SessionError(.webRTC, "no path", stage: .media))),
        ]
        for end in ends {
            var driver = RoomDriver(at: .connected)
            driver.wait(.seconds(5))
            #expect(driver.timers[.pong] != nil)
            driver.handle(end)
            #expect(driver.timers.isEmpty, "\(driver.timers)")
        }
    }

    @Test(arguments: [LiveKitLeaveRequest.Action.disconnect, .reconnect, .unrecognized(9)])
    func sentAway(action: LiveKitLeaveRequest.Action) throws {
        var driver = RoomDriver(at: .connected)
        _ = driver.takeActions()
        driver.server(
            .leave(
                .with {
                    $0.action = action
                    $0.reason = .serverShutdown
                }))
        let actions = driver.takeActions()
        #expect(actions.prefix(2) == [leaveRequest, .close])
        let end: SessionError? =
            switch actions.last {
            case .report(.closedByPeer(let error))? where action != .reconnect: error
            // The room may be joined again.
            case .reportLost(let error)? where action == .reconnect: error
            default: nil
            }
        let error = try #require(end, "\(actions)")
        #expect(actions.count == 3)
        // The error is not permanent, so the session requests another room.
        #expect(!error.isPermanent && error.stage == .media)
        #expect(driver.timers.isEmpty)
    }

    @Test func otherEnds() {
        let events: [RoomEvent] = [
            .signalling(.closed(code: 1006, reason: "x")),
            .signalling(.failed(SessionError(.network, "gone", stage: .media))),
            .peer(.peerFailed(SessionError(.webRTC, "no path", stage: .media))),
            .signalling(
                .message(
                    .with {
                        $0.requestResponse = .with {
                            $0.reason = .notAllowed
                            $0.addTrack = .with { $0.cid = "camera" }
                        }
                    })),
        ]
        for event in events {
            var driver = RoomDriver(at: .publishing)
            driver.handle(event)
            #expect(driver.failures().count == 1)
            driver.handle(event)
            #expect(driver.failures().isEmpty)
        }
        var driver = RoomDriver()
        driver.handle(.failed(SessionError(.network, "refused", stage: .media)))
        // No connection was open, so no leave request is sent.
        #expect(driver.takeActions().first == .close)
    }

    @Test func wordsOutOfOrderAreIgnored() {
        var driver = RoomDriver()
        driver.handle(.opened)
        driver.server(.answer(.init()))
        driver.server(.offer(.init()))
        driver.server(.trickle(.with { $0.candidateInit = #"{"candidate":"c"}"# }))
        driver.server(.trackPublished(.with { $0.cid = "camera" }))
        #expect(!driver.takeActions().contains { if case .note = $0 { false } else { true } })
        driver.walkToPublishing()
        _ = driver.takeActions()
        driver.server(.join(RoomDriver.join))
        driver.server(.trackPublished(.with { $0.cid = "another" }))
        driver.server(.requestResponse(.with { $0.reason = .notAllowed }))
        driver.handle(.message(.init()))
        #expect(!driver.takeActions().contains { if case .note = $0 { false } else { true } })
    }

    // MARK: Viewers

    private func watching(_ join: LiveKitJoinResponse = RoomDriver.join) -> RoomDriver {
        var driver = RoomDriver(publishes: false)
        driver.walkToPublishing(join)
        return driver
    }

    @Test func aViewerHearsOfTheEnd() {
        var driver = watching(RoomDriver.joinWithWorker)
        driver.handle(.peerConnected(.subscriber))
        _ = driver.takeActions()
        // Another participant's leaving has no effect.
        var stranger = RoomDriver.worker
        (stranger.sid, stranger.state) = ("PA_other", .disconnected)
        driver.update(stranger)
        #expect(driver.failures().isEmpty)
        driver.update(RoomDriver.goneWorker)
        #expect(driver.failures().map(\.isPermanent) == [false])
    }

    /// The output track disappears between two generations, and the viewer stays. The session ends when the worker
    /// leaves without tracks.
    @Test func betweenGenerationsTheViewerStays() {
        var driver = watching(RoomDriver.joinWithWorker)
        driver.handle(.peerConnected(.subscriber))
        var bare = RoomDriver.worker
        bare.tracks = []
        driver.update(bare)
        _ = driver.takeActions()
        driver.update(RoomDriver.worker)
        #expect(driver.sent().count == 1 && driver.failures().isEmpty)
        driver.update(bare)
        bare.state = .disconnected
        driver.update(bare)
        #expect(driver.failures().map(\.isPermanent) == [false])
    }

    // MARK: Muted tracks

    private func mute(_ sid: String, _ isMuted: Bool) -> LiveKitSignalRequest.Message {
        .mute(
            .with {
                $0.sid = sid
                $0.muted = isMuted
            })
    }

    @Test func aMutedTrackIsAnnouncedAsMuted() throws {
        var driver = RoomDriver()
        driver.handle(.mute([.video], endsRoomMute: false))
        driver.walkToPublishing()
        let tracks = driver.sent().compactMap { if case .addTrack(let track) = $0 { track } else { nil } }
        #expect(tracks.map(\.muted) == [true])
        driver.published("camera", "TR_camera")
        #expect(driver.sent().isEmpty)
        driver.handle(.mute([], endsRoomMute: false))
        #expect(driver.sent() == [mute("TR_camera", false)])
    }

    @Test func aMuteWaitsForTheTrack() throws {
        var driver = RoomDriver(at: .publishing)
        _ = driver.takeActions()
        driver.handle(.mute([.video, .audio], endsRoomMute: false))
        #expect(driver.sent().isEmpty)
        driver.published("camera", "TR_camera")
        #expect(driver.sent() == [mute("TR_camera", true)])
        driver.handle(.mute([.video, .audio], endsRoomMute: false))
        #expect(driver.sent().isEmpty)
    }

    @Test func theRoomsMuteIsReported() throws {
        var driver = RoomDriver(at: .publishing)
        driver.published("camera", "TR_camera")
        _ = driver.takeActions()
        let muted = LiveKitMuteTrackRequest.with {
            $0.sid = "TR_camera"
            $0.muted = true
        }
        driver.server(.mute(muted))
        #expect(driver.takeActions() == [.reportMuted([.video])])
        // The application's own mute changes nothing on the server, and its end does not lift the room's.
        driver.handle(.mute([.video], endsRoomMute: false))
        driver.handle(.mute([], endsRoomMute: false))
        #expect(driver.takeActions() == [])
        driver.handle(.mute([], endsRoomMute: true))
        #expect(driver.takeActions() == [.send(mute("TR_camera", false))])
        driver.server(.mute(.with { $0.sid = "TR_other" }))
        #expect(driver.takeActions() == [.note("Ignored: a mute of an unknown track")])
    }

    /// The room cannot unmute what the application mutes.
    @Test func theApplicationsMuteStays() throws {
        var driver = RoomDriver()
        driver.handle(.mute([.video], endsRoomMute: false))
        driver.walkToPublishing()
        driver.published("camera", "TR_camera")
        _ = driver.takeActions()
        driver.server(.mute(.with { $0.sid = "TR_camera" }))
        #expect(driver.takeActions() == [.reportMuted([]), .send(mute("TR_camera", true))])
    }
}
