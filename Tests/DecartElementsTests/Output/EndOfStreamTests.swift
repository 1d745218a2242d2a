import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    @Suite(.serialized, .timeLimit(.minutes(2))) struct EndOfStreamTests {
        @Test func aLiveSourceThatEndsDrainsAndEnds() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir") }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(3))
                pipeline.pipeline.child(named: "source")?.send(Event.eos())
                #expect(pipeline.wait { $0.isEnded })
                // Frames in flight come back before EOS, as far as the time for that reaches.
                let missing = pipeline.count("frames-sent") - pipeline.frames
                measure("frames that did not come back", Double(missing), atMost: 2, unit: "frames")
                #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "the session stays open")
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test(arguments: ["pipeline", "element"])
        func anEndFromTheApplicationDrainsAndEnds(target: String) throws {
            var drained = 0
            try StandIn.run { standIn in
                // The source does not end with the element, so frames arrive for the whole second. On a busy machine, one
                // may come so late that the element takes another for the last.
                for _ in 0..<(target == "pipeline" ? 1 : 5) where drained < 4 {
                    try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(3))
                        let before = pipeline.frames
                        let time = duration {
                            (target == "pipeline" ? pipeline.pipeline : pipeline.transform).send(Event.eos())
                            #expect(pipeline.wait { $0.isEnded })
                        }
                        drained = pipeline.frames - before
                        measure("time to EOS", time, atMost: .seconds(2))
                        #expect(pipeline.waitForMessage { $0.kind == .eos } != nil)
                    }
                    standIn.expectGoodConduct()
                }
            }
            #expect(target == "pipeline" || drained >= 4, "\(drained) frames came before EOS")
        }

        @Test(.indifferentToTransport, arguments: ["pipeline", "element"])
        func anEndWhileNotConnectedIsPassedOnAtOnce(target: String) throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init("base-url=\(server.url) api-key=x \(TransformPipeline.custom)")
                ) { pipeline in
                    pipeline.play()
                    #expect(server.waitForConnections(1))
                    #expect(eventually { pipeline.count("frames-in") > 0 })
                    let time = duration {
                        (target == "pipeline" ? pipeline.pipeline : pipeline.transform).send(Event.eos())
                        #expect(pipeline.wait { $0.isEnded })
                    }
                    measure("time to EOS", time, atMost: .seconds(1))
                    #expect(pipeline.frames == 0)
                    #expect(pipeline.current.events == [.streamStart, .caps, .segment, .eos])
                    // Without it, nothing but black frames would look like success.
                    let errors = pipeline.takeProblems()
                    #expect(errors.map(\.kind) == [.error])
                    #expect(errors.first?.text.hasPrefix("The input ended before a transformed frame came") == true)
                }
            }
        }

        /// Parsers and decoders end without an error if nothing of what they get is theirs.
        @Test(
            .indifferentToTransport,
            arguments: [
                "videotestsrc num-buffers=0", "fakesrc num-buffers=1 sizetype=2 sizemax=20 filltype=2 ! pngdec",
                "videotestsrc num-buffers=0 ! x264enc", "decartsrc",
            ])
        func anInputWithoutAFrameIsAnError(source: String) throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(
                    source == "decartsrc"
                        ? try TransformPipeline.camera(
                            standIn, "source=\"videotestsrc num-buffers=0\"", prompt: "noir")
                        : try TransformPipeline(standIn, prompt: "noir", source: source)
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForMessage { $0.kind == .error } != nil)
                    #expect(pipeline.wait { $0.isEnded })
                    let errors = pipeline.takeProblems()
                    #expect(errors.map(\.kind) == [.error])
                    #expect(errors.first?.text.hasPrefix("The input ended without a frame") == true)
                }
            }
        }

        @Test(
            .indifferentToTransport,
            arguments: [
                ("fallback=passthrough", 1), ("mute-video=true", 0), ("standby=true", 0), ("auto-connect=false", 0),
            ])
        func anInputWithoutAFrameMayBeWanted(property: String, warnings: Int) throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(
                    try .init(standIn, property, prompt: "noir", source: "videotestsrc num-buffers=0")
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.wait { $0.isEnded })
                    #expect(pipeline.takeProblems().map(\.kind) == Array(repeating: .warning, count: warnings))
                }
            }
        }

        @Test(.indifferentToTransport) func bytesWithoutCapsAreOneError() throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(
                    try .init(standIn, prompt: "noir", source: "fakesrc num-buffers=3 sizetype=2 sizemax=20")
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.wait { $0.isEnded })
                    let own = pipeline.takeProblems().filter { $0.source == "t" }
                    #expect(own.map(\.kind) == [.error] && own.first?.text.hasPrefix("Bytes without caps") == true)
                }
            }
        }

        /// The application that ends the element itself knows that nothing has come.
        @Test(.indifferentToTransport) func anEndOfTheApplicationBeforeAFrameIsNoError() throws {
            try StandIn.run { standIn in
                try TransformPipeline.run(
                    try .init(standIn, prompt: "noir", source: "appsrc format=time is-live=true")
                ) { pipeline in
                    pipeline.play()
                    pipeline.transform.send(Event.eos())
                    #expect(pipeline.wait { $0.isEnded })
                    #expect(pipeline.takeProblems().isEmpty)
                }
            }
        }

        @Test(
            .indifferentToTransport,
            arguments: [("fallback=passthrough", 1), ("mute-video=true", 0), ("standby=true", 0)])
        func anEndWithoutTheServiceMayBeWanted(property: String, warnings: Int) throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init("base-url=\(server.url) api-key=x \(TransformPipeline.custom) \(property)")
                ) { pipeline in
                    pipeline.play()
                    #expect(server.waitForConnections(1))
                    #expect(eventually { pipeline.count("frames-in") > 0 })
                    pipeline.pipeline.send(Event.eos())
                    #expect(pipeline.wait { $0.isEnded })
                    #expect(pipeline.takeProblems().map(\.kind) == Array(repeating: .warning, count: warnings))
                }
            }
        }
    }
}
