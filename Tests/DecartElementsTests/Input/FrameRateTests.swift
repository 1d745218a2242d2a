import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// No frame is skipped on a network that carries everything. A busy machine drops frames, and its delays look like
    /// a network's to congestion control, so these are figures.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct FrameRateTests {
        private struct Counts {
            var arrived: Int
            var sent: Int
            /// Frames removed by the rate limit. The input is not faster than the configured rate, so an increase means
            /// that the degradation ladder lowered it.
            var skipped: Int
            var dropped: Int

            init(_ pipeline: TransformPipeline) {
                let stats = pipeline.stats
                func count(_ name: String) -> Int { stats?.int("frames-\(name)") ?? -1 }
                (arrived, sent, skipped, dropped) = (count("in"), count("sent"), count("skipped"), count("dropped"))
            }
        }

        /// Returns the counters before and after `frames` further input frames; starts at the first returned frame.
        private func run(_ frames: Int, _ properties: String, source: String) throws -> (before: Counts, after: Counts)
        {
            try StandIn.run { standIn in
                var counts: (before: Counts, after: Counts)?
                try TransformPipeline.run(try .init(standIn, properties, source: source)) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1), "no frame came back")
                    let before = Counts(pipeline)
                    let hasArrived = eventually { Counts(pipeline).arrived >= before.arrived + frames }
                    #expect(hasArrived, "the source stopped")
                    counts = (before, Counts(pipeline))
                    #expect(pipeline.takeProblems().isEmpty)
                }
                return try #require(counts)
            }
        }

        /// An encoder above max-bitrate must not make congestion control skip frames. Ten seconds of noise make each
        /// codec exceed it.
        @Test(
            arguments: Verification.cases([("vp8", 400_000), ("h264", 20_000), ("vp9", 60_000)], gate: 1))
        func anOvershootOfTheMaximumCostsNoFrame(codec: String, maximum: Int) throws {
            let (before, after) = try run(
                Verification.count(200, gate: 10), "codec=\(codec) max-bitrate=\(maximum)",
                source:
                    "videotestsrc pattern=snow is-live=true ! video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1"
            )
            measure("\(codec), skipped", Double(after.skipped - before.skipped), atMost: 0, unit: "frames")
            measure("\(codec), dropped", Double(after.dropped - before.dropped), atMost: 0, unit: "frames")
            // A few may be in flight at either end.
            let missing = abs((after.sent - before.sent) - (after.arrived - before.arrived))
            measure("\(codec), not sent", Double(missing), atMost: 3, unit: "frames")
        }

        /// The default test pattern in the models' size passes without skipped frames, from the start bitrate on.
        @Test(.measuredOnly, arguments: ["vp8", "h264", "vp9"])
        func theStandardVideoKeepsItsRate(codec: String) throws {
            let (before, after) = try run(
                300, "codec=\(codec) width=1280 height=704 framerate=30",
                source: "videotestsrc is-live=true ! video/x-raw,width=1280,height=704,framerate=30/1")
            measure("\(codec), skipped", Double(after.skipped - before.skipped), atMost: 0, unit: "frames")
        }
    }
}
