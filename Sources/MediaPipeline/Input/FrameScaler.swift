// Crops and scales frames and converts them to I420 in BT.601, by libyuv. Every plane is checked before libyuv reads it.
internal import CYUV
package import GStreamerKit
import Glibc

// @unchecked: used by one thread at a time, which is the streaming thread of the input.
package final class FrameScaler: @unchecked Sendable {
    private let source: VideoInfo
    private let target: VideoInfo
    private let placement: FramePlacement
    private let format: PixelFormat
    /// For YUV that is not BT.601 in limited range.
    private let colours: ColourConversion?
    private let pool: BufferPool
    /// Memory for what one call of libyuv leaves for the next one.
    private let scratch: UnsafeMutableRawPointer

    /// libyuv's positions have 16 bits before the point, one of them for the sign.
    private static let longestSide = 16384
    /// Rows that pass two calls while they are in the processor's cache; even.
    private static let bandRows = 16

    /// - Parameter target: I420 in BT.601, limited range.
    package init?(_ source: VideoInfo, to target: VideoInfo, _ placement: FramePlacement) {
        let (shown, area) = (placement.shown, placement.area)
        guard Self.supports(source), let format = PixelFormat(source.formatName), target.isI420, target.isLimited601,
            Self.lies(shown, within: source), Self.lies(area, within: target), let pool = BufferPool(size: target.size),
            // Room for the source as RGB and as YUV, and for twice the target; pages that are not used cost nothing.
            let scratch = malloc(
                8 * (shown.width + 1) * (shown.height + 1) + 4 * area.width * (area.height + Self.bandRows))
        else { return nil }
        (self.source, self.target, self.placement, self.format) = (source, target, placement, format)
        (self.pool, self.scratch) = (pool, scratch)
        colours = source.isRGB || source.isLimited601 ? nil : ColourConversion(from: source, to: target)
    }

    /// Scales the whole of an I420 frame that the encoder takes.
    package convenience init?(from size: (width: Int, height: Int), to target: (width: Int, height: Int)) {
        func video(_ size: (width: Int, height: Int)) -> VideoInfo? {
            (try? Caps(EncoderFrame.caps(width: size.width, height: size.height))).flatMap(VideoInfo.init(caps:))
        }
        guard let source = video(size), let sent = video(target),
            let placement = FramePlacement(source, in: target, fit: .stretch)
        else { return nil }
        self.init(source, to: sent, placement)
    }

    deinit { free(scratch) }

    /// True if libyuv reads the format, and the colours are full-range RGB or YUV whose matrix and range are known.
    package static func supports(_ video: VideoInfo) -> Bool {
        guard PixelFormat(video.formatName) != nil else { return false }
        return video.isRGB ? video.range == .full : video.range != nil && video.lumaShares != nil
    }

    /// True if the area is inside the frame and begins with a whole chroma sample.
    private static func lies(_ area: FramePlacement.Area, within video: VideoInfo) -> Bool {
        area.x >= 0 && area.y >= 0 && area.x % 2 == 0 && area.y % 2 == 0 && area.width > 0 && area.height > 0
            && area.width <= longestSide && area.height <= longestSide && area.x <= video.width - area.width
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
        let whole = FramePlacement.Area(width: target.width, height: target.height)
        guard let frame = SampledFrame(to, target, whole), let sent = SampledFrame(to, target, placement.area) else {
            return false
        }
        if placement.area != whole { frame.blacken() }
        guard fill(format.isSwapped ? sent.swapped : sent, from) else { return false }
        colours?.convert(sent)
        return true
    }

    /// - Parameter sent: `u` is for the chroma that comes first in the source.
    private func fill(_ sent: SampledFrame, _ from: VideoFrameRef) -> Bool {
        guard let first = SamplePlane(from, 0, source, placement.shown) else { return false }
        let isSized = first.hasSize(of: sent.y)
        var memory = ScratchPlanes(scratch)
        switch format.layout {
        case .planes:
            guard let frame = SampledFrame(from, source, placement.shown) else { return false }
            let (y, u, v) = (narrowed(frame.y, &memory), narrowed(frame.u, &memory), narrowed(frame.v, &memory))
            SampledFrame(y: y, u: u, v: v).scale(to: sent, &memory)
        case .pairs:
            guard let pairs = SamplePlane(from, 1, source, placement.shown) else { return false }
            let luma = narrowed(first, &memory)
            split(narrowed(pairs, samples: 2, &memory), luma, to: sent, &memory)
        case .packed(let to420, let to422):
            if isSized { return sent.fill(from: first, to420) }
            let frame = memory.frame(first.width, chroma: (first.width + 1) / 2, first.height)
            guard frame.fill(from: first, to422) else { return false }
            // The box filter would make 4K dearer than it is in GStreamer's elements.
            frame.scale(to: sent, &memory, kFilterBilinear)
        case .rgb(let convert, let toARGB, let bytes):
            if isSized { return sent.fill(from: first, convert) }
            let shrinks = first.width * first.height > sent.y.width * sent.y.height
            if shrinks, bytes == 4 { return shrink(first, to: sent, memory, convert) }
            let argb = memory.plane(first.width, first.height, bytes: 4)
            guard toARGB(first.base, first.stride, argb.base, argb.stride, argb.width, argb.height) == 0 else {
                return false
            }
            if shrinks { return shrink(argb, to: sent, memory, ARGBToI420) }
            let frame = memory.frame(first.width, chroma: first.width, first.height)
            guard frame.fill(from: argb, ARGBToI444) else { return false }
            frame.scale(to: sent, &memory)
        }
        return true
    }

    private func narrowed(_ plane: SamplePlane, samples: CInt = 1, _ memory: inout ScratchPlanes) -> SamplePlane {
        guard let factor = format.narrowing else { return plane }
        let narrow = memory.plane(plane.width, plane.height, bytes: samples)
        Convert16To8Plane(
            UnsafeRawPointer(plane.base).assumingMemoryBound(to: UInt16.self), plane.stride / 2, narrow.base,
            narrow.stride, factor, samples * plane.width, plane.height)
        return narrow
    }

    /// Splitting at the source's size costs less than scaling pairs.
    private func split(
        _ pairs: SamplePlane, _ luma: SamplePlane, to sent: SampledFrame, _ memory: inout ScratchPlanes
    ) {
        let isSized = pairs.hasSize(of: sent.u)
        let u = isSized ? sent.u : memory.plane(pairs.width, pairs.height)
        let v = isSized ? sent.v : memory.plane(pairs.width, pairs.height)
        SplitUVPlane(pairs.base, pairs.stride, u.base, u.stride, v.base, v.stride, pairs.width, pairs.height)
        if isSized { luma.scale(to: sent.y) } else { SampledFrame(y: luma, u: u, v: v).scale(to: sent, &memory) }
    }

    /// Scales RGB of four bytes before it is converted: that reads and writes less.
    private func shrink(
        _ pixels: SamplePlane, to sent: SampledFrame, _ memory: ScratchPlanes, _ convert: PixelFormat.Conversion
    ) -> Bool {
        sent.bands(of: Self.bandRows).allSatisfy { row, band in
            var memory = memory
            let rgb = memory.plane(band.y.width, band.y.height, bytes: 4)
            // libyuv adds the band's position to the start of the whole frame. Its box filter for RGB ends the process at
            // some ratios in Debian 12.
            let whole = rgb.base - row * Int(rgb.stride)
            let status = ARGBScaleClip(
                pixels.base, pixels.stride, pixels.width, pixels.height, whole, rgb.stride, sent.y.width,
                sent.y.height, 0, CInt(row), band.y.width, band.y.height, kFilterBilinear)
            return status == 0 && band.fill(from: rgb, convert)
        }
    }
}

extension VideoInfo {
    fileprivate var isLimited601: Bool { lumaShares.map { $0 == (0.299, 0.114) } == true && range == .limited }
}
