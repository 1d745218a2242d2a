import CGStreamer
import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// No frame is skipped on a network that carries everything.
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
                    let hasArrived = eventually(seconds: 60) { Counts(pipeline).arrived >= before.arrived + frames }
                    #expect(hasArrived, "the source stopped")
                    counts = (before, Counts(pipeline))
                    #expect(pipeline.takeProblems().isEmpty)
                }
                return try #require(counts)
            }
        }

        /// An encoder above max-bitrate must not make congestion control skip frames. Ten seconds of noise make each
        /// codec exceed it.
        @Test(arguments: [("vp8", 400_000), ("h264", 20_000), ("vp9", 60_000)])
        func anOvershootOfTheMaximumCostsNoFrame(codec: String, maximum: Int) throws {
            let (before, after) = try run(
                200, "codec=\(codec) max-bitrate=\(maximum)",
                source:
                    "videotestsrc pattern=snow is-live=true ! video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1"
            )
            #expect(after.skipped == before.skipped)
            #expect(after.dropped == before.dropped)
            // A few may be in flight at either end.
            #expect(abs((after.sent - before.sent) - (after.arrived - before.arrived)) <= 3)
        }

        /// The default test pattern in the models' size passes without skipped frames, from the start bitrate on.
        @Test(arguments: ["vp8", "h264", "vp9"])
        func theStandardPictureKeepsItsRate(codec: String) throws {
            let (before, after) = try run(
                300, "codec=\(codec) width=1280 height=704 framerate=30 max-framerate=30",
                source: "videotestsrc is-live=true ! video/x-raw,width=1280,height=704,framerate=30/1")
            // A busy machine drops frames before the encoder; the ladder must not skip any.
            #expect(after.skipped == before.skipped)
        }

        /// A subclass of vp8enc under another factory name: the element does not know the name of its bitrate property.
        private static let foreignEncoder: String? = {
            let name = "foreignvp8enc"
            guard ElementTests.isReady, let known = gst_element_factory_find("vp8enc") else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(known)) }
            guard let loaded = gst_plugin_feature_load(known) else { return nil }
            defer { gst_object_unref(UnsafeMutableRawPointer(loaded)) }
            let parent = gst_element_factory_get_element_type(loaded)
            var query = GTypeQuery()
            g_type_query(parent, &query)
            let type = g_type_register_static_simple(
                parent, "ForeignVP8Enc", query.class_size, nil, query.instance_size, nil, GTypeFlags(rawValue: 0))
            return gst_element_register(nil, name, 0, type) != 0 ? name : nil
        }()

        /// An encoder whose bitrate cannot be set is reported by one warning per run, however many sessions there are.
        @Test func anEncoderThatDoesNotFollowTheTargetIsTold() throws {
            let encoder = try #require(Self.foreignEncoder)
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, "codec=vp8 encoder=\(encoder)")) { pipeline in
                    pipeline.play()
                    let warning = try #require(pipeline.waitForProblem(.warning), "no warning")
                    for word in [encoder, "bitrate", "vp8enc", "vp9enc", "x264enc", "openh264enc"] {
                        #expect(warning.text.contains(word), "\(word): \(warning.text)")
                    }
                    #expect(pipeline.waitForFrames(3), "no frame came back")
                    pipeline.transform.emit("disconnect")
                    #expect(eventually { pipeline.connectionState == "disconnected" }, "it is still connected")
                    pipeline.transform.emit("connect")
                    #expect(standIn.wait { $0.count == 2 }, "no second session")
                    #expect(pipeline.waitForFrames(10), "no frame came back after the second connect")
                    #expect(pipeline.takeProblems().count == 1)
                }
            }
        }
    }
}
