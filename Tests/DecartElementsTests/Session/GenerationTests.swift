import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The service ends the generation and starts it again: one session, no reconnect, and the output never stops.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct GenerationTests {
        private static let prompt = "film noir"
        /// Ways in which the service brings its output back in this run's transport.
        static let returns: [Fault.Output] =
            MediaWay.current.isRoom ? [.newMID, .same, .republish, .newSID] : [.newMID, .same, .newSSRC, .offer]
        /// Pause in seconds. Under `scripts/verify` one pause exceeds the media watchdog's timeout.
        private static func pause(_ output: Fault.Output) -> Double { Verification.isOn && output == .same ? 7 : 1 }

        private func inject(_ spec: String, _ standIn: StandIn) throws {
            try standIn.server.inject([Fault(parsing: spec)], into: standIn.sessions.first?.sessionID)
        }

        @Test(arguments: returns) func theSessionGoesOn(output: Fault.Output) throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: Self.prompt)
            try TransformPipeline.runWell(with: {
                try .init($0, "fallback=black max-retries=5", prompt: Self.prompt, forbidden: raw)
            }) { pipeline, standIn in
                // The pause ends by itself: its states and frames are recorded, not looked for.
                let states = pipeline.recordConnectionStates()
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                #expect(states.wait { $0.last == "generating" })
                let (id, session) = (pipeline.transform.string("session-id"), try #require(standIn.sessions.first))
                // Twice, because a track that moved once can move again.
                for round in 1...(output == .newMID ? 2 : Verification.count(2, gate: 1)) {
                    let away = round == 1 ? Self.pause(output) : 1
                    let (black, changes) = (pipeline.current.blackFrames, states.value.count)
                    try inject("generation_restart:delay=\(away),output=\(output.rawValue)", standIn)
                    #expect(pipeline.wait { $0.blackFrames > black })
                    // Input frames are still sent.
                    let sent = pipeline.count("frames-sent")
                    #expect(eventually { pipeline.count("frames-sent") > sent })
                    #expect(states.wait { $0.count >= changes + 2 })
                    #expect(Array(states.value.dropFirst(changes)) == ["connected", "generating"])
                    #expect(standIn.wait { $0.first?.isGenerating == true })
                    #expect(pipeline.waitForFrame(expected), "\(output), round \(round)")
                    let answers = output == .offer || output == .newMID && !MediaWay.current.isRoom ? round : 0
                    #expect(standIn.wait { $0.first?.answerCount == answers })
                }
                let now = standIn.sessions
                #expect(now.count == 1 && now.first?.isOpen == true)
                #expect(pipeline.transform.string("session-id") == id)
                #expect(now.first?.offerCount == session.offerCount)
                #expect(now.first?.room.joinCount == session.room.joinCount)
                #expect(pipeline.takeProblems().isEmpty && pipeline.current.leaks == 0)
                #expect(pipeline.timesRise)
            }
        }
    }
}
