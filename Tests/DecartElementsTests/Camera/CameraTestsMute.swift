import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// `mute-releases-camera` closes the camera while video is muted, so that nothing is filmed and the camera's light
    /// is off.
    @Suite(.serialized, .timeLimit(.minutes(2)), .indifferentToTransport) struct CameraTestsMute {
        private static let (front, back) = (CameraTestsDevices.front, CameraTestsDevices.back)

        private func isBlack(_ pipeline: TransformPipeline) -> Bool {
            pipeline.waitForBlack(upTo: 39)
        }

        /// An open virtual camera has a videotestsrc in the pipeline.
        private func isOpen(_ pipeline: TransformPipeline) -> Bool {
            pipeline.pipeline.allElements.contains { $0.factoryName == "videotestsrc" }
        }

        @Test func theCameraIsClosedWhileMuted() throws {
            try CameraTestsDevices.run([Self.front, Self.back], "mute-releases-camera=true") { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                let id = pipeline.transform.string("session-id")
                for _ in 1...2 {
                    pipeline.transform.set("mute-video", true)
                    #expect(eventually { !isOpen(pipeline) })
                    #expect(eventually { pipeline.transform.string("current-device") == nil })
                    #expect(isBlack(pipeline))
                    #expect(pipeline.waitForFrames(5))
                    pipeline.transform.set("mute-video", false)
                    #expect(pipeline.shows(Self.front))
                    #expect(eventually { pipeline.transform.string("current-device") == Self.front.id })
                }
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
                let times = pipeline.current.times.compactMap { $0 }
                #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
            }
        }

        @Test func itStaysOpenUnlessThatIsAskedFor() throws {
            try CameraTestsDevices.run([Self.front]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
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
            try CameraTestsDevices.run([Self.front], "mute-releases-camera=true mute-video=true") { pipeline, standIn in
                pipeline.play()
                #expect(isBlack(pipeline))
                #expect(!isOpen(pipeline) && pipeline.count("frames-in") == 0)
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.shows(Self.front))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func stopCaptureCountsByItself() throws {
            try CameraTestsDevices.run([Self.front], "mute-releases-camera=true") { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                pipeline.transform.emit("stop-capture")
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                pipeline.transform.set("mute-video", false)
                _ = pipeline.collect(milliseconds: 300)
                #expect(!isOpen(pipeline))
                pipeline.transform.emit("start-capture")
                #expect(pipeline.shows(Self.front))
            }
        }

        @Test func aCameraThatIsGoneByThenIsReplaced() throws {
            try CameraTestsDevices.run([Self.front, Self.back], "mute-releases-camera=true fallback=freeze") {
                pipeline, standIn in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                VirtualCameras.unplug(Self.front.id)
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.shows(Self.back))
                pipeline.transform.set("mute-video", true)
                #expect(eventually { !isOpen(pipeline) })
                VirtualCameras.unplug(Self.back.id)
                pipeline.transform.set("mute-video", false)
                #expect(pipeline.waitForProblem(.warning)?.text.contains("No camera") == true)
                #expect(pipeline.waitForFrames(3))
                VirtualCameras.plug(Self.front)
                #expect(pipeline.shows(Self.front))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        @Test func oneThatCannotBeOpenedAgainIsALostOne() throws {
            try CameraTestsDevices.run([Self.front, Self.back], "mute-releases-camera=true fallback=freeze") {
                pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
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
                #expect(pipeline.shows(Self.back))
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        @Test func anythingAtAnyTime() throws {
            try CameraTestsDevices.run([Self.front, Self.back]) { pipeline, _ in
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
                #expect(pipeline.shows(Self.front))
            }
        }
    }
}
