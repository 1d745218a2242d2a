import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// An application may take its pipeline to NULL and release it inside a callback: the code that made the callback
    /// must not touch the element afterwards, and no other callback may follow.
    @Suite(.serialized, .timeLimit(.minutes(3))) struct CallbackTeardownTests {
        enum Callback: String, Sendable, CaseIterable {
            case stateNotification, elementMessage, progressMessage, promptResult, encoderSetup, keyRequest
        }

        /// Owns the pipeline's last reference; the first callback after the start releases it.
        private final class Owner: Sendable {
            let pipeline = Watched<Pipeline?>(nil)
            let isStarted = Watched(false)
            let isDown = Watched(false)
            let later = Watched(0)

            func tearDown() {
                guard isStarted.wait(until: { $0 }) else { return }
                var last: Pipeline?
                pipeline.change { (last, $0) = ($0, nil) }
                guard let last else { return later.change { $0 += 1 } }
                last.setState(.null)
                isDown.change { $0 = true }
            }
        }

        private func connect(_ callback: Callback, of pipeline: Pipeline, to owner: Owner) throws {
            let transform = try #require(pipeline.child(named: "t"))
            func on(_ signal: String, answer: GValueBox? = nil) {
                transform.connect(signal) { _ in
                    owner.tearDown()
                    return answer
                }
            }
            switch callback {
            case .stateNotification: on("notify::connection-state")
            case .promptResult: on("prompt-result")
            case .encoderSetup: on("encoder-setup")
            case .keyRequest: on("request-api-key", answer: GValueBox("a-key"))
            case .elementMessage, .progressMessage:
                let kind: Message.Kind = callback == .elementMessage ? .element : .progress
                pipeline.bus.setSyncHandler { if $0.kind == kind, $0.sourceName == "t" { owner.tearDown() } }
            }
        }

        private func expectNothingLeft(
            of description: String, _ sourceLocation: SourceLocation = #_sourceLocation,
            connect: (Pipeline, Owner) throws -> Void, provoke: (Pipeline) -> Void
        ) throws {
            try #require(ElementTests.isReady)
            weak var implementation: (any ElementImplementation)?
            let owner = Owner()
            Criticals.start()
            do {
                let pipeline = try Pipeline(description: description)
                implementation = pipeline.child(named: "t")?.implementation
                owner.pipeline.change { $0 = pipeline }
                try connect(pipeline, owner)
                #expect(pipeline.setState(.playing) != .failure, sourceLocation: sourceLocation)
                provoke(pipeline)
            }
            owner.isStarted.change { $0 = true }
            #expect(owner.isDown.wait { $0 }, "nothing called back", sourceLocation: sourceLocation)
            let isGone = eventually { implementation == nil }
            #expect(isGone, "the element outlives its pipeline", sourceLocation: sourceLocation)
            #expect(owner.later.value == 0, "called back after NULL", sourceLocation: sourceLocation)
            let criticals = Criticals.stop()
            #expect(criticals.isEmpty, "\(criticals)", sourceLocation: sourceLocation)
        }

        @Test(arguments: Callback.allCases) func thePipelineGoesInACallback(callback: Callback) throws {
            try StandIn.run { standIn in
                try expectNothingLeft(
                    of: """
                        \(TransformPipeline.liveSource) ! decarttransform name=t \(TransformPipeline.bare) \
                        base-url=\(standIn.url) api-key=x \(TransformPipeline.custom) prompt=noir ! fakesink sync=false
                        """,
                    connect: { try connect(callback, of: $0, to: $1) },
                    provoke: { pipeline in
                        guard callback == .promptResult else { return }
                        pipeline.child(named: "t")?.emit("set-prompt", [GValueBox("anime"), GValueBox(false)])
                    })
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "a session is still open")
            }
        }

        @Test func thePipelineGoesWhenTheCameraChanges() throws {
            try #require(ElementTests.isReady)
            VirtualCameras.set([CameraTestsDevices.front, CameraTestsDevices.back])
            defer { VirtualCameras.set([]) }
            try StandIn.run { standIn in
                try expectNothingLeft(
                    of: """
                        decartsrc name=t \(TransformPipeline.bare) base-url=\(standIn.url) api-key=x \(TransformPipeline.custom) \
                        prompt=noir t.src ! fakesink sync=false
                        """,
                    connect: { pipeline, owner in
                        try #require(pipeline.child(named: "t")).connect("notify::current-device") { _ in
                            owner.tearDown()
                            return nil
                        }
                    }, provoke: { $0.child(named: "t")?.emit("switch-camera") })
                #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } }, "a session is still open")
            }
        }
    }
}
