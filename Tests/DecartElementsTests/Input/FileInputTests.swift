import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// Input that is not live is paced by the clock and loses no frame.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct FileInputTests {
        private static let frameCount = 40

        private func expectAllSent(
            _ pipeline: TransformPipeline, _ standIn: StandIn, count: Int,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let clock = ContinuousClock()
            pipeline.play()
            #expect(pipeline.waitForFrames(1), sourceLocation: sourceLocation)
            let start = clock.now
            #expect(pipeline.wait { $0.isEnded }, "no EOS", sourceLocation: sourceLocation)
            let time = clock.now - start
            // 40 frames at 20 fps: the last is due 1.95 s after the first; EOS follows within one second, or two on a
            // busy machine.
            let due = Duration.milliseconds(50 * (count - 1))
            #expect(time > due - .milliseconds(400), "took \(time)", sourceLocation: sourceLocation)
            #expect(time < due + .seconds(2), "took \(time)", sourceLocation: sourceLocation)
            let stats = try #require(pipeline.stats)
            #expect(stats.int("frames-in") == count, sourceLocation: sourceLocation)
            #expect(stats.int("frames-dropped") == 0, sourceLocation: sourceLocation)
            #expect(stats.int("frames-skipped") == 0, sourceLocation: sourceLocation)
            #expect(stats.int("frames-sent") == count, sourceLocation: sourceLocation)
            // The session may end before the last one or two frames are encoded.
            #expect(pipeline.frames >= count - 2, "\(pipeline.frames) came back", sourceLocation: sourceLocation)
            #expect(pipeline.frames <= count, sourceLocation: sourceLocation)
            let session = try #require(standIn.sessions.first, sourceLocation: sourceLocation)
            #expect(
                session.frameCount >= count - 1 && session.frameCount <= count, "\(session.frameCount)",
                sourceLocation: sourceLocation)
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
            try StandIn.run { standIn in
                let source = TransformPipeline.source(
                    "num-buffers=90", caps: "format=I420,\(TransformPipeline.size),framerate=60/1")
                try TransformPipeline.run(try .init(standIn, prompt: "film noir", source: source)) { pipeline in
                    pipeline.play()
                    #expect(pipeline.wait { $0.isEnded })
                    let stats = try #require(pipeline.stats)
                    let sent = try #require(stats.int("frames-sent"))
                    let skipped = try #require(stats.int("frames-skipped"))
                    #expect(stats.int("frames-dropped") == 0)
                    #expect(sent + skipped == 90)
                    // 1.5 s at 20 fps.
                    #expect((29...32).contains(sent), "\(sent)")
                }
            }
        }

        @Test func aSlowerInputIsNotFilledUp() throws {
            try StandIn.run { standIn in
                let source = TransformPipeline.source(
                    "num-buffers=10", caps: "format=I420,\(TransformPipeline.size),framerate=10/1")
                try TransformPipeline.run(try .init(standIn, prompt: "film noir", source: source)) { pipeline in
                    pipeline.play()
                    #expect(pipeline.wait { $0.isEnded })
                    #expect(pipeline.count("frames-sent") == 10)
                }
            }
        }
    }
}
