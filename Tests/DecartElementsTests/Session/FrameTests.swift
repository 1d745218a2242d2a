import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The main purpose: the output is what the service makes of the input, and never the input itself.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct FrameTests {
        @Test(
            arguments: Verification.cases(
                ["film noir", "anime street", "Lego World", "cyberpunk", "a garden"], gate: 2)
        )
        func theFirstFrameIsTransformed(prompt: String) throws {
            let raw = try Reference.input()
            let expected = raw.applying(prompt: prompt)
            #expect(expected.difference(from: raw) > 2 * TransformPipeline.leakLimit)
            try StandIn.run { standIn in
                try TransformPipeline.run(try .init(standIn, prompt: prompt, forbidden: raw)) { pipeline in
                    #expect(pipeline.play() != .failure)
                    #expect(pipeline.waitForFrame(expected))
                    let seen = pipeline.current
                    #expect(seen.leaks == 0)
                    let first = try #require(seen.first)
                    // The first frame is a single keyframe with few bits, hence the wider limit.
                    #expect(first.image.difference(from: expected) < 12)
                    #expect(pipeline.takeProblems().isEmpty)
                }
                standIn.expectGoodConduct()
                let session = try #require(standIn.sessions.first)
                #expect(session.offerCount == MediaWay.current.offerCount)
                #expect(session.room.joinCount == MediaWay.current.roomJoinCount)
                #expect(session.prompts == [prompt])
                #expect(session.receivedEndOfCandidates || MediaWay.current.isRoom)
                #expect(session.request.model == "test-model")
            }
        }

        /// The candidates of a direct connection are in the answer or trickle in after it; both must connect.
        @Test(arguments: [false, true]) func candidatesMayTrickle(trickles: Bool) throws {
            let raw = try Reference.input()
            try StandIn.run {
                $0.transports = [.webrtc]
                $0.tricklesCandidates = trickles
            } _: { standIn in
                try TransformPipeline.run(
                    try .init(standIn, "transport=webrtc", prompt: "film noir", forbidden: raw)
                ) { pipeline in
                    pipeline.play()
                    #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                    #expect(pipeline.current.leaks == 0)
                }
                standIn.expectGoodConduct()
                #expect(standIn.sessions.count == 1)
            }
        }

        @Test func withoutAPromptTheFrameComesBackAsItWas() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0) }) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw, within: 3))
                let session = try #require(standIn.sessions.first)
                #expect(session.passthroughCount == 1)
                #expect(session.promptCount == 0)
            }
        }

        @Test(arguments: ["vp8", "h264", "vp9"])
        func everyCodecCarriesTheVideo(codec: String) throws {
            let decoders = ["h264": "avdec_h264", "vp9": "vp9dec", "vp8": "vp8dec"]
            try #require(ElementTests.isReady)
            guard GStreamerRuntime.hasElement(decoders[codec] ?? "") else { return }
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0, "codec=\(codec)", prompt: "film noir", forbidden: raw) }
            ) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(pipeline.current.leaks == 0)
            }
        }
    }
}
