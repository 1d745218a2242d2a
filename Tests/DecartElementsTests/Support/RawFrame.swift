import CGStreamer
import GStreamerKit
import Testing

/// A frame in any format and memory layout, with a reference flip that moves sample by sample and component by
/// component according to GStreamer's format description.
// @unchecked: a value type; its only pointer refers to GStreamer's static format table.
struct RawFrame: @unchecked Sendable {
    enum Axis: Sendable { case leftToRight, topToBottom }

    let format: String
    let width: Int
    let height: Int
    /// Stride of each plane, bytes; negative if the rows are stored bottom-up.
    private(set) var strides: [Int] = []
    private(set) var offsets: [Int] = []
    private(set) var bytes: [UInt8]
    var isInterlaced = false
    private let info: GstVideoInfo

    /// - Parameter padding: bytes added to each row, before each plane and at the end.
    init(_ format: String, _ width: Int, _ height: Int, padding: Int = 0, upsideDown: Bool = false, seed: UInt64 = 1)
        throws
    {
        self.format = format
        self.width = width
        self.height = height
        hasOwnLayout = padding > 0 || upsideDown
        var info = GstVideoInfo()
        try #require(
            gst_video_info_set_format(&info, gst_video_format_from_string(format), UInt32(width), UInt32(height)) != 0)
        self.info = info
        let planes = Int(info.finfo.pointee.n_planes)
        let offset = Self.array(info.offset)
        let stride = Self.array(info.stride)
        var end = 0
        for plane in 0..<planes {
            let size = (plane + 1 < planes ? Int(offset[plane + 1]) : Int(info.size)) - Int(offset[plane])
            let rows = size / max(1, Int(stride[plane]))
            let padded = Int(stride[plane]) + padding
            end += padding
            offsets.append(upsideDown ? end + padded * (rows - 1) : padding == 0 ? Int(offset[plane]) : end)
            strides.append(upsideDown ? -padded : padded)
            end += padded * rows
        }
        end = padding == 0 && !upsideDown ? Int(info.size) : end + padding
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        bytes = (0..<end).map { _ in
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return UInt8(truncatingIfNeeded: state >> 24)
        }
        blankFillers()
    }

    private static func array<T>(_ tuple: (T, T, T, T)) -> [T] { [tuple.0, tuple.1, tuple.2, tuple.3] }

    var caps: String {
        "video/x-raw, format=\(format), width=\(width), height=\(height), framerate=30/1"
            + (isInterlaced ? ", interlace-mode=interleaved" : "")
    }

    /// Position of a component's samples, and their size in bytes.
    private struct Component {
        let offset, stride, step, width, height, size: Int
        /// `width`, plus the unused luma sample that an odd row of a pixel-pair format stores.
        let stored: Int
    }

    private var components: [Component] {
        let format = info.finfo.pointee
        return (0..<Int(format.n_components)).map { index in
            let plane = Int(Self.array(format.plane)[index])
            let depth = Int(Self.array(format.depth)[index]) + Int(Self.array(format.shift)[index])
            let (across, down) = (Int(Self.array(format.w_sub)[index]), Int(Self.array(format.h_sub)[index]))
            let size = depth > 8 ? 2 : 1
            let width = (width + (1 << across) - 1) >> across
            let step = Int(Self.array(format.pixel_stride)[index])
            let inPlane = Int(Self.array(format.poffset)[index])
            return Component(
                // GStreamer 1.22 reports V one byte after U for P010 and similar formats, although a sample takes two.
                offset: offsets[plane] + (size == 2 ? (inPlane + 1) & ~1 : inPlane), stride: strides[plane], step: step,
                width: width, height: (height + (1 << down) - 1) >> down, size: size,
                stored: hasPixelPairs && step == 2 ? (width + 1) & ~1 : width)
        }
    }

    private var hasPixelPairs: Bool { ["YUY2", "UYVY", "YVYU", "VYUY"].contains(format) }

    /// Gives the filler byte of formats such as xRGB a fixed value, so that it cannot decide a comparison.
    private mutating func blankFillers() {
        guard format.lowercased().contains("x"), strides.count == 1 else { return }
        let first = 0
        for row in 0..<height {
            for column in 0..<width {
                bytes[offsets[first] + row * strides[first] + column * 4 + (format.hasPrefix("x") ? 0 : 3)] = 0xAB
            }
        }
    }

    /// Returns the whole memory after a flip; bytes that belong to no sample stay unchanged.
    func flipped(_ axis: Axis) -> [UInt8] {
        var result = bytes
        for component in components {
            for row in 0..<component.height {
                for column in 0..<(axis == .leftToRight ? component.width : component.stored) {
                    let fromRow =
                        switch axis {
                        case .leftToRight: row
                        case .topToBottom:
                            isInterlaced ? mirroredInField(row, of: component.height) : component.height - 1 - row
                        }
                    let fromColumn = axis == .leftToRight ? component.width - 1 - column : column
                    let to = component.offset + row * component.stride + column * component.step
                    let from = component.offset + fromRow * component.stride + fromColumn * component.step
                    for byte in 0..<component.size { result[to + byte] = bytes[from + byte] }
                }
            }
        }
        return result
    }

    private func mirroredInField(_ row: Int, of rows: Int) -> Int {
        let last = row % 2 == (rows - 1) % 2 ? rows - 1 : rows - 2
        return last - row + row % 2
    }

    /// True if the layout differs from GStreamer's default, so that a buffer needs a video meta.
    let hasOwnLayout: Bool

    /// Returns all samples, component after component, of memory that has this layout.
    func samples(_ memory: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        for component in components {
            for row in 0..<component.height {
                for column in 0..<component.width {
                    let at = component.offset + row * component.stride + column * component.step
                    result.append(contentsOf: memory[at..<at + component.size])
                }
            }
        }
        return result
    }

    /// Returns a copy as a buffer; `meta` adds a video meta with the strides and offsets.
    func buffer(meta: Bool = true) throws -> Buffer {
        let buffer = bytes.withUnsafeBytes { Buffer(copying: $0) }
        guard meta else { return buffer }
        var offsets: [gsize] = [0, 0, 0, 0]
        var strides: [gint] = [0, 0, 0, 0]
        for plane in self.offsets.indices {
            offsets[plane] = gsize(self.offsets[plane])
            strides[plane] = gint(self.strides[plane])
        }
        try #require(
            gst_buffer_add_video_meta_full(
                Self.pointer(buffer), GST_VIDEO_FRAME_FLAG_NONE, info.finfo.pointee.format, UInt32(width),
                UInt32(height),
                info.finfo.pointee.n_planes, &offsets, &strides) != nil)
        return buffer
    }

    static func pointer(_ buffer: Buffer) throws -> UnsafeMutablePointer<GstBuffer> {
        try #require(buffer.raw).assumingMemoryBound(to: GstBuffer.self)
    }

    /// Returns the samples of a buffer according to the layout that it declares.
    func samples(of buffer: Buffer) throws -> [UInt8] {
        var frame = GstVideoFrame()
        var info = info
        try #require(gst_video_frame_map(&frame, &info, Self.pointer(buffer), GST_MAP_READ) != 0)
        defer { gst_video_frame_unmap(&frame) }
        var result: [UInt8] = []
        let format = self.info.finfo.pointee
        for (index, component) in components.enumerated() {
            let plane = Self.array(format.plane)[index]
            let base = try #require(kit_video_frame_plane(&frame, plane)) + component.offset - offsets[Int(plane)]
            let stride = Int(kit_video_frame_stride(&frame, plane))
            for row in 0..<component.height {
                for column in 0..<component.width {
                    for byte in 0..<component.size {
                        result.append(base[row * stride + column * component.step + byte])
                    }
                }
            }
        }
        return result
    }
}

extension Buffer {
    var copiedBytes: [UInt8] { withBytes { Array($0) } ?? [] }
}

/// Compares without `#expect`'s computation of a difference, which is slow for arrays of this size.
func same(_ one: [UInt8]?, _ other: [UInt8]) -> Bool { one == other }
