import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct TrackTests {
        /// Muted video is black frames, which keep the session alive; the service transforms them like any other.
        @Test func blackGoesOutAndTheSessionLives() throws {
            let raw = try Reference.input()
            let shown = raw.applying(prompt: "film noir")
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir", forbidden: raw) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(shown))
                let id = pipeline.transform.string("session-id")
                pipeline.transform.set("mute-video", true)
                #expect(pipeline.waitForBlack(upTo: 39))
                // Few frames, but enough for the media watchdog: under `scripts/verify` the wait is longer than its
                // timeout.
                let (before, start) = (pipeline.count("frames-sent"), ContinuousClock.now)
                let problem = pipeline.waitForMessage(seconds: Verification.count(6, gate: 1)) {
                    $0.kind == .error || $0.kind == .warning
                }
                #expect(problem == nil)
                #expect(eventually { pipeline.count("frames-sent") > before })
                let seconds = (ContinuousClock.now - start) / .seconds(1)
                let rate = Double(pipeline.count("frames-sent") - before) / seconds
                measure("muted frames", rate, atLeast: 2.5, unit: "/s")
                measure("muted frames", rate, atMost: 5.9, unit: "/s")
                #expect(pipeline.latestFrame.map { $0.planes[0].allSatisfy { $0 < 40 } } == true)

                pipeline.transform.set("mute-video", false)
                #expect(pipeline.waitForFrame(shown))
                #expect(pipeline.transform.string("session-id") == id)
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.current.leaks == 0)
                #expect(pipeline.timesRise)
            }
        }

        @Test(.indifferentToTransport) func aSessionExpiresWithAWord() throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, "max-session-duration=2")) { pipeline in
                    pipeline.play()
                    let ending = pipeline.waitForMessage { $0.structure?.name == "decart-session-ending" }
                    #expect(ending?.structure?.double("seconds-left").map { $0 > 0 && $0 <= 1 } == true)
                    let error = try #require(pipeline.waitForError())
                    #expect(error.text.contains("Session expired"))
                    #expect(eventually { pipeline.connectionState == "error" })
                }
                try TransformPipeline.run(try .init(standIn, "max-session-duration=2")) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                    _ = pipeline.transform.emit("extend-session", [GValueBox(uint: 100)])
                    #expect(pipeline.waitForMessage(seconds: 3) { $0.kind == .error } == nil)
                }
            }
        }
    }
}
