import DecartElements
import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Behaviour that exists only in a LiveKit room.
    @Suite(.serialized, .timeLimit(.minutes(4)), .indifferentToTransport) struct RoomTests {
        private static let room = "transport=\(MediaWay.livekit.transport)"
        private static let retrying = "\(room) max-retries=5"

        private func withFault(
            _ fault: String, _ properties: String = RoomTests.retrying,
            _ body: (StandIn, TransformPipeline) throws -> Void
        ) throws {
            let raw = try Reference.input()
            let faults = try fault.isEmpty ? [] : [Fault(parsing: fault)]
            try TransformPipeline.run(
                with: { try .init($0, properties, prompt: "film noir", forbidden: raw) },
                standIn: { ($0.transports, $0.faults) = ([.webrtc, .livekit], faults) }
            ) { pipeline, standIn in
                pipeline.play()
                try body(standIn, pipeline)
                #expect(pipeline.current.leaks == 0)
            }
        }

        /// Removed from the room, the element joins a new room with the same prompt.
        @Test func sentAway() throws {
            try withFault("") { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                try standIn.server.inject([Fault(parsing: "room_leave_disconnect")])
                #expect(
                    standIn.wait { $0.count > 1 && $0.last?.prompts == ["film noir"] && $0.last?.isGenerating == true })
                #expect(standIn.wait { $0.last?.frames.painted ?? 0 > 0 })
                #expect(pipeline.waitForFrames(3))
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        // MARK: Joining again

        /// The room is lost, and the session is not: its control channel lives, and the same room is joined again.
        @Test(arguments: [["room_leave_reconnect"], ["room_restart"], ["room_resume_refused", "room_cut"]])
        func joinedAgain(faults: [String]) throws {
            try withFault("") { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                for fault in faults { try standIn.server.inject([Fault(parsing: fault)]) }
                #expect(standIn.wait { $0.first?.room.joinCount == 2 })
                let painted = standIn.sessions.first?.frames.painted ?? 0
                #expect(standIn.wait { ($0.first?.frames.painted ?? 0) > painted + 5 })
                #expect(pipeline.waitForFrames(5))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        // MARK: Resuming

        /// The media continue while the signalling connection is opened again: the same session, participant and
        /// tracks, no prompt, no frame of the fallback. `offers`: those that we make.
        @Test(arguments: ["room_cut", "room_cut:for=1", "room_leave_migrate", "room_leave_resume"])
        func resumed(fault: String) throws {
            let offers = fault.hasPrefix("room_cut") ? 0 : 1
            try withFault("") { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                #expect(eventually { pipeline.connectionState == "generating" })
                let before = try #require(pipeline.stats)
                let session = try #require(standIn.sessions.first)
                try standIn.server.inject([Fault(parsing: fault)])
                #expect(eventually { pipeline.stats?.int("resumes") == 1 })
                #expect(pipeline.connectionState == "generating")
                #expect(
                    standIn.wait {
                        ($0.first?.room.offerCount ?? 0) >= session.room.offerCount + offers
                            && $0.first?.room.resumeCount == 1
                    })
                #expect(pipeline.waitForFrames(5))
                let (after, record) = (try #require(pipeline.stats), try #require(standIn.sessions.first))
                #expect(standIn.sessions.count == 1 && record.room.joinCount == 1 && record.room.resumeCount == 1)
                #expect(record.room.offerCount - session.room.offerCount == offers)
                #expect(record.promptCount == 1 && record.tracks == session.tracks)
                #expect(after.int("frames-fallback") == before.int("frames-fallback"))
                #expect(after.string("track-sid") == before.string("track-sid"))
                #expect(after.int("reconnects") == 0 && pipeline.takeProblems().isEmpty)
            }
        }

        /// A room that refuses its token, also when it is joined again, becomes a new session with the same prompt.
        @Test func notResumed() throws {
            try withFault("") { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                try standIn.server.inject([Fault(parsing: "room_token_refused")])
                try standIn.server.inject([Fault(parsing: "room_cut")])
                #expect(
                    standIn.wait {
                        $0.count > 1 && $0.last?.prompts == ["film noir"] && $0.last?.frames.painted ?? 0 > 5
                    })
                #expect(eventually { pipeline.count("reconnects") == 1 })
                #expect(pipeline.count("resumes") == 0)
                let problems = pipeline.takeProblems()
                #expect(problems.allSatisfy { $0.kind == .warning } && problems.count == 1)
                #expect(!problems.contains { ($0.text + $0.debug).contains("eyJhbGciOi") })
            }
        }

        /// NULL returns while a resume waits, or its answer is missing.
        @Test(arguments: ["room_cut:for=10", "room_resume_silent"])
        func stoppedWhileResuming(fault: String) throws {
            let (lines, expected) = (Watched<[String]>([]), "has lost its signalling connection")
            let raw = try Reference.input()
            try TransformPipeline.runWell(
                with: { try .init($0, Self.room, prompt: "noir", forbidden: raw) },
                standIn: {
                    $0.transports = [.livekit]
                    $0.log = { line in lines.change { $0.append(line) } }
                }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                try standIn.server.inject([Fault(parsing: fault)])
                if !fault.hasPrefix("room_cut") { try standIn.server.inject([Fault(parsing: "room_cut")]) }
                #expect(lines.wait { $0.contains { $0.contains(expected) } })
                _ = pipeline.collect(milliseconds: 100)
            }
        }

        @Test func aRefusedTokenIsAFailedAttemptWithoutTheToken() throws {
            try withFault("room_token_refused", "\(Self.room) max-retries=0") { _, pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains("HTTP 401") && error.text.contains("room"))
                let said = error.text + error.debug + (error.details?.description ?? "")
                #expect(!said.contains("eyJhbGciOi"))
                #expect(pipeline.frames == 0)
            }
        }

        /// NULL returns in every phase of a room.
        @Test func atAnyMoment() throws {
            var random = SeededGenerator(seed: 11)
            for fault in ["", "room_info_slow:delay=5", "room_ice_none", "room_token_refused"] {
                for _ in 0..<Verification.count(8, gate: 2) {
                    try withFault(fault) { _, pipeline in
                        _ = pipeline.collect(milliseconds: Int.random(in: 0...400, using: &random))
                    }
                }
            }
        }

        /// Simulcast sends three layers and the best one comes back; at a low bitrate only the smaller layers are sent.
        @Test(arguments: [(3_500_000, "f h q", 1280), (400_000, "h q", 654)])
        func inThreeSizes(bitrate: Int, sent: String, width: Int) throws {
            let properties =
                "transport=livekit simulcast=true max-bitrate=\(bitrate) width=1280 height=704 framerate=15"
            let source = "videotestsrc is-live=true pattern=smpte ! video/x-raw,width=1280,height=704,framerate=15/1"
            try TransformPipeline.runWell(
                with: { try .init($0, properties, prompt: "film noir", source: source) },
                standIn: { $0.transports = [.livekit] }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(eventually { pipeline.stats?.string("track-layers") == sent })
                #expect(eventually { pipeline.stats?.int("received-width") == width })
                #expect(
                    standIn.wait {
                        Set($0.first?.simulcastStreams ?? []) == Set(sent.split(separator: " ").map(String.init))
                    })
                #expect(pipeline.waitForFrames(3))
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        /// Small frames and direct connections have no simulcast layers.
        @Test(arguments: [("livekit", 320), ("webrtc", 1280)])
        func inOneSize(transport: String, width: Int) throws {
            let properties = "transport=\(transport) simulcast=true width=\(width) height=\(width / 2) framerate=15"
            try TransformPipeline.run(
                with: { try .init($0, properties, prompt: "film noir") },
                standIn: { $0.transports = [.livekit, .webrtc] }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.stats?.string("track-layers") == "")
                #expect(standIn.sessions.first?.simulcastStreams == [])
            }
        }

        // MARK: Transport cache of `auto`

        /// Runs one session with `transport=auto` up to its first frame.
        private func runSession(_ standIn: StandIn, _ properties: String = "", expecting way: String) throws {
            try TransformPipeline.run(try .init(standIn, "transport=auto \(properties)", prompt: "noir")) { pipeline in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                #expect(pipeline.stats?.string("transport") == way)
            }
        }

        @Test func theSecondSessionAsksADirectServiceNothing() throws {
            try StandIn.run({ $0.transports = [.webrtc] }) { standIn in
                try runSession(standIn, expecting: "webrtc")
                try runSession(standIn, expecting: "webrtc")
                let model = "model=other-model"
                try runSession(standIn, model, expecting: "webrtc")
                let asked = standIn.sessions.map { $0.requestedRoom || $0.request.asksForRoom }
                #expect(asked == [true, false, true])
            }
        }

        /// The service changes its transport between two sessions, and back: a stale cache entry must not prevent the
        /// connection.
        @Test func aServiceThatChangedIsStillReached() throws {
            let port = try StandIn.run({ $0.transports = [.webrtc] }) { standIn in
                try runSession(standIn, expecting: "webrtc")
                return standIn.port
            }
            try StandIn.run({ ($0.port, $0.transports) = (port, [.livekit]) }) { standIn in
                try runSession(standIn, "max-retries=2", expecting: "livekit")
                #expect(standIn.sessions.map(\.requestedRoom) == [false, true])
                try runSession(standIn, expecting: "livekit")
            }
            try StandIn.run({ ($0.port, $0.transports) = (port, [.webrtc]) }) { standIn in
                try runSession(standIn, expecting: "webrtc")
                #expect(standIn.sessions.map(\.requestedRoom) == [true])
            }
        }

        /// Detection by `auto` must cost a direct service next to nothing until its first frame.
        @Test(.measuredOnly) func autoIsAsFastAsADirectConnection() throws {
            func times(_ transport: String) throws -> [Int] {
                try StandIn.run({ $0.transports = [.webrtc] }) { standIn in
                    try (0..<5).map { _ in
                        DecartElements.forgetServices()
                        var time = -1
                        try TransformPipeline.run(try .init(standIn, "transport=\(transport)", prompt: "noir")) {
                            pipeline in
                            pipeline.play()
                            #expect(pipeline.waitForFrames(1))
                            // The probe here sees the frame before the session records it.
                            #expect(eventually { pipeline.count("time-to-first-frame") > 0 })
                            time = pipeline.count("time-to-first-frame")
                            #expect(pipeline.stats?.string("transport") == "webrtc")
                        }
                        return time
                    }
                }
            }
            let (direct, auto) = (try times("webrtc").sorted(), try times("auto").sorted())
            print(
                "time to first frame, ms: webrtc \(direct.map { $0 / 1_000_000 }), auto \(auto.map { $0 / 1_000_000 })")
            #expect(direct[0] > 0, "\(direct)")
            measure("detection", .nanoseconds(auto[2] - direct[2]), atMost: .milliseconds(500))
        }
    }
}
