import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct EndOfStreamTests {
        @Test func aLiveSourceThatEndsDrainsAndEnds() throws {
            try StandIn.run { standIn in
                let source = TransformPipeline.source("is-live=true num-buffers=60")
                try TransformPipeline.run(try .init(standIn, prompt: "film noir", source: source)) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(10))
                    #expect(pipeline.wait { $0.isEnded })
                    // Frames in flight came back before EOS.
                    #expect(pipeline.count("frames-sent") - pipeline.frames <= 2)
                    #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                    #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session stays open")
                    #expect(pipeline.takeProblems().isEmpty)
                }
                standIn.expectGoodConduct()
            }
        }

        @Test(arguments: ["pipeline", "element"])
        func anEndFromTheApplicationDrainsAndEnds(target: String) throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrames(10))
                    let time = measured {
                        (target == "pipeline" ? pipeline.pipeline : pipeline.transform).send(Event.eos())
                        #expect(pipeline.wait { $0.isEnded })
                    }
                    #expect(time < .seconds(2), "\(time)")
                    #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                }
                standIn.expectGoodConduct()
            }
        }

        @Test(arguments: ["pipeline", "element"])
        func anEndWhileNotConnectedIsPassedOnAtOnce(target: String) throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init("base-url=\(server.url) api-key=x \(TransformPipeline.custom)")
                ) { pipeline in
                    pipeline.play()
                    #expect(server.waitForConnections(1))
                    let time = measured {
                        (target == "pipeline" ? pipeline.pipeline : pipeline.transform).send(Event.eos())
                        #expect(pipeline.wait { $0.isEnded })
                    }
                    #expect(time < .seconds(1), "\(time)")
                    #expect(pipeline.frames == 0)
                    #expect(pipeline.current.events == [.streamStart, .caps, .segment, .eos])
                }
            }
        }

        @Test func itPlaysAgainAfterTheEnd() throws {
            let raw = try Reference.input()
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, prompt: "film noir", forbidden: raw)) { pipeline in
                    for round in 1...2 {
                        pipeline.play()
                        #expect(pipeline.waitForFrames(5), "round \(round)")
                        pipeline.pipeline.send(Event.eos())
                        #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                        #expect(pipeline.pipeline.setState(.null) == .success)
                    }
                    #expect(pipeline.current.leaks == 0)
                }
                #expect(standIn.sessions.count == 2)
                standIn.expectGoodConduct()
            }
        }
    }
}
