import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The service sends no media for longer than a stall takes, on a path that carries packets: the session stays.
    @Suite(.serialized, .timeLimit(.minutes(2)), .measuredOnly)
    struct StallTests {
        @Test func theSessionStays() throws {
            let expected = try Reference.input().applying(prompt: "film noir")
            try TransformPipeline.run(
                with: { try .init($0, "fallback=black max-retries=5 media-timeout=60", prompt: "film noir") }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                let (id, plis) = (pipeline.transform.string("session-id"), pipeline.count("plis-sent"))
                try standIn.server.inject(
                    [Fault(parsing: "media_silent:for=8")], into: standIn.sessions.first?.sessionID)
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("The session continues"))
                #expect(eventually { pipeline.count("ice-restarts") > 0 && pipeline.count("plis-sent") > plis })
                let received = pipeline.count("frames-received")
                #expect(eventually { pipeline.count("frames-received") > received })
                #expect(pipeline.waitForFrame(expected))
                #expect(standIn.sessions.count == 1 && pipeline.transform.string("session-id") == id)
                #expect(pipeline.takeProblems().count == 1)
            }
        }

        @Test func aServiceThatRepeatsAFrameIsNamed() throws {
            let source = TransformPipeline.source("is-live=true pattern=pinwheel horizontal-speed=8")
            try TransformPipeline.run(with: { try .init($0, source: source) }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(10))
                try standIn.server.inject([Fault(parsing: "media_freeze")], into: standIn.sessions.first?.sessionID)
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("returned the same frame for 5 s although the input moves"))
                #expect(eventually(seconds: 40) { pipeline.transform.string("limiting-factor") == "service" })
                #expect(standIn.sessions.count == 1)
            }
        }
    }
}
