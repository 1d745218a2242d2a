import DecartElements
import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct ResolutionTests {
        /// DecartAI/sdk#140: `resolution=1080p` delivers 1884x1080 for a model of 1088x624.
        @Test(arguments: [
            ("width=160,height=90", "width=(int)1884, height=(int)1080"),
            ("width=90,height=160", "width=(int)1080, height=(int)1884"),
        ])
        func fullHDArrivesAndLeaves(input: String, output: String) throws {
            let properties = "model=lucy-2.1 transport=webrtc resolution=1080p framerate=5"
            try TransformPipeline.run(with: {
                try .init(
                    "base-url=\($0.url) api-key=\(TransformPipeline.key) \(properties)",
                    source: TransformPipeline.source(caps: "format=I420,\(input),framerate=5/1"),
                    settings: [("prompt", "film noir")])
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                #expect(pipeline.current.capsTexts.count == 1)
                #expect(pipeline.current.capsTexts.last?.contains(output) == true, "\(pipeline.current.capsTexts)")
                #expect(max(pipeline.count("received-width"), pipeline.count("received-height")) == 1884)
                #expect(standIn.sessions.first?.request.resolution == "1080p")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func anOwnSizeStaysThatOfTheOutput() throws {
            try TransformPipeline.run(with: { try .init($0, "resolution=1080p", prompt: "film noir") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                #expect(pipeline.latestFrame?.width == TransformPipeline.width)
                #expect(pipeline.count("received-height") == 1080)
            }
        }

        @Test func smallerFramesAreReportedOnce() {
            var watch = ResolutionWatch()
            let early = (0..<100).compactMap { _ in watch.add(nil) }
            #expect(early.isEmpty, "no frames")
            let sentences = (0..<100).compactMap { _ in watch.add((1280, 720)) }
            #expect(sentences.count == 1 && sentences.first?.contains("1280x720") == true)
        }

        @Test func framesThatBecomeLargeAreNotReported() {
            var watch = ResolutionWatch()
            let sizes = Array(repeating: (640, 360), count: ResolutionWatch.limit - 1) + [(1080, 1884)]
            let sentences = (sizes + sizes).compactMap { watch.add($0) }
            #expect(sentences.isEmpty)
        }
    }
}
