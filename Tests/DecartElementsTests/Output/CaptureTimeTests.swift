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
            try TransformPipeline.run(
                with: { try .init($0, properties, prompt: prompt, source: source, downstream: downstream) },
                standIn: {
                    $0.media.delay = .milliseconds(delay)
                    $0.answersLatencyMarker = answers
                    $0.rooms.carriesTrailers = trailers
                }
            ) { pipeline, standIn in
                try body(standIn, pipeline, try CodedFrames(pipeline))
            }
        }

        /// The median distance of the latest frames from the times of their inputs: a busy machine may delay a few.
        private func measureMedian(
            _ frames: CodedFrames, _ count: Int, atMost bound: Double, _ what: String = "", test: String = #function
        ) {
            let median = spread(frames.shown.suffix(count).map(\.difference)).median
            measure("\(what)median", abs(median), atMost: bound, unit: "ms", test: test)
        }

        /// The time from capture to output cannot be shorter than the model's, whatever the machine.
        private func expectGlassToGlassTime(
            _ pipeline: TransformPipeline, sourceLocation: SourceLocation = #_sourceLocation
        ) {
            let isThere = eventually { pipeline.count("glass-to-glass-time") > Self.delay * 1_000_000 - 50_000_000 }
            #expect(isThere, "\(pipeline.count("glass-to-glass-time"))", sourceLocation: sourceLocation)
        }

        @Test func arrivalIsLateByTheModel() throws {
            try run("") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(Verification.count(40, gate: 5)))
                let found = spread(frames.shown.suffix(30).map(\.difference))
                measure("median", found.median, atLeast: Double(Self.delay) - 2 * Self.frame, unit: "ms")
                #expect(standIn.sessions.first?.request.wantsLatencyMarker == false)
                #expect(pipeline.count("glass-to-glass-time") == -1)
                let latency = try #require(pipeline.sink.queryPeerLatency())
                measure("latency", Double(latency.minimum) / 1e6, atMost: 200, unit: "ms")
            }
        }

        @Test func captureIsTheInputsTime() throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(Verification.count(100, gate: 10)))
                measureMedian(frames, 100, atMost: Self.frame / 2)
                // Timestamps are right from the first frame on; a loaded machine may delay a few.
                let off = frames.shown.count { abs($0.difference) > Self.frame * 1.2 }
                measure("frames of another time", Double(off), atMost: 5, unit: "frames")
                #expect(standIn.sessions.first?.request.wantsLatencyMarker == true)
                #expect(frames.markedCount == 0)
                expectGlassToGlassTime(pipeline)
                let time = Double(pipeline.count("glass-to-glass-time")) / 1e6
                measure("glass to glass", time, atMost: 1500, unit: "ms")
                #expect(pipeline.sink.queryPeerLatency().map { $0.minimum >= 500_000_000 } == true)
                #expect(pipeline.takeProblems().isEmpty)
                #expect(pipeline.timesRise)
            }
        }

        /// In a room, each frame has the time of its capture in a trailer, and no frame has a marker.
        @Test(
            .enabled(if: MediaWay.current.isRoom, "only rooms have it"),
            arguments: Verification.cases(["h264", "vp8", "vp9", "h264 simulcast=true"], gate: 2))
        func everyFrameHasItsTimeOfDay(codec: String) throws {
            try run("timestamps=capture codec=\(codec)") { _, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(Verification.count(60, gate: 10)))
                // The least of several readings, because this thread may have to wait between the two clocks.
                let base =
                    try (0..<50).map { _ -> Int64 in
                        let now = try #require(pipeline.pipeline.currentRunningTime)
                        return Int64(UnixClock.now) - Int64(now)
                    }.min() ?? 0
                let shown = frames.shown
                let errors = shown.compactMap { frame in
                    frame.unixTime.map { abs(Double(Int64($0) - base - Int64(frame.input)) / 1e6) }
                }
                #expect(errors.count == shown.count)
                // The time is that of this input frame, not of the one before or after it.
                let median = spread(errors).median
                #expect(median < Self.frame / 2, "\(median) ms")
                measure("\(codec), largest error", errors.max() ?? -1, atMost: 1, unit: "ms")
                #expect(frames.markedCount == 0)
                expectGlassToGlassTime(pipeline)
                measureMedian(frames, 60, atMost: Self.frame / 2, "\(codec), ")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        // No closure in the macro's arguments: Swift 6.0 crashes there.
        private static let otherReturns = Verification.cases(GenerationTests.returns.filter { $0 != .same }, gate: 1)

        /// The output of the next generation has the times too, whatever track it comes on.
        @Test(
            .enabled(if: MediaWay.current.isRoom, "only rooms have it"),
            arguments: otherReturns)
        func timesOfTheNextGeneration(output: Fault.Output) throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                let states = pipeline.recordConnectionStates()
                #expect(frames.waitForShown(3))
                #expect(states.wait { $0.last == "generating" })
                let changes = states.value.count
                try standIn.server.inject([Fault(parsing: "generation_restart:delay=1,output=\(output.rawValue)")])
                #expect(states.wait { $0.count >= changes + 2 && $0.last == "generating" })
                #expect(frames.waitForShown(Verification.count(40, gate: 5)))
                #expect(frames.shown.suffix(3).allSatisfy { $0.unixTime != nil } && frames.markedCount == 0)
                measureMedian(frames, Verification.count(30, gate: 3), atMost: Self.frame / 2, "\(output), ")
                #expect(standIn.sessions.count == 1 && pipeline.takeProblems().isEmpty)
                #expect(pipeline.timesRise)
            }
        }

        /// A viewer sees the time of the publisher's clock.
        @Test(.enabled(if: MediaWay.current.isRoom, "only rooms have it")) func aViewerSeesTheTimesToo() throws {
            try run("timestamps=capture") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(1))
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
                        #expect(viewer.waitForFrames(Verification.count(30, gate: 5)))
                        #expect(isTold ? ages.wait { $0.count >= 3 } : ages.value.isEmpty)
                        #expect(ages.value.allSatisfy { $0 > Double(Self.delay) - 50 }, "\(ages.value)")
                        if let oldest = ages.value.max() { measure("age", oldest, atMost: 3000, unit: "ms") }
                    }
                }
            }
        }

        /// The element covers a returned marker with the same corner of the previous frame, so that no marker is
        /// visible.
        @Test func theMarkIsNotSeen() throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: "film noir")
            try TransformPipeline.run(
                with: { try .init($0, "timestamps=capture", prompt: "film noir", forbidden: raw) },
                standIn: { ($0.media.delay, $0.rooms.carriesTrailers) = (.milliseconds(Self.delay), false) }
            ) { pipeline, _ in
                let corners = Watched<[Double]>([])
                // Only for the thread that pushes.
                nonisolated(unsafe) var video: VideoInfo?
                try #require(pipeline.transform.staticPad("src")).addProbe([.buffer, .downstreamEvent]) { item in
                    if case .event(let event) = item, let caps = event.caps { video = VideoInfo(caps: caps) }
                    guard case .buffer(let buffer) = item, let video, let image = CopiedFrame(buffer, video),
                        image.planes[0].contains(where: { $0 > 20 })
                    else { return .pass }
                    corners.change { $0.append(image.cornerDifference(from: expected)) }
                    return .pass
                }
                pipeline.play()
                #expect(corners.wait { $0.count >= Verification.count(120, gate: 20) })
                // No previous frame exists for the first one: its corner shows the rows above. A marker would
                // differ by about 60.
                let found = corners.value
                #expect(found.dropFirst().allSatisfy { $0 < 15 }, "\(found.map { Int($0) })")
                #expect(eventually { pipeline.count("glass-to-glass-time") > 0 })
                #expect(pipeline.current.leaks == 0)
            }
        }

        /// Frames that are late for a sink are late because of the machine.
        @Test(.measuredOnly) func aSinkInTimeGetsEveryFrame() throws {
            try run("timestamps=capture") { _, pipeline, frames in
                let rendered = pipeline.countRendered()
                pipeline.play()
                #expect(frames.waitForShown(60))
                measureMedian(frames, 40, atMost: Self.frame)
                #expect(rendered.wait { $0 >= 60 })
                measure("frames not shown", Double(pipeline.frames - rendered.value), atMost: 15, unit: "frames")
                measure("frames-late", Double(pipeline.count("frames-late")), atMost: 0, unit: "frames")
            }
        }

        /// A delay above the usual latency is reported once, so that a synchronised sink does not drop frames; no further
        /// LATENCY message follows, unless the delay grows with the machine's load.
        @Test func aLongDelayIsReported() throws {
            try run("timestamps=capture", delay: 600) { _, pipeline, frames in
                pipeline.output.set("sync", true)
                pipeline.play()
                let message = pipeline.waitForMessage {
                    $0.kind == .latency && $0.sourceName == pipeline.transform.name
                }
                #expect(message != nil)
                pipeline.pipeline.recalculateLatency()
                #expect(frames.waitForShown(Verification.count(40, gate: 5)))
                let minimum = try #require(pipeline.sink.queryPeerLatency()).minimum
                #expect(minimum >= 700_000_000, "\(minimum)")
                measure("latency", Double(minimum) / 1e6, atMost: 1500, unit: "ms")
                measureMedian(frames, 30, atMost: Self.frame)
                if Verification.isOn {
                    let more = pipeline.waitForMessage(seconds: 3) {
                        $0.kind == .latency && $0.sourceName == pipeline.transform.name
                    }
                    measure("further LATENCY messages", more == nil ? 0 : 1, atMost: 0, unit: "messages")
                }
                #expect(pipeline.timesRise)
            }
        }

        /// Timestamps rise through a reconnect, and match the input's again in the new session.
        @Test func itHoldsThroughAReconnect() throws {
            try run("timestamps=capture max-retries=5 fallback=freeze") { standIn, pipeline, frames in
                pipeline.play()
                #expect(frames.waitForShown(Verification.count(30, gate: 3)))
                standIn.server.dropAll()
                #expect(standIn.wait { $0.count > 1 && $0.last?.isGenerating == true })
                #expect(frames.waitForShown(Verification.count(60, gate: 5)))
                measureMedian(frames, Verification.count(30, gate: 3), atMost: Self.frame)
                #expect(pipeline.timesRise)
                // The fallback frames in between are on the same timeline.
                let times = pipeline.current.times.compactMap { $0 }
                let gap = zip(times, times.dropFirst()).map { $1 &- $0 }.max() ?? 0
                measure("gap between timestamps", Double(gap) / 1e6, atMost: 400, unit: "ms")
                #expect(!pipeline.takeProblems().contains { $0.kind == .error })
            }
        }

        /// A frame rate fixed downstream puts the frames on a regular grid, but on the input's timeline.
        @Test func aRateOfDownstreamsOwn() throws {
            try run("timestamps=capture", downstream: "video/x-raw,framerate=30/1") { _, pipeline, frames in
                pipeline.play()
                let count = Verification.count(60, gate: 20)
                #expect(frames.waitForShown(count + count / 2))
                measureMedian(frames, count, atMost: Self.frame)
                let worst = spread(frames.shown.suffix(count).map(\.difference)).worst
                measure("worst", worst, atMost: 2 * Self.frame, unit: "ms")
                let times = pipeline.current.times.suffix(count).compactMap { $0 }
                let off = zip(times, times.dropFirst()).count { !(33_000_000...34_000_000).contains($1 &- $0) }
                // The grid begins again after a gap, which only a busy machine causes here.
                #expect(off < count / 2, "\(times)")
                measure("steps off the grid", Double(off), atMost: 0, unit: "steps")
            }
        }

        /// A service that returns no markers costs one warning, but frames still leave the element.
        @Test func aServiceThatDoesNotAnswer() throws {
            try run("timestamps=capture", answers: false, trailers: false, prompt: "cyberpunk") {
                standIn, pipeline, _ in
                pipeline.play()
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("timestamps=capture"))
                #expect(pipeline.waitForFrames(Verification.count(60, gate: 10)))
                #expect(eventually { pipeline.count("frames-out") - pipeline.count("frames-fallback") >= 10 })
                #expect(pipeline.count("glass-to-glass-time") == -1)
                #expect(pipeline.takeProblems().count == 1)
                #expect(pipeline.timesRise)
                #expect(standIn.sessions.count == 1)
            }
        }

        /// An input that is not live waits for the session and keeps its own timestamps, from zero.
        @Test func aFileKeepsItsTimes() throws {
            let count = Verification.count(60, gate: 20)
            let source = TransformPipeline.source("num-buffers=\(count)")
            try run("timestamps=capture", source: source) { _, pipeline, frames in
                pipeline.play()
                #expect(pipeline.wait { $0.isEnded })
                let first = try #require(frames.shown.first)
                measure("frames shown", Double(frames.shown.count), atLeast: Double(count - 10), unit: "frames")
                measureMedian(frames, count, atMost: Self.frame / 2)
                measure("first timestamp", Double(first.output) / 1e6, atMost: 500, unit: "ms")
                #expect(pipeline.timesRise)
            }
        }
    }
}

extension CopiedFrame {
    /// Returns the mean absolute luma difference in the marker's area.
    fileprivate func cornerDifference(from other: CopiedFrame) -> Double {
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
