import CGStreamer
import GStreamerKit
import Glibc
import MediaPipeline
import Synchronization
import TestSupport
import Testing

/// The scaler on GStreamer's frames: against GStreamer's elements and the formulas of the standards, with borders and times,
/// and in memory without a spare byte.
@Suite(.serialized, .timeLimit(.minutes(2))) struct FrameScalerTests {
    init() { GStreamerRuntime.initialise() }

    private static let rgb = ["RGB", "BGR", "RGBA", "RGBx", "BGRA", "BGRx", "ARGB", "xRGB", "ABGR", "xBGR"]
    private static let wide = [
        "I420_10LE", "I422_10LE", "Y444_10LE", "I420_12LE", "I422_12LE", "Y444_12LE", "P010_10LE", "P012_LE", "P016_LE",
    ]
    private static let formats =
        rgb + wide + [
            "I420", "YV12", "Y42B", "Y444", "NV12", "NV21", "NV16", "NV61", "NV24", "YUY2", "YVYU", "UYVY", "VYUY",
        ]

    /// Of the input, with the colours that need no other matrix.
    private static func caps(_ format: String, _ width: Int, _ height: Int) -> String {
        "video/x-raw,format=\(format),width=\(width),height=\(height),framerate=(fraction)30/1,colorimetry="
            + (rgb.contains(format) ? "sRGB" : "bt601")
    }

    private struct Taken: Sendable {
        var caps: Caps?
        var buffer: Buffer?
    }

    /// The first frame that leaves a pipeline description, and its format.
    private func frame(_ description: String) throws -> (Buffer, VideoInfo) {
        let pipeline = try Pipeline(description: "\(description) ! fakesink name=end sync=false")
        defer { pipeline.setState(.null) }
        let taken = Mutex(Taken())
        try #require(pipeline.child(named: "end")?.staticPad("sink")).addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event): if let caps = event.caps { taken.withLock { $0.caps = caps } }
            case .buffer(let buffer): taken.withLock { $0.buffer = buffer }
            case .query: break
            }
            return .pass
        }
        pipeline.setState(.playing)
        while let message = pipeline.bus.next(timeout: .seconds(20)), message.kind != .eos {
            if message.kind == .error { break }
        }
        let (caps, buffer) = taken.withLock { ($0.caps, $0.buffer) }
        return (try #require(buffer), try #require(caps.flatMap(VideoInfo.init(caps:))))
    }

    private func info(_ caps: String) throws -> VideoInfo { try #require(VideoInfo(caps: try Caps(caps))) }

    private func scaler(_ source: VideoInfo, _ width: Int, _ height: Int, _ fit: Fit) throws -> FrameScaler {
        let placement = try #require(FramePlacement(source, in: (width, height), fit: fit))
        return try #require(FrameScaler(source, to: try info(Self.caps("I420", width, height)), placement))
    }

    /// The samples of each plane of I420, row by row.
    private func planes(_ buffer: Buffer, _ width: Int, _ height: Int) throws -> [[UInt8]] {
        try #require(buffer.samples(try info(Self.caps("I420", width, height))))
    }

    @Test(arguments: formats) func conversionIsWithinTwoLevelsOfVideoconvert(_ format: String) throws {
        let colours = ["1ec83c", "e01040", "2040e0", "c0c010"].map { "solid-color foreground-color=0xff\($0)" }
        for pattern in colours + ["gradient", "white", "black"] {
            let source = "videotestsrc num-buffers=1 pattern=\(pattern) ! \(Self.caps(format, 66, 34))"
            let (input, inputInfo) = try frame(source)
            let result = try #require(try scaler(inputInfo, 66, 34, .stretch).scaled(input))
            let (reference, _) = try frame("\(source) ! videoconvert dither=none ! \(Self.caps("I420", 66, 34))")
            for (one, other) in zip(try planes(result, 66, 34), try planes(reference, 66, 34)) {
                let largest = zip(one, other).map { abs(Int($0) - Int($1)) }.max()
                #expect(try #require(largest) <= 2, "\(pattern)")
            }
            #expect(result.pts == input.pts)
            #expect(result.duration == input.duration)
            #expect(result.isDiscontinuous == input.isDiscontinuous)
        }
    }

    /// Mean squared error of two planes.
    private func error(_ one: [UInt8], _ other: [UInt8]) -> Double {
        let sum = zip(one, other).reduce(0) { $0 + (Int($1.0) - Int($1.1)) * (Int($1.0) - Int($1.1)) }
        return one.count == other.count && !one.isEmpty ? Double(sum) / Double(one.count) : .infinity
    }

    private static let patterns = ["smpte", "snow", "zone-plate kx2=20 ky2=20", "colors"]

    /// videoscale is bilinear by default, so that it differs from Lanczos too: the scaler may do so as much.
    @Test(arguments: ["RGBA", "RGB", "NV12", "YUY2", "Y42B"], patterns)
    func scalingIsAsCloseToLanczosAsThatOfVideoscale(_ format: String, _ pattern: String) throws {
        for (width, height, fit) in [(960, 540, Fit.crop), (320, 180, .crop), (1921, 1081, .stretch)] {
            let source = "videotestsrc num-buffers=1 pattern=\(pattern) ! \(Self.caps(format, width, height))"
            let (input, inputInfo) = try frame(source)
            let shown = try #require(FramePlacement(inputInfo, in: (640, 352), fit: fit)).shown
            let result = try planes(try #require(try scaler(inputInfo, 640, 352, fit).scaled(input)), 640, 352)
            let cropped = "\(source) ! videocrop left=\(shown.x) right=\(shown.x) top=\(shown.y) bottom=\(shown.y)"
            func reference(_ method: String) throws -> [[UInt8]] {
                let scale = "videoscale add-borders=false \(method) ! videoconvert dither=none"
                let (frame, _) = try frame(
                    "\(cropped) ! \(scale) ! \(Self.caps("I420", 640, 352)),pixel-aspect-ratio=1/1")
                return try planes(frame, 640, 352)
            }
            let (best, usual) = (try reference("method=lanczos"), try reference(""))
            for plane in 0..<3 {
                let (ours, theirs) = (error(result[plane], best[plane]), error(usual[plane], best[plane]))
                // 1.5 decibels less, or 40 altogether.
                #expect(ours <= max(1.41 * theirs, 6.5), "plane \(plane) of \(width)x\(height)")
            }
        }
    }

    /// A standard's shares of red and blue in luma.
    struct Standard: Sendable, CustomTestStringConvertible {
        let colorimetry: String
        let red, blue: Double
        let isFullRange: Bool
        var testDescription: String { colorimetry }

        func samples(_ r: Double, _ g: Double, _ b: Double) -> [Double] {
            let luma = red * r + (1 - red - blue) * g + blue * b
            let (lumaScale, chromaScale) = isFullRange ? (1, 1) : (219.0 / 255, 224.0 / 255)
            return [
                luma * lumaScale + (isFullRange ? 0 : 16), 128 + (b - luma) / 2 / (1 - blue) * chromaScale,
                128 + (r - luma) / 2 / (1 - red) * chromaScale,
            ]
        }
        static let sent = Standard(colorimetry: "2:4:0:0", red: 0.299, blue: 0.114, isFullRange: false)
        static let all = [
            sent, Standard(colorimetry: "1:4:0:0", red: 0.299, blue: 0.114, isFullRange: true),
            Standard(colorimetry: "bt709", red: 0.2126, blue: 0.0722, isFullRange: false),
            Standard(colorimetry: "1:3:5:1", red: 0.2126, blue: 0.0722, isFullRange: true),
            Standard(colorimetry: "bt2020", red: 0.2627, blue: 0.0593, isFullRange: false),
            Standard(colorimetry: "1:6:0:0", red: 0.2627, blue: 0.0593, isFullRange: true),
        ]
    }

    /// videoconvert is no reference: it copies full-range samples of the same matrix.
    @Test(arguments: Standard.all) func eachStandardBecomesBT601(_ standard: Standard) throws {
        let source = try info("video/x-raw,format=I420,width=64,height=64,colorimetry=\(standard.colorimetry)")
        for (r, g, b) in [
            (30.0, 200.0, 60.0), (224, 16, 64), (32, 64, 224), (192, 192, 16), (255, 255, 255), (0, 0, 0),
        ] {
            let input = Buffer(size: source.size)
            let samples = standard.samples(r, g, b).map { UInt8($0.rounded()) }
            _ = input.withMutableBytes { bytes in
                for index in bytes.indices { bytes[index] = samples[index < 4096 ? 0 : index < 5120 ? 1 : 2] }
            }
            let result = try planes(try #require(try scaler(source, 32, 32, .stretch).scaled(input)), 32, 32)
            for (plane, right) in zip(result, Standard.sent.samples(r, g, b)) {
                #expect(plane.allSatisfy { abs(Double($0) - right) <= 2 }, "\(plane[0]) is not \(right)")
            }
        }
    }

    @Test(arguments: ["BGRx", "NV12"]) func aLetterboxHasBlackBorders(_ format: String) throws {
        let (input, info) = try frame("videotestsrc num-buffers=1 pattern=white ! \(Self.caps(format, 64, 64))")
        let scaler = try scaler(info, 128, 64, .letterbox)
        // The second frame uses the first one's memory again.
        for _ in 0..<2 {
            let all = try planes(try #require(scaler.scaled(input)), 128, 64)
            for y in 0..<64 {
                for x in 0..<128 { #expect(all[0][y * 128 + x] == ((32..<96).contains(x) ? 235 : 16)) }
            }
            #expect(all[1].allSatisfy { $0 == 128 } && all[2].allSatisfy { $0 == 128 })
        }
    }

    /// A frame that ends where memory that can be read ends.
    private func guarded(_ size: Int, _ body: (Buffer) throws -> Void) throws {
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        let room = (size + page - 1) / page * page
        let memory = try #require(mmap(nil, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
        defer { munmap(memory, room + page) }
        try #require(memory != MAP_FAILED && mprotect(memory + room, page, PROT_NONE) == 0)
        let buffer = Buffer(size: 0)
        let raw = try #require(buffer.raw).assumingMemoryBound(to: GstBuffer.self)
        let start = memory + room - size
        gst_buffer_append_memory(
            raw, gst_memory_new_wrapped(GST_MEMORY_FLAG_READONLY, start, gsize(size), 0, gsize(size), nil, nil))
        try body(buffer)
    }

    /// Reading behind the frame would end the process.
    @Test(arguments: formats) func nothingBehindTheFrameIsRead(_ format: String) throws {
        for (width, height) in [(1, 1), (2, 3), (3, 2), (17, 9), (64, 36), (321, 181), (640, 363)] {
            let source = try info(Self.caps(format, width, height))
            for (size, fit) in [((64, 36), Fit.crop), ((320, 180), .letterbox), ((640, 364), .stretch)] {
                let scaler = try scaler(source, size.0, size.1, fit)
                try guarded(source.size) { #expect(scaler.scaled($0) != nil, "\(width)x\(height)") }
                try guarded(source.size / 2) { #expect(scaler.scaled($0) == nil, "\(width)x\(height)") }
            }
        }
    }

    @Test func areasOutsideTheFramesMakeNoScaler() throws {
        let source = try info(Self.caps("NV12", 64, 64))
        let target = try info(Self.caps("I420", 32, 32))
        let right = try #require(FramePlacement(source, in: (32, 32), fit: .stretch))
        #expect(FrameScaler(source, to: target, right) != nil)
        for change: (inout FramePlacement) -> Void in [
            { $0.shown.x = 2 }, { $0.area.y = 2 }, { $0.area.x = -2 },
            { $0.shown = .init(x: 1, y: 0, width: 32, height: 32) }, { $0.shown.width = 0 },
        ] {
            var placement = right
            change(&placement)
            #expect(FrameScaler(source, to: target, placement) == nil, "\(placement)")
        }
        #expect(
            FrameScaler(source, to: try info("video/x-raw,format=I420,width=32,height=32,colorimetry=bt709"), right)
                == nil)
    }
}
