import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// No frame is skipped on a network that carries everything. A busy machine drops frames, and its delays look like
    /// a network's to congestion control, so these are figures.
    @Suite(.serialized, .timeLimit(.minutes(4)), .measuredOnly) struct FrameRateTests {
        private static let noise =
            "videotestsrc pattern=snow is-live=true ! video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1"
        private static let standard = "videotestsrc is-live=true ! video/x-raw,width=1280,height=704,framerate=30/1"

        /// Runs to the given number of input frames after the first returned frame.
        private func run(_ properties: String, source: String, frames: Int, _ report: (_ more: (String) -> Int) -> Void)
            throws
        {
            try TransformPipeline.run(with: { try .init($0, properties, source: source) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1), "no frame came back")
                let before = try #require(pipeline.stats)
                var after = before
                func more(_ counter: String) -> Int { (after.int(counter) ?? -1) - (before.int(counter) ?? -1) }
                let hasArrived = eventually {
                    after = pipeline.stats ?? before
                    return more("frames-in") >= frames
                }
                #expect(hasArrived, "the source stopped")
                report(more)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// An encoder above max-bitrate must not make congestion control skip frames. Ten seconds of noise make each
        /// codec exceed it.
        @Test(arguments: [("vp8", 400_000), ("h264", 20_000), ("vp9", 60_000)])
        func anOvershootOfTheMaximumCostsNoFrame(codec: String, maximum: Int) throws {
            try run("codec=\(codec) max-bitrate=\(maximum)", source: Self.noise, frames: 200) { more in
                // The rate limit skips frames. The input is not faster than it, unless the degradation ladder lowers it.
                measure("\(codec), skipped", Double(more("frames-skipped")), atMost: 0, unit: "frames")
                measure("\(codec), dropped", Double(more("frames-dropped")), atMost: 0, unit: "frames")
                // A few may be in flight at either end.
                let missing = abs(more("frames-sent") - more("frames-in"))
                measure("\(codec), not sent", Double(missing), atMost: 3, unit: "frames")
            }
        }

        /// The default test pattern in the models' size passes without skipped frames, from the start bitrate on.
        @Test(arguments: ["vp8", "h264", "vp9"]) func theStandardVideoKeepsItsRate(codec: String) throws {
            let properties = "codec=\(codec) width=1280 height=704 framerate=30"
            try run(properties, source: Self.standard, frames: 300) { more in
                measure("\(codec), skipped", Double(more("frames-skipped")), atMost: 0, unit: "frames")
            }
        }
    }
}
