internal import CGStreamer

/// Format, size and frame rate of raw video, parsed from fixed caps.
public struct VideoInfo: @unchecked Sendable {
    // @unchecked: a plain C value whose only shared pointer, `finfo`, refers to GStreamer's static table.
    var info: GstVideoInfo

    /// Reads fixed caps of raw video; nil: they are not.
    public init?(caps: Caps) {
        var parsed = GstVideoInfo()
        guard gst_video_info_from_caps(&parsed, caps.pointer) != 0 else { return nil }
        info = parsed
    }

    init(_ info: GstVideoInfo) { self.info = info }

    /// Pixels.
    public var width: Int { Int(info.width) }
    /// Pixels.
    public var height: Int { Int(info.height) }
    /// The bytes of a frame without a GstVideoMeta.
    public var size: Int { Int(info.size) }
    /// Frames a second as a fraction; 0/1: variable.
    public var framerate: (Int, Int) { (Int(info.fps_n), Int(info.fps_d)) }
    /// Width to height of a pixel.
    public var pixelAspectRatio: (Int, Int) { (Int(info.par_n), Int(info.par_d)) }
    /// True for full-range YUV (0-255), such as decoded JPEG frames of a camera.
    public var isFullRangeYUV: Bool {
        guard info.colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255, let format = info.finfo else { return false }
        return format.pointee.flags.rawValue & GST_VIDEO_FORMAT_FLAG_YUV.rawValue != 0
    }
    /// True if the first plane holds 8-bit luma and nothing else, as in I420 and NV12.
    public var hasPlainLuma: Bool {
        guard let format = info.finfo else { return false }
        let flags = format.pointee.flags.rawValue
        return flags & GST_VIDEO_FORMAT_FLAG_YUV.rawValue != 0 && format.pointee.n_planes > 1
            && format.pointee.plane.0 == 0
            && format.pointee.depth.0 == 8 && format.pointee.pixel_stride.0 == 1
    }
    /// Each frame has a flag that says if it is interlaced; some decoders set none.
    public var isMixed: Bool { info.interlace_mode == GST_VIDEO_INTERLACE_MODE_MIXED }
    /// Frames may consist of two fields.
    public var isInterlaced: Bool { info.interlace_mode != GST_VIDEO_INTERLACE_MODE_PROGRESSIVE }
}

extension VideoInfo {
    /// Interlaced frames of fewer rows must not reach a converter: GStreamer 1.22 overwrites the heap if the fields of
    /// a plane have fewer than two rows, or numbers of rows that need other filters; 4:1:0 has a quarter of the rows.
    package static let fewestInterlacedRows = 16

    /// The same where frames arrive: it also finds memory that cannot be mapped, for which a converter gives on a frame of
    /// whatever its memory held before.
    public func shortage(ofArriving buffer: Buffer) -> (bytes: Int, needed: Int)? {
        shortage(of: buffer) ?? (buffer.isReadable ? nil : (0, size))
    }

    /// Returns nil if the buffer has the bytes of a frame of these caps, else both numbers.
    public func shortage(of buffer: Buffer) -> (bytes: Int, needed: Int)? {
        guard let pointer = buffer.pointer else { return (0, size) }
        var own = info
        let needed = Int(clamping: kit_video_frame_bytes(&own, gst_buffer_get_video_meta(pointer)))
        if needed > 0, buffer.size >= needed { return nil }
        return (buffer.size, needed > 0 ? needed : size)
    }
}

extension Buffer {
    /// Maps the planes of a raw frame, with the strides of its GstVideoMeta if it has one. Returns nil if mapping fails
    /// or a plane has less memory than its rows need.
    public func withVideoPlanes<R>(
        _ video: VideoInfo, writable: Bool, _ body: ([FramePlane]) throws -> R
    ) rethrows -> R? {
        let result = try withVideoFrame(video, writable: writable) { frame -> R? in
            let planes = (0..<frame.planeCount).compactMap(frame.plane)
            return planes.count == frame.planeCount ? try body(planes) : nil
        }
        return result ?? nil
    }

    /// Maps a raw frame for as long as `body` runs. Returns nil if mapping fails, or if the frame is smaller than its caps say:
    /// GStreamer takes that for a fault of the program.
    public func withVideoFrame<R>(_ video: VideoInfo, writable: Bool, _ body: (VideoFrameRef) throws -> R) rethrows
        -> R?
    {
        var frame = GstVideoFrame()
        var info = video.info
        guard let pointer, video.shortage(of: self) == nil,
            gst_video_frame_map(&frame, &info, pointer, writable ? mapReadWrite : GST_MAP_READ) != 0
        else { return nil }
        defer { gst_video_frame_unmap(&frame) }
        return try withUnsafeMutablePointer(to: &frame) { try body(VideoFrameRef($0)) }
    }

    /// Returns the frame in the layout that its caps alone describe: this buffer if it has that, else a copy; nil if the
    /// frame cannot be copied. The pool has the memory for the copy, of the frame's size.
    public func inDefaultLayout(_ video: VideoInfo, from pool: BufferPool) -> Buffer? {
        guard let pointer, let meta = gst_buffer_get_video_meta(pointer) else { return self }
        var info = video.info
        guard meta.pointee.width == video.info.width, meta.pointee.height == video.info.height,
            kit_video_meta_is_default(meta, &info) == 0
        else { return self }
        guard let copy = pool.next() else { return nil }
        let isCopied = withVideoFrame(video, writable: false) { from in
            copy.withVideoFrame(video, writable: true) { $0.copy(from: from) } ?? false
        }
        guard isCopied == true else { return nil }
        copy.copyDescription(of: self)
        return copy
    }

    /// Copies flags, times and plain metas of another frame. Call it only on a buffer that nothing else references.
    public func copyDescription(of other: Buffer) {
        guard let pointer, let from = other.pointer else { return }
        kit_buffer_copy_description(pointer, from)
    }

    /// Returns the frame in writable memory, copied only if it is shared. Consumes this buffer's reference; nil if
    /// copying fails.
    public func madeWritable() -> Buffer? {
        guard let owned = release(), let writable = kit_buffer_make_writable(owned) else { return nil }
        return Buffer(taking: writable)
    }

    /// A black I420 frame of the given size.
    package static func blackI420(_ video: VideoInfo) -> Buffer? {
        let buffer = Buffer(size: video.size)
        let done: Void? = buffer.withVideoPlanes(video, writable: true) { planes in
            for (index, plane) in planes.enumerated() {
                plane.base.initialize(
                    repeating: index == 0 ? 16 : 128, count: plane.stride &* plane.layout.rows)
            }
        }
        return done == nil ? nil : buffer
    }
}
