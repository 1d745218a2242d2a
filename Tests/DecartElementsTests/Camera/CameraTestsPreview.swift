import CGStreamer
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Cropping and orientation of the captured video, and its local preview.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct CameraTestsPreview {
        private static func still(_ width: Int, _ height: Int, _ tail: String = "") -> String {
            "source=\"\(TransformPipeline.source(caps: "format=I420,width=\(width),height=\(height),framerate=20/1"))\(tail)\""
        }

        private static func once(_ width: Int, _ height: Int) -> String {
            TransformPipeline.source(
                "num-buffers=1", caps: "format=I420,width=\(width),height=\(height),framerate=20/1")
        }

        private func watch(_ pipeline: TransformPipeline) throws -> FrameWatch {
            FrameWatch(try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
        }

        @Test func thePreviewNeedsNoSession() throws {
            let raw = try Reference.input()
            try TransformPipeline.run(with: {
                try .camera(
                    $0, "\(CameraTests.still) mirror=on auto-connect=false", prompt: "film noir", preview: true
                )
            }) { pipeline, standIn in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(preview.wait(for: raw.mirrored))
                #expect(preview.waitForFrames(3))
                #expect(pipeline.frames == 0 && standIn.sessions.isEmpty)
                pipeline.transform.emit("connect")
                #expect(pipeline.waitForFrame(raw.mirrored.applying(prompt: "film noir")))
                pipeline.transform.emit("disconnect")
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } })
                #expect(preview.waitForFrames(3))
            }
        }

        @Test func thePreviewComesAndGoesWhilePlaying() throws {
            try TransformPipeline.run(with: { try .camera($0, CameraTests.still, prompt: "film noir") }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                for _ in 0..<3 {
                    let pad = try #require(pipeline.transform.requestPad("preview"))
                    let sink = try Element(factory: "fakesink")
                    sink.set("sync", false)
                    sink.set("async", false)
                    pipeline.pipeline.add(sink)
                    let input = try #require(sink.staticPad("sink"))
                    let preview = FrameWatch(input)
                    try pad.link(input)
                    sink.syncStateWithParent()
                    #expect(preview.waitForFrames(5))
                    pad.unlink(input)
                    pipeline.transform.releaseRequestPad(pad)
                    pipeline.pipeline.takeOut([sink])
                    #expect(pipeline.waitForFrames(5))
                }
                #expect(pipeline.takeProblems().isEmpty)
                #expect(standIn.sessions.count == 1)
            }
        }

        /// A blocked preview sink, such as a window being dragged, must not stall the session.
        @Test func aPreviewThatStandsStillHoldsNobodyUp() throws {
            try TransformPipeline.run(with: { try .camera($0, CameraTests.still, prompt: "film noir", preview: true) })
            { pipeline, _ in
                let cropped = try Reference.frame(Self.once(320, 176) + " ! videocrop right=160 bottom=88")
                let pad = try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink"))
                let isHeld = Watched(true)
                let count = Watched(0)
                pad.addProbe(.buffer) { _ in
                    count.change { $0 += 1 }
                    // The first buffers pass, because the pipeline reaches PLAYING only after the sink has
                    // prerolled.
                    if count.value > 2 { _ = isHeld.wait { !$0 } }
                    return .pass
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(10))
                // Another format, and so another question to the consumer, which has no time for it.
                pipeline.transform.set("crop", GValueBox("0,0,160,88"))
                #expect(pipeline.waitForFrames(3))
                pipeline.transform.set("mirror", "on")
                #expect(pipeline.waitForFrame(cropped.mirrored.applying(prompt: "film noir"), within: 8))
                isHeld.change { $0 = false }
            }
        }

        /// A source that has ended is replaced.
        @Test func thePreviewGoesOnBehindEOS() throws {
            let source = TransformPipeline.source("is-live=true num-buffers=20")
            try TransformPipeline.run(with: { try .camera($0, "source=\"\(source)\"", preview: true) }) { pipeline, _ in
                let preview = try watch(pipeline)
                pipeline.play()
                for tail in [" ! identity", " ! queue", ""] {
                    #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                    pipeline.transform.set("source", (tail.isEmpty ? TransformPipeline.liveSource : source) + tail)
                    #expect(preview.waitForFrames(8))
                }
                #expect(pipeline.waitForFrames(3))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The running time has gone back since the last frame.
        @Test func theTimesFollowTheRunningTime() throws {
            try TransformPipeline.run(with: { try .camera($0, CameraTests.still, preview: true) }) { pipeline, _ in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(preview.seen.wait { $0.stamps.last ?? 0 > 3_000_000_000 })
                pipeline.transform.emit("stop-capture")
                pipeline.pipeline.setState(.paused)
                gst_element_set_start_time(pipeline.pipeline.raw.assumingMemoryBound(to: GstElement.self), 0)
                pipeline.play()
                let count = preview.seen.read(\.stamps).count
                pipeline.transform.emit("start-capture")
                #expect(preview.waitForFrames(3))
                #expect(preview.seen.wait { $0.stamps.dropFirst(count).contains { $0 < 2_500_000_000 } })
            }
        }

        @Test func theShapeOfTheModelIsCutOutForBoth() throws {
            let expected = try Reference.frame(Self.once(320, 352) + " ! videocrop top=88 bottom=88")
            try TransformPipeline.run(with: {
                try .camera($0, "\(Self.still(320, 352)) orientation=landscape", preview: true)
            }) { pipeline, _ in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(pipeline.waitForFrame(expected))
                #expect(preview.wait(for: expected))
                // Letterbox shows the whole frame, so nothing may be cropped.
                pipeline.transform.set("fit", "letterbox")
                #expect(
                    preview.seen.wait {
                        $0.latest.map { ($0.width, $0.height) == (320, 352) } ?? false
                    })
            }
        }

        @Test(
            arguments: Verification.cases(
                [
                    ("160,88,320,176", "videocrop left=160 top=88 right=160 bottom=88", "320x176"),
                    // A crop beyond the edge is clamped.
                    ("480,0,4000,88", "videocrop left=480 bottom=264", "160x88"), ("20:11", "identity", "640x352"),
                    ("0,0,160,88", "videocrop right=480 bottom=264", "160x88"),
                ], gate: 3))
        func aCropIsMadeLive(crop: String, reference: String, size: String) throws {
            let whole = try Reference.frame(Self.once(640, 352))
            let expected = try Reference.frame(Self.once(640, 352) + " ! " + reference)
            try TransformPipeline.run(with: { try .camera($0, Self.still(640, 352), preview: true) }) {
                pipeline, standIn in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(pipeline.waitForFrame(whole))
                pipeline.transform.set("crop", GValueBox(crop))
                #expect(pipeline.waitForFrame(expected))
                #expect(preview.seen.wait { $0.sizes.last == size }, "\(preview.seen.value.sizes)")
                pipeline.transform.set("crop", GValueBox(""))
                #expect(pipeline.waitForFrame(whole))
                #expect(standIn.sessions.count == 1 && (standIn.sessions.first?.offerCount ?? 2) < 2)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func aCropThatIsNoneIsAWarning() throws {
            try TransformPipeline.run(with: { try .camera($0, Self.still(320, 176)) }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                pipeline.transform.set("crop", GValueBox("half of it"))
                #expect(pipeline.waitForProblem(.warning)?.text.contains("left,top,width,height") == true)
                #expect(pipeline.waitForFrames(2))
            }
        }

        /// A description sets it before the element is in a pipeline, where no bus takes a warning.
        @Test func aCropThatIsNoneIsAWarningAtTheStart() throws {
            try TransformPipeline.run(with: { try .camera($0, Self.still(320, 176)) }) { pipeline, _ in
                pipeline.transform.set("crop", GValueBox("half of it"))
                pipeline.play()
                #expect(pipeline.waitForProblem(.warning)?.text.contains("left,top,width,height") == true)
                #expect(pipeline.waitForFrames(2))
            }
        }

        @Test func portraitSwapsTheSizeLive() throws {
            let landscape = try Reference.input()
            let cut = "videocrop left=112 right=112"
            let portrait = try Reference.frame(Self.once(320, 176) + " ! " + cut, width: 176, height: 320)
            try TransformPipeline.run(with: { try .camera($0, Self.still(320, 176), preview: true) }) {
                pipeline, standIn in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(pipeline.waitForFrame(landscape))
                let id = pipeline.transform.string("session-id")
                for (orientation, frame) in [
                    ("portrait", portrait), ("landscape", landscape), ("portrait", portrait), ("auto", landscape),
                ] {
                    pipeline.transform.set("orientation", orientation)
                    #expect(pipeline.waitForFrame(frame, within: frame == portrait ? 8 : 6), "\(orientation)")
                    if orientation == "portrait" {
                        #expect(preview.seen.wait { $0.sizes.last == "100x176" }, "\(preview.seen.value.sizes)")
                    }
                }
                #expect(pipeline.transform.string("session-id") == id && id != nil)
                #expect(standIn.sessions.count == 1 && (standIn.sessions.first?.offerCount ?? 2) < 2)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func threadsThatRequestThePreviewGetOne() throws {
            try #require(ElementTests.isReady)
            let source = try Element(factory: "decartsrc")
            Criticals.start()
            ThreadGroup.run(threads: 3, rounds: 300) { _, _ in
                if let pad = source.requestPad("preview") { source.releaseRequestPad(pad) }
            }
            let pad = source.requestPad("preview")
            #expect(pad != nil && source.requestPad("preview") == nil)
            if let pad { source.releaseRequestPad(pad) }
            // GStreamer itself complains about a request for a pad that exists.
            let criticals = Criticals.stop().filter { !$0.contains("already has a pad named") }
            #expect(criticals.isEmpty, "\(criticals)")
        }

        /// A phone held upright delivers landscape frames with an orientation tag: the sent frame is rotated by the
        /// element, the preview by its sink.
        @Test func aTagTurnsTheFrame() throws {
            let tags = " ! taginject tags=\\\"image-orientation=rotate-90\\\""
            let turned = try Reference.frame(
                Self.once(320, 176) + " ! videoflip video-direction=90r", width: 176, height: 320)
            try TransformPipeline.runWell(with: {
                try .camera($0, "\(Self.still(320, 176, tags)) mirror=on", preview: true)
            }) { pipeline, _ in
                let preview = try watch(pipeline)
                pipeline.play()
                #expect(pipeline.waitForFrame(turned.mirrored, within: 8))
                // The preview keeps the sensor's orientation: its sink applies the tag.
                #expect(preview.seen.value.sizes == ["320x176"])
            }
        }
    }
}
