import DecartProtocol
import GStreamerKit
import StandInServer
import Testing

extension ElementTests {
    /// The main purpose: the output is what the service makes of the input, and never the input itself.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct FrameTests {
        /// The candidates of a direct connection are in the answer or trickle in after it; both must connect.
        @Test(.indifferentToTransport, arguments: [false, true]) func candidatesMayTrickle(trickles: Bool) throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(
                with: { try .init($0, "transport=webrtc", prompt: "film noir", forbidden: raw) },
                standIn: { ($0.transports, $0.tricklesCandidates) = ([.webrtc], trickles) }
            ) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrame(raw.applying(prompt: "film noir")))
                #expect(pipeline.current.leaks == 0)
                #expect(standIn.sessions.count == 1)
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
