import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Fits a frame of another aspect ratio into the model's size; without a prompt the service returns the frame
    /// unchanged.
    @Suite(.serialized, .timeLimit(.minutes(3)), .indifferentToTransport) struct FitTests {
        /// 320 × 352, twice as high as the session's 320 × 176.
        private static func tallSource(_ format: String) -> String {
            TransformPipeline.source(caps: "format=\(format),width=320,height=352,framerate=20/1")
        }
        /// This format and the second one go through GStreamer's elements.
        private static let tall = tallSource("AYUV")
        private static let formats = ["BGRA", "AYUV"]
        private static let tallOnce = TransformPipeline.source(
            "num-buffers=1", caps: "format=I420,width=320,height=352,framerate=20/1")

        private func expect(
            _ properties: String, source: String, reference: CopiedFrame,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            try TransformPipeline.runWell(
                with: { try .init($0, properties, source: source) }, sourceLocation: sourceLocation
            ) { pipeline, _ in
                pipeline.play()
                let isRight = pipeline.waitForFrame(reference, within: 5)
                let latest = pipeline.latestFrame
                #expect(
                    isRight,
                    "\(latest?.width ?? 0)x\(latest?.height ?? 0) differs by \(latest?.difference(from: reference) ?? -1)",
                    sourceLocation: sourceLocation)
            }
        }

        @Test func cropCutsOffAgainAfterARestart() throws {
            let reference = try Reference.frame(Self.tallOnce + " ! videocrop top=88 bottom=88")
            try TransformPipeline.run(with: { try .init($0, "orientation=landscape", source: Self.tall) }) {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrame(reference, within: 5))
                pipeline.pipeline.setState(.ready)
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                #expect(pipeline.waitForFrame(reference, within: 5))
            }
        }

        @Test(arguments: formats) func letterboxAddsBlackBorders(_ format: String) throws {
            let reference = try Reference.frame(
                Self.tallOnce + " ! videoscale ! video/x-raw,width=160,height=176 ! videobox left=-80 right=-80")
            #expect(reference.mean(x: 0.05, y: 0.5).luma < 20)
            try expect("orientation=landscape fit=letterbox", source: Self.tallSource(format), reference: reference)
        }

        @Test func fitChangesWhilePlaying() throws {
            let cropped = try Reference.frame(Self.tallOnce + " ! videocrop top=88 bottom=88")
            let stretched = try Reference.frame(
                Self.tallOnce
                    + " ! videoscale add-borders=false ! video/x-raw,width=320,height=176,pixel-aspect-ratio=1/1")
            try TransformPipeline.run(with: { try .init($0, "orientation=landscape fit=crop", source: Self.tall) }) {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrame(cropped, within: 5))
                pipeline.transform.set("fit", "stretch")
                #expect(pipeline.waitForFrame(stretched, within: 5))
                pipeline.transform.set("fit", "crop")
                #expect(pipeline.waitForFrame(cropped, within: 5))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test(
            arguments: Verification.cases(
                [("rotate-90", "90r"), ("flip-rotate-0", "horiz"), ("rotate-180", "180"), ("rotate-270", "90l")],
                gate: 2))
        func theOrientationTagTurnsTheFrameAndGoesNoFurther(tag: String, direction: String) throws {
            let reference = try Reference.frame(
                TransformPipeline.source("num-buffers=1")
                    + " ! videoflip video-direction=\(direction) ! videoscale add-borders=false ! video/x-raw,\(TransformPipeline.size),pixel-aspect-ratio=1/1"
            )
            let source = TransformPipeline.liveSource + " ! taginject tags=\"image-orientation=\(tag),title=kept\""
            // Landscape, whatever the input's orientation: this test compares content only.
            try TransformPipeline.run(with: { try .init($0, "fit=stretch orientation=landscape", source: source) }) {
                pipeline, _ in
                pipeline.play()
                let isRight = pipeline.waitForFrame(reference, within: 6)
                #expect(isRight, "differs by \(pipeline.latestFrame?.difference(from: reference) ?? -1)")
                let seen = pipeline.current
                #expect(seen.orientationTags.isEmpty)
                #expect(seen.events.contains(.tag), "the other tags are lost")
            }
        }

        /// `auto` takes the shape of the input.
        @Test(arguments: ["portrait", "auto"]) func portraitSwapsTheSides(orientation: String) throws {
            let source = TransformPipeline.source(caps: "format=I420,width=176,height=320,framerate=20/1")
            let reference = try Reference.frame(
                source.replacing("is-live=true", with: "num-buffers=1"), width: 176, height: 320)
            try expect("orientation=\(orientation)", source: source, reference: reference)
        }

        @Test func autoTakesTheShapeAfterTheRotationTag() throws {
            let source = TransformPipeline.liveSource + " ! taginject tags=\"image-orientation=rotate-90\""
            let reference = try Reference.frame(
                TransformPipeline.source("num-buffers=1") + " ! videoflip video-direction=90r", width: 176, height: 320)
            try expect("orientation=auto", source: source, reference: reference)
        }
    }
}
