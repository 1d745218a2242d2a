import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Sessions whose transport the property demands: a room, a direct connection, and a room with one peer connection.
    /// They differ from those of `transport=auto` in how a session starts, fails and ends, so these tests hold no more
    /// than that.
    @Suite(.serialized, .timeLimit(.minutes(4)), .indifferentToTransport) struct StartTests {
        private static let look = "film noir"

        private func run(
            _ way: MediaWay, _ properties: String = "", prompt: String = StartTests.look,
            served: Set<MediaTransportKind>? = nil, engine: (any MediaEngine)? = nil,
            _ body: (StandIn, TransformPipeline) throws -> Void
        ) throws {
            let raw = try Reference.input()
            try StandIn.run({ $0.transports = served ?? way.served }, engine: engine) { standIn in
                let properties = "transport=\(way.transport) \(properties)"
                try TransformPipeline.run(try .init(standIn, properties, prompt: prompt, forbidden: raw)) { pipeline in
                    pipeline.play()
                    try body(standIn, pipeline)
                    #expect(pipeline.current.leaks == 0)
                }
                standIn.expectGoodConduct()
            }
        }

        private func expectOneError(_ pipeline: TransformPipeline, sourceLocation: SourceLocation = #_sourceLocation) {
            let errors = pipeline.collect(milliseconds: 100).filter { $0.kind == .error }
            #expect(errors.count == 1, "\(errors.map(\.text))", sourceLocation: sourceLocation)
            #expect(pipeline.frames == 0, sourceLocation: sourceLocation)
        }

        // MARK: Start

        @Test(arguments: MediaWay.demanded) func theFirstFrameIsTransformed(way: MediaWay) throws {
            let expected = try Reference.input().applying(prompt: Self.look)
            try run(way) { standIn, pipeline in
                #expect(pipeline.waitForFrame(expected))
                // The first frame is a single keyframe with few bits, hence the wider limit.
                let first = try #require(pipeline.current.first)
                #expect(first.image.difference(from: expected) < 12)
                let stats = try #require(pipeline.stats)
                #expect(stats.string("transport") == way.usedTransport.rawValue)
                #expect(stats.string("encoder") == way.encoder && stats.string("decoder") == way.decoder)
                #expect(stats.string("track-state") == "published")
                #expect((stats.string("track-sid")?.hasPrefix("TR_") == true) == way.isRoom)
                pipeline.transform.set("prompt", GValueBox("anime"))
                let next = try Reference.input().applying(prompt: "anime")
                #expect(pipeline.waitForFrame(next))
                let session = try #require(standIn.sessions.first)
                #expect(session.prompts == [Self.look, "anime"])
                #expect(session.offerCount == way.offerCount)
                #expect(session.room.joinCount == way.roomJoinCount)
                #expect(standIn.wait { $0.first?.receivedEndOfCandidates == true || way.isRoom })
                #expect(pipeline.current.capsTexts.count == 1)
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
            }
        }

        @Test(arguments: MediaWay.demanded)
        func withoutAPromptPassthroughIsRequestedOnce(way: MediaWay) throws {
            let raw = try Reference.input()
            try run(way, prompt: "") { standIn, pipeline in
                pipeline.forbid(nil)
                #expect(pipeline.waitForFrame(raw, within: 6))
                #expect(standIn.wait { $0.first?.passthroughCount == 1 })
                #expect(standIn.sessions.first?.promptCount == 0)
            }
        }

        /// The first offer of a session and the later ones differ: audio and video come and go within the session.
        @Test(arguments: MediaWay.demanded) func tracksComeAndGo(way: MediaWay) throws {
            let expected = try Reference.input().applying(prompt: Self.look)
            try run(way, "fallback=black") { standIn, pipeline in
                #expect(pipeline.waitForFrame(expected))
                let branch = try AudioBranch(TransformPipeline.tone(440), on: pipeline)
                let audioOut = try branch.audio()
                #expect(audioOut.waitForTone(440))
                pipeline.transform.set("publish-video", false)
                #expect(eventually { pipeline.stats?.string("track-state") == "withdrawn" })
                #expect(pipeline.waitForBlack())
                pipeline.transform.set("publish-video", true)
                #expect(pipeline.waitForFrame(expected))
                #expect(audioOut.waitForTone(440))
                branch.release()
                #expect(branch.isGone.wait { $0 })
                branch.end()
                #expect(pipeline.waitForFrames(3))
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
            }
        }

        // MARK: Failure

        @Test(arguments: MediaWay.demanded) func aRefusedKeyIsPermanent(way: MediaWay) throws {
            try run(way, "max-retries=5 api-key=\(StandIn.rejectedKey)") { standIn, pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.name == FailureTests.notAuthorized)
                #expect(error.details?.string("code") == "INVALID_API_KEY")
                #expect(error.details?["permanent"]?.bool == true)
                let said = error.text + error.debug + (error.details?.description ?? "")
                #expect(!said.contains(StandIn.rejectedKey))
                expectOneError(pipeline)
                #expect(standIn.sessions.isEmpty)
            }
        }

        @Test(arguments: MediaWay.demanded) func aRefusedPromptIsAnError(way: MediaWay) throws {
            try run(way, prompt: "please refuse-me now") { standIn, pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.source == "t" && error.text.contains("refused by moderation"))
                #expect(error.details?.string("code") == "MODERATION_VIOLATION")
                expectOneError(pipeline)
                #expect(eventually { pipeline.connectionState == "error" })
                // A room may refuse when the track is already published; even then no frame comes back.
                let session = try #require(standIn.sessions.first)
                #expect(session.offerCount == 0 && session.frames.painted == 0)
            }
        }

        @Test(arguments: MediaWay.demanded) func aServiceWithoutTheTransportIsNamed(way: MediaWay) throws {
            let other: MediaTransportKind = way.isRoom ? .webrtc : .livekit
            try run(way, served: [other]) { _, pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains(way.isRoom ? "transport=webrtc" : "livekit"), "\(error.text)")
                expectOneError(pipeline)
            }
        }

        @Test(arguments: MediaWay.demanded) func aServiceThatNeverAnswersIsATimeout(way: MediaWay) throws {
            try run(way, "connection-timeout=1", engine: SilentEngine()) { _, pipeline in
                let error = try #require(pipeline.waitForError())
                #expect(error.details?.string("code") == "CONNECTION_TIMEOUT")
                expectOneError(pipeline)
            }
        }

        // MARK: End

        @Test(arguments: MediaWay.demanded) func theServicesCloseLeadsToANewSession(way: MediaWay) throws {
            let expected = try Reference.input().applying(prompt: Self.look)
            try run(way, "max-retries=5") { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                standIn.server.closeSessions(code: 1011)
                #expect(standIn.wait { $0.count == 2 && $0[1].prompts == [Self.look] && $0[1].isGenerating })
                #expect(standIn.wait { $0[1].frames.painted > 0 })
                #expect(pipeline.waitForFrames(3) && pipeline.waitForFrame(expected))
                #expect(eventually { pipeline.count("reconnects") == 1 })
                #expect(standIn.sessions.map(\.offerCount) == [way.offerCount, way.offerCount])
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        @Test(arguments: MediaWay.demanded)
        func theServicesCloseWithoutRetriesIsOneError(way: MediaWay) throws {
            try run(way) { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                standIn.server.closeSessions(code: 1011)
                _ = try #require(pipeline.waitForError())
                #expect(pipeline.collect(milliseconds: 100).count { $0.kind == .error } == 1)
                #expect(standIn.sessions.count == 1)
            }
        }

        /// EOS and NULL end the session at the service, and the element starts another one afterwards.
        @Test(arguments: MediaWay.demanded) func endOfStreamAndNullEndTheSession(way: MediaWay) throws {
            try run(way) { standIn, pipeline in
                #expect(pipeline.waitForFrames(3))
                pipeline.pipeline.send(Event.eos())
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session outlives EOS")
                for count in 2...3 {
                    let counted = pipeline.count("frames-in")
                    #expect(pipeline.pipeline.setState(count == 2 ? .null : .ready) == .success)
                    #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session outlives the element's run")
                    pipeline.play()
                    #expect(pipeline.waitForFrames(3))
                    #expect(standIn.sessions.count == count)
                    // Counters live as long as the element.
                    #expect(counted > 0 && pipeline.count("frames-in") > counted)
                }
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// NULL does not wait for the service, which stalls after some messages; see TeardownTests.
        @Test(arguments: MediaWay.demanded) func nullWhileTheServiceOwesAnAnswer(way: MediaWay) throws {
            try StandIn.run({ $0.transports = way.served }) { standIn in
                for frames in Verification.isOn ? [0, 2, 3, 4] : [0, 2, 4] {
                    try StallingProxy.with(to: standIn, frames: frames) { proxy in
                        let properties = "base-url=\(proxy.url) transport=\(way.transport)"
                        try TransformPipeline.run(try .init(standIn, properties, prompt: Self.look)) { pipeline in
                            #expect(pipeline.play() != .failure)
                            let isReached =
                                frames == 0
                                ? standIn.wait { $0.contains(where: \.isOpen) } : proxy.waitForFrames(frames)
                            #expect(isReached, "the phase was never reached")
                            #expect(!pipeline.takeProblems().contains { $0.kind == .error })
                        }
                    }
                }
                standIn.expectGoodConduct()
            }
        }
    }
}
