public import Foundation
import GStreamerKit

/// A frame of video. It holds a reference to the memory of GStreamer, which it lends to readers without a copy; a frame
/// that is kept for long keeps a buffer of the pipeline.
public struct VideoFrame: Sendable {
    /// The layouts of pixels.
    public enum Format: String, Sendable {
        /// Three planes: luma, and two of chroma of half the width and height; limited range, BT.601 from the service.
        case i420 = "I420"
        /// One plane of four bytes a pixel.
        case rgba = "RGBA"
    }

    /// Pixels.
    public let width, height: Int
    /// The layout of the planes.
    public let format: Format
    /// Time in its stream; nil for a frame of the application's own.
    public let timestamp: Duration?
    let sample: Sample
    private let info: VideoInfo

    /// nil for a sample of another format.
    init?(_ sample: Sample) {
        guard let info = sample.caps.flatMap({ VideoInfo(caps: $0) }), let name = info.formatName,
            let format = Format(rawValue: name), info.shortage(of: sample.buffer) == nil
        else { return nil }
        (self.sample, self.info, self.format) = (sample, info, format)
        (width, height) = (info.width, info.height)
        timestamp = sample.buffer.pts.map { .nanoseconds(Int64(clamping: $0)) }
    }

    /// A frame of packed planes: `width * height * 4` bytes of RGBA, or luma and both chroma planes of I420, whose chroma
    /// has half the width and height, rounded up. The bytes are copied.
    ///
    /// Throws `DecartError.invalidInput` for another number of bytes.
    public init(width: Int, height: Int, format: Format, data: Data) throws(DecartError) {
        guard (1...16_384).contains(width), (1...16_384).contains(height) else {
            throw .invalidInput("A frame must have a width and a height of 1 to 16384 pixels.")
        }
        // A program may make a frame before it has a client.
        GStreamerRuntime.initialise()
        let caps = "video/x-raw,format=\(format.rawValue),width=\(width),height=\(height),framerate=0/1"
        guard let caps = try? Caps(caps), let info = VideoInfo(caps: caps) else {
            throw .invalidInput("A frame of \(width)x\(height) is not possible.")
        }
        let sizes = Self.planes(format, width, height)
        guard data.count == sizes.reduce(0, { $0 + $1.bytes * $1.rows }) else {
            throw .invalidInput("The data of a frame of \(width)x\(height) has \(data.count) bytes.")
        }
        let buffer = Buffer(size: info.size)
        let isFilled: Void? = buffer.withVideoPlanes(info, writable: true) { planes in
            data.withUnsafeBytes { bytes in
                var offset = 0
                for (plane, size) in zip(planes, sizes) {
                    for row in 0..<size.rows {
                        let target = UnsafeMutableRawBufferPointer(
                            start: plane.base + row * plane.stride, count: size.bytes)
                        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + size.bytes]))
                        offset += size.bytes
                    }
                }
            }
        }
        guard isFilled != nil, let frame = VideoFrame(Sample(buffer, caps: caps)) else {
            throw .invalidInput("A frame of \(width)x\(height) is not possible.")
        }
        self = frame
    }

    /// Bytes of a row, and rows, of each plane.
    private static func planes(_ format: Format, _ width: Int, _ height: Int) -> [(bytes: Int, rows: Int)] {
        let chroma = (bytes: (width + 1) / 2, rows: (height + 1) / 2)
        return format == .rgba ? [(width * 4, height)] : [(width, height), chroma, chroma]
    }

    /// Lends the planes for as long as `body` runs. Returns nil if the memory cannot be mapped.
    public func withPlanes<Result>(_ body: (borrowing VideoPlanes) throws -> Result) rethrows -> Result? {
        try sample.buffer.withVideoPlanes(info, writable: false) { planes in
            try body(VideoPlanes(planes: planes, sizes: Self.planes(format, width, height)))
        }
    }

    /// Packed I420: luma, then both chroma planes, without padding; a copy. Converted if the frame is RGBA.
    public var i420: Data { format == .i420 ? packed : ColourConversion.i420(rgba: packed, width, height) }

    /// Packed RGBA, four bytes a pixel; a copy. Converted if the frame is I420.
    public var rgba: Data {
        format == .rgba
            ? packed
            : ColourConversion.rgba(
                i420: packed, width, height, isFullRange: info.range == .full,
                shares: info.lumaShares ?? (0.299, 0.114))
    }

    private var packed: Data {
        let sizes = Self.planes(format, width, height)
        var data = Data(capacity: sizes.reduce(0) { $0 + $1.bytes * $1.rows })
        withPlanes { planes in
            for (index, size) in sizes.enumerated() {
                for row in 0..<size.rows { planes.withRow(row, ofPlane: index) { data.append(contentsOf: $0) } }
            }
        }
        return data
    }
}

/// The planes of a frame, borrowed for a call. It cannot be copied, and so not be kept.
public struct VideoPlanes: ~Copyable {
    private let planes: [FramePlane]
    private let sizes: [(bytes: Int, rows: Int)]

    init(planes: [FramePlane], sizes: [(bytes: Int, rows: Int)]) { (self.planes, self.sizes) = (planes, sizes) }

    /// Three for I420, one for RGBA.
    public var count: Int { min(planes.count, sizes.count) }

    /// Bytes in a row of a plane, and rows.
    public func size(ofPlane index: Int) -> (bytes: Int, rows: Int) { sizes[index] }

    /// One byte: luma at `[0, x: 10, y: 20]` of I420, red at `[0, x: 4 * 10, y: 20]` of RGBA. Traps outside of the plane, as
    /// an array does.
    public subscript(plane: Int, x x: Int, y y: Int) -> UInt8 {
        precondition(x >= 0 && x < sizes[plane].bytes && y >= 0 && y < sizes[plane].rows, "outside of the plane")
        return planes[plane].base[y * planes[plane].stride + x]
    }

    /// The bytes of a row, without padding, for as long as `body` runs.
    public func withRow<Result>(
        _ row: Int, ofPlane index: Int, _ body: (UnsafeBufferPointer<UInt8>) throws -> Result
    ) rethrows -> Result {
        precondition(row >= 0 && row < sizes[index].rows, "outside of the plane")
        let start = planes[index].base + row * planes[index].stride
        return try body(UnsafeBufferPointer(start: start, count: sizes[index].bytes))
    }
}
