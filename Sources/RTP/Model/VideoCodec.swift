package enum VideoCodec: String, Sendable, CaseIterable {
    /// `h265` is received only.
    case vp8, vp9, h264, h265

    /// The name in `a=rtpmap` (RFC 7741, RFC 9628, RFC 6184, RFC 7798).
    package var encodingName: String { rawValue.uppercased() }
}
