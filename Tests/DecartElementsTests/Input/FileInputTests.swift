import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Input that is not live is paced by the clock and loses no frame.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct FileInputTests {
        private static let frameCount = Verification.count(40, gate: 20)

        private func expectAllSent(
            _ pipeline: TransformPipeline, _ standIn: StandIn, count: Int,
            test: String = #function, sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let clock = ContinuousClock()
            pipeline.play()
            #expect(pipeline.waitForFrames(1), sourceLocation: sourceLocation)
            let start = clock.now
            #expect(pipeline.wait { $0.isEnded }, "no EOS", sourceLocation: sourceLocation)
            let time = clock.now - start
            // At 20 fps the last frame is due 50 ms after the one before it; EOS follows within a second. The first
            // frame may come back late, so that the time is short.
            let due = Double(50 * (count - 1))
            measure("time", time / .milliseconds(1), atLeast: due - 400, unit: "ms", test: test)
            measure("time", time / .milliseconds(1), atMost: due + 2000, unit: "ms", test: test)
            let stats = try #require(pipeline.stats)
            // Congestion control may take a busy machine for a slow network, and thin the input.
            let skipped = try #require(stats.int("frames-skipped"))
            measure("skipped", Double(skipped), atMost: 0, unit: "frames", test: test)
            #expect(stats.int("frames-in") == count, sourceLocation: sourceLocation)
            #expect(stats.int("frames-dropped") == 0, sourceLocation: sourceLocation)
            #expect(stats.int("frames-sent") == count - skipped, sourceLocation: sourceLocation)
            // The session may end before the last one or two frames are encoded.
            let back = Double(pipeline.frames)
            measure("came back", back, atLeast: Double(count - 2), unit: "frames", test: test)
            #expect(pipeline.frames > count / 2 && pipeline.frames <= count, sourceLocation: sourceLocation)
            let session = try #require(standIn.sessions.first, sourceLocation: sourceLocation)
            measure("arrived", Double(session.frames.painted), atLeast: Double(count - 1), unit: "frames", test: test)
            #expect(session.frames.painted <= count, "\(session.frames.painted)", sourceLocation: sourceLocation)
            #expect(pipeline.takeProblems().isEmpty, sourceLocation: sourceLocation)
        }

        @Test func aSourceThatIsNotLiveIsPacedAndLosesNothing() throws {
            let raw = try Reference.input()
            try StandIn.run { standIn in
                let source = TransformPipeline.source("num-buffers=\(Self.frameCount)")
                try TransformPipeline.run(try .init(standIn, prompt: "film noir", source: source, forbidden: raw)) {
                    pipeline in
                    try expectAllSent(pipeline, standIn, count: Self.frameCount)
                    #expect(pipeline.current.leaks == 0)
                }
                standIn.expectGoodConduct()
            }
        }

        @Test func aFileIsSentWhole() throws {
            try TemporaryFolder.with { folder in
                let path = folder.path("input.webm")
                let writer = try Pipeline(
                    description: """
                        \(TransformPipeline.source("num-buffers=\(Self.frameCount)")) ! vp8enc deadline=1 cpu-used=16 \
                        target-bitrate=4000000 ! webmmux ! filesink location=\(path)
                        """)
                writer.setState(.playing)
                var isWritten = false
                while !isWritten, let message = writer.bus.next(timeout: .seconds(20)) {
                    isWritten = message.kind == .eos
                    #expect(message.kind != .error)
                }
                writer.setState(.null)
                #expect(isWritten)
                try StandIn.run { standIn in
                    let source = "filesrc location=\(path) ! matroskademux ! vp8dec"
                    try TransformPipeline.run(try .init(standIn, prompt: "film noir", source: source)) { pipeline in
                        try expectAllSent(pipeline, standIn, count: Self.frameCount)
                    }
                    standIn.expectGoodConduct()
                }
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
