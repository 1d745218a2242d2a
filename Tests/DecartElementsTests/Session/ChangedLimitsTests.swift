import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct ChangedLimitsTests {
        /// Bitrates and frame rate take effect in PLAYING, without another session.
        @Test func theyApplyToTheRunningSession() throws {
            let properties = "max-bitrate=900000"
            try TransformPipeline.run(with: { try .init($0, properties, prompt: "film noir") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3), "no frame came back")
                pipeline.transform.set("max-bitrate", 250_000)
                #expect(eventually { (1...250_000).contains(pipeline.count("target-bitrate")) })
                pipeline.transform.set("max-bitrate", 900_000)
                pipeline.transform.set("min-bitrate", 800_000)
                #expect(eventually { (800_000...900_000).contains(pipeline.count("target-bitrate")) })
                // A busy machine looks like a network that carries less.
                pipeline.transform.set("min-bitrate", 10_000)
                #expect(pipeline.current.latest?.caps.contains("framerate=(fraction)20/1") == true)
                pipeline.transform.set("framerate", 10)
                #expect(eventually { pipeline.current.latest?.caps.contains("framerate=(fraction)10/1") == true })
                // Of 20 frames a second, every other one is sent.
                let skipped = pipeline.count("frames-skipped")
                #expect(eventually { pipeline.count("frames-skipped") >= skipped + 10 })
                #expect(pipeline.takeProblems().isEmpty)
            }
        }
    }
}
