internal import CGStreamer

/// Byte offsets of the components in a packed pixel of four bytes.
package struct PackedRGB: Equatable, Sendable {
    package let red: Int
    package let green: Int
    package let blue: Int
}

extension VideoInfo {
    package var isI420: Bool { format == GST_VIDEO_FORMAT_I420 }

    /// nil unless the format has one byte for each of red, green and blue, and one more.
    package var packedRGB: PackedRGB? {
        switch format {
        case GST_VIDEO_FORMAT_RGBA, GST_VIDEO_FORMAT_RGBx: PackedRGB(red: 0, green: 1, blue: 2)
        case GST_VIDEO_FORMAT_BGRA, GST_VIDEO_FORMAT_BGRx: PackedRGB(red: 2, green: 1, blue: 0)
        case GST_VIDEO_FORMAT_ARGB, GST_VIDEO_FORMAT_xRGB: PackedRGB(red: 1, green: 2, blue: 3)
        case GST_VIDEO_FORMAT_ABGR, GST_VIDEO_FORMAT_xBGR: PackedRGB(red: 3, green: 2, blue: 1)
        default: nil
        }
    }

    package var isRGB: Bool {
        info.finfo.map { $0.pointee.flags.rawValue & GST_VIDEO_FORMAT_FLAG_RGB.rawValue != 0 } ?? false
    }

    /// As in caps.
    package var formatName: String? { gst_video_format_to_string(format).map { String(cString: $0) } }

    /// As in caps; nil if they leave it open.
    package var colorimetry: String? {
        guard let text = withUnsafePointer(to: info.colorimetry, { gst_video_colorimetry_to_string($0) }) else {
            return nil
        }
        defer { g_free(text) }
        return String(cString: text)
    }

    private var format: GstVideoFormat { info.finfo?.pointee.format ?? GST_VIDEO_FORMAT_UNKNOWN }

    package var isFullRange: Bool { info.colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255 }

    /// Shares of red and blue in luma; nil for RGB and for a matrix without them.
    package var lumaShares: (red: Double, blue: Double)? {
        var (red, blue) = (0.0, 0.0)
        guard gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &red, &blue) != 0 else { return nil }
        return (red, blue)
    }

    /// True for a colorimetry of caps, such as `bt601`.
    package func hasColorimetry(_ name: String) -> Bool {
        var colorimetry = info.colorimetry
        return gst_video_colorimetry_matches(&colorimetry, name) != 0
    }

    /// True if the frame shows the scene once, not from two cameras.
    package var isMono: Bool { info.views <= 1 }
}
