import ArgumentParser
import CGStreamer
import GStreamerKit
import Glibc
import MirrorElement

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
            warm, \(rounds) rounds. µs a frame (time ÷ memcpy of the same bytes).

            | format | memcpy | ours, copy | ours, in place | videoflip | `mirror`, shared buffer | `mirror`, own \
            buffer | videoflip ÷ `mirror` shared | element's share, µs: shared / own |
            |---|---|---|---|---|---|---|---|---|

            """, to: STDOUT_FILENO)
        for format in Self.formats { writeAll(try measure(format) + "\n", to: STDOUT_FILENO) }
        writeAll("\nLoad average at the end: \(Machine.load).\n", to: STDOUT_FILENO)
    }

    private static let formats = ["I420", "NV12", "YUY2", "RGBA", "I420_10LE", "P010_10LE", "GRAY16_LE", "RGB"]

    private func caps(_ format: String) -> String {
        "video/x-raw, format=\(format), width=\(width), height=\(height), framerate=30/1"
    }

    private func measure(_ format: String) throws -> String {
        let caps = caps(format)
        guard let video = VideoInfo(caps: try Caps(caps)) else { throw BenchError("GStreamer does not know \(format)") }
        let buffers = try FrameBuffers(size: video.size)
        let (source, target) = (buffers.source, buffers.target)
        let shared = try ElementHarness("decartmirror", [("mode", "on")], caps: caps)
        let own = try ElementHarness("decartmirror", [("mode", "on")], caps: caps)
        let videoflip = try? ElementHarness("videoflip", [("video-direction", "horiz")], caps: caps)

        func copy() {
            _ = source.withVideoFrame(video, writable: false) { from in
                target.withVideoFrame(video, writable: true) { FrameFlip.run(.leftToRight, from, into: $0) }
            }
        }
        func inPlace() {
            _ = target.withVideoFrame(video, writable: true) { FrameFlip.run(.leftToRight, $0, into: $0) }
        }
        var contenders: [(repetitions: Int, turn: () -> Void)] = [
            (40, { source.withBytes { from in target.withMutableBytes { $0.copyMemory(from: from) } } }),
            (40, copy), (40, inPlace),
            (40, { shared.pushShared(buffers.sharedBuffer) }),
            (40, { buffers.ownBuffer = buffers.ownBuffer.flatMap { own.pushOwned($0) } }),
        ]
        let videoflipIndex = contenders.count
        if let videoflip { contenders.append((4, { videoflip.pushShared(buffers.sharedBuffer) })) }

        let times = timed(contenders, rounds: rounds)
        guard buffers.ownBuffer != nil else { throw BenchError("mirror gave no buffer back") }
        func share(_ element: Int, _ flip: Int) -> String {
            fixed(Samples(zip(times[element], times[flip]).map { $0 - $1 }).median ?? .nan, 1)
        }
        func cell(_ index: Int) -> String {
            guard times.indices.contains(index) else { return "–" }
            let ratios = Samples(zip(times[index], times[0]).map { $0 / $1 })
            return "\(fixed(Samples(times[index]).median ?? .nan)) (\(fixed(ratios.median ?? .nan, 2)))"
        }
        let over =
            videoflip == nil
            ? "–" : fixed(Samples(zip(times[videoflipIndex], times[3]).map { $0 / $1 }).median ?? .nan)
        return "| \(format) | \(fixed(Samples(times[0]).median ?? .nan)) | \(cell(1)) | \(cell(2)) | "
            + "\(videoflip == nil ? "does not take it" : cell(videoflipIndex)) | "
            + "\(cell(3)) | \(cell(4)) | \(over) | \(share(3, 1)) / \(share(4, 2)) |"
    }
}

/// Three frames for elements, flips and memcpy alike: one to read, which is shared; one to write; one that is passed
/// through by ownership.
private final class FrameBuffers {
    let source: Buffer
    let target: Buffer
    /// `source`, for calls that add references of their own.
    let sharedBuffer: UnsafeMutablePointer<GstBuffer>
    var ownBuffer: UnsafeMutablePointer<GstBuffer>?

    init(size: Int) throws {
        guard let pool = BufferPool(size: size), let source = pool.next(), let target = pool.next(),
            let own = pool.next()
        else { throw BenchError("no memory for a frame") }
        // Varied bytes: some machines copy uniform data faster.
        for buffer in [source, target, own] {
            buffer.withMutableBytes { bytes in
                for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 2_654_435_761 >> 13) }
            }
        }
        (self.source, self.target, sharedBuffer) = (source, target, try Self.pointer(source))
        ownBuffer = gst_buffer_ref(try Self.pointer(own))
    }

    private static func pointer(_ buffer: Buffer) throws -> UnsafeMutablePointer<GstBuffer> {
        guard let raw = buffer.raw else { throw BenchError("no memory for a frame") }
        return raw.assumingMemoryBound(to: GstBuffer.self)
    }

    deinit { if let ownBuffer { gst_buffer_unref(ownBuffer) } }
}
