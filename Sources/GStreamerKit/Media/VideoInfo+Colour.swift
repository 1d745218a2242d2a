internal import CGStreamer

/// Whether black and white are the least and greatest values.
public enum SampleRange: Sendable { case full, limited }

extension VideoInfo {
    /// The format is I420: planes of Y, U and V, of 8 bits.
    public var isI420: Bool { format == GST_VIDEO_FORMAT_I420 }

    /// The format holds red, green and blue.
    public var isRGB: Bool {
        info.finfo.map { $0.pointee.flags.rawValue & GST_VIDEO_FORMAT_FLAG_RGB.rawValue != 0 } ?? false
    }

    /// As in caps.
    public var formatName: String? { gst_video_format_to_string(format).map { String(cString: $0) } }

    /// As in caps; nil if they leave it open.
    public var colorimetry: String? {
        withUnsafePointer(to: info.colorimetry) { gst_video_colorimetry_to_string($0) }.map { String(taking: $0) }
    }

    private var format: GstVideoFormat { info.finfo?.pointee.format ?? GST_VIDEO_FORMAT_UNKNOWN }

    /// nil if caps leave it open.
    public var range: SampleRange? {
        switch info.colorimetry.range {
        case GST_VIDEO_COLOR_RANGE_0_255: .full
        case GST_VIDEO_COLOR_RANGE_16_235: .limited
        default: nil
        }
    }

    /// Shares of red and blue in luma; nil for RGB and for a matrix without them.
    public var lumaShares: (red: Double, blue: Double)? {
        var (red, blue) = (0.0, 0.0)
        guard gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &red, &blue) != 0 else { return nil }
        return (red, blue)
    }

    /// True for a colorimetry of caps, such as `bt601`.
    public func hasColorimetry(_ name: String) -> Bool {
        var colorimetry = info.colorimetry
        return gst_video_colorimetry_matches(&colorimetry, name) != 0
    }

    /// True if the frame shows the scene once, not from two cameras.
    public var isMono: Bool { info.views <= 1 }
}
