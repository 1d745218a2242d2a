import CGStreamer
import GStreamerKit
import Synchronization
import Testing

extension ElementTests {
    /// Conditions under which `mirror` flips, and its treatment of buffers, metas and events.
    @Suite(.timeLimit(.minutes(1)), .indifferentToTransport)
    struct MirrorElement {
        private static let frame = try? RawFrame("I420", 34, 18)

        /// The flip that was applied to the pushed frame.
        private enum Result { case untouched, leftToRight, topToBottom }

        private func pushed(_ harness: MirrorHarness) throws -> Result? {
            let frame = try #require(Self.frame)
            let output = try #require(harness.push(frame.buffer(meta: false))).copiedBytes
            return output == frame.bytes
                ? .untouched
                : output == frame.flipped(.leftToRight)
                    ? .leftToRight : output == frame.flipped(.topToBottom) ? .topToBottom : nil
        }

        @Test func bothNamesAreTheSameElement() throws {
            try #require(ElementTests.isReady)
            let one = try Element(factory: "mirror")
            let other = try Element(factory: "decartmirror")
            #expect(one.implementation != nil && other.implementation != nil)
            #expect(one.int("mode") == 0 && one.int("position") == 0 && one.bool("active") == false)
        }

        @Test func modeAndPositionCountFromTheNextFrame() throws {
            try MirrorHarness.run("decartmirror name=it") { harness in
                try harness.set(#require(Self.frame))
                let mirror = try harness.element("it")
                let seen = Mutex<[Bool]>([])
                mirror.connect("notify::active") { [unowned mirror] _ in
                    seen.withLock { $0.append(mirror.bool("active") == true) }
                    return nil
                }
                for (mode, position, active) in [
                    ("off", "front", false), ("auto", "front", true), ("auto", "back", false), ("on", "back", true),
                    ("on", "unspecified", true), ("auto", "unspecified", false), ("on", "unspecified", true),
                    ("off", "unspecified", false),
                ] {
                    mirror.set("mode", mode)
                    mirror.set("position", position)
                    #expect(mirror.bool("active") == active)
                    #expect(try pushed(harness) == (active ? .leftToRight : .untouched), "\(mode) \(position)")
                }
                // `notify::active` is emitted only for changes.
                #expect(seen.withLock { $0 } == [true, false, true, false, true, false])
            }
        }

        @Test func passthroughIsTheSameBuffer() throws {
            for settings in ["", "mode=off position=front", "mode=auto", "mode=auto position=back"] {
                try MirrorHarness.run("decartmirror \(settings)") { harness in
                    let frame = try #require(Self.frame)
                    try harness.set(frame)
                    for _ in 0..<3 {
                        #expect(try harness.pushShared(frame.buffer()).isSameBuffer)
                        let own = try frame.buffer()
                        let raw = own.raw
                        #expect(harness.push(own)?.raw == raw)
                    }
                }
            }
        }

        @Test func capsMayChange() throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                for (format, width) in [("I420", 34), ("RGB", 35), ("YUY2", 8), ("I420", 320), ("P016_BE", 3)] {
                    let frame = try RawFrame(format, width, 6)
                    try harness.set(frame)
                    #expect(
                        same(harness.push(try frame.buffer(meta: false))?.copiedBytes, frame.flipped(.leftToRight)))
                }
            }
        }

        @Test(arguments: [
            "video/x-raw(memory:DMABuf), format=I420, width=32, height=32, framerate=30/1",
            "video/x-raw(memory:GLMemory), format=RGBA, width=32, height=32, framerate=30/1",
            "video/x-raw, format=v210, width=32, height=32, framerate=30/1",
            "image/jpeg, width=32, height=32, framerate=30/1",
        ])
        func whatCannotBeMappedDoesNotNegotiate(_ caps: String) throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                let negotiated = try harness.set(caps: caps)
                #expect(!negotiated)
            }
        }

        @Test func nullAndBackAgain() throws {
            try #require(ElementTests.isReady)
            let harness = try MirrorHarness("decartmirror name=it mode=on")
            try harness.set(#require(Self.frame))
            harness.pushTag(orientation: "rotate-90")
            #expect(try pushed(harness) == .topToBottom)
            harness.restart()
            try harness.set(#require(Self.frame))
            // Tags belong to the stream that ended; settings are kept.
            #expect(try pushed(harness) == .leftToRight)
            harness.close()
        }

        // MARK: Tags

        /// The purpose of following the tag: behind an element that applies it, the displayed frame is mirrored left to
        /// right.
        @Test(arguments: [
            "rotate-0", "rotate-90", "rotate-180", "rotate-270", "flip-rotate-0", "flip-rotate-90", "flip-rotate-180",
            "flip-rotate-270",
        ])
        func displayedItIsMirrored(_ tag: String) throws {
            let frame = try RawFrame("AYUV", 34, 18)
            var displayed: [[UInt8]] = []
            for description in [
                "decartmirror mode=on ! videoflip video-direction=auto",
                "videoflip video-direction=auto ! videoflip video-direction=horiz", "videoflip video-direction=auto",
            ] {
                try MirrorHarness.run(description) { harness in
                    harness.pushTag(orientation: tag)
                    try harness.set(frame)
                    // videoflip applies a new direction only from its second frame on.
                    _ = harness.push(try frame.buffer(meta: false))
                    displayed.append(try #require(harness.push(try frame.buffer(meta: false))).copiedBytes)
                }
            }
            #expect(same(displayed[0], displayed[1]))
            #expect(!same(displayed[0], displayed[2]))
        }

        @Test func scopesOfTags() throws {
            try MirrorHarness.run("decartmirror mode=on") { harness in
                try harness.set(#require(Self.frame))
                harness.pushTag(orientation: "rotate-90", global: true)
                #expect(try pushed(harness) == .topToBottom)
                // A stream tag takes precedence over a global one, whatever comes later.
                harness.pushTag(orientation: "rotate-0")
                #expect(try pushed(harness) == .leftToRight)
                harness.pushTag(orientation: "rotate-270", global: true)
                #expect(try pushed(harness) == .leftToRight)
                // A tag list without an orientation removes the orientation.
                harness.pushTag(orientation: nil)
                #expect(try pushed(harness) == .topToBottom)
                harness.pushTag(orientation: nil, global: true)
                #expect(try pushed(harness) == .leftToRight)
                // An orientation that GStreamer does not know counts as none.
                harness.pushTag(orientation: "rotate-90")
                harness.pushTag(orientation: "nonsense")
                #expect(try pushed(harness) == .leftToRight)
                // A repeated STREAM_START keeps the tags; one with another stream ID clears them.
                harness.pushTag(orientation: "rotate-90")
                harness.push(Event.streamStart(id: "stream", groupID: 2))
                #expect(try pushed(harness) == .topToBottom)
                harness.push(Event.streamStart(id: "another", groupID: 3))
                #expect(try pushed(harness) == .leftToRight)
                harness.pushTag(orientation: "nonsense")
                #expect(try pushed(harness) == .leftToRight)
            }
        }

        // MARK: Threads

        /// Other threads change mode and position meanwhile: each frame is flipped whole or not at all, and the last
        /// setting counts.
        @Test func anyThreadMayTurnIt() throws {
            try MirrorHarness.run("decartmirror name=it") { harness in
                let frame = try #require(Self.frame)
                try harness.set(frame)
                let mirror = try harness.element("it")
                let done = Atomic(false)
                // Samples only, because the padding between the rows of a copy is undefined.
                let untouched = frame.samples(frame.bytes)
                let mirrored = frame.samples(frame.flipped(.leftToRight))
                let turned = frame.samples(frame.flipped(.topToBottom))
                let seen = Mutex<[Bool: Int]>([:])
                let strange = Mutex(0)
                ThreadGroup.run(threads: 3, rounds: 1) { thread, _ in
                    guard thread == 0 else {
                        var round = 0
                        while !done.load(ordering: .relaxed) {
                            round += 1
                            if thread == 1 { mirror.set("mode", round % 3) } else { mirror.set("position", round % 2) }
                            _ = mirror.bool("active")
                        }
                        return
                    }
                    // On a busy machine one of the other threads may rest for the whole of 4000 frames.
                    let deadline = ContinuousClock.now + .seconds(30)
                    func isSeen(_ flipped: Bool) -> Bool { seen.withLock { $0[flipped] ?? 0 } > 10 }
                    for round in 0... {
                        if round >= 4000, (isSeen(true) && isSeen(false)) || .now >= deadline { break }
                        if round % 100 == 0 {
                            harness.pushTag(orientation: round % 200 == 0 ? "rotate-90" : "rotate-0")
                        }
                        guard let input = try? frame.buffer(meta: false) else { continue }
                        let output = round % 2 == 0 ? harness.push(input) : try? harness.pushShared(input).output
                        let samples = output.flatMap { try? frame.samples(of: $0) }
                        let flipped = round % 200 < 100 ? turned : mirrored
                        if samples == untouched {
                            seen.withLock { $0[false, default: 0] += 1 }
                        } else if samples == flipped {
                            seen.withLock { $0[true, default: 0] += 1 }
                        } else {
                            strange.withLock { $0 += 1 }
                        }
                    }
                    done.store(true, ordering: .relaxed)
                }
                #expect(strange.withLock { $0 } == 0)
                #expect(seen.withLock { $0[true] ?? 0 } > 10 && seen.withLock { $0[false] ?? 0 } > 10)
                harness.pushTag(orientation: "rotate-0")
                for mode in ["on", "off", "on"] {
                    mirror.set("mode", mode)
                    #expect(try pushed(harness) == (mode == "on" ? .leftToRight : .untouched))
                }
            }
        }

        // MARK: Allocation

        /// Upstream gets downstream's own answer, flipping or not, because its buffers may be passed on downstream.
        @Test func allocationIsDownstreamsMatter() throws {
            for mode in ["off", "on"] {
                try MirrorHarness.run("decartmirror mode=\(mode)") { harness in
                    let frame = try #require(Self.frame)
                    try harness.set(frame)
                    let answer = try harness.queryAllocation(frame.caps)
                    #expect(answer.answered && answer.videoMeta && answer.pools == 0, "\(mode)")
                }
            }
        }

        // MARK: Navigation

        @Test func pointersAreMirroredUpstream() throws {
            try MirrorHarness.run("decartmirror name=it mode=on") { harness in
                try harness.set(#require(Self.frame))
                #expect(harness.pointer(4, 5).map { [$0.x, $0.y] } == [30, 5])
                harness.pushTag(orientation: "rotate-90")
                #expect(harness.pointer(4, 5).map { [$0.x, $0.y] } == [4, 13])
                try harness.element("it").set("mode", "off")
                #expect(harness.pointer(4, 5).map { [$0.x, $0.y] } == [4, 5])
            }
        }
    }
}
