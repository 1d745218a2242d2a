internal import CGStreamer

/// A borrowed mapped frame, valid only during the call that provides it.
public struct VideoFrameRef {
    private let pointer: UnsafeMutablePointer<GstVideoFrame>
    init(_ pointer: UnsafeMutablePointer<GstVideoFrame>) { self.pointer = pointer }

    /// The number of planes.
    public var planeCount: Int { pointer.pointee.info.finfo.map { Int($0.pointee.n_planes) } ?? 0 }
    /// True if the frame holds two interleaved fields.
    public var isInterlaced: Bool { pointer.pointee.flags.rawValue & GST_VIDEO_FRAME_FLAG_INTERLACED.rawValue != 0 }

    /// Copies another frame of the same format and size into this one; false if they differ.
    func copy(from other: VideoFrameRef) -> Bool { gst_video_frame_copy(pointer, other.pointer) != 0 }

    /// Returns nil if the frame has no such plane, or less mapped memory than its size and stride require.
    public func plane(_ index: Int) -> FramePlane? {
        guard let format = pointer.pointee.info.finfo, index >= 0, index < planeCount,
            let base = kit_video_frame_plane(pointer, UInt32(index)),
            let layout = PlaneLayout(
                format, plane: index, width: Int(pointer.pointee.info.width), height: Int(pointer.pointee.info.height))
        else { return nil }
        let plane = FramePlane(
            base: base, stride: Int(kit_video_frame_stride(pointer, UInt32(index))), layout: layout)
        var before: gsize = 0
        var after: gsize = 0
        kit_video_frame_room(pointer, UInt32(index), &before, &after)
        // Both factors fit in 31 bits, so the product cannot overflow.
        let lastRow = plane.stride &* (layout.rows &- 1)
        guard -min(0, lastRow) <= Int(clamping: before), max(0, lastRow) &+ layout.rowBytes <= Int(clamping: after)
        else {
            return nil
        }
        return plane
    }
}

/// A plane of a mapped frame, valid as long as the frame is.
public struct FramePlane {
    /// The first sample of the first row.
    public let base: UnsafeMutablePointer<UInt8>
    /// Bytes from one row to the next; may be negative.
    public let stride: Int
    /// Rows, columns and the unit of a sample.
    public let layout: PlaneLayout
}

/// The layout of a plane's pixels.
public struct PlaneLayout: Equatable, Sendable {
    /// What lies at a column.
    public enum Unit: Equatable, Sendable {
        /// The number of bytes that a flip moves together: one sample, one pixel, or one pair of chroma samples.
        case bytes(Int)
        /// Packed 4:2:2: two pixels in four bytes with shared chroma.
        case pairsLumaFirst, pairsChromaFirst
    }
    /// What lies at a column.
    public let unit: Unit
    /// Units per row; for the packed 4:2:2 units, pixels per row.
    public let columns: Int
    /// The number of rows.
    public let rows: Int

    /// The bytes of a row without its padding.
    public var rowBytes: Int {
        switch unit {
        case .bytes(let size): columns &* size
        case .pairsLumaFirst, .pairsChromaFirst: (columns &+ 1) / 2 &* 4
        }
    }

    init?(_ format: UnsafePointer<GstVideoFormatInfo>, plane: Int, width: Int, height: Int) {
        let format = format.pointee
        let components = 0..<min(4, Int(format.n_components))
        func isInPlane(_ index: Int) -> Bool { Int(element(index, of: format.plane)) == plane }
        guard let first = components.first(where: isInPlane), width > 0, height > 0 else { return nil }
        let size = Int(element(first, of: format.pixel_stride))
        guard size > 0 else { return nil }
        rows = Self.scaled(height, Int(element(first, of: format.h_sub)))
        // Luma and chroma with different pixel strides in one plane: packed 4:2:2.
        if components.contains(where: { isInPlane($0) && Int(element($0, of: format.pixel_stride)) != size }) {
            unit = element(first, of: format.poffset) == 0 ? .pairsLumaFirst : .pairsChromaFirst
            columns = width
        } else {
            unit = .bytes(size)
            columns = Self.scaled(width, Int(element(first, of: format.w_sub)))
        }
    }

    private static func scaled(_ length: Int, _ shift: Int) -> Int {
        let shift = min(8, max(0, shift))
        return (length &+ (1 << shift) &- 1) >> shift
    }
}

private func element<T>(_ index: Int, of tuple: (T, T, T, T)) -> T {
    switch index {
    case 0: tuple.0
    case 1: tuple.1
    case 2: tuple.2
    default: tuple.3
    }
}
