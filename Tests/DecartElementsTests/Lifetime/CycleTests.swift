import CGStreamer
import GStreamerKit
import Glibc
import StandInServer
import Synchronization
import TestSupport
import Testing

extension ElementTests {
    /// Sessions one after another, in a child process, where other tests leave no threads or descriptors to count: few
    /// in the gate, which counts what is left over, and many under `scripts/verify`, which also looks at the bytes.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct CycleTests {
        private static let variable = "DECART_TEST_CYCLES"
        private static var isChild: Bool { getenv(variable) != nil }
        /// Set in the child process.
        private static var cycles: Int { getenv(variable).flatMap { Int(String(cString: $0)) } ?? 2 }

        @Test func manySessionsLeaveNothing() throws {
            try inChild("manySessionsLeaveNothing", cycles: Verification.count(75, gate: 4), manySessions)
        }

        /// Camera switching, hotplug, released captures and previews leave nothing behind.
        @Test(.indifferentToTransport) func manyCamerasLeaveNothing() throws {
            // GStreamer keeps device providers, each with its bus.
            try inChild(
                "manyCamerasLeaveNothing", cycles: Verification.count(8, gate: 2), kept: ["GstBus"], manyCameras)
        }

        /// Processors that are set, replaced, fail or block leave nothing behind.
        @Test(.indifferentToTransport) func manyProcessorsLeaveNothing() throws {
            try inChild("manyProcessorsLeaveNothing", cycles: Verification.count(6, gate: 2), manyProcessors)
        }

        /// Audio, from the start or added and removed later, leaves nothing behind.
        @Test func manySoundsLeaveNothing() throws {
            try inChild("manySoundsLeaveNothing", cycles: Verification.count(8, gate: 2), manySounds)
        }

        /// Sessions that take over from each other leave nothing behind.
        @Test func manyRenewalsLeaveNothing() throws {
            try inChild("manyRenewalsLeaveNothing", cycles: Verification.count(4, gate: 2), manyRenewals)
        }

        /// - Parameter kept: types of which objects may live as long as the process.
        private func inChild(
            _ name: String, cycles: Int, kept: Set<String> = [], _ body: () throws -> Void
        ) throws {
            guard Self.isChild else { return try runChild(name, cycles: cycles) }
            try #require(ElementTests.isReady)
            withExtendedLifetime(Pad(name: "witness", direction: .source)) {
                #expect(liveObjects() == ["GstPad": 1], "the tracer does not count")
            }
            try body()
            // The service's side of a session is released a moment after its end.
            func left() -> [String: Int] { liveObjects().filter { !kept.contains($0.key) } }
            let isEmpty = eventually { left().isEmpty }
            #expect(isEmpty, "\(left())")
        }

        private func runChild(_ name: String, cycles: Int) throws {
            try TemporaryFolder.with { folder in
                let output = folder.path("output.log")
                let status = try ChildProcess.run(
                    [
                        "/proc/self/exe", "--testing-library", "swift-testing", "--filter",
                        "ElementTests.CycleTests/\(name)",
                    ],
                    environment: [
                        // One malloc arena: otherwise the fill of sixteen arenas hides a leak (10 MiB over the first
                        // 100 cycles, 0.3 MiB over the next 200).
                        Self.variable: String(cycles), "MALLOC_ARENA_MAX": "1",
                        "GST_TRACERS": "leaks(filters=\"GstElement,GstPad,GstBus,GstBuffer,GstEvent,GstCaps\")",
                    ],
                    output: output)
                let printed = String(decoding: try readFile(output), as: UTF8.self)
                #expect(status == 0, "\(printed.suffix(3000))")
                for line in printed.split(separator: "\n") where line.hasPrefix("measured ") { print(line) }
            }
        }

