import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Input that is not live is paced by the clock and loses no frame.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct FileInputTests {
        @Test func aSourceThatIsNotLiveIsPacedAndLosesNothing() throws {
            let raw = try Reference.input()
            let count = Verification.count(40, gate: 20)
            let source = TransformPipeline.source("num-buffers=\(count)")
            try TransformPipeline.runWell(with: {
                try .init($0, prompt: "film noir", source: source, forbidden: raw)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                let time = duration { #expect(pipeline.wait { $0.isEnded }, "no EOS") }
                // At 20 fps the last frame is due 50 ms after the one before it; EOS follows within a second. The first
                // frame may come back late, so that the time is short.
                let due = Double(50 * (count - 1))
                measure("time", time / .milliseconds(1), atLeast: due - 400, unit: "ms")
                measure("time", time / .milliseconds(1), atMost: due + 2000, unit: "ms")
                let stats = try #require(pipeline.stats)
                // Congestion control may take a busy machine for a slow network, and thin the input.
                let skipped = try #require(stats.int("frames-skipped"))
                measure("skipped", Double(skipped), atMost: 0, unit: "frames")
                #expect(stats.int("frames-in") == count && stats.int("frames-dropped") == 0)
                #expect(stats.int("frames-sent") == count - skipped)
                // The session may end before the last one or two frames are encoded.
                measure("came back", Double(pipeline.frames), atLeast: Double(count - 2), unit: "frames")
                #expect(pipeline.frames > count / 2 && pipeline.frames <= count)
                let session = try #require(standIn.sessions.first)
                measure("arrived", Double(session.frames.painted), atLeast: Double(count - 1), unit: "frames")
                #expect(session.frames.painted <= count, "\(session.frames.painted)")
                #expect(pipeline.takeProblems().isEmpty && pipeline.current.leaks == 0)
            }
        }

        @Test func aFasterInputIsThinnedToTheLimit() throws {
            let source = TransformPipeline.source(
                "num-buffers=90", caps: "format=I420,\(TransformPipeline.size),framerate=60/1")
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir", source: source) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                let stats = try #require(pipeline.stats)
                let sent = try #require(stats.int("frames-sent"))
                let skipped = try #require(stats.int("frames-skipped"))
                #expect(stats.int("frames-dropped") == 0)
                #expect(sent + skipped == 90)
                // 1.5 s at 20 fps, by the timestamps.
                #expect(sent <= 32, "\(sent)")
                measure("sent", Double(sent), atLeast: 29, unit: "frames")
            }
        }

        @Test func aSlowerInputIsNotFilledUp() throws {
            let source = TransformPipeline.source(
                "num-buffers=10", caps: "format=I420,\(TransformPipeline.size),framerate=10/1")
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir", source: source) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                #expect(pipeline.count("frames-sent") + pipeline.count("frames-skipped") == 10)
                measure("sent", Double(pipeline.count("frames-sent")), atLeast: 10, unit: "frames")
            }
        }
    }
}
