import ArgumentParser
import CFlipKernels
import CGStreamer
import GStreamerKit
import Glibc

/// Compares the horizontal flip with memcpy and videoflip in one run.
struct FlipCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flip",
        abstract: "Measures `mirror` against memcpy and videoflip, and prints a table in Markdown.",
        discussion: """
            One thread, one source and one target, so frames are warm. The contenders take turns in each round; a ratio is \
            the median of the rounds' ratios. Needs the plugin on GStreamer's path (pipelines/env.sh).
            """)

    @Option(help: "Width of the frames; a multiple of 16.") var width = 1280
    @Option(help: "Height of the frames; even.") var height = 720
    @Option(help: ArgumentHelp("Times that all contenders take their turn.", valueName: "number")) var rounds = 31

    func validate() throws {
        guard (16...8192).contains(width), width % 16 == 0, (2...8192).contains(height), height % 2 == 0 else {
            throw ValidationError("The size is at most 8192x8192, the width a multiple of 16, the height even.")
        }
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds is a number from 1 to 1000.") }
    }

    func run() throws {
        GStreamerRuntime.initialise()
        writeAll(
            """
            Machine: \(Machine.description); load average at the start: \(Machine.load). \(width)x\(height), one thread, frames \
            warm, \(rounds) rounds; kernel: \(Self.kernelName). µs a frame (time ÷ memcpy of the same bytes).

            | format | memcpy | ours, copy | ours, in place | videoflip | `mirror`, shared buffer | `mirror`, own \
            buffer | videoflip ÷ `mirror` shared | element's share, µs: shared / own |
            |---|---|---|---|---|---|---|---|---|

            """, to: STDOUT_FILENO)
        for format in FlipFormat.all { writeAll(try measure(format) + "\n", to: STDOUT_FILENO) }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private static var kernelName: String {
        switch decart_flip_best_level() {
        case DECART_FLIP_VECTOR_64: "AVX2, RGB by AVX-512 VBMI"
        case DECART_FLIP_VECTOR_32: "AVX2"
        case DECART_FLIP_VECTOR_16: "16-byte vectors"
        default: "plain C"
        }
    }

    private func caps(_ format: String) -> String {
        "video/x-raw, format=\(format), width=\(width), height=\(height), framerate=30/1"
    }

    private func measure(_ format: FlipFormat) throws -> String {
        let size = format.size(width, height)
        let buffers = try FrameBuffers(size: size)
        let (source, target) = (buffers.source, buffers.target)
        let (width, height) = (width, height)
        let level = decart_flip_best_level()
        let kernel: FlipFormat.PlaneFlip = { to, from, stride, plane, columns, rows in
            decart_flip_plane_horizontally(to, stride, from, stride, columns, rows, plane.unit, level)
        }
        let shared = try ElementHarness("decartmirror", [("mode", "on")], caps: caps(format.name))
        let own = try ElementHarness("decartmirror", [("mode", "on")], caps: caps(format.name))
        let videoflip = try? ElementHarness("videoflip", [("video-direction", "horiz")], caps: caps(format.name))

        var contenders: [(repetitions: Int, turn: () -> Void)] = [
            (40, { memcpy(target, source, size) }),
            (40, { format.forEachPlane(width, height, to: target, from: source, kernel) }),
            (40, { format.forEachPlane(width, height, to: target, from: target, kernel) }),
            (40, { shared.pushShared(buffers.buffer) }),
            (40, { buffers.ownBuffer = buffers.ownBuffer.flatMap { own.pushOwned($0) } }),
        ]
        let videoflipIndex = contenders.count
        if let videoflip { contenders.append((4, { videoflip.pushShared(buffers.buffer) })) }

        let times = timed(contenders, rounds: rounds)
        guard buffers.ownBuffer != nil else { throw BenchError("mirror gave no buffer back") }
        func share(_ element: Int, _ kernel: Int) -> String {
            fixed(Samples(zip(times[element], times[kernel]).map { $0 - $1 }).median ?? .nan, 1)
        }
        func cell(_ index: Int) -> String {
            guard times.indices.contains(index) else { return "–" }
            let ratios = Samples(zip(times[index], times[0]).map { $0 / $1 })
            return "\(fixed(Samples(times[index]).median ?? .nan)) (\(fixed(ratios.median ?? .nan, 2)))"
        }
        let over =
            videoflip == nil
            ? "–" : fixed(Samples(zip(times[videoflipIndex], times[3]).map { $0 / $1 }).median ?? .nan)
        return "| \(format.name) | \(fixed(Samples(times[0]).median ?? .nan)) | \(cell(1)) | \(cell(2)) | "
            + "\(videoflip == nil ? "does not take it" : cell(videoflipIndex)) | "
            + "\(cell(3)) | \(cell(4)) | \(over) | \(share(3, 1)) / \(share(4, 2)) |"
    }
}

/// Three frames for elements, kernels and memcpy alike: one to read, which is shared; one to write; one that is passed
/// through by ownership. All are in GStreamer's own memory, aligned to 64 bytes.
private final class FrameBuffers {
    let buffer: UnsafeMutablePointer<GstBuffer>
    private let targetBuffer: UnsafeMutablePointer<GstBuffer>
    var ownBuffer: UnsafeMutablePointer<GstBuffer>?
    let source: UnsafeMutablePointer<UInt8>
    let target: UnsafeMutablePointer<UInt8>

    init(size: Int) throws {
        func make() throws -> (UnsafeMutablePointer<GstBuffer>, UnsafeMutablePointer<UInt8>) {
            var info = GstMapInfo()
            // The alignment that `mirror` proposes upstream.
            var parameters = GstAllocationParams()
            gst_allocation_params_init(&parameters)
            parameters.align = 63
            guard let buffer = gst_buffer_new_allocate(nil, gsize(size), &parameters),
                gst_buffer_map(buffer, &info, GST_MAP_WRITE) != 0, let bytes = info.data
            else { throw BenchError("no memory for a frame") }
            // Varied bytes: some machines copy uniform data faster.
            for index in 0..<size { bytes[index] = UInt8(truncatingIfNeeded: index &* 2_654_435_761 >> 13) }
            // The address stays valid after unmapping: it is system memory.
            gst_buffer_unmap(buffer, &info)
            return (buffer, bytes)
        }
        (buffer, source) = try make()
        (targetBuffer, target) = try make()
        ownBuffer = try make().0
    }

    deinit {
        gst_buffer_unref(buffer)
        gst_buffer_unref(targetBuffer)
        if let ownBuffer { gst_buffer_unref(ownBuffer) }
    }
}
