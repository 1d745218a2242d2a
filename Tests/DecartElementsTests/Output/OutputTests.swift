import CGStreamer
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The source pad follows GStreamer's conventions for a live source.
    @Suite(.serialized, .timeLimit(.minutes(2))) struct OutputTests {
        @Test func eventsComeInOrderAndTimesRise() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                #expect(pipeline.pipeline.setState(.paused) == .noPreroll)
                #expect(pipeline.frames == 0)
                pipeline.play()
                #expect(pipeline.waitForFrames(10))
                let seen = pipeline.current
                #expect(Array(seen.events.prefix(3)) == [.streamStart, .caps, .segment])
                let times = seen.times.compactMap { $0 }
                #expect(times.count == seen.times.count)
                #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
                #expect(seen.discontinuities.first == 0)
                // Timestamps are in the pipeline's running time. `PlayoutClock` counts from the first frame's
                // arrival: if that frame was late (it starts encoder and decoder), the next ones are ahead until
                // it has adapted, which takes two seconds (111 ms seen on a busy machine).
                let now = try #require(pipeline.transform.currentRunningTime)
                let last = try #require(times.last)
                let behind = Double(Int64(bitPattern: now &- last)) / 1e6
                measure("behind the running time", behind, atLeast: -300, unit: "ms")
                measure("behind the running time", behind, atMost: 1000, unit: "ms")
                #expect(pipeline.pipeline.setState(.paused) == .noPreroll)
            }
        }

        /// The test sources count their buffers and wait for their old time, so what leaves is fallback and silence.
        @Test func itGoesOnAtOnceAfterTheRunningTimeHasGoneBack() throws {
            try TransformPipeline.run(with: { try .withAudio($0, "fallback=freeze") }) { pipeline, _ in
                let audioOut = try pipeline.watchAudio()
                pipeline.play()
                #expect(audioOut.wait { ($0.end ?? 0) > 2_500_000_000 })
                #expect(pipeline.wait { $0.times.contains { ($0 ?? 0) > 2_500_000_000 } })
                pipeline.pipeline.setState(.paused)
                let count = pipeline.frames
                gst_element_set_start_time(pipeline.pipeline.raw.assumingMemoryBound(to: GstElement.self), 0)
                pipeline.play()
                #expect(pipeline.wait { $0.times.dropFirst(count).contains { ($0 ?? .max) < 1_000_000_000 } })
                #expect(audioOut.wait { $0.holes.contains { $0 < -1_000_000_000 } })
                #expect(audioOut.seen.value.unsaidHoles.isEmpty)
                #expect(pipeline.current.events.filter { $0 == .segment }.count == 2)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func latencyQueryIsLiveAndPositionRises() throws {
            try TransformPipeline.run(with: { try .init($0, "latency=150", prompt: "film noir") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let latency = try #require(pipeline.sink.queryPeerLatency())
                #expect(latency.live)
                #expect(latency.minimum >= 150_000_000)
                measure("latency", Double(latency.minimum) / 1e6, atMost: 400, unit: "ms")
                let pad = try #require(pipeline.transform.staticPad("src")).raw.assumingMemoryBound(to: GstPad.self)
                var (before, after, duration): (gint64, gint64, gint64) = (-1, -1, -1)
                #expect(gst_pad_query_duration(pad, GST_FORMAT_TIME, &duration) == 0)
                #expect(gst_pad_query_position(pad, GST_FORMAT_TIME, &before) != 0)
                #expect(pipeline.waitForFrames(3))
                #expect(gst_pad_query_position(pad, GST_FORMAT_TIME, &after) != 0 && before >= 0 && after > before)
                let seeking = try #require(gst_query_new_seeking(GST_FORMAT_TIME))
                defer { kit_mini_object_unref(seeking) }
                var isSeekable: gboolean = 1
                #expect(gst_pad_query(pad, seeking) != 0)
                gst_query_parse_seeking(seeking, nil, &isSeekable, nil, nil)
                #expect(isSeekable == 0)
                for format in [GST_FORMAT_DEFAULT, GST_FORMAT_BYTES, GST_FORMAT_BUFFERS, GST_FORMAT_PERCENT] {
                    var position: gint64 = -1
                    let isAnswered = gst_pad_query_position(pad, format, &position)
                    #expect(isAnswered == 0, "\(format)")
                }
            }
        }

        @Test func aKeyFrameRequestReachesTheService() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                // By time: H.264 parameter sets may come as a buffer of their own, with the time of their frame.
                let keyframes = Watched<Set<ClockTime?>>([])
                let seenByInput = Watched(0)
                try #require(pipeline.transform.staticPad("sink")).addProbe(.upstreamEvent) { item in
                    if case .event(let event) = item, event.isForceKeyUnit { seenByInput.change { $0 += 1 } }
                    return .pass
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let decoder = try #require(
                    pipeline.pipeline.allElements.first { $0.factoryName == MediaWay.current.decoder })
                try #require(decoder.staticPad("sink")).addProbe(.buffer) { item in
                    if case .buffer(let buffer) = item, !buffer.isDeltaUnit {
                        keyframes.change { $0.insert(buffer.pts) }
                    }
                    return .pass
                }
                #expect(pipeline.waitForFrames(Verification.count(20, gate: 3)))
                let before = keyframes.value.count
                measure("keyframes without a request", Double(before), atMost: 0, unit: "keyframes")
                let requests = pipeline.count("plis-sent")
                #expect(pipeline.sink.push(Event.forceKeyUnitUpstream()))
                #expect(keyframes.wait { $0.count > before })
                #expect(eventually { pipeline.count("plis-sent") > requests })
                let made = pipeline.count("plis-sent") - requests
                measure("requests", Double(made), atMost: 1, unit: "requests")
                #expect(seenByInput.value == 0)
            }
        }

        /// splitmuxsink requests the keyframe of the next file when a file begins.
        @Test func aKeyframeRequestWaitsForItsTime() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                let transform = pipeline.transform
                let requests = Watched<[ClockTime]>([])
                let decoder = try #require(
                    pipeline.pipeline.allElements.first { $0.factoryName == MediaWay.current.decoder })
                try #require(decoder.staticPad("src")).addProbe(.upstreamEvent) { [unowned transform] item in
                    guard case .event(let event) = item, event.isForceKeyUnit else { return .pass }
                    requests.change { $0.append(transform.currentRunningTime ?? 0) }
                    return .pass
                }
                let wanted = try #require(transform.currentRunningTime) + 1_000_000_000
                #expect(pipeline.sink.push(Event.forceKeyUnitUpstream(at: wanted)))
                #expect(requests.wait { !$0.isEmpty })
                #expect(requests.value.allSatisfy { $0 >= wanted })
            }
        }

        @Test(.measuredOnly) func aSinkInTimeWithTheClockGetsEveryFrame() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                let rendered = pipeline.countRendered()
                pipeline.play()
                #expect(rendered.wait { $0 >= 30 })
                measure("frames not shown", Double(pipeline.frames - rendered.value), atMost: 6, unit: "frames")
            }
        }

        /// An aggregator waits for each buffer until its PTS plus the latency that the element has answered.
        @Test(arguments: ["", "latency=100"]) func anAggregatorGoesOnWithTheElementsFrames(options: String) throws {
            let other = "videotestsrc is-live=true pattern=black ! video/x-raw,\(TransformPipeline.size),framerate=20/1"
            try TransformPipeline.run(
                with: {
                    try .init(
                        $0, options, prompt: "film noir",
                        downstream: "mix.sink_1 \(other) ! mix.sink_0 compositor name=mix latency=0")
                }
            ) { pipeline, _ in
                let output = try #require(pipeline.transform.staticPad("src"))
                let answered: ClockTime = options.isEmpty ? 10_000_000 : 110_000_000
                let lateness = Watched<[Double]>([])
                // Those of the compositor may repeat when its inputs' formats come one after the other.
                let times = Watched<[ClockTime]>([])
                output.addProbe(.buffer) { [weak pipeline] item in
                    if case .buffer(let buffer) = item, let pts = buffer.pts,
                        let now = pipeline?.transform.currentRunningTime
                    {
                        times.change { $0.append(pts) }
                        lateness.change { $0.append(Double(Int64(bitPattern: now &- pts &- answered)) / 1e6) }
                    }
                    return .pass
                }
                let mixed = Watched(0)
                pipeline.sink.addProbe(.buffer) { _ in
                    mixed.change { $0 += 1 }
                    return .pass
                }
                pipeline.play()
                #expect(mixed.wait { $0 >= 40 })
                #expect(pipeline.waitForFrames(40))
                #expect(pipeline.sink.queryPeerLatency()?.live == true)
                #expect(zip(times.value, times.value.dropFirst()).allSatisfy { $0 < $1 })
                #expect(pipeline.takeProblems().isEmpty)
                let late = lateness.value.filter { $0 > 0 }
                measure("buffers after their PTS and the latency", Double(late.count), atMost: 1, unit: "buffers")
                measure("the latest of them", late.max() ?? 0, atMost: 10, unit: "ms")
            }
        }

        /// A sink that blocks for a while costs old frames, but no latency.
        @Test func aSlowSinkGetsTheNewestFrames() throws {
            try TransformPipeline.run(with: { try .init($0, prompt: "film noir") }) { pipeline, _ in
                let isHeld = Watched(false)
                let isFree = Watched(false)
                pipeline.sink.addProbe(.buffer) { _ in
                    if isHeld.value { _ = isFree.wait { $0 } }
                    return .pass
                }
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                isHeld.change { $0 = true }
                let late = pipeline.count("frames-late")
                #expect(eventually { pipeline.count("frames-late") >= late + 10 })
                // Read while the sink is still blocked: the queued frames arrive as soon as it is released.
                let held = pipeline.frames
                isHeld.change { $0 = false }
                isFree.change { $0 = true }
                #expect(pipeline.waitForFrames(10))
                let seen = pipeline.current
                #expect(
                    seen.discontinuities.contains { $0 >= held - 1 && $0 <= held + 4 },
                    "\(seen.discontinuities), held at \(held)")
                #expect(pipeline.timesRise)
            }
        }
    }
}
