import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `decartsrc subscribe-token=…` watches a running session.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct ViewerTests {
        static let prompt = "film noir"
        /// Largest accepted difference in code values, as the video was encoded twice.
        static let limit = 8.0

        /// Runs a session up to its first transformed frame, and passes its token.
        private func withSession(
            _ properties: String = "", _ body: (StandIn, TransformPipeline, String) throws -> Void
        ) throws {
            try TransformPipeline.run(with: { try .init($0, properties, prompt: Self.prompt) }) { owner, standIn in
                owner.play()
                #expect(shows(owner))
                let token = try #require(owner.transform.string("subscribe-token"))
                try body(standIn, owner, token)
                #expect(!owner.takeProblems().contains { $0.kind == .error })
            }
        }

        /// Does not throw: Swift 6.0 takes no `try` of an expectation in a closure that throws nothing else.
        private func shows(_ pipeline: TransformPipeline, _ prompt: String = ViewerTests.prompt) -> Bool {
            guard let expected = try? Reference.input().applying(prompt: prompt) else { return false }
            return pipeline.waitForFrame(expected, within: Self.limit)
        }

        private func viewer(_ standIn: StandIn, _ token: String, _ properties: String = "") throws -> TransformPipeline
        {
            try .camera(standIn, "subscribe-token=\(token) \(properties)")
        }

        /// Waits for a number of viewers in the first session.
        private func waitForViewers(_ count: Int, _ standIn: StandIn) -> Bool {
            standIn.wait { $0.first?.viewerCount == count }
        }

        // MARK: Video

        @Test func aViewerSeesTheTransformedFrameAndSendsNothing() throws {
            try withSession { standIn, owner, token in
                let subscribed = try SubscribeToken(token)
                #expect(subscribed.transport == MediaWay.current.usedTransport)
                try TransformPipeline.run(try viewer(standIn, token)) { viewer in
                    #expect(viewer.play() != .failure)
                    #expect(shows(viewer))
                    #expect(waitForViewers(1, standIn))
                    #expect(eventually { viewer.connectionState == "connected" })
                    // A prompt of the owner changes what its viewers see.
                    owner.transform.set("prompt", GValueBox("anime street"))
                    #expect(shows(viewer, "anime street"))
                    #expect(owner.waitForFrames(5))
                    #expect(viewer.takeProblems().isEmpty)
                    #expect(viewer.count("frames-in") == 0 && viewer.count("frames-sent") == 0)
                    #expect(viewer.transform.string("current-device") == nil)
                    let names = (viewer.transform as? Bin)?.allElements.map(\.name) ?? []
                    #expect(!names.contains { $0.hasPrefix("capture-") })
                    // The viewer sent no prompt, and joined the room alongside the owner.
                    let session = try #require(standIn.sessions.first)
                    #expect(session.prompts == [Self.prompt, "anime street"])
                    #expect(session.room.joinCount == MediaWay.current.roomJoinCount)
                    let others = standIn.sessions.dropFirst()
                    #expect(others.count == (MediaWay.current.isRoom ? 0 : 1))
                    #expect(
                        others.allSatisfy { $0.prompts.isEmpty && $0.passthroughCount == 0 && $0.frames.painted == 0 })
                }
                #expect(waitForViewers(0, standIn))
                #expect(owner.waitForFrames(5))
            }
        }

        @Test func severalViewersAndOneLeaves() throws {
            try withSession { standIn, owner, token in
                try TransformPipeline.run(try viewer(standIn, token)) { first in
                    first.play()
                    try TransformPipeline.run(try viewer(standIn, token)) { second in
                        second.play()
                        #expect(shows(second))
                        #expect(shows(first))
                        #expect(waitForViewers(2, standIn))
                    }
                    #expect(waitForViewers(1, standIn))
                    #expect(first.waitForFrames(3) && owner.waitForFrames(3))
                    #expect(first.takeProblems().isEmpty)
                    // A late viewer gets a keyframe at once, without waiting for the session's next one.
                    try TransformPipeline.run(try viewer(standIn, token)) { late in
                        late.play()
                        #expect(shows(late))
                    }
                }
                #expect(waitForViewers(0, standIn))
            }
        }

        /// A decartsrc's own session can be watched too: the property that sets a token also returns the session's own.
        @Test func theTokenOfOnesOwnSession() throws {
            try TransformPipeline.run(with: { try .camera($0, CameraTests.still, prompt: Self.prompt) }) {
                owner, standIn in
                #expect(owner.transform.string("subscribe-token") == nil)
                owner.play()
                #expect(shows(owner))
                let token = try #require(owner.transform.string("subscribe-token"))
                try TransformPipeline.run(try viewer(standIn, token)) { viewer in
                    #expect(viewer.transform.string("subscribe-token") == token)
                    viewer.play()
                    #expect(shows(viewer))
                }
            }
        }

        // MARK: Audio

        /// A viewer hears the session's audio, also if that begins after the viewer came; it publishes none.
        @Test func aViewerHears() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: Self.prompt) }) { owner, standIn in
                owner.play()
                #expect(shows(owner))
                let token = try #require(owner.transform.string("subscribe-token"))
                try TransformPipeline.run(try .hearingViewer(standIn, token)) { early in
                    let toneOfFirst = try early.watchAudio()
                    early.play()
                    #expect(shows(early))
                    let branch = try AudioBranch(TransformPipeline.tone(440), on: owner)
                    let audio = try branch.audio()
                    #expect(audio.waitForTone(440))
                    #expect(toneOfFirst.waitForTone(440))
                    try TransformPipeline.run(try .hearingViewer(standIn, token)) { late in
                        let tone = try late.watchAudio()
                        late.play()
                        #expect(tone.waitForTone(440))
                        // One stream without holes, as the publisher's own.
                        let before = tone.seen.value
                        #expect(tone.wait { $0.buffers > before.buffers + Verification.count(100, gate: 20) })
                        #expect(tone.seen.value.unsaidHoles.isEmpty, "\(tone.seen.value.unsaidHoles)")
                        measure("gaps", Double(tone.seen.value.holes.count), atMost: 0, unit: "gaps")
                        #expect(late.count("audio-buffers-sent") == 0 && late.count("audio-buffers-received") > 0)
                    }
                    if MediaWay.current.isRoom {
                        // The audio continues once the viewer's connection has resumed.
                        try standIn.server.inject([Fault(parsing: "room_cut")])
                        #expect(eventually { early.stats?.int("resumes") == 1 })
                        let resumed = toneOfFirst.seen.value
                        #expect(toneOfFirst.wait { $0.buffers > resumed.buffers + 100 && $0.sounds(440) })
                    }
                    // The audio continues through the next generation.
                    let states = owner.recordConnectionStates()
                    try standIn.server.inject([Fault(parsing: "generation_restart:delay=0.5")])
                    #expect(states.wait { $0.suffix(2).elementsEqual(["connected", "generating"]) })
                    #expect(toneOfFirst.waitForTone(440))
                    #expect(shows(early))
                    // The session continues without audio, and the viewer gets silence and frames.
                    branch.release()
                    #expect(toneOfFirst.waitForSilence())
                    #expect(early.waitForFrames(3) && owner.waitForFrames(3))
                    branch.end()
                    #expect(early.takeProblems().isEmpty)
                }
                #expect(waitForViewers(0, standIn))
            }
        }

        // MARK: End of session and reconnects

        /// A reconnect of the owner makes a new session, whose viewers need its new token. The end of the old one is no error.
        @Test func theOwnerReconnects() throws {
            try withSession("max-retries=5") { standIn, owner, token in
                try TransformPipeline.run(try viewer(standIn, token, "max-retries=5")) { viewer in
                    viewer.play()
                    #expect(shows(viewer))
                    let id = try #require(standIn.sessions.first?.sessionID)
                    standIn.server.dropSession(id)
                    let end = viewer.waitForMessage { $0.structure?.name == "decart-session-ended" }
                    #expect(end?.structure?.string("reason")?.contains("session to watch does not exist") == true)
                    #expect(viewer.waitForMessage { $0.kind == .eos } != nil)
                    #expect(!viewer.takeProblems().contains { $0.kind == .error })
                    #expect(viewer.connectionState == "disconnected")
                    #expect(
                        eventually {
                            owner.transform.string("subscribe-token").map { $0 != token } ?? false
                        })
                    #expect(owner.waitForFrames(3))
                    // The same element watches the new session after READY.
                    viewer.pipeline.setState(.ready)
                    viewer.transform.set("subscribe-token", GValueBox(owner.transform.string("subscribe-token")))
                    viewer.play()
                    #expect(viewer.waitForFrames(3))
                    #expect(shows(viewer))
                }
            }
        }

        /// Only the viewer's connection is lost, not the session: the viewer joins again, or resumes its stay in the room.
        @Test func aViewerReconnects() throws {
            try withSession { standIn, owner, token in
                try StallingProxy.with(to: standIn, frames: nil) { proxy in
                    let properties = "max-retries=5 base-url=\(proxy.url)"
                    try TransformPipeline.run(try viewer(standIn, token, properties)) { viewer in
                        viewer.play()
                        #expect(shows(viewer))
                        proxy.drop()
                        if MediaWay.current.isRoom {
                            #expect(eventually { viewer.stats?.int("resumes") == 1 })
                            #expect(viewer.takeProblems().isEmpty)
                        } else {
                            #expect(viewer.waitForProblem(.warning) != nil)
                        }
                        #expect(eventually { viewer.isConnected })
                        #expect(waitForViewers(1, standIn))
                        #expect(viewer.waitForFrames(3))
                        #expect(shows(viewer))
                        #expect(!viewer.takeProblems().contains { $0.kind == .error })
                    }
                }
                #expect(owner.waitForFrames(5))
            }
        }

        // MARK: Refusals

        @Test(arguments: [
            "nonsense!", "e30=", "bnVsbA==", "eyJyb29tX25hbWUiOiIuLiJ9", "eyJzaWQiOiJzIiwiaXAiOiJ4IiwicG9ydCI6MH0",
        ])
        func aBadTokenIsToldBeforeAnythingIsSent(token: String) throws {
            try TransformPipeline.run(with: { try viewer($0, token) }) { viewer, standIn in
                #expect(viewer.play() == .failure)
                let error = try #require(viewer.waitForError())
                #expect(error.details?.string("code") == "INVALID_INPUT")
                #expect(error.text.contains("subscribe-token") && !error.text.contains(token))
                #expect(standIn.sessions.isEmpty)
            }
        }

        private var unknown: SubscribeToken {
            MediaWay.current.isRoom
                ? .room(name: "room/../nowhere?x=1") : .direct(sid: "gone/..?x=1", ip: "192.0.2.1", port: 80)
        }

        @Test func aSessionThatIsNotThere() throws {
            let token = try unknown.encoded()
            try TransformPipeline.run(with: { try viewer($0, token, "max-retries=5 fallback=black") }) { viewer, _ in
                viewer.play()
                let error = try #require(viewer.waitForError())
                #expect(error.text.contains("session to watch does not exist"))
                #expect(error.details?.int("http-status") == 404)
                #expect(error.details?["permanent"]?.bool == true)
                #expect(!viewer.takeProblems().contains { $0.kind == .warning })
            }
        }

        @Test func itPlaysBeforeThereIsAFrameAndTakesNoPrompt() throws {
            let token = try unknown.encoded()
            try SilentServer.with { server in
                func viewer() throws -> TransformPipeline {
                    try TransformPipeline(
                        description: """
                            decartsrc name=t base-url=\(server.url) api-key=k \(TransformPipeline.custom) fallback=black \
                            prompt=lego subscribe-token=\(token) ! fakesink name=out
                            """)
                }
                try TransformPipeline.run(try viewer()) { viewer in
                    #expect(viewer.play() != .failure)
                    #expect(viewer.waitForProblem(.warning)?.text.contains("viewer") == true)
                    #expect(viewer.waitForFrames(3))
                    #expect(eventually { viewer.pipeline.state() == .playing })
                    let before = viewer.takeProblems().count
                    viewer.transform.emit("set-prompt", [GValueBox("anime"), GValueBox(false)])
                    #expect(eventually { viewer.takeProblems().count > before })
                    #expect(viewer.takeProblems().last?.text.contains("viewer") == true)
                    #expect(!viewer.takeProblems().contains { $0.kind == .error })
                }
            }
        }

        // MARK: Secrets and leaks

        /// No message, statistic or DOT graph contains the token, and no notify is emitted for it; only reading the
        /// property returns it.
        @Test func theTokenIsForTheApplicationOnly() throws {
            try withSession { standIn, owner, token in
                try TransformPipeline.run(try viewer(standIn, token)) { viewer in
                    var said = ""
                    // The handlers run on this thread.
                    nonisolated(unsafe) var notified = false
                    let handlers = [owner, viewer].map { pipeline in
                        pipeline.transform.connect("notify::subscribe-token") { _ in
                            notified = true
                            return nil
                        }
                    }
                    viewer.play()
                    #expect(shows(viewer))
                    for pipeline in [owner, viewer] {
                        let stop = ContinuousClock.now + .milliseconds(200)
                        _ = pipeline.waitForMessage(seconds: 1) { message in
                            said += message.structure?.description ?? ""
                            return ContinuousClock.now > stop
                        }
                        said += pipeline.stats?.description ?? ""
                        let drawn = pipeline.pipeline.dotDescription()
                        // The graph does show properties that are not secret.
                        #expect(drawn.contains("connection-state="))
                        said += drawn
                    }
                    #expect(said.contains("session-id"))
                    #expect(!said.contains(token.prefix { $0 != "=" }))
                    #expect(!notified)
                    for (pipeline, handler) in zip([owner, viewer], handlers) { pipeline.transform.disconnect(handler) }
                }
            }
        }

        /// NULL returns in every phase; `TransformPipeline.run` checks that, and that no element is left.
        @Test func atAnyMoment() throws {
            var random = SeededGenerator(seed: 12)
            try withSession { standIn, owner, token in
                for token in [token, try unknown.encoded()] {
                    for _ in 0..<Verification.count(8, gate: 3) {
                        try TransformPipeline.run(try viewer(standIn, token, "max-retries=2")) { viewer in
                            viewer.play()
                            _ = viewer.collect(milliseconds: Int.random(in: 0...600, using: &random))
                        }
                    }
                }
                #expect(owner.waitForFrames(3))
                #expect(waitForViewers(0, standIn))
            }
        }

        @Test func viewersLeaveNothing() throws {
            try withSession { standIn, owner, token in
                func watch() throws {
                    try TransformPipeline.run(try viewer(standIn, token)) { viewer in
                        viewer.play()
                        #expect(viewer.waitForFrames(3))
                    }
                    #expect(waitForViewers(0, standIn))
                }
                for _ in 0..<2 { try watch() }
                let descriptors = Process.descriptorCount
                for _ in 0..<Verification.count(6, gate: 3) { try watch() }
                #expect(eventually { Process.descriptorCount <= descriptors + 2 })
                #expect(owner.waitForFrames(5))
            }
        }
    }
}
