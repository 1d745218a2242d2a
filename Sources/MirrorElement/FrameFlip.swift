internal import CYUV
import GStreamerKit
import Glibc

/// Flips frames plane by plane, in place if source and target share memory.
enum FrameFlip {
    private typealias Bytes = UnsafeMutablePointer<UInt8>

    /// Returns false if a plane is missing, is shorter than its layout says, or has an unknown pixel unit.
    static func run(_ flip: Flip, _ source: VideoFrameRef, into target: VideoFrameRef) -> Bool {
        for index in 0..<source.planeCount {
            guard let from = source.plane(index), let to = target.plane(index), from.layout == to.layout else {
                return false
            }
            let isDone = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: from.layout.rowBytes) { bytes in
                guard let scratch = bytes.baseAddress else { return false }
                switch flip {
                case .leftToRight: return mirror(from, into: to, scratch)
                case .topToBottom:
                    // Rows are swapped within their field only: the two fields were captured at different times.
                    let fields = source.isInterlaced ? 2 : 1
                    for field in 0..<min(fields, from.layout.rows) {
                        swapRows(from, into: to, first: field, step: fields, scratch)
                    }
                    return true
                }
            }
            guard isDone else { return false }
        }
        return true
    }

    /// The target's memory is the source's or does not overlap it.
    /// - Parameter scratch: room for a row.
    private static func mirror(_ from: FramePlane, into to: FramePlane, _ scratch: Bytes) -> Bool {
        let layout = from.layout
        // libyuv counts bytes of a row in a C int.
        guard let bytes = CInt(exactly: layout.rowBytes), let rows = CInt(exactly: layout.rows) else { return false }
        switch layout.unit {
        case .bytes(let size):
            let columns = bytes / CInt(size)
            if from.base != to.base {
                return mirror(
                    from.base, CInt(truncatingIfNeeded: from.stride), into: to.base,
                    CInt(truncatingIfNeeded: to.stride), columns, rows, unitBytes: size)
            }
            for row in 0..<layout.rows {
                memcpy(scratch, from.row(row), layout.rowBytes)
                guard mirror(scratch, 0, into: to.row(row), 0, columns, 1, unitBytes: size) else { return false }
            }
        case .pairsLumaFirst, .pairsChromaFirst:
            let pairs = PixelPairs(isLumaFirst: layout.unit == .pairsLumaFirst)
            for row in 0..<layout.rows { pairs.mirror(from.row(row), into: to.row(row), layout.columns, scratch) }
        }
        return true
    }

    private static func mirror(
        _ from: Bytes, _ fromStride: CInt, into to: Bytes, _ toStride: CInt, _ columns: CInt, _ rows: CInt,
        unitBytes: Int
    ) -> Bool {
        switch unitBytes {
        case 1: MirrorPlane(from, fromStride, to, toStride, columns, rows)
        case 2: MirrorUVPlane(from, fromStride, to, toStride, columns, rows)
        case 3: RGB24Mirror(from, fromStride, to, toStride, columns, rows)
        case 4: ARGBMirror(from, fromStride, to, toStride, columns, rows)
        default: return false
        }
        return true
    }

    /// Swaps the rows `first`, `first + step` … from top to bottom.
    private static func swapRows(_ from: FramePlane, into to: FramePlane, first: Int, step: Int, _ scratch: Bytes) {
        let bytes = from.layout.rowBytes
        var (top, bottom) = (first, from.layout.rows - 1 - (from.layout.rows - 1 - first) % step)
        while top <= bottom {
            memcpy(scratch, from.row(bottom), bytes)
            // In the middle, and in place, both are the same row.
            memmove(to.row(bottom), from.row(top), bytes)
            memcpy(to.row(top), scratch, bytes)
            (top, bottom) = (top + step, bottom - step)
        }
    }
}

/// Pixels that share their chroma, two in four bytes. The lumas are exchanged, and the chroma bytes stay in their order,
/// so YVYU and VYUY need nothing else.
private struct PixelPairs {
    /// Offset of the first luma byte.
    private let luma: Int
    /// The source of each byte in four pairs whose lumas are exchanged.
    private let order: [UInt8]

    private static let lumaFirst: [UInt8] = [2, 1, 0, 3, 6, 5, 4, 7, 10, 9, 8, 11, 14, 13, 12, 15]
    private static let chromaFirst: [UInt8] = [0, 3, 2, 1, 4, 7, 6, 5, 8, 11, 10, 9, 12, 15, 14, 13]

    init(isLumaFirst: Bool) {
        (luma, order) = isLumaFirst ? (0, Self.lumaFirst) : (1, Self.chromaFirst)
    }

    func mirror(
        _ from: UnsafeMutablePointer<UInt8>, into to: UnsafeMutablePointer<UInt8>, _ columns: Int,
        _ scratch: UnsafeMutablePointer<UInt8>
    ) {
        if columns % 2 == 0 {
            let pairs = CInt(truncatingIfNeeded: columns / 2)
            ARGBShuffle(from, 0, scratch, 0, order, pairs, 1)
            ARGBMirror(scratch, 0, to, 0, pairs, 1)
            return
        }
        // Luma and chroma are reversed each on their own, as in planar formats. The last luma byte belongs to no pixel
        // and is copied as it is.
        memcpy(scratch, from, 2 * (columns + 1))
        for column in 0..<columns { to[2 * column + luma] = scratch[2 * (columns - 1 - column) + luma] }
        to[2 * columns + luma] = scratch[2 * columns + luma]
        let (chroma, last) = (1 - luma, 2 * (columns - 1))
        for pair in stride(from: 0, through: last, by: 4) {
            to[pair + chroma] = scratch[last - pair + chroma]
            to[pair + chroma + 2] = scratch[last - pair + chroma + 2]
        }
    }
}

extension FramePlane {
    fileprivate func row(_ index: Int) -> UnsafeMutablePointer<UInt8> { base + stride &* index }
}