        /// Thread pools release idle threads, and what those hold, only after some seconds. A cancelled timer stays in
        /// Dispatch until it is due, up to 30 s, and each one wakes a thread.
        private func expectReturn(to early: ResourceUse, sourceLocation: SourceLocation = #_sourceLocation) {
            let isBack = eventually {
                Process.threadCount <= early.threads && Process.descriptorCount <= early.descriptors
            }
            #expect(
                isBack, "\(early); now \(ResourceUse()): \(Process.threadNames)", sourceLocation: sourceLocation)
        }

        /// Runs in the child process.
        private func manySessions() throws {
            let count = Self.cycles
            try StandIn.run { standIn in
                var (early, middle) = (ResourceUse(), ResourceUse())
                for cycle in 1...count {
                    try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1), "cycle \(cycle)")
                    }
                    #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } })
                    if cycle == min(10, count / 2) { early = .atRest() }
                    // Caches, pools and lazily loaded code have reached their size by then.
                    if cycle == count / 3, Verification.isOn { middle = .atRest() }
                }
                expectReturn(to: early)
                if Verification.isOn {
                    let end = ResourceUse.atRest()
                    print("cycle 10: \(early); \(count / 3): \(middle); \(count): \(end)")
                    // A room has four peer connections in this process, a direct session two. Caches and pools still
                    // grow a little, and the service in this process keeps a record of each session.
                    let grown = Double(end.allocated - middle.allocated) / Double(count - count / 3) / 1024
                    measure("in use, growth per session", grown, atMost: 40, unit: "KiB")
                    let resident = Double(end.resident - middle.resident) / Double(1 << 20)
                    measure("resident, growth", resident, atMost: MediaWay.current.isRoom ? 6 : 3, unit: "MiB")
                }
                standIn.expectGoodConduct()
            }
        }

        private func manyCameras() throws {
            let cameras = [CameraTestsDevices.front, CameraTestsDevices.back, CameraTestsDevices.webcam]
            let count = Self.cycles
            try StandIn.run { standIn in
                var early = ResourceUse()
                for cycle in 1...count {
                    VirtualCameras.set(cameras)
                    try TransformPipeline.run(
                        try .camera(
                            standIn, "mirror=auto fallback=freeze", prompt: "film noir", preview: cycle % 2 == 0)
                    ) { pipeline in
                        let camera = pipeline.transform
                        func expect(_ id: String?) {
                            let isThere = eventually { camera.string("current-device") == id }
                            #expect(
                                isThere,
                                "cycle \(cycle): \(camera.string("current-device") ?? "none"), not \(id ?? "none")")
                        }
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1), "cycle \(cycle)")
                        for id in ["virtual:back", "virtual:front"] {
                            camera.emit("switch-camera")
                            expect(id)
                        }
                        VirtualCameras.unplug("virtual:front")
                        expect("virtual:usb")
                        camera.emit("stop-capture")
                        expect(nil)
                        camera.emit("start-capture")
                        #expect(eventually { camera.string("current-device") != nil })
                        camera.emit("list-formats", [GValueBox("virtual:back")])
                    }
                    if cycle <= max(1, min(2, count - 1)) { early = ResourceUse() }
                }
                VirtualCameras.set([])
                expectReturn(to: early)
                standIn.expectGoodConduct()
            }
        }

        private func manyProcessors() throws {
            let count = Self.cycles
            try StandIn.run { standIn in
                var early = ResourceUse()
                let standing = Standing()
                for cycle in 1...count {
                    try TransformPipeline.run(
                        try .init(standIn, "processor=\"\(ProcessorTests.flip)\"", prompt: "film noir")
                    ) { pipeline in
                        func expect(_ condition: String) {
                            let isSo = eventually { pipeline.stats?.string("processor") == condition }
                            #expect(isSo, "cycle \(cycle): not \(condition)")
                        }
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1), "cycle \(cycle)")
                        for (processor, condition) in [
                            ("videoconvert", "active"), ("no-such-element", "bypassed"),
                            ("identity error-after=2", "bypassed"),
                            (ProcessorTests.flip, "active"), ("identity name=standing sleep-time=2500000", "bypassed"),
                            ("", "none"),
                            ("tee name=a ! queue ! fakesink a. ! queue", "active"),
                        ] {
                            pipeline.transform.set("processor", GValueBox(processor))
                            if processor.contains("standing") {
                                #expect(eventually { standing.note(in: pipeline.pipeline) })
                            }
                            expect(condition)
                        }
                        // NULL comes while one processor is being started, or while one blocks.
                        pipeline.transform.set(
                            "processor", GValueBox(cycle % 2 == 0 ? ProcessorTests.flip : "identity sleep-time=500000"))
                    }
                    if cycle <= max(1, min(2, count - 1)) { early = ResourceUse() }
                }
                // A blocked processor is only taken down when its streaming thread returns.
                #expect(eventually { standing.isGone })
                expectReturn(to: early)
                standIn.expectGoodConduct()
            }
        }

        private func manySounds() throws {
            let count = Self.cycles
            try StandIn.run { standIn in
                var early = ResourceUse()
                for cycle in 1...count {
                    try TransformPipeline.run(try .withAudio(standIn)) { pipeline in
                        let audio = try pipeline.watchAudio()
                        pipeline.play()
                        #expect(audio.waitForTone(440), "cycle \(cycle)")
                    }
                    try TransformPipeline.run(try .init(standIn, prompt: "film noir")) { pipeline in
                        pipeline.play()
                        #expect(pipeline.waitForFrames(1), "cycle \(cycle)")
                        let branch = try AudioBranch(TransformPipeline.tone(660), on: pipeline)
                        #expect(
                            try branch.audio().waitForTone(660),
                            "cycle \(cycle): \(pipeline.takeProblems()) \(pipeline.stats?.description ?? "")")
                        branch.release()
                        if cycle % 2 == 0 { #expect(branch.isGone.wait { $0 }, "cycle \(cycle)") }
                        branch.end()
                    }
                    #expect(standIn.wait { $0.allSatisfy { !$0.isOpen } })
                    if cycle <= max(1, min(2, count - 1)) { early = ResourceUse() }
                }
                expectReturn(to: early)
                standIn.expectGoodConduct()
            }
        }

        private func manyRenewals() throws {
            let count = Self.cycles
            try StandIn.run({ $0.maximumSessionDuration = 5 }) { standIn in
                let keys =
                    "api-key-url=http://127.0.0.1:\(standIn.port)/v1/client/tokens "
                    + "api-key-headers=\"headers,X-API-KEY=(string)x\" renew-before=3"
                try TransformPipeline.run(try .init(standIn, keys, prompt: "film noir")) { pipeline in
                    var early = ResourceUse()
                    pipeline.play()
                    for renewal in 1...count {
                        let renewed = pipeline.waitForMessage { $0.structure?.name == "decart-session-renewed" }
                        #expect(renewed != nil, "renewal \(renewal): \(pipeline.takeProblems())")
                        #expect(standIn.wait { $0.count { $0.isOpen } == 1 })
                        if renewal == max(1, min(3, count - 1)) { early = ResourceUse() }
                    }
                    expectReturn(to: early)
                    #expect(pipeline.stats?.int("renewals") ?? 0 >= count)
                    #expect(pipeline.takeProblems().isEmpty)
                }
                standIn.expectGoodConduct()
            }
        }

        /// Counts the elements named "standing" until the last one is finalised.
        private final class Standing: Sendable {
            private let count = Atomic(0)
            var isGone: Bool { count.load(ordering: .acquiring) == 0 }

            /// Returns false if there is no such element.
            func note(in bin: Bin) -> Bool {
                guard let element = bin.child(named: "standing") else { return false }
                count.wrappingAdd(1, ordering: .acquiringAndReleasing)
                g_object_weak_ref(
                    element.raw.assumingMemoryBound(to: CGStreamer.GObject.self),
                    { standing, _ in
                        guard let standing else { return }
                        let owner = Unmanaged<Standing>.fromOpaque(standing).takeRetainedValue()
                        owner.count.wrappingSubtract(1, ordering: .acquiringAndReleasing)
                    }, Unmanaged.passRetained(self).toOpaque())
                return true
            }
        }

        private struct ResourceUse: CustomStringConvertible {
            let descriptors = Process.descriptorCount
            let threads = Process.threadCount
            let resident: Int
            let allocated: Int

            init() {
                Process.trimHeap()
                allocated = Process.allocatedSize
                resident = Process.residentSize
            }

            /// Resources in use after the service's side of the last session, which may hold megabytes of frames, has
            /// been torn down: when two seconds have brought no less memory in use. The gate does not look at the
            /// memory.
            static func atRest() -> ResourceUse {
                guard Verification.isOn else { return ResourceUse() }
                var (least, since) = (ResourceUse(), ContinuousClock.now)
                _ = eventually {
                    let now = ResourceUse()
                    if now.allocated < least.allocated - 4096 { since = .now }
                    if now.allocated < least.allocated { least = now }
                    return ContinuousClock.now - since > .seconds(2)
                }
                return least
            }

            var description: String {
                "\(descriptors) fds, \(threads) threads, \(resident >> 10) KiB, \(allocated >> 10) KiB in use"
            }
        }
    }
}
