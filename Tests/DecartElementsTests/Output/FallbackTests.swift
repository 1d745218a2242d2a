import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Output while the service sends nothing: never the raw input, unless `fallback=passthrough` is set.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct FallbackTests {
        @Test(.indifferentToTransport, arguments: ["freeze", "black"]) func beforeTheFirstFrameItIsBlack(
            fallback: String
        ) throws {
            let raw = try Reference.input()
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init(
                        "base-url=\(server.url) api-key=x \(TransformPipeline.custom) fallback=\(fallback)",
                        forbidden: raw)
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(3))
                    let frame = try #require(pipeline.latestFrame)
                    #expect(frame.planes[0].allSatisfy { $0 == 16 })
                    #expect(frame.planes[1].allSatisfy { $0 == 128 } && frame.planes[2].allSatisfy { $0 == 128 })
                    #expect(pipeline.current.leaks == 0)
                    #expect(pipeline.timesRise)
                }
            }
        }

        /// An ERROR before the sink has its first frame ends the pipeline's change to PLAYING; the element plays on.
        @Test(.indifferentToTransport) func itGoesOnAfterARefusedStart() throws {
            let faults = [try Fault(parsing: "http_401")]
            try TransformPipeline.run(
                with: { try .init($0, "fallback=black", prompt: "film noir") }, standIn: { $0.faults = faults }
            ) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForError()?.details?.string("code") == "INVALID_API_KEY")
                pipeline.play()
                #expect(pipeline.waitForBlack())
                #expect(pipeline.waitForFrames(3))
            }
        }

        @Test func freezeKeepsTheLastFrameWhenTheServiceGoes() throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: "film noir")
            try TransformPipeline.run(with: {
                try .init($0, "fallback=freeze max-retries=5", prompt: "film noir", forbidden: raw)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                standIn.server.stop()
                #expect(eventually { !pipeline.isConnected })
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.latestFrame.map { $0.difference(from: expected) < 6 } == true)
                #expect(pipeline.current.leaks == 0)
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        @Test(.indifferentToTransport) func passthroughShowsTheInputAsItWasAskedTo() throws {
            let raw = try Reference.input()
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init("base-url=\(server.url) api-key=x \(TransformPipeline.custom) fallback=passthrough")
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrame(raw, within: 3))
                    // Passthrough ends with the property.
                    pipeline.transform.set("fallback", "black")
                    #expect(pipeline.waitForBlack())
                    pipeline.forbid(raw)
                    #expect(pipeline.waitForFrames(3))
                    #expect(pipeline.current.leaks == 0)
                }
            }
        }
    }
}
