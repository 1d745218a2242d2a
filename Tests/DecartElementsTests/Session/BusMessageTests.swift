import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// The bus carries the element's own messages and only few of its children's.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct BusMessageTests {
        private static let downstream = "capsfilter name=rate caps=video/x-raw"

        /// Applications see no STATE_CHANGED or LATENCY message of inner elements, neither at the start nor at a
        /// reconnect.
        @Test func theChildrensStatesAndLatenciesStayInside() throws {
            try StandIn.run { standIn in
                try StallingProxy.with(to: standIn, frames: .max) { proxy in
                    try TransformPipeline.run(
                        try .init(
                            "base-url=\(proxy.url) api-key=x \(TransformPipeline.custom) prompt=noir max-retries=5")
                    ) { pipeline in
                        let (latencies, states) = (Watched<[String]>([]), Watched<[String]>([]))
                        pipeline.bus.onMessage { [transform = pipeline.transform] message in
                            guard message.isFrom(within: transform) else { return }
                            if message.kind == .latency { latencies.change { $0.append(message.sourceName) } }
                            if message.kind == .stateChanged { states.change { $0.append(message.sourceName) } }
                        }
                        defer { pipeline.bus.onMessage(nil) }
                        pipeline.play()
                        #expect(pipeline.waitForFrames(5))
                        proxy.drop()
                        #expect(
                            standIn.wait { $0.count == 2 && ($0.last?.frames.painted ?? 0) > 5 }, "no second session")
                        #expect(pipeline.waitForFrames(5))
                        #expect(latencies.value.isEmpty, "\(latencies.value)")
                        #expect(states.value.allSatisfy { $0 == "t" }, "\(states.value)")
                    }
                }
            }
        }

        /// The playout delay is in the time stamps, so neither it nor a frame rate changes the latency of the pipeline.
        @Test func theLatencyStays() throws {
            try TransformPipeline.runWell(with: { try .init($0, prompt: "noir", downstream: Self.downstream) }) {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(2))
                _ = pipeline.takeProblems()
                let filter = try #require(pipeline.pipeline.child(named: "rate"))
                filter.set("caps", caps: try Caps("video/x-raw,framerate=5/1"))
                #expect(pipeline.waitForFrames(5))
                var messages: [Message] = []
                while let message = pipeline.bus.next(timeout: .zero) { messages.append(message) }
                #expect(!messages.contains { $0.kind == .latency && $0.sourceName == "t" })
                #expect(pipeline.sink.queryPeerLatency()?.minimum == 10_000_000)
            }
        }

        @Test(.indifferentToTransport) func framesThatNoSessionTakesAreReported() throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init("base-url=\(server.url) api-key=x \(TransformPipeline.custom)")
                ) { pipeline in
                    let reports = Watched<[Int]>([])
                    pipeline.bus.onMessage { message in
                        guard message.kind == .qos, message.sourceName == "t" else { return }
                        reports.change { $0.append(message.structure?.int("dropped") ?? -1) }
                    }
                    var counts: [Int] = []
                    let time = duration {
                        pipeline.play()
                        #expect(eventually { pipeline.count("frames-dropped") >= 20 }, "no frame is dropped")
                        #expect(reports.wait { ($0.last ?? 0) >= 15 }, "\(reports.value)")
                        counts = reports.value
                    }
                    #expect(counts.first == 1, "\(counts)")
                    #expect(zip(counts, counts.dropFirst()).allSatisfy { $0 < $1 }, "\(counts)")
                    // One report immediately, then at most five a second.
                    #expect(counts.count <= 2 + Int((time / .seconds(1)) * 5), "\(counts.count) reports in \(time)")
                }
            }
        }
    }
}
