import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `publish-video` withdraws the track and publishes it again, within one session.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct PublishTests {
        private static let look = "film noir"

        private func shown() throws -> CopiedFrame { try Reference.input().applying(prompt: Self.look) }

        private func isGone(_ pipeline: TransformPipeline, _ standIn: StandIn) -> Bool {
            let isStill = { () -> Bool in
                let before = (
                    pipeline.count("packets-sent"), pipeline.count("frames-sent"),
                    standIn.sessions.first?.frames.painted
                )
                _ = pipeline.collect(milliseconds: Verification.isOn ? 500 : 250)
                let after = (
                    pipeline.count("packets-sent"), pipeline.count("frames-sent"),
                    standIn.sessions.first?.frames.painted
                )
                return before == after && pipeline.stats?.string("track-state") == "withdrawn"
            }
            return eventually(isStill)
        }

        @Test func itIsWithdrawnAndComesBack() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: { try .init($0, "fallback=black", prompt: Self.look) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(shown))
                let id = pipeline.transform.string("session-id")
                for _ in 1...Verification.count(3, gate: 2) {
                    pipeline.transform.set("publish-video", false)
                    #expect(isGone(pipeline, standIn))
                    #expect(pipeline.waitForBlack())
                    #expect(eventually { (0..<20_000).contains(pipeline.count("track-bitrate")) })
                    #expect(eventually { pipeline.stats.map { $0.string("track-sid") == nil } ?? false })
                    pipeline.transform.set("publish-video", true)
                    #expect(pipeline.waitForFrame(shown))
                    #expect(eventually { pipeline.stats?.string("track-state") == "published" })
                }
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
                #expect(pipeline.timesRise)
            }
        }

        @Test func itCanBeWithheldFromTheStart() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: {
                try .init($0, "publish-video=false fallback=black", prompt: Self.look)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(eventually { pipeline.isConnected })
                #expect(isGone(pipeline, standIn))
                #expect(pipeline.count("frames-sent") == 0 && standIn.sessions.first?.frames.painted == 0)
                pipeline.transform.set("publish-video", true)
                #expect(pipeline.waitForFrame(shown))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test(arguments: ["mute-video=true", "fallback=passthrough"])
        func nothingElseBringsItBack(property: String) throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: { try .init($0, property, prompt: Self.look) }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                pipeline.transform.set("publish-video", false)
                #expect(isGone(pipeline, standIn))
                if property == "fallback=passthrough" {
                    #expect(pipeline.waitForFrame(raw, within: 3))
                    #expect(isGone(pipeline, standIn))
                }
            }
        }

        /// Rapid changes: the last value counts, and the session stays.
        @Test func anythingAtAnyTime() throws {
            let shown = try shown()
            try TransformPipeline.runWell(with: { try .init($0, "max-retries=5 fallback=freeze", prompt: Self.look) }) {
                pipeline, standIn in
                let element = pipeline.transform
                pipeline.play()
                for round in 0..<Verification.count(40, gate: 12) {
                    element.set("publish-video", round % 2 == 0)
                    _ = pipeline.collect(milliseconds: [0, 5, 60, 250][round % 4])
                }
                #expect(isGone(pipeline, standIn))
                #expect(pipeline.takeProblems().isEmpty)
                element.set("publish-video", true)
                #expect(pipeline.waitForFrame(shown))
                #expect(standIn.sessions.count == 1)
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }
    }
}
