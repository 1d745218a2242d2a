import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `processor` puts the user's elements between the input and the encoder.
    @Suite(.serialized, .timeLimit(.minutes(4)), .indifferentToTransport) struct ProcessorTests {
        private static let look = "film noir"
        static let flip = "videoflip video-direction=vert"
        private static let mirror = "videoflip video-direction=horiz"

        /// Returns the frame that comes back if the input passes this processor.
        private static func shown(_ processor: String?) throws -> CopiedFrame {
            let then = processor.map { " ! videoconvert ! \($0)" } ?? ""
            return try Reference.frame(TransformPipeline.source("num-buffers=1") + then).applying(prompt: look)
        }

        private func isShown(_ processor: String?, _ pipeline: TransformPipeline) -> Bool {
            (try? Self.shown(processor)).map { pipeline.waitForFrame($0) } ?? false
        }

        private func isCalm(_ pipeline: TransformPipeline, _ standIn: StandIn) -> Bool {
            pipeline.timesRise && standIn.sessions.count == 1
        }

        // MARK: Processing

        @Test func noFrameGoesOutUnprocessed() throws {
            let plain = try Self.shown(nil)
            try TransformPipeline.runWell(with: {
                try .init($0, "processor=\"\(Self.flip)\"", prompt: Self.look, forbidden: plain)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(isShown(Self.flip, pipeline))
                #expect(pipeline.waitForFrames(3))
                #expect(pipeline.current.leaks == 0)
                #expect(pipeline.stats?.string("processor") == "active")
                #expect(isCalm(pipeline, standIn))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func itIsPutInReplacedAndRemovedWhileTheSessionPlays() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: Self.look) }) { pipeline, standIn in
                let watch = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(isShown(nil, pipeline))
                #expect(pipeline.stats?.string("processor") == "none")
                let (id, start) = (pipeline.transform.string("session-id"), ContinuousClock.now)
                for processor in [Self.flip, Self.mirror, nil, Self.mirror, ""] {
                    pipeline.transform.set("processor", GValueBox(processor))
                    let isNone = processor?.isEmpty ?? true
                    #expect(isShown(isNone ? nil : processor, pipeline), "\(processor ?? "none")")
                    #expect(pipeline.transform.string("processor") == (isNone ? nil : processor))
                }
                measure("gap", watch.longestGap(since: start), atMost: .milliseconds(700))
                #expect(pipeline.transform.string("session-id") == id && isCalm(pipeline, standIn))
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The pad that takes video need not be the first unlinked one (textoverlay also has a text pad), and the
        /// processor may convert format and size.
        @Test(
            arguments: Verification.cases(
                [
                    ("videoflip video-direction=vert ! textoverlay text=live font-desc=\"Sans, 40\"", 30.0),
                    (
                        "video/x-raw,format=BGRA ! videoflip video-direction=vert ! videoconvert ! video/x-raw,format=GBR",
                        6
                    ),
                    ("videoscale ! video/x-raw,width=160,height=88 ! videoflip video-direction=vert", 12),
                    ("tee name=a ! queue ! fakesink a. ! queue ! videoflip video-direction=vert", 6),
                    ("( videoflip video-direction=vert )", 6),
                ], gate: 4))
        func whateverTakesAndGivesFramesWillDo(processor: String, limit: Double) throws {
            try TransformPipeline.run(with: { try .init($0, prompt: Self.look) }) { pipeline, _ in
                pipeline.transform.set("processor", GValueBox(processor))
                let flipped = try Self.shown(Self.flip)
                pipeline.play()
                #expect(pipeline.waitForFrame(flipped, within: limit))
                #expect(pipeline.wait { $0.capsTexts.allSatisfy { $0.contains("width=(int)320") } })
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func itsSizeIsPutRight() throws {
            try TransformPipeline.run(with: {
                try .init(
                    $0, "processor=\"videoscale ! video/x-raw,width=88,height=88,pixel-aspect-ratio=1/1\"",
                    prompt: Self.look)
            }) { pipeline, standIn in
                pipeline.play()
                // The square is in the middle of the sent frame, between borders.
                #expect(
                    pipeline.wait {
                        guard let frame = $0.latest?.image else { return false }
                        return frame.mean(x: 0.1, y: 0.3).luma < 30 && frame.mean(x: 0.4, y: 0.3).luma > 40
                    })
                #expect(standIn.sessions.first?.frames.painted ?? 0 > 0)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func theSizeOfWhatIsSentMayChange() throws {
            try TransformPipeline.run(with: {
                try .init(
                    $0, "orientation=landscape output-size=received processor=\"\(Self.flip)\"",
                    prompt: Self.look)
            }) { pipeline, _ in
                pipeline.play()
                #expect(isShown(Self.flip, pipeline))
                pipeline.transform.set("orientation", "portrait")
                #expect(
                    pipeline.wait { $0.latest.map { $0.image.height == 320 && $0.image.width == 176 } ?? false }
                )
                #expect(pipeline.stats?.string("processor") == "active")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func mutedFramesAreNotProcessed() throws {
            // Full brightness makes any input white.
            try TransformPipeline.run(with: {
                try .init($0, "mute-video=true processor=\"videobalance brightness=1\"", prompt: Self.look)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.wait { $0.latest.map { $0.image.planes[0].allSatisfy { $0 < 40 } } ?? false })
                // Longer than a processor's timeout: a muted processor gets no frames, so its silence must not
                // bypass it.
                #expect(pipeline.waitForMessage(seconds: 3) { $0.kind == .warning || $0.kind == .error } == nil)
                #expect(pipeline.latestFrame.map { $0.planes[0].allSatisfy { $0 < 40 } } == true)
                pipeline.transform.set("mute-video", false)
                let isWhite = { (seen: TransformPipeline.Seen) in
                    seen.latest.map { $0.image.mean(x: 0.1, y: 0.2).luma > 180 } ?? false
                }
                #expect(pipeline.wait(until: isWhite))
                pipeline.transform.set("mute-video", true)
                #expect(pipeline.wait { $0.latest.map { $0.image.planes[0].allSatisfy { $0 < 40 } } ?? false })
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.wait(until: isWhite))
                #expect(isCalm(pipeline, standIn))
            }
        }

        @Test func passthroughShowsProcessedFrames() throws {
            let flipped = try Reference.frame(TransformPipeline.source("num-buffers=1") + " ! \(Self.flip)")
            let raw = try Reference.input()
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init(
                        "base-url=\(server.url) api-key=x \(TransformPipeline.custom) fallback=passthrough processor=\"\(Self.flip)\"",
                        forbidden: raw)
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrame(flipped, within: 3))
                    #expect(pipeline.current.leaks == 0)
                }
            }
        }

        @Test func aFileLosesNothing() throws {
            let source = TransformPipeline.source("num-buffers=20")
            try TransformPipeline.run(with: {
                try .init($0, "processor=\"\(Self.flip)\"", prompt: Self.look, source: source)
            }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                #expect(pipeline.count("frames-sent") + pipeline.count("frames-skipped") == 20)
                #expect(pipeline.count("frames-dropped") == 0)
                measure("sent", Double(pipeline.count("frames-sent")), atLeast: 20, unit: "frames")
            }
        }

        /// A slow processor must not block a live input; the frames that it loses are counted as dropped.
        @Test func aSlowOneLosesFramesAndHoldsNobodyUp() throws {
            try TransformPipeline.run(with: {
                try .init($0, "processor=\"identity sleep-time=150000\"", prompt: Self.look)
            }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let (before, start) = (pipeline.count("frames-in"), ContinuousClock.now)
                #expect(pipeline.waitForFrames(Verification.count(15, gate: 5)))
                let seconds = (ContinuousClock.now - start) / .seconds(1)
                let rate = Double(pipeline.count("frames-in") - before) / seconds
                measure("frames in", rate, atLeast: 12, unit: "/s")
                #expect(eventually { pipeline.count("frames-dropped") > 5 })
                #expect(pipeline.takeProblems().isEmpty)
                #expect(isCalm(pipeline, standIn))
            }
        }

        // MARK: Failing

        /// Processors that fail, and what the warning then says; "" for any reason. The first of each kind comes first: the
        /// gate takes those.
        private static let failing = [
            // Not a valid description, or not one that takes and produces video.
            ("no-such-element", "no element \"no-such-element\""), ("\u{1}\u{7f}\"'\\", ""),
            ("videoflip no-such-property=1", "no property \"no-such-property\""),
            ("identity name=a identity name=b", "not all linked"),
            // Fails or ends in PLAYING.
            ("identity name=mine error-after=5", "mine: Failed"), ("identity eos-after=5", "it ended the stream (EOS)"),
            // Refuses these frames, or produces others than its caps announce.
            ("capsfilter caps=\"video/x-raw,width=17\"", "rejects the format of the frames"),
            ("capssetter caps=\"video/x-raw,width=4000,height=4000\"", ""),
            // Cannot start.
            ("filesink location=/no/such/folder/x name=f identity", ""),
            // Produces nothing, or blocks.
            ("valve drop=true", "delivers no frames"), ("identity sleep-time=8000000", ""),
            // Changes the timestamps.
            ("identity datarate=1", ""),
            // More of these kinds.
            ("fakesink", ""), ("videoflip !", ""), ("! ! !", ""), ("videotestsrc", ""), ("audioconvert", ""),
            ("name=x", ""), ("identity drop-probability=1", ""), ("appsink name=s appsrc", ""),
        ]
        private static let failingInGate = 12

        private func expectBypass(
            _ processor: String, saying excerpt: String = "", _ pipeline: TransformPipeline, _ standIn: StandIn
        ) throws {
            let warning = try #require(pipeline.waitForProblem(.warning), "\(processor)")
            #expect(
                warning.text.contains("is bypassed: ") && warning.text.contains("The processor '"), "\(warning.text)")
            if processor.allSatisfy({ $0 >= " " && $0 != "\u{7f}" }) {
                #expect(warning.text.contains(processor), "\(warning.text)")
            }
            #expect(excerpt.isEmpty || warning.text.contains(excerpt), "\(warning.text)")
            #expect(warning.details == nil && warning.source == "t")
            #expect(pipeline.waitForFrames(3), "\(processor)")
            #expect(isShown(nil, pipeline), "\(processor)")
            #expect(pipeline.stats?.string("processor") == "bypassed")
            #expect(pipeline.transform.string("processor") == processor)
            // One warning, and never an error.
            #expect(pipeline.takeProblems().count == 1, "\(pipeline.takeProblems())")
            #expect(isCalm(pipeline, standIn))
        }

        @Test(arguments: Verification.cases(failing, gate: failingInGate))
        func aFailingOneIsBypassed(processor: String, excerpt: String) throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: Self.look) }) { pipeline, standIn in
                pipeline.transform.set("processor", GValueBox(processor))
                #expect(pipeline.play() != .failure)
                try expectBypass(processor, saying: excerpt, pipeline, standIn)
                // A valid processor ends the bypass.
                pipeline.transform.set("processor", GValueBox(Self.flip))
                #expect(isShown(Self.flip, pipeline))
            }
        }

        @Test(
            arguments: Verification.cases(
                ["no-such-element", "valve drop=true", "identity error-after=1", "identity sleep-time=8000000"],
                gate: 2))
        func oneThatIsToReplaceAnotherMayFail(processor: String) throws {
            try TransformPipeline.run(with: { try .init($0, "processor=\"\(Self.flip)\"", prompt: Self.look) }) {
                pipeline, standIn in
                let watch = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(isShown(Self.flip, pipeline))
                let start = ContinuousClock.now
                pipeline.transform.set("processor", GValueBox(processor))
                try expectBypass(processor, pipeline, standIn)
                measure("gap", watch.longestGap(since: start), atMost: .milliseconds(700))
            }
        }

        // MARK: Teardown

        @Test(
            arguments: Verification.cases(
                [flip, "identity sleep-time=3000000", "identity error-after=3", "valve drop=true", "no-such-element"],
                gate: 3))
        func nullInEveryPhase(processor: String) throws {
            try StandIn.run { standIn in
                for milliseconds in Verification.isOn ? [0, 30, 300, 1500] : [100] {
                    try TransformPipeline.run(try .init(standIn, prompt: Self.look)) { pipeline in
                        pipeline.transform.set("processor", GValueBox(processor))
                        pipeline.play()
                        _ = pipeline.collect(milliseconds: milliseconds)
                    }
                    try TransformPipeline.run(try .init(standIn, "fallback=freeze", prompt: Self.look)) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(2))
                        pipeline.transform.set("processor", GValueBox(processor))
                        _ = pipeline.collect(milliseconds: milliseconds / 3)
                        pipeline.transform.set("processor", GValueBox(Self.mirror))
                        _ = pipeline.collect(milliseconds: milliseconds / 3)
                    }
                }
                standIn.expectGoodConduct()
            }
        }

        /// Property changes on several threads, while the element starts, pauses and stops, neither deadlock nor leave
        /// it unusable.
        @Test func anythingAtAnyTime() throws {
            let texts = [
                Self.flip, nil, Self.mirror, "no-such-element", "identity error-after=2", "valve drop=true", "",
                "tee ! queue",
            ]
            try TransformPipeline.run(with: { try .init($0, "fallback=passthrough", prompt: Self.look) }) {
                pipeline, _ in
                let (element, target) = (pipeline.transform, pipeline.pipeline)
                ThreadGroup.run(threads: 3, rounds: Verification.count(40, gate: 18)) { thread, round in
                    if thread == 0 {
                        _ = target.setState([.playing, .paused, .playing, .ready, .playing, .null][round % 6])
                        _ = target.state(timeout: .milliseconds(30))
                        return
                    }
                    element.set("processor", GValueBox(texts[(round &* 5 &+ thread) % texts.count]))
                    element.set("mute-video", round % 7 == 0)
                }
                target.setState(.null)
                _ = pipeline.takeProblems()
                element.set("mute-video", false)
                element.set("processor", GValueBox(Self.flip))
                pipeline.play()
                #expect(isShown(Self.flip, pipeline))
            }
        }
    }
}
