internal import CFlipKernels
import GStreamerKit

/// Flips frames plane by plane, in place if source and target share memory.
enum FrameFlip {
    private static let level = decart_flip_best_level()

    /// Returns false if a plane is missing, is shorter than its layout says, or has an unknown pixel unit.
    static func run(_ flip: Flip, _ source: VideoFrameRef, into target: VideoFrameRef) -> Bool {
        for index in 0..<source.planeCount {
            guard let from = source.plane(index), let to = target.plane(index), from.layout == to.layout,
                let unit = from.layout.unit.kernel
            else { return false }
            switch flip {
            case .leftToRight:
                decart_flip_plane_horizontally(
                    to.base, to.stride, from.base, from.stride, from.layout.columns, from.layout.rows, unit, level)
            case .topToBottom:
                // Rows are swapped within their field only: the two fields were captured at different times.
                let fields = source.isInterlaced ? 2 : 1
                for field in 0..<fields {
                    decart_flip_plane_vertically(
                        to.base + to.stride &* field, to.stride &* fields, from.base + from.stride &* field,
                        from.stride &* fields, from.layout.rowBytes, (from.layout.rows &- field &+ fields &- 1) / fields
                    )
                }
            }
        }
        return true
    }
}

extension PlaneLayout.Unit {
    fileprivate var kernel: decart_flip_unit? {
        switch self {
        case .bytes(1): DECART_FLIP_8
        case .bytes(2): DECART_FLIP_16
        case .bytes(3): DECART_FLIP_24
        case .bytes(4): DECART_FLIP_32
        case .bytes: nil
        case .pairsLumaFirst: DECART_FLIP_YUYV
        case .pairsChromaFirst: DECART_FLIP_UYVY
        }
    }
}
