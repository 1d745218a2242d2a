// YUV of one matrix and range as that of another: libyuv has no such step, and its way through RGB is off by up to 5 levels.
import GStreamerKit

/// Converts I420 in place.
struct ColourConversion: Sendable {
    /// Factors of luma and both chroma samples, in 1/16384.
    private struct Factors {
        var luma: Int32 = 0
        var u: Int32 = 0
        var v: Int32 = 0
    }
    private var luma = Factors()
    private var u = Factors()
    private var v = Factors()
    private let lumaBias: Int32

    private static let one = 16384.0

    /// nil if the colours of a video are not known.
    init?(from source: VideoInfo, to target: VideoInfo) {
        guard let (red, blue) = source.lumaShares, let range = source.range, let (toRed, toBlue) = target.lumaShares,
            let toRange = target.range
        else { return nil }
        /// The factors of a sample whose source is 1 while the other two are 0.
        func factors(_ y: Double, _ pb: Double, _ pr: Double) -> (y: Int32, u: Int32, v: Int32) {
            let (r, b) = (y + 2 * (1 - red) * pr, y + 2 * (1 - blue) * pb)
            let g = (y - red * r - blue * b) / (1 - red - blue)
            let luma = toRed * r + (1 - toRed - toBlue) * g + toBlue * b
            let chroma = toRange.chroma * Self.one
            return (
                Int32((luma * toRange.luma * Self.one).rounded()),
                Int32(((b - luma) / 2 / (1 - toBlue) * chroma).rounded()),
                Int32(((r - luma) / 2 / (1 - toRed) * chroma).rounded())
            )
        }
        (luma.luma, _, _) = factors(1 / range.luma, 0, 0)
        (luma.u, u.u, v.u) = factors(0, 1 / range.chroma, 0)
        (luma.v, u.v, v.v) = factors(0, 0, 1 / range.chroma)
        lumaBias = toRange.black * 16384 - range.black * luma.luma + 8192
    }

    func convert(_ frame: SampledFrame) {
        for row in 0..<Int(frame.u.height) {
            convert(
                frame.u.rows(row, 1).base, frame.v.rows(row, 1).base, frame.y.rows(2 * row, 1).base,
                frame.y.rows(2 * row + 1, 1).base, columns: Int(frame.u.width))
        }
    }

    private typealias Row = UnsafeMutablePointer<UInt8>

    // The compiler vectorises the loop only by itself: that halves its time.
    @inline(never)
    private func convert(_ blues: Row, _ reds: Row, _ upper: Row, _ lower: Row, columns: Int) {
        let (luma, u, v, lumaBias) = (luma, u, v, lumaBias)
        for x in 0..<columns {
            let (blue, red) = (Int32(blues[x]) &- 128, Int32(reds[x]) &- 128)
            blues[x] = Self.level(blue &* u.u &+ red &* u.v &+ Self.chromaBias)
            reds[x] = Self.level(blue &* v.u &+ red &* v.v &+ Self.chromaBias)
            let bias = blue &* luma.u &+ red &* luma.v &+ lumaBias
            upper[2 &* x] = Self.level(Int32(upper[2 &* x]) &* luma.luma &+ bias)
            upper[2 &* x &+ 1] = Self.level(Int32(upper[2 &* x &+ 1]) &* luma.luma &+ bias)
            lower[2 &* x] = Self.level(Int32(lower[2 &* x]) &* luma.luma &+ bias)
            lower[2 &* x &+ 1] = Self.level(Int32(lower[2 &* x &+ 1]) &* luma.luma &+ bias)
        }
    }

    private static let chromaBias: Int32 = 128 * 16384 + 8192

    private static func level(_ sum: Int32) -> UInt8 { UInt8(truncatingIfNeeded: max(0, min(255, sum &>> 14))) }
}

extension SampleRange {
    fileprivate var luma: Double { self == .full ? 255 : 219 }
    fileprivate var chroma: Double { self == .full ? 255 : 224 }
    fileprivate var black: Int32 { self == .full ? 0 : 16 }
}
