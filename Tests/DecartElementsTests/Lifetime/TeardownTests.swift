import DecartProtocol
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// NULL at any moment returns, whatever the service does or does not do.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct TeardownTests {
        /// Stops a pipeline in the phase that `until` waits for; `TransformPipeline.run` checks that NULL returns.
        private func stopAfter(
            milliseconds: Int, url: String, mayFail: Bool = false, sourceLocation: SourceLocation = #_sourceLocation,
            until: () -> Bool
        ) throws {
            try TransformPipeline.run(
                try .init("base-url=\(url) api-key=x \(TransformPipeline.custom) prompt=noir"),
                sourceLocation: sourceLocation
            ) { pipeline in
                #expect(pipeline.play() != .failure, sourceLocation: sourceLocation)
                #expect(until(), "the phase was never reached", sourceLocation: sourceLocation)
                _ = pipeline.collect(milliseconds: milliseconds)
                let hasFailed = pipeline.takeProblems().contains { $0.kind == .error }
                #expect(!hasFailed || mayFail, sourceLocation: sourceLocation)
            }
        }

        /// For the way down, GStreamer takes a bin in a lower state up to PAUSED first: an element whose settings are wrong must
        /// not keep its pipeline in PLAYING.
        @Test(
            .indifferentToTransport,
            arguments: [ElementState.ready, .null],
            [
                "videotestsrc is-live=true ! decarttransform name=t auto-connect=false api-key=x ! fakesink",
                "decartsrc name=t source=test auto-connect=false api-key=x ! fakesink",
                "videotestsrc is-live=true ! ( decarttransform name=t auto-connect=false api-key=x ) ! fakesink",
            ])
        func withWrongSettings(state: ElementState, description: String) throws {
            try #require(ElementTests.isReady)
            let pipeline = try Pipeline(description: description)
            let element = try #require(pipeline.child(named: "t"))
            #expect(pipeline.setState(.playing) != .failure)
            #expect(element.setState(state) == .success)
            element.set("base-url", "nonsense://")
            #expect(pipeline.setState(.null) == .success && pipeline.state() == .null && element.state() == .null)
            // The settings are checked again with the next start.
            #expect(pipeline.setState(.playing) == .failure)
            #expect(pipeline.setState(.null) == .success)
        }

        @Test func whileTheNetworkKeepsSilent() throws {
            try SilentServer.with(.ignores) { server in
                for delay in [0, 50, 300] { try stopAfter(milliseconds: delay, url: server.url) { true } }
            }
        }

        @Test func whileTheServerKeepsSilent() throws {
            try SilentServer.with { server in
                for (index, delay) in [0, 50, 300].enumerated() {
                    try stopAfter(milliseconds: delay, url: server.url) { server.waitForConnections(index + 1) }
                }
            }
        }

        @Test func whileANameIsLookedUp() throws {
            for delay in [0, 5, 50] {
                try stopAfter(milliseconds: delay, url: "wss://nobody.invalid", mayFail: true) { true }
            }
        }

        /// NULL must not wait for the service. The proxy stalls after `frames` messages. 0: WebSocket open. 2: ready
        /// and session ID received, initial state sent. 3: state acknowledged, offer sent. 4: answered, no candidates.
        /// 5 and 6: some candidates.
        @Test(arguments: 0...6) func whileTheServiceOwesAnAnswer(frames: Int) throws {
            try StandIn.run { standIn in
                for delay in Verification.isOn ? [0, 120] : [60] {
                    try StallingProxy.with(to: standIn, frames: frames) { proxy in
                        try stopAfter(milliseconds: delay, url: proxy.url) {
                            frames == 0 ? standIn.wait { $0.contains(where: \.isOpen) } : proxy.waitForFrames(frames)
                        }
                    }
                }
                standIn.expectGoodConduct()
            }
        }

        @Test func whileTheAnswerIsNeverMade() throws {
            try StandIn.run(engine: SilentEngine()) { standIn in
                for delay in [0, 100] {
                    try stopAfter(milliseconds: delay, url: standIn.url) {
                        standIn.wait { $0.last.map { $0.offerCount + $0.room.joinCount } == 1 }
                    }
                }
                standIn.expectGoodConduct()
            }
        }

        @Test func atAnyMoment() throws {
            var random = SeededGenerator(seed: 7)
            try StandIn.run { standIn in
                for _ in 0..<Verification.count(30, gate: 8) {
                    try stopAfter(milliseconds: Int.random(in: 0...300, using: &random), url: standIn.url) { true }
                }
                standIn.expectGoodConduct()
            }
        }

        @Test func aFileThatWaitsForTheSession() throws {
            try SilentServer.with { server in
                try TransformPipeline.run(
                    try .init(
                        "base-url=\(server.url) api-key=x \(TransformPipeline.custom)",
                        source: TransformPipeline.source("num-buffers=40"))
                ) { pipeline in
                    pipeline.play()
                    #expect(server.waitForConnections(1))
                    #expect(eventually { pipeline.count("frames-in") == 1 })
                }
            }
        }

        @Test func pauseKeepsTheSession() throws {
            let raw = try Reference.input()
            try TransformPipeline.runWell(with: { try .init($0, prompt: "film noir", forbidden: raw) }) {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.waitForFrames(5))
                for _ in 0..<2 {
                    #expect(pipeline.pipeline.setState(.paused) == .noPreroll)
                    let before = pipeline.frames
                    _ = pipeline.collect(milliseconds: 300)
                    #expect(pipeline.frames - before <= 1)
                    pipeline.play()
                    #expect(pipeline.waitForFrames(5))
                }
                #expect(pipeline.current.leaks == 0)
                #expect(standIn.sessions.count == 1)
                #expect(standIn.sessions.first?.isOpen == true)
                #expect(pipeline.timesRise)
            }
        }
    }
}

/// Takes offers and never answers.
struct SilentEngine: MediaEngine {
    func makeMedia(
        painter: FramePainter, faults: FaultPlan, room: RoomTracks?,
        onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        SilentMedia()
    }

    func makeViewer(
        of viewers: Viewers, room: RoomTracks?, onEvent: @escaping @Sendable (MediaSessionEvent) -> Void
    ) -> any SessionMedia {
        SilentMedia()
    }
}

final class SilentMedia: SessionMedia {
    func perform(_ request: MediaRequest) {}
    func stop(completion: @escaping @Sendable () -> Void) { completion() }
}
