import ArgumentParser
import CYUV
import GStreamerKit
import Glibc
import MediaPipeline

/// Compares the scaling of camera formats with the same calls of libyuv alone.
struct ScaleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scale",
        abstract: "Measures the scaling of 1920x1080 to 1280x704 against libyuv alone, and prints a table in Markdown.",
        discussion: """
            The frame is cropped, scaled and converted to I420 in BT.601. One thread, one frame, so that it is warm. Both \
            take turns in each round; a ratio is the median of the rounds' ratios.
            """)

    @Option(help: ArgumentHelp("Times that both take their turn.", valueName: "number")) var rounds = 31

    func validate() throws {
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds is a number from 1 to 1000.") }
    }

    func run() throws {
        GStreamerRuntime.initialise()
        writeAll(
            """
            Machine: \(Machine.description); load average at the start: \(Machine.load). µs a frame, \(rounds) rounds. Goal: \
            ratio 1.1.

            | format | libyuv alone | ours | ratio |
            |---|---|---|---|

            """, to: STDOUT_FILENO)
        let bare = BareScaler()
        for format in ["I420", "NV12", "YUY2", "UYVY", "RGB", "RGBA"] {
            writeAll(try measure(format, bare) + "\n", to: STDOUT_FILENO)
        }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private static func video(_ format: String, _ width: Int, _ height: Int) throws -> VideoInfo {
        let colours = format.hasPrefix("RGB") ? "sRGB" : "bt601"
        let caps = try Caps(
            "video/x-raw,format=\(format),width=\(width),height=\(height),framerate=30/1,colorimetry=\(colours)")
        guard let video = VideoInfo(caps: caps) else { throw BenchError("GStreamer does not know \(format)") }
        return video
    }

    private func measure(_ format: String, _ bare: BareScaler) throws -> String {
        let source = try Self.video(format, 1920, 1080)
        let size = (width: 1280, height: 704)
        // Varied bytes: some machines copy uniform data faster.
        let bytes = (0..<source.size).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }
        guard let placement = FramePlacement(source, in: size, fit: .crop),
            let scaler = FrameScaler(source, to: try Self.video("I420", size.width, size.height), placement)
        else { throw BenchError("\(format) is not scaled") }
        let frame = bytes.withUnsafeBytes(Buffer.init(copying:))
        var isDone = true
        let times = bytes.withUnsafeBufferPointer { memory in
            timed(
                [
                    (10, { bare.scale(format, memory.baseAddress) }),
                    (10, { isDone = scaler.scaled(frame) != nil && isDone }),
                ], rounds: rounds)
        }
        guard isDone else { throw BenchError("\(format) was not scaled") }
        let ratios = Samples(zip(times[1], times[0]).map { $0 / $1 })
        return "| \(format) | \(Samples(times[0]).text(0)) | \(Samples(times[1]).text(0)) | \(ratios.text(2)) |"
    }
}

/// The calls of libyuv, in memory of their own.
private final class BareScaler {
    private typealias Bytes = UnsafeMutablePointer<UInt8>

    /// Planes of YUV in one piece of memory.
    private struct Planes {
        let (y, u, v): (Bytes, Bytes, Bytes)
        let width: CInt

        init(_ base: Bytes, _ width: CInt, _ height: CInt, chromaRows: CInt) {
            self.width = width
            (y, u) = (base, base + Int(width * height))
            v = u + Int(width / 2 * chromaRows)
        }
    }

    private let memory = Bytes.allocate(capacity: 1 << 25)
    private let target: Planes
    private let split: Planes
    private let (width, height): (CInt, CInt) = (1920, 1056)
    private let (sentWidth, sentHeight): (CInt, CInt) = (1280, 704)

    init() {
        memory.initialize(repeating: 0, count: 1 << 25)
        target = Planes(memory, sentWidth, sentHeight, chromaRows: sentHeight / 2)
        split = Planes(memory + 1 << 23, width, height, chromaRows: height)
    }

    deinit { memory.deallocate() }

    private var scratch: (Bytes, Bytes) { (memory + 2 << 23, memory + 3 << 23) }

    func scale(_ format: String, _ frame: UnsafePointer<UInt8>?) {
        guard let frame else { return }
        let chroma = frame + 1920 * 1080
        switch format {
        case "I420": scale(frame + 12 * 1920, chroma + 6 * 960, chroma + 960 * 540 + 6 * 960)
        case "NV12":
            SplitUVPlane(chroma + 6 * 1920, 1920, split.u, 960, split.v, 960, 960, height / 2)
            scale(frame + 12 * 1920, split.u, split.v)
        case "YUY2":
            YUY2ToI422(frame + 12 * 3840, 3840, split.y, 1920, split.u, 960, split.v, 960, width, height)
            scaleSplit()
        case "UYVY":
            UYVYToI422(frame + 12 * 3840, 3840, split.y, 1920, split.u, 960, split.v, 960, width, height)
            scaleSplit()
        case "RGB":
            RAWToARGB(frame + 12 * 5760, 5760, scratch.0, 7680, width, height)
            shrink(scratch.0, ARGBToI420)
        default: shrink(frame + 12 * 7680, ABGRToI420)
        }
    }

    private func scale(_ y: UnsafePointer<UInt8>, _ u: UnsafePointer<UInt8>, _ v: UnsafePointer<UInt8>) {
        I420Scale(
            y, 1920, u, 960, v, 960, width, height, target.y, 1280, target.u, 640, target.v, 640, sentWidth, sentHeight,
            kFilterBox)
    }

    private func scaleSplit() {
        ScalePlane(split.y, 1920, width, height, target.y, 1280, sentWidth, sentHeight, kFilterBilinear)
        for (from, to) in [(split.u, target.u), (split.v, target.v)] {
            ScalePlane(from, 960, width / 2, height, scratch.0, 640, sentWidth / 2, sentHeight, kFilterBilinear)
            ScalePlane(scratch.0, 640, sentWidth / 2, sentHeight, to, 640, sentWidth / 2, sentHeight / 2, kFilterBox)
        }
    }

    private func shrink(
        _ pixels: UnsafePointer<UInt8>,
        _ convert: (
            UnsafePointer<UInt8>?, CInt, Bytes?, CInt, Bytes?, CInt, Bytes?, CInt, CInt, CInt
        ) -> CInt
    ) {
        ARGBScale(pixels, 7680, width, height, scratch.1, 5120, sentWidth, sentHeight, kFilterBilinear)
        _ = convert(scratch.1, 5120, target.y, 1280, target.u, 640, target.v, 640, sentWidth, sentHeight)
    }
}
