import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `mute-releases-camera` closes the camera while video is muted, so that nothing is filmed and the camera's light
    /// is off.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct CameraTestsMute {
        private static let (front, back) = (CameraTestsDevices.front, CameraTestsDevices.back)

        private func run(
            _ cameras: [VirtualCamera], _ properties: String = "mute-releases-camera=true",
            _ body: (TransformPipeline, StandIn) throws -> Void
        ) throws {
            try #require(ElementTests.isReady)
            VirtualCameras.set(cameras)
            defer { VirtualCameras.set([]) }
            try StandIn.run { standIn in
                try TransformPipeline.run(try .camera(standIn, properties, prompt: "film noir")) {
                    try body($0, standIn)
                }
                standIn.expectGoodConduct()
            }
        }

        private func isShown(_ camera: VirtualCamera, _ pipeline: TransformPipeline) -> Bool {
            guard
                let raw = try? Reference.frame(
                    "videotestsrc num-buffers=1 pattern=\(camera.pattern) ! \(camera.caps)")
            else {
                return false
            }
            return pipeline.waitForFrame(raw.applying(prompt: "film noir"))
        }

        private func isBlack(_ pipeline: TransformPipeline) -> Bool {
            pipeline.waitForBlack(upTo: 39)
        }

        /// An open virtual camera has a videotestsrc in the pipeline.
        private func isOpen(_ pipeline: TransformPipeline) -> Bool {
            pipeline.pipeline.allElements.contains { $0.factoryName == "videotestsrc" }
        }

        @Test func theCameraIsClosedWhileMuted() throws {
            try run([Self.front, Self.back]) { pipeline, standIn in
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
                let id = pipeline.transform.string("session-id")
                for _ in 1...2 {
                    pipeline.transform.set("mute-video", true)
                    #expect(eventually { !isOpen(pipeline) })
                    #expect(eventually { pipeline.transform.string("current-device") == nil })
                    #expect(isBlack(pipeline))
                    #expect(pipeline.waitForFrames(5))
                    pipeline.transform.set("mute-video", false)
                    #expect(isShown(Self.front, pipeline))
                    #expect(eventually { pipeline.transform.string("current-device") == Self.front.id })
                }
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
                let times = pipeline.current.times.compactMap { $0 }
                #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
            }
        }

        @Test func itStaysOpenUnlessThatIsAskedFor() throws {
            try run([Self.front], "") { pipeline, _ in
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
                pipeline.transform.set("mute-video", true)
                #expect(isBlack(pipeline))
                #expect(isOpen(pipeline) && pipeline.transform.string("current-device") == Self.front.id)
                // The property also takes effect while muted.
                pipeline.transform.set("mute-releases-camera", true)
                #expect(eventually { !isOpen(pipeline) })
                pipeline.transform.set("mute-releases-camera", false)
                #expect(eventually { pipeline.transform.string("current-device") == Self.front.id })
                #expect(isBlack(pipeline))
            }
        }

        @Test func mutedFromTheStartItIsNotOpened() throws {
            try run([Self.front], "mute-releases-camera=true mute-video=true") { pipeline, standIn in
                pipeline.play()
                #expect(isBlack(pipeline))
                #expect(!isOpen(pipeline) && pipeline.count("frames-in") == 0)
                pipeline.transform.set("mute-video", false)
                #expect(isShown(Self.front, pipeline))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func stopCaptureCountsByItself() throws {
            try run([Self.front]) { pipeline, _ in
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
                pipeline.transform.emit("stop-capture")
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                pipeline.transform.set("mute-video", false)
                _ = pipeline.collect(milliseconds: 300)
                #expect(!isOpen(pipeline))
                pipeline.transform.emit("start-capture")
                #expect(isShown(Self.front, pipeline))
            }
        }

        @Test func aCameraThatIsGoneByThenIsReplaced() throws {
            try run([Self.front, Self.back], "mute-releases-camera=true fallback=freeze") { pipeline, standIn in
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                VirtualCameras.unplug(Self.front.id)
                pipeline.transform.set("mute-video", false)
                #expect(isShown(Self.back, pipeline))
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                VirtualCameras.unplug(Self.back.id)
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.waitForProblem(.warning)?.text.contains("No camera") == true)
                #expect(pipeline.waitForFrames(3))
                VirtualCameras.plug(Self.front)
                #expect(isShown(Self.front, pipeline))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        @Test func oneThatCannotBeOpenedAgainIsALostOne() throws {
            try run([Self.front, Self.back], "mute-releases-camera=true fallback=freeze") { pipeline, _ in
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                // Another application has taken the camera meanwhile.
                var broken = Self.front
                broken.then = "identity error-after=1"
                VirtualCameras.unplug(Self.front.id)
                VirtualCameras.plug(broken)
                pipeline.transform.set("mute-video", false)
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(warning.text.contains("Front Camera") && warning.text.contains("failed: "), "\(warning.text)")
                #expect(isShown(Self.back, pipeline))
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        @Test func anythingAtAnyTime() throws {
            try run([Self.front, Self.back], "") { pipeline, _ in
                let (source, target) = (pipeline.transform, pipeline.pipeline)
                ThreadGroup.run(threads: 3, rounds: Verification.count(24, gate: 12)) { thread, round in
                    if thread == 0 {
                        _ = target.setState([.playing, .paused, .playing, .ready, .playing, .null][round % 6])
                        _ = target.state(timeout: .milliseconds(30))
                        return
                    }
                    switch (round + thread) % 5 {
                    case 0: source.set("mute-video", round % 2 == 0)
                    case 1: source.set("mute-releases-camera", round % 3 != 0)
                    case 2: source.emit("switch-camera")
                    case 3: source.emit("stop-capture")
                    default: source.emit("start-capture")
                    }
                }
                source.emit("start-capture")
                source.set("mute-video", false)
                target.setState(.null)
                _ = pipeline.takeProblems()
                VirtualCameras.set([Self.front])
                // An earlier `switch-camera` may have set the position to back, where no camera is left.
                source.set("position", "front")
                pipeline.play()
                #expect(isShown(Self.front, pipeline))
            }
        }
    }
}
