import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// Replaces the source in front of decarttransform in PLAYING: the session, its offers and the output caps stay.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct InputReplacementTests {
        private static let other =
            "videotestsrc is-live=true pattern=smpte100 ! video/x-raw,format=YUY2,width=640,height=352,framerate=30/1 ! identity"

        private func otherFrame() throws -> CopiedFrame {
            try Reference.frame(
                "videotestsrc num-buffers=1 pattern=smpte100 ! video/x-raw,format=YUY2,width=640,height=352,framerate=30/1"
            )
        }

        private func expectUndisturbed(_ pipeline: TransformPipeline, _ standIn: StandIn, _ id: String?) {
            #expect(id != nil && pipeline.transform.string("session-id") == id)
            #expect(standIn.sessions.count == 1 && (standIn.sessions.first?.offerCount ?? 2) < 2)
            #expect(pipeline.current.capsTexts.count == 1)
            #expect(pipeline.takeProblems().isEmpty)
        }

        @Test func anotherSourceIsLinked() throws {
            let (one, two) = (try Reference.input(), try otherFrame())
            try TransformPipeline.runWell(with: {
                try .init($0, "fallback=freeze", prompt: "film noir", source: TransformPipeline.liveSource)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(one.applying(prompt: "film noir")))
                let id = pipeline.transform.string("session-id")
                let sink = try #require(pipeline.transform.staticPad("sink"))
                let before = try #require(sink.peer)
                let old = try #require(pipeline.pipeline.child(named: "source"))
                old.setLockedState(true)
                old.setState(.null)
                before.unlink(sink)
                // No input arrives for a while; the last frame stays.
                #expect(pipeline.waitForFrames(3))
                let next = try Bin(description: Self.other, ghostUnlinkedPads: true)
                pipeline.pipeline.add(next)
                try #require(next.staticPad("src")).link(sink)
                next.syncStateWithParent()
                #expect(pipeline.waitForFrame(two.applying(prompt: "film noir")))
                expectUndisturbed(pipeline, standIn, id)
            }
        }

        /// An orientation tag belongs to its stream and must not rotate the next one.
        @Test func anotherStreamHasOtherTags() throws {
            let (one, two) = (try Reference.input(), try otherFrame())
            let turned = try Reference.frame(
                TransformPipeline.source("num-buffers=1") + " ! videoflip video-direction=180")
            #expect(turned.difference(from: one) > 10)
            let source = """
                \(TransformPipeline.liveSource) ! taginject tags="image-orientation=rotate-180" ! s.sink_0 \
                \(Self.other) ! s.sink_1 input-selector name=s sync-streams=false
                """
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir", source: source) }) {
                pipeline, standIn in
                let selector = try #require(pipeline.pipeline.child(named: "s"))
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                let id = pipeline.transform.string("session-id")
                for (pad, frame) in [("sink_0", turned), ("sink_1", two), ("sink_0", turned)] {
                    selector.set("active-pad", GValueBox(object: try #require(selector.staticPad(pad))))
                    #expect(pipeline.waitForFrame(frame.applying(prompt: "film noir")), "\(pad)")
                }
                expectUndisturbed(pipeline, standIn, id)
            }
        }

        /// Encoded frames do not pass the elements for raw video, whose queue has no thread then. The orientation tags of the
        /// meantime hold for the raw video that follows.
        @Test func rawAndEncodedStreamsFollowEachOther() throws {
            func source(_ pattern: String) -> String {
                "videotestsrc is-live=true pattern=\(pattern) ! "
                    + "video/x-raw,format=I420,\(TransformPipeline.size),framerate=20/1"
            }
            func frame(_ pattern: String, _ turn: String = "") throws -> CopiedFrame {
                try Reference.frame(TransformPipeline.source("num-buffers=1 pattern=\(pattern)") + turn)
            }
            let turned = try frame("smpte-rp-219", " ! videoflip video-direction=180")
            let (encoded, upright) = (try frame("smpte100"), try frame("gradient"))
            let sources = """
                \(source("smpte-rp-219")) ! taginject tags="image-orientation=rotate-180" ! s.sink_0 \
                \(source("smpte100")) ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=20 bitrate=4000 ! \
                video/x-h264,profile=constrained-baseline ! s.sink_1 \
                \(source("gradient")) ! s.sink_2 input-selector name=s sync-streams=false
                """
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir", source: sources) }) {
                pipeline, standIn in
                let selector = try #require(pipeline.pipeline.child(named: "s"))
                let queue = try #require(pipeline.pipeline.child(named: "input-queue"))
                func expect(_ pad: String, _ frame: CopiedFrame, _ state: ElementState) throws {
                    selector.set("active-pad", GValueBox(object: try #require(selector.staticPad(pad))))
                    #expect(pipeline.waitForFrame(frame.applying(prompt: "film noir")), "\(pad)")
                    #expect(queue.state() == state, "\(pad)")
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                for _ in 1...2 {
                    try expect("sink_0", turned, .playing)
                    try expect("sink_1", encoded, .null)
                    try expect("sink_2", upright, .playing)
                    try expect("sink_1", encoded, .null)
                }
                pipeline.pipeline.setState(.ready)
                #expect(queue.state() == .ready)
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }
    }
}
