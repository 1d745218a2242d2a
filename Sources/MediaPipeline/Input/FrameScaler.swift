// Scales packed RGB and converts it to I420 in one pass: crop, letterbox or stretch by the placement, matrix and range by the
// target's caps.
internal import CScaleKernels
package import GStreamerKit

// @unchecked: used by one thread at a time, which is the streaming thread of the input.
package final class FrameScaler: @unchecked Sendable {
    private let source: VideoInfo
    private let target: VideoInfo
    private let placement: FramePlacement
    private let plan: UnsafeMutablePointer<decart_scale_plan>
    private let matrix: decart_scale_matrix
    private let pool: BufferPool
    private let level = decart_scale_best_level()

    /// False on a processor without the instructions that make it faster than GStreamer's elements.
    package static let isFast = decart_scale_best_level() != DECART_SCALE_PLAIN

    /// - Parameter target: I420.
    package init?(_ source: VideoInfo, to target: VideoInfo, _ placement: FramePlacement) {
        let (shown, area) = (placement.shown, placement.area)
        guard let order = source.packedRGB, target.isI420, let shares = target.lumaShares,
            Self.lies(shown, within: source), Self.lies(area, within: target), area.x % 2 == 0, area.y % 2 == 0,
            let pool = BufferPool(size: target.size),
            let plan = decart_scale_make_plan(shown.width, shown.height, area.width, area.height)
        else { return nil }
        (self.source, self.target, self.placement, self.pool, self.plan) = (source, target, placement, pool, plan)
        matrix = decart_scale_make_matrix(
            CInt(order.red), CInt(order.green), CInt(order.blue), shares.red, shares.blue, target.isFullRange ? 1 : 0)
    }

    deinit { free(plan) }

    private static func lies(_ area: FramePlacement.Area, within video: VideoInfo) -> Bool {
        area.x >= 0 && area.y >= 0 && area.width > 0 && area.height > 0 && area.width <= video.width
            && area.height <= video.height && area.x <= video.width - area.width
            && area.y <= video.height - area.height
    }

    /// Returns a new frame with the times and flags of `frame`; nil without memory, or if the frame has less of it than
    /// its size and stride say.
    package func scaled(_ frame: Buffer) -> Buffer? {
        guard let result = pool.next() else { return nil }
        let isDone = frame.withVideoFrame(source, writable: false) { from -> Bool in
            result.withVideoFrame(target, writable: true) { write(from, into: $0) } ?? false
        }
        guard isDone == true else { return nil }
        result.copyDescription(of: frame)
        return result
    }

    private func write(_ from: VideoFrameRef, into to: VideoFrameRef) -> Bool {
        // Each plane has been checked to have the memory of its rows.
        guard let pixels = from.plane(0), let y = to.plane(0), let u = to.plane(1), let v = to.plane(2) else {
            return false
        }
        let (shown, area) = (placement.shown, placement.area)
        if area.width < target.width || area.height < target.height {
            y.fill(target.isFullRange ? 0 : 16)
            u.fill(128)
            v.fill(128)
        }
        let halves = (x: area.x / 2, y: area.y / 2)
        let planes = decart_scale_target(
            y: y.base + y.stride * area.y + area.x, u: u.base + u.stride * halves.y + halves.x,
            v: v.base + v.stride * halves.y + halves.x, y_stride: y.stride, u_stride: u.stride, v_stride: v.stride)
        var matrix = matrix
        decart_scale_frame(
            plan, pixels.base + pixels.stride * shown.y + shown.x * 4, pixels.stride, planes, &matrix, level)
        return true
    }
}

extension FramePlane {
    fileprivate func fill(_ value: UInt8) {
        for row in 0..<layout.rows {
            (base + stride * row).update(repeating: value, count: layout.rowBytes)
        }
    }
}
