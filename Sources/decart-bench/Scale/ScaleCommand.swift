import ArgumentParser
import CGStreamer
import CScaleKernels
import GStreamerKit
import Glibc

/// Compares scaling RGBA and converting it to I420 with libyuv and GStreamer's converter in one run.
struct ScaleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scale",
        abstract: "Measures RGBA to I420 of another size against libyuv and GStreamer, and prints a table in Markdown.",
        discussion: """
            One thread, one source and one target. The contenders take turns in each round; a ratio is the median of the \
            rounds' ratios. libyuv scales (bilinear) and then converts; GStreamer's converter is the one of \
            videoconvertscale, with its settings for method=bilinear.
            """)

    @Option(help: "Times that all contenders take their turn.") var rounds = 31

    func validate() throws {
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds is a number from 1 to 1000.") }
    }

    private struct Geometry {
        let from: (width: Int, height: Int)
        /// Rows cut off above and below.
        let cut: Int
        let to: (width: Int, height: Int)
    }

    private static let geometries = [
        Geometry(from: (1920, 1080), cut: 12, to: (1280, 704)), Geometry(from: (1280, 720), cut: 8, to: (1280, 704)),
        Geometry(from: (640, 360), cut: 4, to: (1280, 704)), Geometry(from: (3840, 2160), cut: 24, to: (1280, 704)),
    ]

    func run() throws {
        GStreamerRuntime.initialise()
        guard decart_scale_best_level() != DECART_SCALE_PLAIN else {
            throw BenchError("this processor lacks AVX2, and the element leaves the work to GStreamer")
        }
        writeAll(
            """
            Machine: \(Machine.description); load average at the start: \(Machine.load). RGBA to I420, BT.601, one thread, \
            \(rounds) rounds; µs a frame.

            | from | to | ours | libyuv | GStreamer | ours ÷ libyuv | GStreamer ÷ libyuv |
            |---|---|---|---|---|---|---|

            """, to: STDOUT_FILENO)
        for geometry in Self.geometries { writeAll(try measure(geometry) + "\n", to: STDOUT_FILENO) }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private func measure(_ geometry: Geometry) throws -> String {
        let (from, to) = (geometry.from, geometry.to)
        let rows = from.height - 2 * geometry.cut
        guard let plan = decart_scale_make_plan(from.width, rows, to.width, to.height) else {
            throw BenchError("no memory")
        }
        defer { free(plan) }
        let luma = to.width * to.height
        let source = aligned(from.width * from.height * 4)
        let (target, between) = (aligned(luma * 3 / 2), aligned(luma * 4))
        defer { for memory in [source, target, between] { free(memory) } }
        for index in 0..<from.width * from.height * 4 {
            source[index] = UInt8(truncatingIfNeeded: index &* 2_654_435_761 >> 13)
        }
        var matrix = decart_scale_make_matrix(0, 1, 2, 0.299, 0.114, 0)
        let planes = decart_scale_target(
            y: target, u: target + luma, v: target + luma * 5 / 4, y_stride: to.width, u_stride: to.width / 2,
            v_stride: to.width / 2)
        let first = source + geometry.cut * from.width * 4
        let stride = from.width * 4
        let converter = try Converter(geometry.from, geometry.to, cut: geometry.cut, source: source, target: target)
        var contenders: [() -> Void] = [
            { decart_scale_frame(plan, first, stride, planes, &matrix, DECART_SCALE_VECTOR_32) },
            { converter.run() },
        ]
        if let libyuv = LibYUVScale() {
            contenders.append {
                libyuv.scale(first, (from.width, rows), between, to)
                libyuv.convert(between, planes, to)
            }
        }
        var times = Array(repeating: [Double](), count: contenders.count)
        for _ in 0..<rounds {
            for (index, turn) in contenders.enumerated() {
                turn()
                let repetitions = index == 1 ? 3 : 8
                let begun = ContinuousClock.now
                for _ in 0..<repetitions { turn() }
                times[index].append((.now - begun).milliseconds * 1000 / Double(repetitions))
            }
        }
        func time(_ index: Int) -> String {
            times.indices.contains(index) ? fixed(Samples(times[index]).median ?? .nan, 0) : "–"
        }
        func ratio(_ index: Int) -> String {
            guard times.count > 2 else { return "–" }
            return fixed(Samples(zip(times[index], times[2]).map { $0 / $1 }).median ?? .nan, 2)
        }
        return "| \(from.width)x\(from.height) | \(to.width)x\(to.height) | \(time(0)) | \(time(2)) | \(time(1)) | "
            + "\(ratio(0)) | \(ratio(1)) |"
    }

    private func aligned(_ size: Int) -> UnsafeMutablePointer<UInt8> {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 64)
        return memory.bindMemory(to: UInt8.self, capacity: size)
    }
}

