// The raw formats that libyuv reads.
internal import CYUV

/// How the samples of a format lie in memory.
struct PixelFormat: Sendable {
    /// Converts packed pixels to planes; RGB becomes BT.601 in limited range.
    typealias Conversion =
        @convention(c) @Sendable (
            UnsafePointer<UInt8>?, CInt, UnsafeMutablePointer<UInt8>?, CInt, UnsafeMutablePointer<UInt8>?, CInt,
            UnsafeMutablePointer<UInt8>?, CInt, CInt, CInt
        ) -> CInt
    typealias Repacking =
        @convention(c) @Sendable (UnsafePointer<UInt8>?, CInt, UnsafeMutablePointer<UInt8>?, CInt, CInt, CInt) -> CInt
    enum Layout: Sendable {
        /// A plane each for luma and both kinds of chroma.
        case planes
        /// A plane of luma, and one of pairs of chroma samples.
        case pairs
        case packed(to420: Conversion, to422: Conversion)
        case rgb(Conversion, toARGB: Repacking, bytes: Int)
    }
    let layout: Layout
    /// V comes first.
    var isSwapped = false
    /// For samples of 16 bits: 65536 times the factor that leaves 8 bits.
    var narrowing: CInt?

    /// - Parameter name: as in caps.
    init?(_ name: String?) {
        switch name {
        case "I420", "Y42B", "Y444": layout = .planes
        case "YV12": (layout, isSwapped) = (.planes, true)
        case "I420_10LE", "I422_10LE", "Y444_10LE": (layout, narrowing) = (.planes, 1 << 14)
        case "I420_12LE", "I422_12LE", "Y444_12LE": (layout, narrowing) = (.planes, 1 << 12)
        case "NV12", "NV16", "NV24": layout = .pairs
        case "NV21", "NV61": (layout, isSwapped) = (.pairs, true)
        case "P010_10LE", "P012_LE", "P016_LE": (layout, narrowing) = (.pairs, 1 << 8)
        case "YUY2": layout = .packed(to420: YUY2ToI420, to422: YUY2ToI422)
        case "YVYU": (layout, isSwapped) = (.packed(to420: YUY2ToI420, to422: YUY2ToI422), true)
        case "UYVY": layout = .packed(to420: UYVYToI420, to422: UYVYToI422)
        case "VYUY": (layout, isSwapped) = (.packed(to420: UYVYToI420, to422: UYVYToI422), true)
        // libyuv names RGB by words of little endian, so the first byte comes last.
        case "RGB": layout = .rgb(RAWToI420, toARGB: RAWToARGB, bytes: 3)
        case "BGR": layout = .rgb(RGB24ToI420, toARGB: RGB24ToARGB, bytes: 3)
        case "RGBA", "RGBx": layout = .rgb(ABGRToI420, toARGB: ABGRToARGB, bytes: 4)
        case "BGRA", "BGRx": layout = .rgb(ARGBToI420, toARGB: ARGBCopy, bytes: 4)
        case "ARGB", "xRGB": layout = .rgb(BGRAToI420, toARGB: BGRAToARGB, bytes: 4)
        case "ABGR", "xBGR": layout = .rgb(RGBAToI420, toARGB: RGBAToARGB, bytes: 4)
        default: return nil
        }
    }
}
