import GStreamerKit
import StandInServer
import TestSupport
import Testing

extension ElementTests {
    /// A white flash and a beep enter at the same running time, once a second, and must leave together.
    @Suite(.serialized, .timeLimit(.minutes(4))) struct LipSyncTests {
        private static let period: UInt64 = 1_000_000_000
        private static let length: UInt64 = 100_000_000
        /// ITU-R BT.1359: threshold of detectability when audio leads, ms.
        private static let limit = 45.0
        private static let beep =
            "audiotestsrc name=tone is-live=true wave=sine freq=1000 volume=0.5 samplesperbuffer=480 ! audio/x-raw,rate=48000,channels=1"
        private static let dark = TransformPipeline.source(
            "is-live=true", caps: "format=I420,\(TransformPipeline.size),framerate=20/1"
        ).replacing("pattern=\(TransformPipeline.pattern)", with: "pattern=black")

        /// Offsets in ms: flash minus beep, and flash minus the running time at which it entered.
        private struct Found {
            var apart: [Double] = []
            var flashes: [Double] = []
        }

        private func run(_ properties: String, delay: Int, flashes count: Int) throws -> Found {
            var found = Found()
            try TransformPipeline.run(
                with: { try .withAudio($0, properties, prompt: "", audio: Self.beep, source: Self.dark) },
                standIn: { $0.media.delay = .milliseconds(delay) }
            ) { pipeline, _ in
                try onlyAtTheSecond(pipeline)
                let flashes = Watched<[UInt64]>([])
                let beeps = Watched<[UInt64]>([])
                try watchFlashes(pipeline, flashes)
                try watchBeeps(pipeline, beeps)
                pipeline.play()
                #expect(flashes.wait { $0.count >= count + 2 })
                #expect(beeps.wait { $0.count >= count })
                for flash in flashes.value.dropFirst(2) {
                    let nearest = beeps.value.map { Double(Int64(flash) - Int64($0)) / 1e6 }.min {
                        abs($0) < abs($1)
                    }
                    if let nearest, abs(nearest) < 500 { found.apart.append(nearest) }
                    let since = Double(flash % Self.period) / 1e6
                    found.flashes.append(since > 900 ? since - 1000 : since)
                }
            }
            return found
        }

        private static func isOn(_ time: UInt64) -> Bool { time % period < length }

        private func onlyAtTheSecond(_ pipeline: TransformPipeline) throws {
            let video = try #require(pipeline.pipeline.child(named: "source")?.staticPad("src"))
            let audioOut = try #require(pipeline.pipeline.child(named: "tone")?.staticPad("src"))
            video.addProbe(.buffer) { item in
                guard case .buffer(let buffer) = item, let time = buffer.pts, Self.isOn(time),
                    let copy = buffer.copyOfMetadata()
                else { return .pass }
                let luma = TransformPipeline.width * TransformPipeline.height
                _ = copy.withMutableBytes { bytes in
                    for index in 0..<min(luma, bytes.count) { bytes[index] = 235 }
                }
                return .replace(copy)
            }
            audioOut.addProbe(.buffer) { item in
                guard case .buffer(let buffer) = item, let time = buffer.pts, !Self.isOn(time),
                    let copy = buffer.copyOfMetadata()
                else { return .pass }
                _ = copy.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: 0) }
                return .replace(copy)
            }
        }

        private func watchFlashes(_ pipeline: TransformPipeline, _ flashes: Watched<[UInt64]>) throws {
            // Only for the thread that pushes.
            nonisolated(unsafe) var video: VideoInfo?
            nonisolated(unsafe) var wasOn = true
            try #require(pipeline.transform.staticPad("src")).addProbe([.buffer, .downstreamEvent]) { item in
                if case .event(let event) = item, let caps = event.caps { video = VideoInfo(caps: caps) }
                guard case .buffer(let buffer) = item, let video, let time = buffer.pts,
                    let image = CopiedFrame(buffer, video)
                else { return .pass }
                let isOn = image.mean(x: 0.5, y: 0.5).luma > 126
                if isOn, !wasOn { flashes.change { $0.append(time) } }
                wasOn = isOn
                return .pass
            }
        }

        private func watchBeeps(_ pipeline: TransformPipeline, _ beeps: Watched<[UInt64]>) throws {
            let pad = try #require(pipeline.pipeline.child(named: "audio-out")?.staticPad("sink"))
            // Only for the thread that pushes.
            nonisolated(unsafe) var quiet = 0
            pad.addProbe(.buffer) { item in
                guard case .buffer(let buffer) = item, let time = buffer.pts else { return .pass }
                // S16LE, stereo.
                _ = buffer.withBytes { bytes in
                    for frame in 0..<(bytes.count / 4) {
                        let sample = Int16(littleEndian: bytes.loadUnaligned(fromByteOffset: 4 * frame, as: Int16.self))
                        guard sample.magnitude > 3000 else {
                            quiet += 1
                            continue
                        }
                        if quiet > 12_000 { beeps.change { $0.append(time + UInt64(frame) * 1_000_000_000 / 48_000) } }
                        quiet = 0
                    }
                }
                return .pass
            }
        }

        /// The times depend on when packets arrive: nothing but figures comes of it.
        @Test(.measuredOnly, arguments: ["arrival", "capture"], [0, 320])
        func flashAndBeepLeaveInStep(timestamps: String, delay: Int) throws {
            let found = try run("timestamps=\(timestamps)", delay: delay, flashes: 8)
            let apart = spread(found.apart)
            let flashes = spread(found.flashes)
            print("flash and beep, \(timestamps), model \(delay) ms: \(found.apart.map { Int($0) })")
            print(
                "  apart: median \(apart.median) ms, worst \(apart.worst) ms of \(found.apart.count); flash at \(flashes.median) ms"
            )
            #expect(found.apart.count >= 7)
            let name = "timestamps=\(timestamps), model \(delay) ms"
            measure("\(name), median", abs(apart.median), atMost: Self.limit, unit: "ms")
            let more = Double(found.apart.count { abs($0) > Self.limit })
            measure("\(name), flashes above \(Self.limit) ms", more, atMost: 1, unit: "flashes")
            if timestamps == "capture" { measure("\(name), flash", abs(flashes.median), atMost: 50, unit: "ms") }
        }
    }
}
