import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// What an encoded side cannot do: each has one sentence, or an equivalent.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct EncodedLimitTests {
        private var tests: EncodedTests { EncodedTests() }

        /// Rows of the table in docs/ENCODED.md.
        @Test(
            .indifferentToTransport,
            arguments: [
                ("processor=identity", "processor needs raw video"), ("fit=letterbox", "fit=letterbox needs raw video"),
                ("fit=stretch", "fit=stretch needs raw video"), ("encoder=x264enc", "encoder needs raw video"),
                ("simulcast=true", "simulcast needs raw video"),
                ("timestamps=capture", "timestamps=capture needs raw video"),
                ("fallback=passthrough", "fallback=passthrough needs raw video"),
                ("codec=vp9", "codec=vp9 is set, but the input is H264"),
                ("width=640 height=352", "The input has 320x176 pixels, but the model takes 640x352"),
            ]) func anEncodedInputIsRefused(_ properties: String, _ text: String) throws
        {
            try tests.run(EncodedTests.h264(), "", properties) { run in
                run.pipeline.play()
                let error = run.pipeline.waitForError()
                #expect(error?.text.hasPrefix(text) == true, "\(error?.text ?? "no error")")
                #expect(error?.name == "resource 13")
                #expect(run.pipeline.collect(milliseconds: 100).count { $0.kind == .error } == 1)
                #expect(run.standIn.sessions.isEmpty)
            }
        }

        @Test(.indifferentToTransport, arguments: ["fallback=black", "fallback=passthrough", "timestamps=capture"])
        func anEncodedOutputIsRefused(_ property: String) throws {
            try tests.run(EncodedTests.raw, "capsfilter caps=video/x-h264", property) { run in
                #expect(run.pipeline.play() == .failure)
                let error = run.pipeline.waitForError()
                #expect(error?.text.hasPrefix("\(property) needs raw video, but downstream") == true)
                #expect(run.standIn.sessions.isEmpty)
            }
        }

        @Test func framesOutOfOrderAreRefused() throws {
            let source =
                "\(EncodedTests.raw) ! x264enc name=encoder speed-preset=veryfast bframes=2 b-adapt=false rc-lookahead=2 "
                + "! video/x-h264,profile=main"
            try tests.run(source) { run in
                run.pipeline.play()
                let error = run.pipeline.waitForError()
                #expect(error?.text.hasPrefix("The H.264 input has B-frames") == true, "\(error?.text ?? "no error")")
                #expect(run.pipeline.collect(milliseconds: 100).count { $0.kind == .error } == 1)
            }
        }

        @Test func anotherProfileThanTheServiceTakesIsRefused() throws {
            let source = EncodedTests.h264("profile=high-4:2:2")
                .replacing(" ! x264enc", with: " ! videoconvert ! x264enc")
            try tests.run(source, echo: false) { run in
                run.pipeline.play()
                let error = run.pipeline.waitForError()
                let text = "The service does not take H.264 of the profile high-4:2:2"
                #expect(error?.text.hasPrefix(text) == true, "\(error?.text ?? "no error")")
                #expect(run.pipeline.collect(milliseconds: 100).count { $0.kind == .error } == 1)
            }
        }

        @Test func differentCodecsAreRefused() throws {
            try tests.run(EncodedTests.vp8, "capsfilter caps=video/x-h264") { run in
                run.pipeline.play()
                let error = run.pipeline.waitForError()
                #expect(error?.text.hasPrefix("The input is VP8, but downstream takes H264 only") == true)
            }
        }

        /// Waits until GAP events come and no frame between them: frames in flight still arrive after the last one was
        /// sent. Returns the number of frames.
        private func waitForGapsOnly(_ run: EncodedTests.Run, sourceLocation: SourceLocation = #_sourceLocation) -> Int
        {
            var count = 0
            let isSilent = eventually {
                let before = run.output.current
                count = before.frames.count
                return run.output.wait { $0.gaps > before.gaps + 5 } && run.output.current.frames.count == count
            }
            #expect(isSilent, "frames go on", sourceLocation: sourceLocation)
            return count
        }

        /// A mute and a withdrawn track send nothing, and what stands in for the missing frames are GAP events; then a
        /// keyframe comes first.
        @Test(arguments: [
            ("mute-video", true, "muted"), ("standby", true, "muted"), ("publish-video", false, "withdrawn"),
        ]) func whatIsNotSentIsGaps(_ property: String, _ value: Bool, _ trackState: String) throws {
            try tests.run(EncodedTests.h264(), "capsfilter caps=video/x-h264", "fallback=freeze") { run in
                run.pipeline.play()
                try #require(run.output.waitForFrames(5))
                run.pipeline.transform.set(property, value)
                #expect(eventually { run.pipeline.stats?.string("track-state") == trackState })
                let silent = waitForGapsOnly(run)
                let sent = run.pipeline.count("frames-sent")
                #expect(waitForGapsOnly(run) == silent && run.pipeline.count("frames-sent") == sent)
                run.pipeline.transform.set(property, !value)
                #expect(run.output.waitForFrames(3))
                #expect(run.output.current.frames.dropFirst(silent).first?.isKeyframe == true)
                #expect(run.standIn.sessions.count == 1 && run.pipeline.takeProblems().isEmpty)
            }
        }

        /// The stream's own size decides on the orientation, whatever a tag or the property says; the tag passes.
        @Test(arguments: [
            ("width=320,height=176", "orientation=portrait"), ("width=176,height=320", "orientation=auto"),
        ]) func framesAreNotTurned(_ size: String, _ orientation: String) throws {
            let source = EncodedTests.h264().replacing(TransformPipeline.size, with: size)
            let turned = "\(source) ! taginject tags=\"image-orientation=rotate-90\""
            try tests.run(turned, "capsfilter caps=video/x-h264", orientation) { run in
                run.pipeline.play()
                #expect(run.output.waitForFrames(3))
                run.pipeline.transform.set("orientation", "portrait")
                #expect(run.output.waitForFrames(3))
                let caps = run.output.current.caps
                let fields = size.split(separator: ",").map { $0.replacing("=", with: "=(int)") }
                #expect(!caps.isEmpty && caps.allSatisfy { text in fields.allSatisfy { text.contains($0) } }, "\(caps)")
                #expect(run.pipeline.current.orientationTags == ["rotate-90"])
                #expect(Set(run.output.current.hashes).isSubset(of: run.input.current.hashes))
                #expect(run.standIn.sessions.count == 1 && run.pipeline.takeProblems().isEmpty)
            }
        }

        /// `output-size` and the size of the model are ignored.
        @Test func theSizeThatComesLeaves() throws {
            try tests.run(
                EncodedTests.raw, "capsfilter caps=video/x-h264", "output-size=model", echo: false,
                faults: ["media_caps_change:at=1"]
            ) { run in
                run.pipeline.play()
                #expect(run.output.wait { $0.caps.last?.contains("width=(int)160") == true })
                #expect(run.output.waitForFrames(5))
                #expect(run.output.current.caps.first?.contains("width=(int)320") == true)
                #expect(eventually { run.pipeline.count("received-width") == 160 })
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        /// `fallback=black` belongs to the output, which is raw here.
        @Test func anEncodedInputHasTheFallbackOfRawFrames() throws {
            let shown = try Reference.input().applying(prompt: "lego")
            try tests.run(EncodedTests.h264(), "", "fallback=black", echo: false) { run in
                run.pipeline.play()
                #expect(run.pipeline.waitForFrame(shown, within: 8))
                #expect(tests.codecs(run).allSatisfy { !$0.contains("enc") })
                run.pipeline.transform.set("standby", true)
                #expect(run.pipeline.wait { $0.latest.map { $0.image.planes[0].allSatisfy { $0 == 16 } } ?? false })
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        /// A property that is set too late is a warning, and the session continues as before.
        @Test(
            .indifferentToTransport,
            arguments: [
                (true, "fit", "letterbox", "fit=letterbox needs raw video, but the input is H264"),
                (true, "processor", "identity", "processor needs raw video, but the input is H264"),
                (true, "fallback", "passthrough", "fallback=passthrough needs raw video, but the input is H264"),
                (false, "fallback", "black", "fallback=black needs raw video, but downstream takes encoded video only"),
            ]) func aPropertySetWhileItRunsIsAWarning(
                _ isInput: Bool, _ name: String, _ value: String, _ text: String
            ) throws
        {
            let source = isInput ? EncodedTests.h264() : EncodedTests.raw
            let downstream = isInput ? "" : "capsfilter caps=video/x-h264"
            try tests.run(source, downstream, echo: false) { run in
                run.pipeline.play()
                #expect(eventually { run.pipeline.count("frames-out") > 5 })
                let elements = run.pipeline.pipeline.allElements.count
                run.pipeline.transform.set(name, value)
                let warning = run.pipeline.waitForProblem(.warning)
                #expect(warning?.text.hasPrefix(text) == true, "\(warning?.text ?? "no warning")")
                #expect(run.pipeline.pipeline.allElements.count == elements)
                let before = run.pipeline.count("frames-out")
                #expect(eventually { run.pipeline.count("frames-out") > before + 3 })
                #expect(run.standIn.sessions.count == 1 && run.pipeline.takeProblems().count == 1)
            }
        }

        @Test func tooHighABitrateIsReported() throws {
            let snow = EncodedTests.h264("profile=constrained-baseline", "key-int-max=1000")
                .replacing("pattern=\(TransformPipeline.pattern)", with: "pattern=snow")
                .replacing("bitrate=600", with: "bitrate=3000")
            try tests.run(snow, "capsfilter caps=video/x-h264", "max-bitrate=400000 min-bitrate=400000") { run in
                run.pipeline.play()
                let message = run.pipeline.waitForMessage { $0.structure?.name == "decart-input-overload" }
                #expect(message?.structure?.string("reason") == "bitrate")
                #expect(message?.structure?.int("target-bitrate") == 400_000)
                #expect(message?.structure?.int("max-framerate") == 20)
                let requests = run.input.current.requests.count
                #expect(run.input.wait { $0.requests.count > requests })
                #expect(run.output.waitForFrames(5))
                let isCounted = eventually {
                    run.pipeline.stats?["frames-dropped-by-cause"]?.structure?.int("to-keyframe") ?? 0 > 0
                }
                #expect(isCounted)
            }
        }

        /// The application steers its encoder by the notifications. The target follows what is sent and arrives.
        @Test func theTargetBitrateIsNotified() throws {
            let notified = Watched<[Int]>([])
            let snow = EncodedTests.h264().replacing("pattern=\(TransformPipeline.pattern)", with: "pattern=snow")
                .replacing("bitrate=600", with: "bitrate=1400")
            try tests.run(snow, "capsfilter caps=video/x-h264") { run in
                #expect(run.pipeline.transform.int("target-bitrate") == 0)
                let transform = run.pipeline.transform.unowned
                let handler = run.pipeline.transform.connect("notify::target-bitrate") { _ in
                    notified.change { $0.append(transform.int("target-bitrate") ?? -1) }
                    return nil
                }
                run.pipeline.play()
                #expect(notified.wait { Set($0).count > 1 && $0.contains { $0 >= 1_500_000 } })
                #expect(
                    eventually { run.pipeline.count("target-bitrate") == run.pipeline.transform.int("target-bitrate") })
                #expect(notified.value.allSatisfy { $0 > 0 })
                run.pipeline.transform.disconnect(handler)
            }
        }
    }
}
