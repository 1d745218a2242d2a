import DecartProtocol
import GStreamerKit
import StandInServer
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
            try StandIn.run({
                $0.echoesEncoded = echo
                $0.faults = (try? FaultPlan(parsing: faults).faults) ?? []
            }) { standIn in
                try TransformPipeline.run(
                    try .init(standIn, properties, prompt: prompt, source: source, downstream: downstream)
                ) { pipeline in
                    let run = Run(
                        pipeline: pipeline,
                        input: EncodedRecord(try #require(pipeline.transform.staticPad("sink")?.peer)),
                        output: EncodedRecord(try #require(pipeline.transform.staticPad("src"))), standIn: standIn)
                    try body(run)
                }
                standIn.expectGoodConduct()
            }
        }

        /// The factories of all elements inside decarttransform that encode or decode.
        private func codecs(_ run: Run) -> [String] {
            run.pipeline.pipeline.allElements.filter { $0.name != "encoder" }.compactMap(\.factoryName).filter {
                $0.hasSuffix("enc") || $0.hasPrefix("avdec") || $0.hasSuffix("dec")
            }
        }

        /// The output is a part of the input without a gap.
        private func expectEqualFrames(_ run: Run, sourceLocation: SourceLocation = #_sourceLocation) {
            let (sent, came) = (run.input.current.hashes, run.output.current.hashes)
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
            try run(moving, "capsfilter caps=\(caps)") { run in
                run.pipeline.play()
                let came = run.output.waitForFrames(60)
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

        @Test func rawInEncodedOut() throws {
            try run(Self.raw, "capsfilter caps=video/x-h264,stream-format=byte-stream", echo: false) { run in
                run.pipeline.play()
                #expect(run.output.waitForFrames(30))
                #expect(run.output.current.frames.first?.isKeyframe == true && run.output.current.isRepaired)
                #expect(codecs(run) == ["x264enc"])
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        @Test func encodedInRawOut() throws {
            let shown = try Reference.input().applying(prompt: "film noir")
            try run(Self.h264(), prompt: "film noir", echo: false) { run in
                run.pipeline.play()
                let isShown = run.pipeline.waitForPicture(shown, within: 8)
                #expect(isShown)
                #expect(codecs(run).allSatisfy { !$0.contains("enc") })
                #expect(run.pipeline.takeProblems().isEmpty)
            }
        }

        /// Downstream asks for a keyframe, and the request reaches upstream by way of the service.
        @Test func aKeyframeRequestGoesAllTheWay() throws {
            try run(Self.h264(), "capsfilter caps=video/x-h264") { run in
                run.pipeline.play()
                let flows = run.output.waitForFrames(40)
                #expect(flows)
                guard flows else { return }
                let (before, keyframes) = (
                    run.input.current.requests.count, run.output.current.frames.count { $0.isKeyframe }
                )
                let asked = ContinuousClock.now
                run.pipeline.sink.push(Event.forceKeyUnitUpstream())
                #expect(run.input.wait { $0.requests.count > before })
                let time = run.input.current.requests.last.map { $0 - asked } ?? .seconds(9)
                #expect(time < .milliseconds(200), "the request took \(time)")
                #expect(run.output.wait { $0.frames.count { $0.isKeyframe } > keyframes })
            }
        }
    }
}
