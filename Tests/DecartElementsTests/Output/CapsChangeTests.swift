import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct CapsChangeTests {
        /// The capsfilter `in` is what a test changes; videotestsrc adapts to it.
        /// With `caps-change-mode=immediate`, capsfilter refuses a frame that was negotiated before the change and arrives after
        /// it: videotestsrc then ends with not-negotiated, whatever element follows.
        private static func source(_ caps: String) -> String {
            "videotestsrc is-live=true pattern=\(TransformPipeline.pattern) "
                + "! capsfilter name=in caps-change-mode=delayed caps=\"video/x-raw,\(caps)\""
        }

        @Test func theInputChangesAndTheOutputDoesNot() throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: "film noir")
            try TransformPipeline.runWell(with: {
                try .init(
                    $0, "fit=stretch", prompt: "film noir",
                    source: Self.source("format=I420,width=320,height=176,framerate=20/1"), forbidden: raw)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                let filter = try #require(pipeline.pipeline.child(named: "in"))
                let changes = [
                    "format=I420,width=640,height=360,framerate=20/1",
                    "format=RGBA,width=640,height=360,framerate=20/1",
                    "format=RGBA,width=160,height=90,framerate=10/1",
                    "format=NV12,width=33,height=321,framerate=30/1",
                    "format=I420,width=320,height=176,framerate=20/1",
                ]
                for change in changes {
                    filter.set("caps", caps: try Caps("video/x-raw,\(change)"))
                    #expect(pipeline.waitForFrames(3), "after \(change)")
                }
                #expect(pipeline.waitForFrame(expected))
                let seen = pipeline.current
                #expect(seen.capsTexts.count == 1)
                #expect(seen.leaks == 0)
                #expect(pipeline.takeProblems().isEmpty)
                #expect(standIn.sessions.first?.offerCount == MediaWay.current.offerCount)
            }
        }

        /// A portrait is cut out of a wide frame: what is cut off there is wider than the next frame.
        @Test func theInputMayBecomeSmallerThanItsCrop() throws {
            try TransformPipeline.run(with: {
                try .init(
                    $0, "orientation=portrait", prompt: "film noir",
                    source: Self.source("format=I420,width=640,height=360,framerate=20/1"))
            }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                let filter = try #require(pipeline.pipeline.child(named: "in"))
                filter.set("caps", caps: try Caps("video/x-raw,format=I420,width=100,height=176,framerate=20/1"))
                #expect(pipeline.waitForFrames(3))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func downstreamMayFixTheSize() throws {
            try TransformPipeline.run(with: {
                try .init($0, prompt: "film noir", downstream: "video/x-raw,width=640,height=360")
            }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                let frame = try #require(pipeline.latestFrame)
                #expect(frame.width == 640 && frame.height == 360)
                let caps = try #require(pipeline.current.latest?.caps)
                #expect(
                    caps.contains("framerate=(fraction)20/1") && caps.contains("pixel-aspect-ratio=(fraction)1/1"))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func theFrameRateMayBeVariable() throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: {
                try .init($0, prompt: "film noir", downstream: "video/x-raw,framerate=0/1")
            }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(pipeline.current.latest?.caps.contains("framerate=(fraction)0/1") == true)
                #expect(pipeline.timesRise && pipeline.takeProblems().isEmpty)
            }
        }

        @Test(arguments: ["format=RGBA", "colorimetry=bt709", "pixel-aspect-ratio=16/15", "interlace-mode=interleaved"])
        func whatDownstreamCannotTakeIsAnError(caps: String) throws {
            try TransformPipeline.run(with: { try .init($0, downstream: "capsfilter name=only") }) { pipeline, _ in
                // Set after linking, because with these caps the link would fail.
                try #require(pipeline.pipeline.child(named: "only")).set(
                    "caps", caps: try Caps("video/x-raw,\(caps)"))
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                #expect(error.text.contains("Put videoconvert behind the element."), "\(error.text)")
                #expect(error.domain == "gst-core-error-quark")
            }
        }

        /// The parser of descriptions waits with a refused link for a pad that may come: `audio_src` is one.
        @Test(arguments: ["pngenc", "video/x-raw,format=RGB"])
        func aRefusedLinkIsAnError(downstream: String) throws {
            try TransformPipeline.run(with: { try .init($0, downstream: downstream) }) { pipeline, _ in
                pipeline.play()
                let error = try #require(pipeline.waitForError())
                let remedy =
                    "Put videoconvert behind the element, correct caps that follow it, and add a sink if there is none."
                #expect(error.text == "Nothing is linked to 'src'. \(remedy)")
                #expect(error.domain == "gst-core-error-quark")
            }
        }
    }
}
