import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Encoded video in, encoded video out.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct EncodedTests {
        static let raw = TransformPipeline.source()
        static func h264(_ caps: String = "profile=constrained-baseline", _ options: String = "key-int-max=1000")
            -> String
        {
            "\(raw) ! x264enc name=encoder tune=zerolatency speed-preset=ultrafast bitrate=600 \(options) "
                + "! video/x-h264,\(caps)"
        }
        static let vp8 =
            "\(raw) ! vp8enc name=encoder deadline=1 cpu-used=8 keyframe-max-dist=1000 target-bitrate=600000"

        struct Run {
            let pipeline: TransformPipeline
            let input: EncodedRecord
            let output: EncodedRecord
            let standIn: StandIn
        }

        /// Runs `source ! decarttransform ! downstream ! fakesink` against a stand-in.
        func run(
            _ source: String, _ downstream: String = "", _ properties: String = "", prompt: String = "lego",
            echo: Bool = true, faults: [String] = [], _ body: (Run) throws -> Void
        ) throws {
            try TransformPipeline.runWell(
                with: { try .init($0, properties, prompt: prompt, source: source, downstream: downstream) },
                standIn: {
                    $0.media.echoesEncoded = echo
                    $0.faults = (try? FaultPlan(parsing: faults).faults) ?? []
                }
            ) { pipeline, standIn in
                let run = Run(
                    pipeline: pipeline,
                    input: EncodedRecord(try #require(pipeline.transform.staticPad("sink")?.peer)),
                    output: EncodedRecord(try #require(pipeline.transform.staticPad("src"))), standIn: standIn)
                try body(run)
            }
        }

        /// The factories of all elements inside decarttransform that encode or decode.
        func codecs(_ run: Run) -> [String] {
            run.pipeline.pipeline.allElements.filter { $0.name != "encoder" }.compactMap(\.factoryName).filter {
                $0.hasSuffix("enc") || $0.hasPrefix("avdec") || $0.hasSuffix("dec")
            }
        }

        /// The output is a part of the input without a gap.
        private func expectEqualFrames(_ run: Run, sourceLocation: SourceLocation = #_sourceLocation) {
            // The output first: a frame may pass both between two readings.
            let came = run.output.current.hashes
            let sent = run.input.current.hashes
            guard let first = came.first, let start = sent.lastIndex(of: first) else {
                Issue.record("no frame of the input came back", sourceLocation: sourceLocation)
                return
            }
            #expect(Array(sent[start...].prefix(came.count)) == came, sourceLocation: sourceLocation)
            #expect(Set(came).count > came.count / 2, "the frames differ", sourceLocation: sourceLocation)
        }

        @Test(arguments: [
            (h264("stream-format=byte-stream,profile=constrained-baseline"), "video/x-h264,stream-format=byte-stream"),
            (h264("stream-format=avc,profile=constrained-baseline"), "video/x-h264,stream-format=avc"),
            (
                h264("stream-format=avc,profile=high", "key-int-max=1000 speed-preset=veryfast"),
                "video/x-h264,stream-format=byte-stream"
            ),
            (vp8, "video/x-vp8"),
        ]) func framesPassUnchanged(_ source: String, _ caps: String) throws {
            let moving = source.replacing("pattern=\(TransformPipeline.pattern)", with: "pattern=ball")
            // Congestion control would drop frames up to a keyframe if a busy machine looked like a slow network.
            try run(moving, "capsfilter caps=\(caps)", "congestion-control=off") { run in
                run.pipeline.play()
                let came = run.output.waitForFrames(Verification.count(60, gate: 10))
                #expect(came)
                if !came { for problem in run.pipeline.takeProblems() { Issue.record("\(problem.text)") } }
                run.pipeline.pipeline.setState(.paused)
                expectEqualFrames(run)
                let seen = run.output.current
                #expect(seen.frames.first?.isKeyframe == true && seen.isRepaired)
                let times = seen.frames.compactMap(\.pts)
                #expect(times.count == seen.frames.count && zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
                #expect(
                    seen.caps.allSatisfy {
                        $0.contains("width=(int)320, height=(int)176") || $0.contains("height=(int)176, width=(int)320")
                    })
                #expect(codecs(run) == [])
                #expect(run.pipeline.stats?.string("encoder") == nil && run.pipeline.stats?.string("decoder") == nil)
                #expect(run.standIn.sessions.count == 1)
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        /// Packets that are lost with all their retransmissions: no frame leaves that depends on one which did not. A frame
        /// has one slice: rtph264depay hands on a keyframe of several of which one was lost.
        @Test(arguments: [h264(), vp8]) func aLossIsFollowedByAKeyframe(_ source: String) throws {
            let isVP8 = source == Self.vp8
            let moving = source.replacing("pattern=\(TransformPipeline.pattern)", with: "pattern=ball")
                .replacing("tune=zerolatency", with: "tune=zerolatency sliced-threads=false threads=1")
            try run(moving, "capsfilter caps=video/x-\(isVP8 ? "vp8" : "h264")", "latency=60") { run in
                run.pipeline.play()
                #expect(run.output.waitForFrames(3))
                let entry = try #require(
                    run.pipeline.pipeline.allElements.lazy.compactMap { $0.staticPad("rtp_src") }.first)
                let losses = Watched<(lost: Set<UInt16>, packets: Int)>(([], 0))
                entry.addProbe(.buffer) { item in
                    guard case .buffer(let packet) = item,
                        let number = packet.withBytes({ $0.count > 4 ? UInt16($0[2]) << 8 | UInt16($0[3]) : 0 })
                    else { return .pass }
                    losses.change { losses in
                        losses.packets += 1
                        if losses.packets % 10 == 0 { losses.lost.insert(number) }
                    }
                    return losses.read { $0.lost.contains(number) } ? .drop : .pass
                }
                #expect(losses.wait { $0.lost.count >= 4 })
                #expect(eventually { run.pipeline.count("plis-sent") >= 2 })
                #expect(run.output.waitForFrames(10))
                run.pipeline.pipeline.setState(.paused)
                let came = run.output.current.frames
                let sent = run.input.current.hashes
                var (place, skips) = (-1, 0)
                for frame in came {
                    guard let next = sent[(place + 1)...].firstIndex(of: frame.hash) else {
                        Issue.record("a frame is none of the input's, or comes too late")
                        break
                    }
                    if place >= 0, next != place + 1 {
                        skips += 1
                        #expect(frame.isKeyframe, "\(next - place - 1) frames are missing before a delta frame")
                    }
                    place = next
                }
                #expect(skips >= 1)
                measure("gaps that end with a keyframe", Double(skips), atLeast: 2, unit: "gaps")
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        /// The pad `src` of `decartsrc` follows downstream as that of decarttransform does; `mirror` acts on the input.
        @Test func theCameraGivesEncodedVideo() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: {
                try TransformPipeline(
                    description: """
                        decartsrc name=t \(TransformPipeline.bare) base-url=\($0.url) api-key=x \
                        \(TransformPipeline.custom) \(CameraTests.still) mirror=on \
                        audio-source="audiotestsrc is-live=true ! opusenc name=voice" \
                        t.audio_src ! capsfilter caps=audio/x-opus ! fakesink name=audio-out async=false \
                        t.src ! capsfilter caps=video/x-h264,stream-format=avc ! tee name=both ! queue ! avdec_h264 \
                        name=eye ! videoconvert ! video/x-raw,format=I420 ! fakesink name=out sync=false \
                        both. ! queue ! fakesink sync=false async=false
                        """, settings: [("prompt", "film noir")])
            }) { pipeline, _ in
                let output = EncodedRecord(try #require(pipeline.transform.staticPad("src")))
                let packets = PacketRecord(
                    try #require(pipeline.pipeline.child(named: "audio-out")?.staticPad("sink")))
                let shown = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(output.waitForFrames(3))
                #expect(output.current.frames.first?.isKeyframe == true)
                #expect(output.current.caps.first?.contains("stream-format=(string)avc") == true)
                #expect(shown.wait(for: raw.mirrored.applying(prompt: "film noir"), within: 12))
                #expect(packets.waitForPackets(5))
                let codecs = pipeline.pipeline.allElements.filter {
                    ["avdec_h264", "opusenc", "opusdec"].contains($0.factoryName)
                }
                #expect(Set(codecs.map(\.name)) == ["eye", "voice"])
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// Downstream asks for a keyframe, and the request reaches upstream by way of the service.
        @Test func aKeyframeRequestGoesAllTheWay() throws {
            try run(Self.h264(), "capsfilter caps=video/x-h264") { run in
                run.pipeline.play()
                let flows = run.output.waitForFrames(5)
                #expect(flows)
                guard flows else { return }
                let (before, keyframes) = (
                    run.input.current.requests.count, run.output.current.frames.count { $0.isKeyframe }
                )
                let asked = ContinuousClock.now
                run.pipeline.sink.push(Event.forceKeyUnitUpstream())
                #expect(run.input.wait { $0.requests.count > before })
                let time = run.input.current.requests.last.map { $0 - asked } ?? .seconds(9)
                measure("request", time, atMost: .milliseconds(200))
                #expect(run.output.wait { $0.frames.count { $0.isKeyframe } > keyframes })
            }
        }

        /// A viewer of a server that comes late can begin, and no two frames have one time in front of a muxer. The input has
        /// no keyframe of its own accord.
        @Test func keyframesComeAtAnInterval() throws {
            try run(Self.h264(), "h264parse ! capsfilter caps=video/x-h264,stream-format=avc", "keyframe-interval=1") {
                run in
                let muxed = EncodedRecord(try #require(run.pipeline.sink.peer))
                run.pipeline.play()
                #expect(muxed.wait { $0.frames.count { $0.isKeyframe } >= 4 })
                let times = muxed.current.frames.compactMap(\.pts)
                #expect(times.count == muxed.current.frames.count)
                #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
            }
        }
    }
}
