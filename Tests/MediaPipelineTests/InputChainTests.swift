import Foundation
import GStreamerKit
import MediaPipeline
import Synchronization
import TestSupport
import Testing
import WebRTCTransport

@Suite(.timeLimit(.minutes(1))) struct InputChainTests {
    /// Sends the frames of a pipeline's last pad through a chain, and reads the first `count` that leave it.
    private func results<Result: Sendable>(
        _ count: Int, of source: Pad, in pipeline: Pipeline, width: Int, height: Int, fit: Fit,
        read: @escaping @Sendable ([FramePlane]) -> Result
    ) throws -> [Result] {
        let bin = Bin(name: "chain")
        let chain = try InputChain(pacing: InputPacing(), sink: source)
        let entry = try GhostPad(name: "sink", target: try chain.install(in: bin))
        bin.add(entry)
        chain.configure(width: width, height: height, fit: fit)
        let sent = try #require(VideoInfo(caps: try Caps("video/x-raw,format=I420,width=\(width),height=\(height)")))
        let results = Watched<[Result]>([])
        chain.addDelivery(path: 1) { frame in
            guard let result = frame.buffer.withVideoPlanes(sent, writable: false, read) else { return true }
            results.change { $0.append(result) }
            return true
        }
        chain.gate.open(path: 1)
        chain.gate.set(playing: true)
        pipeline.add(bin)
        try source.link(entry)
        pipeline.setState(.playing)
        #expect(results.wait(seconds: 30) { $0.count >= count })
        pipeline.setState(.null)
        return Array(results.value.prefix(count))
    }

    /// Sends frames whose rows are black and white in turn; the flag says if a frame is interlaced.
    /// - Returns: whether the two fields still differ, for the first 8 frames that leave the chain. The ninth is sent
    ///   because deinterlace keeps one field of the frame that it still has at EOS.
    private func combing(mode: String, isFlagged: @escaping @Sendable (Int) -> Bool) throws -> [Bool] {
        GStreamerRuntime.initialise()
        let caps = "video/x-raw,format=I420,width=64,height=48,framerate=25/1,colorimetry=bt601,interlace-mode=\(mode)"
        let pipeline = try Pipeline(
            description: "videotestsrc num-buffers=9 ! video/x-raw,width=64,height=48 ! capssetter caps=\"\(caps)\" "
                + "! identity name=i")
        let identity = try #require(pipeline.child(named: "i"))
        let source = try #require(identity.staticPad("src"))
        let info = try #require(VideoInfo(caps: try Caps(caps)))
        let count = Mutex(0)
        source.addProbe(.buffer) { item in
            guard case .buffer(let buffer) = item, let copy = buffer.copyOfMetadata() else { return .pass }
            let index = count.withLock { count in
                defer { count += 1 }
                return count
            }
            copy.isInterlaced = isFlagged(index)
            _ = copy.withVideoPlanes(info, writable: true) { planes in
                for row in 0..<48 {
                    memset(planes[0].base + row * planes[0].stride, row % 2 == 0 ? 16 : 235, 64)
                }
            }
            return .replace(copy)
        }
        return try results(8, of: source, in: pipeline, width: 64, height: 48, fit: .stretch) { planes in
            let (rows, stride) = (planes[0].base, planes[0].stride)
            return abs(Int(rows[20 * stride + 32]) - Int(rows[21 * stride + 32])) > 100
        }
    }

    @Test(arguments: [
        ("interleaved", 8, 8), ("progressive", 0, 0), ("mixed", 4, 4),
        // Some hardware decoders announce mixed frames and flag none.
        ("mixed", 0, 8),
    ])
    func interlacedFramesLoseAField(mode: String, flagged: Int, interlaced: Int) throws {
        let seen = try combing(mode: mode) { $0 < flagged }
        #expect(seen == (0..<8).map { $0 >= interlaced })
    }

    /// Frames of one colour, whose red, green and blue are 30, 200 and 60.
    /// - Returns: luma and chroma in the middle of a frame that leaves the chain, in limited range by BT.601.
    private func colour(_ caps: String, width: Int, height: Int, fit: Fit = .crop) throws -> [Int] {
        GStreamerRuntime.initialise()
        let pipeline = try Pipeline(
            description: """
                videotestsrc num-buffers=3 pattern=solid-color foreground-color=0xff1ec83c \
                ! video/x-raw,format=ARGB,width=\(width),height=\(height),framerate=25/1 ! videoconvert \
                ! video/x-raw,\(caps.prefix { $0 != ";" }) ! capssetter name=s
                """)
        let setter = try #require(pipeline.child(named: "s"))
        setter.set("caps", caps: try Caps("video/x-raw,\(caps.split(separator: ";").last ?? "")"))
        let source = try #require(setter.staticPad("src"))
        return try results(1, of: source, in: pipeline, width: 320, height: 176, fit: fit) { planes in
            zip(planes, [(160, 88), (80, 44), (80, 44)]).map { plane, at in
                Int(plane.base[at.1 * plane.stride + at.0])
            }
        }.first ?? []
    }

    private func isRight(_ colour: [Int]) -> Bool {
        colour.count == 3 && zip(colour, [131, 91, 67]).allSatisfy { abs($0 - $1) < 8 }
    }

    @Test(arguments: [
        "RGBA", "BGR", "RGB16", "GBR", "RGBP", "BGRP", "GBRA", "BGR16", "r210", "GBR_10LE", "ARGB64", "RGB10A2_LE",
        "Y444", "v210", "P010_10LE", "AYUV",
    ])
    func eachFormatKeepsItsColours(format: String) throws {
        let found = try colour("format=\(format)", width: 640, height: 360)
        #expect(isRight(found), "\(found)")
        let fields = try colour("format=\(format);interlace-mode=interleaved", width: 640, height: 360)
        #expect(isRight(fields), "\(fields)")
    }

    /// GStreamer's converter and scaler overwrite the heap for some of these.
    @Test(arguments: [1, 2, 3, 5, 6, 9, 10, 15, 16, 17], ["interleaved", "mixed"])
    func interlacedFramesOfFewRows(height: Int, mode: String) throws {
        for format in ["I420", "YV12", "YUV9", "NV21", "I420_10LE"] {
            let found = try colour("format=\(format);interlace-mode=\(mode)", width: 64, height: height, fit: .stretch)
            #expect(isRight(found), "\(format) \(found)")
        }
    }

    /// The stream may have begun long before the element joined it.
    @Test func anEncodedInputWithoutAKeyframeIsAskedForOne() throws {
        GStreamerRuntime.initialise()
        let (source, sink) = (Pad(name: "source", direction: .source), Pad(name: "sink", direction: .sink))
        let isRequested = DispatchSemaphore(value: 0)
        source.setEventFunction { event in
            if event.isForceKeyUnit { isRequested.signal() }
            return .handled(true)
        }
        source.setActive(true)
        sink.setActive(true)
        try source.link(sink)
        let input = try InputChain(pacing: InputPacing(), sink: sink).encoded
        #expect(input.apply(caps: try Caps("video/x-vp8")))
        let delta: [UInt8] = [0x11, 0, 0, 0]
        guard case .frame = input.read(delta.withUnsafeBytes { Buffer(copying: $0) }) else {
            Issue.record("the frame is dropped")
            return
        }
        #expect(isRequested.wait(timeout: .now() + 30) == .success)
    }

    /// Upstream may repeat its caps between keyframes.
    @Test func repeatedCapsKeepTheFormatOfAnEncodedInput() throws {
        GStreamerRuntime.initialise()
        let input = try InputChain(pacing: InputPacing(), sink: Pad(name: "sink", direction: .sink)).encoded
        let (key, delta): ([UInt8], [UInt8]) = ([0x10, 0, 0, 0x9d, 1, 0x2a, 64, 1, 176, 0], [0x11, 0, 0, 0])
        func read(_ bytes: [UInt8]) throws -> (width: Int, isNew: Bool) {
            let reading = input.read(bytes.withUnsafeBytes { Buffer(copying: $0) })
            guard case .frame(let frame, let isNew) = reading else { throw GStreamerError(.linkFailed, "no frame") }
            return (frame.size.width, isNew)
        }
        let caps = try Caps("video/x-vp8")
        #expect(input.apply(caps: caps) && input.format == nil)
        #expect(try read(key) == (320, true))
        #expect(input.apply(caps: caps) && input.format?.size.width == 320)
        #expect(try read(delta) == (320, false))
        #expect(try read(key) == (320, false))
        // Raw caps end it.
        #expect(!input.apply(caps: try Caps("video/x-raw")) && input.format == nil)
    }

    /// A chain whose frames come from the test.
    private final class Fed {
        let source = Pad(name: "source", direction: .source)
        let bin = Bin(name: "chain")
        let chain: InputChain
        private let pipeline = Pipeline()
        private var count: UInt64 = 0

        init(side: Int, _ deliver: @escaping @Sendable (EncoderFrame) -> Void) throws {
            chain = try InputChain(pacing: InputPacing(), sink: source)
            let entry = try GhostPad(name: "sink", target: try chain.install(in: bin))
            bin.add(entry)
            chain.configure(width: side, height: side, fit: .stretch)
            chain.addDelivery(path: 1) { frame in
                deliver(frame)
                return true
            }
            chain.gate.open(path: 1)
            chain.gate.set(playing: true)
            pipeline.add(bin)
            source.setActive(true)
            try source.link(entry)
        }

        func play() {
            pipeline.setState(.playing)
            source.push(Event.streamStart(id: "test", groupID: Event.nextGroupID()))
        }

        func pushCaps(_ format: String, _ width: Int, _ height: Int) throws {
            source.push(
                Event.caps(try Caps("video/x-raw,format=\(format),width=\(width),height=\(height),framerate=25/1")))
            if count == 0 { source.push(Event.timeSegment()) }
        }

        func push(_ frame: Buffer) {
            frame.pts = count * 40_000_000
            count += 1
            _ = source.push(frame)
        }

        func end() { pipeline.setState(.null) }
    }

    /// GStreamer's queue stores a caps event that it leaks on its source pad, while its thread pushes an older frame.
    @Test func aFrameThatACapsEventOvertakesIsDropped() throws {
        GStreamerRuntime.initialise()
        let delivered = DispatchSemaphore(value: 0)
        let fed = try Fed(side: 32) { _ in delivered.signal() }
        let queue = try #require(fed.bin.child(named: "input-queue"))
        queue.set("leaky", "downstream")
        let (isPushing, mayPush) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        try #require(queue.staticPad("src")).addProbe(.buffer) { item in
            guard case .buffer(let frame) = item, frame.size == 16 * 16 * 8 else { return .pass }
            isPushing.signal()
            _ = mayPush.wait(timeout: .now() + 30)
            return .pass
        }
        fed.play()
        // No pair of libyuv's calls takes this format: frames pass the elements.
        func push(_ side: Int, frames: Int) throws {
            try fed.pushCaps("AYUV64", side, side)
            for _ in 0..<frames { fed.push(Buffer(size: side * side * 8)) }
        }
        try push(16, frames: 1)
        #expect(isPushing.wait(timeout: .now() + 30) == .success)
        try push(64, frames: 4)
        #expect(fed.chain.gate.counters.droppedBusy == 0)
        mayPush.signal()
        #expect(delivered.wait(timeout: .now() + 30) == .success)
        #expect(fed.chain.gate.counters.droppedBusy == 1)
        fed.end()
    }

    /// The running time begins again with the next start, and black frames with it.
    @Test func aStopForgetsTheTimesOfTheInput() throws {
        GStreamerRuntime.initialise()
        let (element, host) = try OutputHost.make()
        let pipeline = Pipeline()
        pipeline.add(element)
        pipeline.setState(.playing)
        let times = Watched<[ClockTime]>([])
        let fed = try Fed(side: 32) { frame in times.change { $0.append(frame.runningTime ?? .max) } }
        fed.play()
        try fed.pushCaps("I420", 32, 32)
        let (frame, hour) = (Buffer(size: 32 * 32 * 3 / 2), ClockTime(3600) * 1_000_000_000)
        frame.pts = hour
        _ = fed.source.push(frame)
        #expect(times.wait(seconds: 30) { $0 == [hour] })
        fed.end()
        fed.chain.reset()
        fed.chain.gate.set(playing: true)
        fed.chain.setMuted(true, element: host.handle)
        #expect(times.wait(seconds: 30) { $0.count > 1 && $0[1] < hour })
        fed.chain.setMuted(false, element: host.handle)
        fed.chain.finishMuting()
        pipeline.setState(.null)
    }

    /// The elements do not negotiate for frames that pass them by, and each frame that needs them is read by its own caps.
    @Test func capsThatChangeWithEveryFrame() throws {
        GStreamerRuntime.initialise()
        let sent = try #require(VideoInfo(caps: try Caps("video/x-raw,format=I420,width=32,height=32")))
        let lumas = Watched<[Int]>([])
        let fed = try Fed(side: 32) { frame in
            let luma = frame.buffer.withVideoPlanes(sent, writable: false) { planes in
                Int(planes[0].base[16 * planes[0].stride + 16])
            }
            lumas.change { $0.append(luma ?? -1) }
        }
        let negotiations = Watched(0)
        try #require(fed.bin.child(named: "input-unify")?.staticPad("src")).addProbe(.downstreamEvent) { item in
            if case .event(let event) = item, event.kind == .caps { negotiations.change { $0 += 1 } }
            return .pass
        }
        fed.play()
        /// Grey frames, each brighter than the last one.
        func push(_ shapes: [(format: String, width: Int, height: Int)], frames: Int) throws -> Int {
            for index in 0..<frames {
                let (format, width, height) = shapes[index % shapes.count]
                try fed.pushCaps(format, width, height)
                let info = try #require(
                    VideoInfo(caps: try Caps("video/x-raw,format=\(format),width=\(width),height=\(height)")))
                let (frame, luma) = (Buffer(size: info.size), UInt8(40 + index))
                frame.withVideoPlanes(info, writable: true) { planes in
                    for (plane, rows) in zip(planes, [height] + Array(repeating: (height + 1) / 2, count: 2)) {
                        let isLuma = rows == height
                        for at in 0..<(rows * plane.stride) {
                            // AYUV64 has four samples of 16 bits in a pixel.
                            let isOther = format == "AYUV64" ? at % 8 / 2 != 1 : !isLuma
                            plane.base[at] = isOther ? 128 : luma
                        }
                    }
                }
                fed.push(frame)
            }
            #expect(lumas.wait(seconds: 30) { $0.count == frames })
            let isRight = lumas.value.enumerated().allSatisfy { abs($1 - (40 + $0)) < 3 }
            #expect(isRight, "\(lumas.value)")
            lumas.change { $0 = [] }
            return negotiations.value
        }
        let direct = [("I420", 64, 48), ("NV12", 96, 32), ("I420", 33, 21), ("I420", 32, 32)]
        let first = try push(direct, frames: 60)
        #expect(first == 1)
        #expect(try push(direct + [("AYUV64", 48, 16), ("AYUV64", 16, 24)], frames: 60) >= first + 20)
        let last = try push([("AYUV64", 64, 64)], frames: 4)
        #expect(try push(direct, frames: 60) == last)
        fed.end()
    }

    @Test(arguments: [1, 2, 3, 4, 644, 645, 963], [Fit.stretch, .letterbox])
    func packedFramesOfAnyWidth(width: Int, fit: Fit) throws {
        for format in ["YUY2", "UYVY", "YVYU"] {
            let found = try colour("format=\(format)", width: width, height: 64, fit: fit)
            #expect(found.count == 3 && (fit == .letterbox || isRight(found)), "\(format) \(found)")
        }
    }
}
