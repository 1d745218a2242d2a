import Dispatch
import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// Cameras found through GstDeviceMonitor: listing, selection, switching and hotplug.
    @Suite(.serialized, .timeLimit(.minutes(4)), .indifferentToTransport) struct CameraTestsDevices {
        private static let size = "width=320,height=176,framerate=20/1"
        static let front = VirtualCamera(
            name: "Front Camera", id: "virtual:front", position: "front", caps: "video/x-raw,format=I420,\(size)",
            pattern: TransformPipeline.pattern)
        static let back = VirtualCamera(
            name: "Back Camera", id: "virtual:back", position: "back", caps: "video/x-raw,format=I420,\(size)",
            pattern: "smpte100")
        static let webcam = VirtualCamera(
            name: "USB = Webcam", id: "virtual:usb", caps: "video/x-raw,format=YUY2,\(size)", pattern: "smpte75")

        fileprivate static func frame(_ camera: VirtualCamera) throws -> CopiedFrame {
            try Reference.frame("videotestsrc num-buffers=1 pattern=\(camera.pattern) ! \(camera.raw ?? camera.caps)")
        }

        static func run(
            _ cameras: [VirtualCamera], _ properties: String = "", preview: Bool = false,
            _ body: (TransformPipeline, StandIn) throws -> Void
        ) throws {
            try #require(ElementTests.isReady)
            VirtualCameras.set(cameras)
            defer { VirtualCameras.set([]) }
            try TransformPipeline.runWell(
                with: { try .camera($0, properties, prompt: "film noir", preview: preview) }, body)
        }

        private func sent(_ pipeline: TransformPipeline) throws -> FrameWatch {
            FrameWatch(try #require(pipeline.pipeline.child(named: "camera-tee")?.staticPad("sink")))
        }

        // MARK: Discovery

        @Test(arguments: [ElementState.null, .playing]) func devicesAreListed(state: ElementState) throws {
            let mapping = "device-positions=\"<(string)\\\"USB = Webcam=back\\\">\""
            try Self.run([Self.front, Self.webcam, Self.back], mapping) { pipeline, _ in
                if state == .playing {
                    pipeline.play()
                    #expect(pipeline.waitForFrames(1))
                }
                let list = pipeline.transform.emit("list-devices")?.structures ?? []
                #expect(list.map { $0.string("name") } == ["Front Camera", "USB = Webcam", "Back Camera"])
                #expect(list.map { $0.string("id") } == ["virtual:front", "virtual:usb", "virtual:back"])
                #expect(list.map { $0.string("position") } == ["front", "back", "back"])
                #expect(list.map { $0["current"]?.bool } == [state == .playing, false, false])
                #expect(pipeline.transform.string("current-device") == (state == .playing ? "virtual:front" : nil))
            }
        }

        @Test func formatsAreListedBySize() throws {
            var camera = Self.front
            camera.caps = """
                video/x-raw,format=(string){YUY2,NV12},width=640,height=360,framerate=(fraction){15/1,30/1};\
                video/x-raw,format=I420,width=320,height=176,framerate=(fraction)[5/1,60/1];image/jpeg,width=1280,height=720,framerate=30/1
                """
            try Self.run([camera, Self.back]) { pipeline, _ in
                let list = pipeline.transform.emit("list-formats", [GValueBox("virtual:front")])?.structures ?? []
                #expect(list.map { $0.int("width") } == [320, 640, 640, 1280])
                #expect(list.map { $0.string("format") } == ["I420", "YUY2", "NV12", nil])
                #expect(list.last?.string("media-type") == "image/jpeg")
                #expect(list.first?.fraction("min-framerate").map { [$0.0, $0.1] } == [5, 1])
                #expect(list[1].fraction("max-framerate").map { [$0.0, $0.1] } == [30, 1])
                #expect(pipeline.transform.emit("list-formats", [GValueBox("Back Camera")])?.structures?.count == 1)
                #expect(pipeline.transform.emit("list-formats", [GValueBox("nobody")])?.structures?.isEmpty == true)
            }
        }

        /// CameraFormatTests has the rules.
        @Test func theFormatIsChosenForTheModel() throws {
            var camera = Self.front
            camera.caps = ["1280,height=720", "640,height=360", "160,height=88"]
                .map { "video/x-raw,format=I420,width=\($0),framerate=30/1" }.joined(separator: ";")
            try Self.run([camera]) { pipeline, _ in
                let pad = try #require(pipeline.pipeline.child(named: "camera-selector")?.staticPad("src"))
                let watch = FrameWatch(pad)
                pipeline.play()
                #expect(watch.waitForFrames(1))
                #expect(watch.seen.value.sizes == ["640x360"])
                #expect(pad.currentCaps.flatMap(VideoInfo.init(caps:))?.framerate.0 == 30)
            }
        }

        @Test func jpegIsDecoded() throws {
            var camera = Self.front
            // RGB, because jpegenc takes YUV samples as full range whatever their caps say.
            (camera.caps, camera.raw) = ("image/jpeg,\(Self.size)", "video/x-raw,format=RGB,\(Self.size)")
            try Self.run([camera]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(camera))
            }
        }

        /// Two providers may offer the same camera, such as V4L2's and PipeWire's; `switch-camera` must not select it
        /// twice.
        @Test func aCameraIsListedOnce() throws {
            var again = Self.front
            again.name = "The Same Camera"
            try Self.run([Self.front, again, Self.webcam]) { pipeline, _ in
                pipeline.play()
                let list = pipeline.transform.emit("list-devices")?.structures ?? []
                #expect(list.map { $0.string("name") } == ["Front Camera", "USB = Webcam"])
                #expect(pipeline.waitForFrames(1))
                #expect(pipeline.transform.emit("switch-camera")?.string == Self.webcam.id)
            }
        }

        @Test func captureCapsCountMore() throws {
            var camera = Self.front
            camera.caps =
                "video/x-raw,format=I420,\(Self.size);video/x-raw,format=I420,width=640,height=360,framerate=30/1"
            try Self.run([camera], "capture-caps=\"video/x-raw,width=640\"") { pipeline, _ in
                let watch = FrameWatch(
                    try #require(pipeline.pipeline.child(named: "camera-selector")?.staticPad("src")))
                pipeline.play()
                #expect(watch.waitForFrames(1))
                #expect(watch.seen.value.sizes == ["640x360"])
            }
        }

        @Test func captureCapsThatItCannotDeliverAreAnError() throws {
            try Self.run([Self.front], "capture-caps=\"video/x-raw,width=99\"") { pipeline, _ in
                #expect(pipeline.play() == .failure)
                let error = try #require(pipeline.waitForError())
                #expect(error.name == "resource 13" && error.text.contains("Front Camera"), "\(error.text)")
            }
        }

        @Test(arguments: [
            ("", 0, ["faces the front", "Available: none"]),
            ("position=back", 1, ["faces the back", "Front Camera"]),
            ("device=\"Other Camera\"", 1, ["'Other Camera'", "Front Camera", "virtual:front"]),
        ])
        func noCameraIsAnErrorThatNamesWhatWasLookedFor(properties: String, count: Int, words: [String]) throws {
            try Self.run(Array([Self.front].prefix(count)), properties) { pipeline, _ in
                #expect(pipeline.play() == .failure)
                let error = try #require(pipeline.waitForError())
                #expect(error.name == "resource 3")
                for word in words { #expect(error.text.contains(word), "\(error.text)") }
            }
        }

        @Test(
            arguments: Verification.cases(
                [
                    ("position=back", 1), ("device=\"USB = Webcam\"", 2), ("", 0), ("device=virtual:usb", 2),
                    ("position=unspecified", 0),
                ], gate: 3))
        func theCameraIsChosen(properties: String, index: Int) throws {
            let cameras = [Self.front, Self.back, Self.webcam]
            try Self.run(cameras, properties) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(cameras[index]))
                #expect(pipeline.transform.string("current-device") == cameras[index].id)
            }
        }

        // MARK: Switching

        @Test func switchingKeepsTheSession() throws {
            try Self.run([Self.front, Self.back], "mirror=auto", preview: true) { pipeline, standIn in
                let preview = FrameWatch(try #require(pipeline.pipeline.child(named: "preview")?.staticPad("sink")))
                let (watch, output) = (try sent(pipeline), FrameWatch(pipeline.sink))
                pipeline.play()
                #expect(pipeline.shows(Self.front, mirrored: true))
                let id = try #require(pipeline.transform.string("session-id"))
                let start = ContinuousClock.now
                for (camera, mirrored) in [(Self.back, false), (Self.front, true), (Self.back, false)] {
                    #expect(pipeline.transform.emit("switch-camera")?.string == camera.id)
                    let frame = try Self.frame(camera)
                    #expect(preview.wait(for: mirrored ? frame.mirrored : frame))
                    #expect(pipeline.shows(camera, mirrored: mirrored))
                    #expect(eventually { pipeline.transform.string("current-device") == camera.id })
                    #expect(pipeline.transform.string("position") == camera.position)
                }
                measure("gap sent", watch.longestGap(since: start), atMost: .milliseconds(500))
                measure("gap out", output.longestGap(since: start), atMost: .milliseconds(500))
                #expect(pipeline.transform.string("session-id") == id)
                #expect(standIn.sessions.count == 1 && (standIn.sessions.first?.offerCount ?? 2) < 2)
                #expect(pipeline.current.capsTexts.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        /// A request counts from the call on, although the change waits for the thread of the cameras.
        @Test func quickSwitchesAlternate() throws {
            try Self.run([Self.front, Self.back]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                let (entered, leave) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
                pipeline.transform.connect("notify::current-device") { _ in
                    entered.signal()
                    _ = leave.wait(timeout: .now() + 60)
                    return nil
                }
                #expect(pipeline.transform.emit("switch-camera")?.string == Self.back.id)
                #expect(entered.wait(timeout: .now() + 60) == .success)
                for camera in [Self.front, Self.back, Self.front] {
                    #expect(pipeline.transform.emit("switch-camera")?.string == camera.id)
                }
                for _ in 0..<10 { leave.signal() }
                #expect(pipeline.shows(Self.front))
                #expect(eventually { pipeline.transform.string("current-device") == Self.front.id })
            }
        }

        @Test func withoutAnotherSideItIsTheNextOne() throws {
            var third = Self.back
            third.position = nil
            try Self.run([Self.front, Self.webcam, third]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                for camera in [Self.webcam, third, Self.front] {
                    #expect(pipeline.transform.emit("switch-camera")?.string == camera.id)
                    #expect(pipeline.shows(camera))
                    #expect(eventually { pipeline.transform.string("current-device") == camera.id })
                }
            }
            try Self.run([Self.front]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.waitForFrames(1))
                #expect(pipeline.transform.emit("switch-camera")?.string == nil)
            }
        }

        @Test func aDeviceAndAPositionCanBeChosen() throws {
            try Self.run([Self.front, Self.back, Self.webcam]) { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                #expect(pipeline.transform.emit("select-device", [GValueBox("USB = Webcam")])?.bool == true)
                #expect(pipeline.shows(Self.webcam))
                #expect(pipeline.transform.emit("select-device", [GValueBox("nobody's")])?.bool == false)
                pipeline.transform.set("position", "back")
                #expect(pipeline.shows(Self.back))
                #expect(pipeline.transform.emit("select-device", [GValueBox("virtual:front")])?.bool == true)
                #expect(pipeline.shows(Self.front))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func aFormatCanBeChosen() throws {
            var camera = Self.front
            camera.caps =
                "video/x-raw,format=I420,\(Self.size);video/x-raw,format=I420,width=640,height=352,framerate=30/1"
            try Self.run([camera]) { pipeline, standIn in
                let watch = try sent(pipeline)
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                let start = ContinuousClock.now
                for format in pipeline.transform.emit("list-formats", [GValueBox(String?.none)])?.structures?.reversed()
                    ?? []
                {
                    #expect(pipeline.transform.emit("select-format", [GValueBox(structure: format)])?.bool == true)
                    let size = "\(format.int("width") ?? 0)x\(format.int("height") ?? 0)"
                    #expect(watch.seen.wait { $0.sizes.last == size }, "\(size)")
                    #expect(watch.waitForFrames(2))
                }
                measure("gap sent", watch.longestGap(since: start), atMost: .milliseconds(500))
                #expect(watch.seen.value.sizes.contains("640x352"))
                let none = Structure("format")
                none["width"] = GValueBox(int: 77)
                #expect(pipeline.transform.emit("select-format", [GValueBox(structure: none)])?.bool == false)
                #expect(pipeline.waitForFrames(5))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        @Test func theCameraIsLetGoAndTakenAgain() throws {
            try Self.run([Self.front, Self.back], "fallback=freeze") { pipeline, standIn in
                let watch = try sent(pipeline)
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                pipeline.transform.emit("switch-camera")
                #expect(pipeline.shows(Self.back))
                let id = pipeline.transform.string("session-id")
                pipeline.transform.emit("stop-capture")
                #expect(eventually { pipeline.transform.string("current-device") == nil })
                // The last frame and the session stay; one input frame may be in flight.
                let isStill = eventually {
                    let count = watch.seen.read(\.count)
                    return pipeline.waitForFrames(5) && watch.seen.read(\.count) == count
                }
                #expect(isStill)
                pipeline.transform.emit("start-capture")
                #expect(watch.waitForFrames(1))
                #expect(pipeline.shows(Self.back))
                #expect(pipeline.transform.string("session-id") == id && standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().isEmpty)
            }
        }

        // MARK: Hotplug

        @Test func whenUnpluggedTheNextOneTakesOver() throws {
            try Self.run([Self.front, Self.back, Self.webcam], "mirror=auto fallback=freeze") { pipeline, standIn in
                let output = FrameWatch(pipeline.sink)
                pipeline.play()
                #expect(pipeline.shows(Self.front, mirrored: true))
                let start = ContinuousClock.now
                // A camera without a known position counts as front, so it precedes the one at the back.
                VirtualCameras.unplug(Self.front.id)
                #expect(pipeline.shows(Self.webcam, mirrored: true))
                let warning = try #require(pipeline.waitForProblem(.warning))
                #expect(
                    warning.text.contains("Front Camera") && warning.text.contains("USB = Webcam"), "\(warning.text)")
                VirtualCameras.unplug(Self.webcam.id)
                #expect(pipeline.shows(Self.back))
                VirtualCameras.unplug(Self.back.id)
                #expect(eventually { pipeline.transform.string("current-device") == nil })
                #expect(pipeline.waitForFrames(3))
                VirtualCameras.plug(Self.front)
                #expect(pipeline.shows(Self.front, mirrored: true))
                measure("gap out", output.longestGap(since: start), atMost: .milliseconds(500))
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        /// A camera that fails is replaced and not selected again by itself. It fails as v4l2src does: an error and EOS
        /// come before the monitor reports that the device is gone.
        @Test func aCameraThatFailsIsReplacedAndNotTakenAgain() throws {
            var broken = Self.front
            broken.then = "identity error-after=20"
            try Self.run([broken, Self.back], "fallback=freeze") { pipeline, standIn in
                pipeline.play()
                #expect(pipeline.shows(Self.back))
                #expect(pipeline.waitForProblem(.warning)?.text.contains("Front Camera") == true)
                #expect(pipeline.transform.emit("list-devices")?.structures?.count == 1)
                // An explicit selection retries the failed camera.
                // Recorded, because it fails again soon.
                let devices = Watched<[String]>([])
                pipeline.transform.connect("notify::current-device") { [weak pipeline] _ in
                    let device = pipeline?.transform.string("current-device")
                    if let device { devices.change { $0.append(device) } }
                    return nil
                }
                #expect(pipeline.transform.emit("select-device", [GValueBox("Front Camera")])?.bool == true)
                #expect(devices.wait { $0.contains(Self.front.id) && $0.last == Self.back.id }, "\(devices.value)")
                #expect(standIn.sessions.count == 1)
                #expect(pipeline.takeProblems().allSatisfy { $0.kind == .warning })
            }
        }

        @Test func whatCannotBeStartedLeavesTheOldOne() throws {
            var broken = Self.back
            broken.then = "no-such-element"
            try Self.run([Self.front, broken]) { pipeline, _ in
                pipeline.play()
                #expect(pipeline.shows(Self.front))
                pipeline.transform.emit("switch-camera")
                #expect(pipeline.waitForProblem(.warning) != nil)
                #expect(pipeline.waitForFrames(10))
                #expect(pipeline.shows(Self.front))
            }
        }

        /// Signals and hotplug on several threads, while the element starts and stops, neither deadlock nor leave it
        /// unusable.
        @Test func anythingAtAnyTime() throws {
            try Self.run([Self.front, Self.back, Self.webcam]) { pipeline, _ in
                let (source, target) = (pipeline.transform, pipeline.pipeline)
                ThreadGroup.run(threads: 3, rounds: Verification.count(20, gate: 10)) { thread, round in
                    if thread == 0 {
                        _ = target.setState([.null, .playing, .paused, .playing, .ready][round % 5])
                        _ = target.state(timeout: .milliseconds(30))
                        return
                    }
                    switch (round + thread) % 6 {
                    case 0: source.emit("switch-camera")
                    case 1: source.emit("stop-capture")
                    case 2: source.emit("start-capture")
                    case 3: source.emit("select-device", [GValueBox("virtual:usb")])
                    case 4: VirtualCameras.unplug(Self.webcam.id)
                    default: VirtualCameras.plug(Self.webcam)
                    }
                }
                source.emit("start-capture")
                target.setState(.null)
                _ = pipeline.takeProblems()
                VirtualCameras.set([Self.front])
                // An earlier `switch-camera` may have set the position to back, where no camera is left.
                pipeline.transform.set("position", "front")
                pipeline.play()
                #expect(pipeline.shows(Self.front))
            }
        }
    }
}

extension TransformPipeline {
    /// Waits for a frame of this camera, as a prompt of "film noir" changes it.
    func shows(_ camera: VirtualCamera, mirrored: Bool = false) -> Bool {
        guard let frame = try? ElementTests.CameraTestsDevices.frame(camera) else { return false }
        return waitForFrame((mirrored ? frame.mirrored : frame).applying(prompt: "film noir"))
    }
}
