import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// The service ends the generation and starts it again: one session, no reconnect, and the output never stops.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct GenerationTests {
        private static let prompt = "film noir"
        /// Ways in which the service brings its output back in this run's transport, each with the pause in seconds.
        /// One pause exceeds the media watchdog's timeout.
        static let returns: [(output: Fault.Output, seconds: Double)] =
            switch MediaWay.current {
            case .older, .webrtc: [(.same, 7), (.newSSRC, 1.5), (.offer, 1.5), (.newMID, 1.5)]
            case .auto, .livekit: [(.same, 7), (.republish, 1.5), (.newMID, 1.5), (.newSID, 1.5)]
            case .single: [(.same, 7), (.republish, 1.5), (.newSID, 1.5)]
            }

        private func inject(_ spec: String, _ standIn: StandIn) throws {
            try standIn.server.inject([Fault(parsing: spec)], into: standIn.sessions.first?.sessionID)
        }

        private func isBlack(_ seen: TransformPipeline.Seen) -> Bool {
            seen.latest?.image.planes[0].allSatisfy { $0 == 16 } == true
        }

        @Test(arguments: returns) func theSessionGoesOn(output: Fault.Output, seconds: Double) throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: Self.prompt)
            try StandIn.run { standIn in
                try TransformPipeline.run(
                    try .init(standIn, "fallback=black max-retries=5", prompt: Self.prompt, forbidden: raw)
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForPicture(expected))
                    #expect(eventually { pipeline.connectionState == "generating" })
                    let (id, session) = (pipeline.transform.string("session-id"), try #require(standIn.sessions.first))
                    // Twice, because a track that moved once can move again.
                    for round in 1...2 {
                        let away = round == 1 ? seconds : 1.5
                        try inject("generation_restart:delay=\(away),output=\(output.rawValue)", standIn)
                        #expect(standIn.wait { $0.first?.isGenerating == false })
                        #expect(pipeline.wait(until: isBlack))
                        #expect(eventually { pipeline.connectionState == "connected" })
                        // Input frames are still sent during the pause.
                        let sent = pipeline.count("frames-sent")
                        #expect(pipeline.waitForFrames(10))
                        #expect(eventually { pipeline.count("frames-sent") > sent })
                        #expect(standIn.wait { $0.first?.isGenerating == true })
                        #expect(pipeline.waitForPicture(expected), "\(output), round \(round)")
                        #expect(eventually { pipeline.connectionState == "generating" })
                        #expect(pipeline.waitForFrames(10))
                        #expect(pipeline.latestPicture.map { $0.difference(from: expected) < 6 } == true)
                        let answers = output == .offer || output == .newMID && !MediaWay.current.isRoom ? round : 0
                        #expect(standIn.sessions.first?.answerCount == answers)
                    }
                    let now = standIn.sessions
                    #expect(now.count == 1 && now.first?.isOpen == true)
                    #expect(pipeline.transform.string("session-id") == id)
                    #expect(now.first?.offerCount == session.offerCount)
                    #expect(now.first?.roomJoinCount == session.roomJoinCount)
                    #expect(pipeline.takeProblems().isEmpty && pipeline.current.leaks == 0)
                    let times = pipeline.current.times.compactMap { $0 }
                    #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
                }
                standIn.expectGoodConduct()
            }
        }

        /// A viewer sees what the session shows: it stays connected through the pause and needs no new token.
        @Test(arguments: returns) func aViewerStays(output: Fault.Output, seconds: Double) throws {
            let expected = try Reference.input().applying(prompt: Self.prompt)
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, "max-retries=5", prompt: Self.prompt)) { owner in
                    owner.play()
                    #expect(owner.waitForPicture(expected, within: ViewerTests.limit))
                    let token = try #require(owner.transform.string("subscribe-token"))
                    try TransformPipeline.run(
                        try .camera(standIn, "subscribe-token=\(token) fallback=black max-retries=5")
                    ) { viewer in
                        viewer.play()
                        #expect(viewer.waitForPicture(expected, within: ViewerTests.limit))
                        #expect(standIn.wait { $0.first?.viewerCount == 1 })
                        let count = standIn.sessions.count
                        try inject("generation_restart:delay=\(seconds),output=\(output.rawValue)", standIn)
                        #expect(viewer.wait(until: isBlack))
                        #expect(standIn.wait { $0.first?.isGenerating == true })
                        #expect(viewer.waitForPicture(expected, within: ViewerTests.limit), "\(output)")
                        #expect(viewer.waitForFrames(10))
                        #expect(viewer.connectionState == "connected")
                        #expect(standIn.sessions.count == count && standIn.sessions.first?.viewerCount == 1)
                        #expect(viewer.takeProblems().isEmpty && owner.takeProblems().isEmpty)
                        #expect(owner.transform.string("subscribe-token") == token)
                    }
                }
            }
        }

        /// The user must learn why the generation ended: a warning immediately, and a permanent error once the service
        /// closes.
        @Test(arguments: [
            ("insufficient_credits", "INSUFFICIENT_CREDITS"), ("moderation_violation", "MODERATION_VIOLATION"),
        ])
        func aCauseIsTold(reason: String, code: String) throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, "fallback=black max-retries=5", prompt: Self.prompt)) {
                    pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(5))
                    #expect(eventually { pipeline.connectionState == "generating" })
                    try inject("generation_ended:reason=\(reason)", standIn)
                    let warning = try #require(pipeline.waitForProblem(.warning))
                    #expect(warning.details?.string("code") == code && warning.details?["permanent"]?.bool == false)
                    #expect(pipeline.waitForFrames(20))
                    #expect(standIn.sessions.count == 1 && pipeline.transform.bool("is-connected") == true)
                    standIn.server.closeSessions(code: 1000)
                    let error = try #require(pipeline.waitForError())
                    #expect(error.details?.string("code") == code && error.details?["permanent"]?.bool == true)
                    #expect(standIn.sessions.count == 1)
                }
            }
        }
    }
}
