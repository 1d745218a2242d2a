// Formats between a converter and the elements behind it, for a capsfilter: those that GStreamer 1.22 handles right.
package import GStreamerKit

package enum PlainFormats {
    /// YUV with two pixels in one group of four bytes.
    private static let packed = ["YUY2", "UYVY", "YVYU"]
    /// Formats that deinterlace takes; it passes frames of others on as they are.
    private static let deinterlaced =
        packed + [
            "I420", "YV12", "Y42B", "Y444", "Y41B", "NV12", "NV21", "AYUV", "RGBx", "BGRx", "xRGB", "xBGR", "RGBA",
            "BGRA", "ARGB", "ABGR", "RGB", "BGR",
        ]
    /// Formats that videocrop can crop: it accepts all others too, and then fails.
    package static let cropped =
        deinterlaced + [
            "RGB16", "RGB15", "GRAY8", "GRAY16_LE", "GRAY16_BE", "v210", "I420_10LE", "I420_10BE", "I422_10LE",
            "I422_10BE", "Y444_10LE", "Y444_10BE", "I420_12LE", "I420_12BE", "I422_12LE", "I422_12BE", "Y444_12LE",
            "Y444_12BE",
        ]

    /// Caps of the input's frames in one of these formats.
    package static func caps(for input: VideoInfo?, among formats: [String]) -> String {
        var (formats, colorimetry) = (formats, "")
        if let input, input.isRGB, let name = input.formatName, !formats.contains(name) {
            // A converter that may choose gives converted RGB the colorimetry of YUV, and so another range.
            formats = formats.filter { $0.contains("RGB") || $0.contains("BGR") }
            colorimetry = ", colorimetry=(string)\(input.colorimetry ?? "sRGB")"
        }
        return "video/x-raw, format=(string){ \(formats.joined(separator: ", ")) }\(colorimetry)"
    }

    /// Caps of the frames that are deinterlaced, cropped and scaled.
    /// - Parameter fit: `letterbox` may scale to an odd width.
    static func caps(for input: VideoInfo?, _ fit: Fit) -> String {
        // If the matrix is the same, videoconvert copies full-range samples to limited range unchanged.
        if input?.isFullRangeYUV == true { return "video/x-raw, format=(string)BGRx" }
        let formats = input?.isInterlaced == true ? deinterlaced : cropped
        // videoscale requires of a packed format that luma and chroma need filters of the same length.
        let isEven = fit != .letterbox && input.map { $0.width % 2 == 0 && $0.width >= 4 } ?? true
        return caps(for: input, among: isEven ? formats : formats.filter { !packed.contains($0) })
    }
}
