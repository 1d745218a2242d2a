import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `timestamps=capture`: a returned frame carries the running time of the input frame that it shows.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct CaptureTimeTests {
        /// Not a multiple of the frame interval: otherwise the stand-in's delay would alternate between two frames. ms.
        private static let delay = 320
        /// Frame interval of the test pipelines, ms.
        private static let frame = 50.0

        private func run(
            _ properties: String, delay: Int = CaptureTimeTests.delay, answers: Bool = true, trailers: Bool = true,
            prompt: String = "",
            source: String = TransformPipeline.liveSource, downstream: String = "",
            _ body: (StandIn, TransformPipeline, CodedFrames) throws -> Void
        ) throws {
            try StandIn.run({
                $0.delay = .milliseconds(delay)
                $0.answersLatencyMarker = answers
                $0.carriesTrailers = trailers
            }) { standIn in
                try TransformPipeline.run(
                    try .init(standIn, properties, prompt: prompt, source: source, downstream: downstream)
                ) { pipeline in
                    try body(standIn, pipeline, try CodedFrames(pipeline))
                }
            }
        }

        private func expectRising(_ pipeline: TransformPipeline, sourceLocation: SourceLocation = #_sourceLocation) {
            let times = pipeline.current.times.compactMap { $0 }
            #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 }, sourceLocation: sourceLocation)
        }

        @Test func arrivalIsLateByTheModel() throws {
            try run("") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(40))
                let found = spread(frames.shown.suffix(30).map(\.difference))
                print("arrival: \(found)")
                #expect(found.median > Double(Self.delay) - 2 * Self.frame)
                #expect(standIn.sessions.first?.request.wantsLatencyMarker == false)
                #expect(pipeline.count("glass-to-glass-time") == -1)
                let latency = try #require(pipeline.sink.queryPeerLatency())
                #expect(latency.minimum < 200_000_000)
            }
        }

        @Test func captureIsTheInputsTime() throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(100))
                let shown = frames.shown
                let found = spread(shown.map(\.difference))
                print("capture: \(found), the first \(shown.prefix(5).map(\.difference))")
                #expect(abs(found.median) < Self.frame / 2)
                // Timestamps are right from the first frame on; a loaded machine may delay a few.
                #expect(
                    shown.count { abs($0.difference) > Self.frame * 1.2 } <= 5, "\(shown.map { Int($0.difference) })")
                #expect(standIn.sessions.first?.request.wantsLatencyMarker == true)
                #expect(frames.markedCount == 0)
                let time = pipeline.count("glass-to-glass-time")
                #expect(time > Self.delay * 1_000_000 - 50_000_000 && time < 1_500_000_000, "\(time)")
                #expect(pipeline.sink.queryPeerLatency().map { $0.minimum >= 500_000_000 } == true)
                #expect(pipeline.takeProblems().isEmpty)
                expectRising(pipeline)
            }
        }

        /// In a room, each frame has the time of its capture in a trailer, and no frame has a marker.
        @Test(.enabled(if: MediaWay.current.isRoom), arguments: ["h264", "vp8", "vp9", "h264 simulcast=true"])
        func everyFrameHasItsTimeOfDay(codec: String) throws {
            try run("timestamps=capture codec=\(codec)") { _, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(60))
                let now = try #require(pipeline.pipeline.currentRunningTime)
                let base = Int64(UnixClock.now) - Int64(now)
                let shown = frames.shown
                let errors = shown.compactMap { frame in
                    frame.unixTime.map { abs(Double(Int64($0) - base - Int64(frame.input)) / 1e6) }
                }
                print("\(codec): \(errors.count) of \(shown.count) frames, largest error \(errors.max() ?? -1) ms")
                #expect(errors.count == shown.count)
                #expect(errors.allSatisfy { $0 <= 1 }, "\(errors.max() ?? -1) ms")
                #expect(frames.markedCount == 0)
                #expect(pipeline.count("glass-to-glass-time") > Self.delay * 1_000_000 - 50_000_000)
                #expect(abs(spread(shown.map(\.difference)).median) < Self.frame / 2)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// The output of the next generation has the times too, whatever track it comes on.
        @Test(
            .enabled(if: MediaWay.current.isRoom),
            arguments: Verification.cases(GenerationTests.returns.filter { $0 != .same }, gate: 1))
        func timesOfTheNextGeneration(output: Fault.Output) throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(20))
                try standIn.server.inject([Fault(parsing: "generation_restart:delay=1,output=\(output.rawValue)")])
                #expect(standIn.wait { $0.first?.isGenerating == false })
                #expect(standIn.wait { $0.first?.isGenerating == true })
                #expect(frames.waitForShown(frames.shown.count + 40))
                let late = frames.shown.suffix(30)
                #expect(late.allSatisfy { $0.unixTime != nil } && frames.markedCount == 0)
                #expect(abs(spread(late.map(\.difference)).median) < Self.frame / 2)
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
                expectRising(pipeline)
            }
        }

        /// A viewer sees the time of the publisher's clock.
        @Test(.enabled(if: MediaWay.current.isRoom)) func aViewerSeesTheTimesToo() throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(20))
                let token = try #require(pipeline.transform.string("subscribe-token"))
                for (properties, isTold) in [("timestamps=capture", true), ("timestamps=arrival", false)] {
                    let description = "subscribe-token=\(token) \(properties)"
                    try TransformPipeline.run(try .camera(standIn, description)) { viewer in
                        let ages = Watched<[Double]>([])
                        let pad = try #require(viewer.transform.staticPad("src"))
                        pad.addProbe(.buffer) { item in
                            if case .buffer(let frame) = item, let time = frame.unixTime {
                                ages.change { $0.append(Double(Int64(UnixClock.now) - Int64(time)) / 1e6) }
                            }
                            return .pass
                        }
                        viewer.play()
                        #expect(viewer.waitForFrames(30))
                        #expect(isTold ? ages.wait { $0.count >= 20 } : ages.value.isEmpty)
                        #expect(ages.value.allSatisfy { $0 > Double(Self.delay) - 50 && $0 < 3000 }, "\(ages.value)")
                    }
                }
            }
        }

        /// The element falls back to markers in a room without trailers.
        @Test(.enabled(if: MediaWay.current.isRoom)) func aRoomWithoutTrailers() throws {
            try run("timestamps=capture", trailers: false) { _, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(60))
                #expect(frames.shown.allSatisfy { $0.unixTime == nil } && frames.markedCount == 0)
                #expect(pipeline.count("glass-to-glass-time") > Self.delay * 1_000_000 - 50_000_000)
                #expect(abs(spread(frames.shown.suffix(30).map(\.difference)).median) < Self.frame)
            }
        }

        /// The element covers a returned marker with the same corner of the previous frame, so that no marker is
        /// visible.
        @Test func theMarkIsNotSeen() throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: "film noir")
            try StandIn.run({ ($0.delay, $0.carriesTrailers) = (.milliseconds(Self.delay), false) }) { standIn in
                try TransformPipeline.run(
                    try .init(standIn, "timestamps=capture", prompt: "film noir", forbidden: raw)
                ) { pipeline in
                    let corners = Watched<[Double]>([])
                    var video: VideoInfo?
                    try #require(pipeline.transform.staticPad("src")).addProbe([.buffer, .downstreamEvent]) { item in
                        if case .event(let event) = item, let caps = event.caps { video = VideoInfo(caps: caps) }
                        guard case .buffer(let buffer) = item, let video, let image = Picture(buffer, video),
                            image.planes[0].contains(where: { $0 > 20 })
                        else { return .pass }
                        corners.change { $0.append(image.cornerDifference(from: expected)) }
                        return .pass
                    }
                    pipeline.play()
                    #expect(corners.wait { $0.count >= 120 })
                    // No previous frame exists for the first one: its corner shows the rows above. A marker would
                    // differ by about 60.
                    let found = corners.value
                    #expect(found.dropFirst().allSatisfy { $0 < 15 }, "\(found.map { Int($0) })")
                    #expect(pipeline.count("glass-to-glass-time") > 0)
                    #expect(pipeline.current.leaks == 0)
                }
            }
        }

        @Test func aSinkInTimeGetsEveryFrame() throws {
            try run("timestamps=capture") { _, pipeline, frames in
                pipeline.output.set("sync", true)
                pipeline.output.set("qos", true)
                pipeline.output.set("max-lateness", "20000000")
                let rendered = Watched(0)
                pipeline.output.set("signal-handoffs", true)
                pipeline.output.connect("handoff") { _ in
                    rendered.change { $0 += 1 }
                    return nil
                }
                pipeline.play()
                #expect(frames.waitForShown(60))
                let found = spread(frames.shown.suffix(40).map(\.difference))
                #expect(abs(found.median) < Self.frame, "\(found)")
                #expect(rendered.wait { $0 >= 60 })
                #expect(pipeline.frames - rendered.value <= 15, "\(rendered.value) of \(pipeline.frames)")
                #expect(pipeline.count("frames-late") == 0)
            }
        }

        /// A delay above min-latency is reported once, so that a synchronised sink does not drop frames; no further
        /// LATENCY message follows.
        @Test func aLongDelayIsReported() throws {
            try run("timestamps=capture min-latency=100", delay: 600) { _, pipeline, frames in
                pipeline.output.set("sync", true)
                pipeline.play()
                let message = pipeline.waitForMessage {
                    $0.kind == .latency && $0.sourceName == pipeline.transform.name
                }
                #expect(message != nil)
                pipeline.pipeline.recalculateLatency()
                #expect(frames.waitForShown(40))
                let minimum = try #require(pipeline.sink.queryPeerLatency()).minimum
                #expect(minimum >= 700_000_000 && minimum < 1_500_000_000, "\(minimum)")
                #expect(abs(spread(frames.shown.suffix(30).map(\.difference)).median) < Self.frame)
                let more = pipeline.waitForMessage(seconds: 3) {
                    $0.kind == .latency && $0.sourceName == pipeline.transform.name
                }
                #expect(more == nil)
                expectRising(pipeline)
            }
        }

        /// Timestamps rise through a reconnect, and match the input's again in the new session.
        @Test func itHoldsThroughAReconnect() throws {
            try run("timestamps=capture max-retries=5 fallback=freeze") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(30))
                standIn.server.dropAll()
                #expect(standIn.wait { $0.count > 1 && $0.last?.isGenerating == true })
                #expect(frames.waitForShown(60))
                let found = spread(frames.shown.suffix(30).map(\.difference))
                print("after a reconnect: \(found)")
                #expect(abs(found.median) < Self.frame)
                expectRising(pipeline)
                // The fallback frames in between are on the same timeline.
                let times = pipeline.current.times.compactMap { $0 }
                let gap = zip(times, times.dropFirst()).map { $1 &- $0 }.max() ?? 0
                #expect(gap < 400_000_000, "\(gap)")
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        /// A frame rate fixed downstream puts the frames on a regular grid, but on the input's timeline.
        @Test func aRateOfDownstreamsOwn() throws {
            try run("timestamps=capture", downstream: "video/x-raw,framerate=30/1") { _, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(90))
                let found = spread(frames.shown.suffix(60).map(\.difference))
                print("at 30/1: \(found)")
                #expect(abs(found.median) < Self.frame && found.worst < 2 * Self.frame)
                let times = pipeline.current.times.suffix(60).compactMap { $0 }
                #expect(zip(times, times.dropFirst()).allSatisfy { (33_000_000...34_000_000).contains($1 &- $0) })
            }
        }

        /// A service that returns no markers costs one warning, but frames still leave the element.
        @Test func aServiceThatDoesNotAnswer() throws {
            try run("timestamps=capture", answers: false, trailers: false, prompt: "cyberpunk") {
                standIn, pipeline, _ in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("timestamps=capture"))
                #expect(pipeline.waitForFrames(60))
                #expect(pipeline.count("frames-out") - pipeline.count("frames-fallback") >= 40)
                #expect(pipeline.count("glass-to-glass-time") == -1)
                #expect(pipeline.takeProblems().count == 1)
                expectRising(pipeline)
                #expect(standIn.sessions.count == 1)
            }
        }

        /// An input that is not live waits for the session and keeps its own timestamps, from zero.
        @Test func aFileKeepsItsTimes() throws {
            try run("timestamps=capture", source: TransformPipeline.source("num-buffers=60")) { _, pipeline, frames in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                let shown = frames.shown
                #expect(shown.count >= 50)
                let found = spread(shown.map(\.difference))
                print("from a file: \(found)")
                #expect(abs(found.median) < Self.frame / 2)
                #expect(shown.first.map { $0.output < 500_000_000 } == true)
                expectRising(pipeline)
            }
        }
    }
}

extension Picture {
    /// Returns the mean absolute luma difference in the marker's area.
    fileprivate func cornerDifference(from other: Picture) -> Double {
        guard width == other.width, height == other.height else { return .infinity }
        var sum = 0
        for row in (height - 32)..<height {
            for column in 0..<192 {
                sum += abs(Int(planes[0][row * width + column]) - Int(other.planes[0][row * width + column]))
            }
        }
        return Double(sum) / (192 * 32)
    }
}
