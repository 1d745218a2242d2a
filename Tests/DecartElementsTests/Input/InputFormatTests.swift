import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Raw video in any format reaches the service in the model's size, and the output shows it as expected.
    @Suite(.serialized, .timeLimit(.minutes(5)), .indifferentToTransport) struct InputFormatTests {
        static let prompt = "film noir"

        private func expect(
            source: String, within limit: Double = 7, sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            // Stretched, as the reference pipeline scales it.
            let properties = "fit=stretch orientation=landscape"
            let raw = try Reference.frame(source.replacing("is-live=true", with: "num-buffers=1"))
            let expected = raw.applying(prompt: Self.prompt)
            try TransformPipeline.runWell(
                with: { try .init($0, properties, prompt: Self.prompt, source: source, forbidden: raw) },
                sourceLocation: sourceLocation
            ) { pipeline, _ in
                pipeline.play()
                let isRight = pipeline.waitForFrame(expected, within: limit)
                let difference = pipeline.latestFrame?.difference(from: expected)
                #expect(isRight, "differs by \(difference ?? -1)", sourceLocation: sourceLocation)
                #expect(pipeline.current.leaks == 0, sourceLocation: sourceLocation)
            }
        }

        @Test(
            arguments: Verification.cases(
                ["RGBA", "NV12", "YUY2", "P010_10LE", "RGB16", "BGRx", "UYVY", "Y444"], gate: 4))
        func everyFormatIsTaken(format: String) throws {
            try expect(
                source: TransformPipeline.source(caps: "format=\(format),width=320,height=176,framerate=20/1"))
        }

        @Test(
            arguments: Verification.cases([(641, 361), (1, 1), (1920, 1080), (3, 200), (17, 9), (320, 177)], gate: 4))
        func everySizeIsTaken(size: (Int, Int)) throws {
            // The "film noir" look is grey, which leaves no chroma noise at edges that two scalers place differently.
            try expect(
                source: TransformPipeline.source(caps: "format=I420,width=\(size.0),height=\(size.1),framerate=20/1"),
                within: 10)
        }

        /// A slow encoder must not block a live source: it keeps its pace, and the newest frames are sent.
        @Test func aLiveInputIsNeverHeldUp() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: Self.prompt) }) { pipeline, _ in
                pipeline.transform.set("encoder", GValueBox("identity sleep-time=400000 ! vp8enc deadline=1"))
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                let (before, sent) = (pipeline.count("frames-in"), pipeline.count("frames-sent"))
                #expect(pipeline.waitForFrames(Verification.count(5, gate: 2)))
                let (taken, passed) = (pipeline.count("frames-in") - before, pipeline.count("frames-sent") - sent)
                #expect(taken > passed, "\(taken) in, \(passed) sent")
                // 20 a second against 2.5.
                measure("in for each sent", Double(taken) / Double(max(passed, 1)), atLeast: 5, unit: "frames")
                #expect(eventually { pipeline.count("frames-dropped") >= taken - passed - 5 })
                #expect(pipeline.waitForMessage { $0.kind == .qos && $0.sourceName == "t" } != nil)
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }
    }
}