/// GStreamer's converter with the settings of `videoconvertscale method=bilinear`.
private final class Converter {
    private let converter: OpaquePointer
    private var source = GstVideoFrame()
    private var target = GstVideoFrame()
    private let buffers: [UnsafeMutablePointer<GstBuffer>]

    init(
        _ from: (width: Int, height: Int), _ to: (width: Int, height: Int), cut: Int,
        source: UnsafeMutablePointer<UInt8>, target: UnsafeMutablePointer<UInt8>
    ) throws {
        var (input, output) = (GstVideoInfo(), GstVideoInfo())
        gst_video_info_set_format(&input, GST_VIDEO_FORMAT_RGBA, UInt32(from.width), UInt32(from.height))
        gst_video_info_set_format(&output, GST_VIDEO_FORMAT_I420, UInt32(to.width), UInt32(to.height))
        gst_video_colorimetry_from_string(&output.colorimetry, "bt601")
        let options = """
            options, GstVideoConverter.resampler-method=(GstVideoResamplerMethod)linear, \
            GstVideoResampler.max-taps=(int)2, GstVideoConverter.src-y=(int)\(cut), \
            GstVideoConverter.src-height=(int)\(from.height - 2 * cut)
            """
        // Names the type before the text does.
        _ = gst_video_resampler_method_get_type()
        guard let settings = gst_structure_from_string(options, nil),
            let converter = gst_video_converter_new(&input, &output, settings),
            let one = gst_buffer_new_wrapped_full(
                GST_MEMORY_FLAG_READONLY, source, input.size, 0, input.size, nil, nil),
            let other = gst_buffer_new_wrapped_full(GstMemoryFlags(0), target, output.size, 0, output.size, nil, nil)
        else { throw BenchError("GStreamer makes no converter") }
        self.converter = converter
        buffers = [one, other]
        guard gst_video_frame_map(&self.source, &input, one, GST_MAP_READ) != 0,
            gst_video_frame_map(&self.target, &output, other, GST_MAP_WRITE) != 0
        else { throw BenchError("GStreamer maps no frame") }
    }

    deinit {
        gst_video_frame_unmap(&source)
        gst_video_frame_unmap(&target)
        gst_video_converter_free(converter)
        for buffer in buffers { gst_buffer_unref(buffer) }
    }

    func run() { gst_video_converter_frame(converter, &source, &target) }
}

/// libyuv's scaler and converter, loaded at run time if the library is installed: only this benchmark uses them.
private struct LibYUVScale {
    private typealias Scale =
        @convention(c) (
            UnsafePointer<UInt8>?, Int32, Int32, Int32, UnsafeMutablePointer<UInt8>?, Int32, Int32, Int32, Int32
        ) -> Int32
    private typealias Convert =
        @convention(c) (
            UnsafePointer<UInt8>?, Int32, UnsafeMutablePointer<UInt8>?, Int32, UnsafeMutablePointer<UInt8>?, Int32,
            UnsafeMutablePointer<UInt8>?, Int32, Int32, Int32
        ) -> Int32
    private let scaler: Scale
    private let converter: Convert
    private static let bilinear: Int32 = 2

    init?() {
        // libyuv names formats by the word, so its ABGR is RGBA in memory.
        guard let library = dlopen("libyuv.so.0", RTLD_NOW) ?? dlopen("libyuv.so", RTLD_NOW),
            let scale = dlsym(library, "ARGBScale"), let convert = dlsym(library, "ABGRToI420")
        else { return nil }
        scaler = unsafeBitCast(scale, to: Scale.self)
        converter = unsafeBitCast(convert, to: Convert.self)
    }

    func scale(
        _ from: UnsafePointer<UInt8>, _ size: (width: Int, height: Int), _ to: UnsafeMutablePointer<UInt8>,
        _ target: (width: Int, height: Int)
    ) {
        _ = scaler(
            from, Int32(size.width * 4), Int32(size.width), Int32(size.height), to, Int32(target.width * 4),
            Int32(target.width), Int32(target.height), Self.bilinear)
    }

    func convert(_ from: UnsafePointer<UInt8>, _ to: decart_scale_target, _ size: (width: Int, height: Int)) {
        _ = converter(
            from, Int32(size.width * 4), to.y, Int32(to.y_stride), to.u, Int32(to.u_stride), to.v, Int32(to.v_stride),
            Int32(size.width), Int32(size.height))
    }
}
