import GStreamerKit
import TestSupport
import Testing

extension ElementTests {
    /// The remote peer may send anything: a decoder that fails is replaced, and the pipeline gets no error.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct DecoderFailureTests {
        /// Waits for a decoder other than `old`; during a replacement there is none.
        private func decoder(in pipeline: TransformPipeline, after old: Element? = nil) throws -> Element {
            let found = eventually { current(pipeline).map { $0.raw != old?.raw } ?? false }
            #expect(found)
            return try #require(current(pipeline))
        }

        private func current(_ pipeline: TransformPipeline) -> Element? {
            pipeline.pipeline.allElements.last { $0.factoryName == MediaWay.current.decoder }
        }

        private func fail(_ decoder: Element) {
            decoder.postError(ElementProblem(.streamFailed, "damaged", debug: "made by a test"))
        }

        @Test func aDecoderThatFailsIsReplaced() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let session = pipeline.transform.string("session-id")
                let first = try decoder(in: pipeline)
                fail(first)
                _ = try decoder(in: pipeline, after: first)
                let before = pipeline.frames
                #expect(eventually { pipeline.frames > before + 3 })
                #expect(pipeline.transform.string("session-id") == session)
                #expect(pipeline.takeProblems().isEmpty)
                #expect(standIn.sessions.count == 1)
            }
        }

        @Test func aDecoderThatFailsAgainAndAgainTakesANewSession() throws {
            try TransformPipeline.run(with: { try .init($0, "max-retries=5", prompt: "film noir") }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                var last: Element?
                for _ in 1...3 {
                    let failing = try decoder(in: pipeline, after: last)
                    fail(failing)
                    last = failing
                }
                #expect(eventually { standIn.sessions.count == 2 })
                let before = pipeline.frames
                #expect(eventually { pipeline.frames > before + 3 })
                #expect(pipeline.takeProblems().allSatisfy { $0.kind != .error })
            }
        }
    }
}
