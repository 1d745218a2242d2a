internal import CGStreamer

/// A mapped frame on loan: valid only during the call that lent it.
package struct VideoFrameRef {
    private let pointer: UnsafeMutablePointer<GstVideoFrame>
    init(_ pointer: UnsafeMutablePointer<GstVideoFrame>) { self.pointer = pointer }

    package var planeCount: Int { pointer.pointee.info.finfo.map { Int($0.pointee.n_planes) } ?? 0 }
    /// Rows of two fields take turns.
    package var isInterlaced: Bool { pointer.pointee.flags.rawValue & GST_VIDEO_FRAME_FLAG_INTERLACED.rawValue != 0 }

    /// nil where the frame has no such plane, or less memory than its size and stride say.
    package func plane(_ index: Int) -> FramePlane? {
        guard let format = pointer.pointee.info.finfo, index >= 0, index < planeCount,
            let base = decart_video_frame_plane(pointer, UInt32(index)),
            let layout = PlaneLayout(
                format, plane: index, width: Int(pointer.pointee.info.width), height: Int(pointer.pointee.info.height))
        else { return nil }
        let plane = FramePlane(
            base: base, stride: Int(decart_video_frame_stride(pointer, UInt32(index))), layout: layout)
        var before: gsize = 0
        var after: gsize = 0
        decart_video_frame_room(pointer, UInt32(index), &before, &after)
        // 31-bit factors: the product fits.
        let lastRow = plane.stride &* (layout.rows &- 1)
        guard -min(0, lastRow) <= Int(clamping: before), max(0, lastRow) &+ layout.rowBytes <= Int(clamping: after)
        else {
            return nil
        }
        return plane
    }
}

package struct FramePlane {
    package let base: UnsafeMutablePointer<UInt8>
    /// Bytes from a row to the next one; may be negative.
    package let stride: Int
    package let layout: PlaneLayout
}

/// How a plane's pixels lie in a row.
package struct PlaneLayout: Equatable, Sendable {
    package enum Unit: Equatable, Sendable {
        /// So many bytes that belong together: a sample, a pixel, or a pair of chroma samples.
        case bytes(Int)
        /// 4:2:2 in one plane: two pixels in four bytes, which share their chroma.
        case pairsLumaFirst, pairsChromaFirst
    }
    package let unit: Unit
    /// Units in a row; pixels where the unit is a pair.
    package let columns: Int
    package let rows: Int

    package var rowBytes: Int {
        switch unit {
        case .bytes(let size): columns &* size
        case .pairsLumaFirst, .pairsChromaFirst: (columns &+ 1) / 2 &* 4
        }
    }

    init?(_ format: UnsafePointer<GstVideoFormatInfo>, plane: Int, width: Int, height: Int) {
        let format = format.pointee
        let components = (0..<min(4, Int(format.n_components))).filter { Int(element($0, of: format.plane)) == plane }
        guard let first = components.first, width > 0, height > 0 else { return nil }
        let size = Int(element(first, of: format.pixel_stride))
        guard size > 0 else { return nil }
        rows = Self.scaled(height, Int(element(first, of: format.h_sub)))
        // Luma and chroma in one plane at different distances: the packed 4:2:2 formats.
        if components.contains(where: { Int(element($0, of: format.pixel_stride)) != size }) {
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
