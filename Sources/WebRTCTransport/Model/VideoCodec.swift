package enum VideoCodec: String, Sendable, CaseIterable {
    case vp8, vp9, h264

    /// The name in `a=rtpmap` (RFC 7741, RFC 9628, RFC 6184).
    package var encodingName: String { rawValue.uppercased() }

    /// Format parameters of our offers. H.264: constrained baseline 3.1 or the profile of an encoded input, packets with
    /// one NAL unit or fragments (RFC 6184 8.1).
    func formatParameters(_ h264: H264Acceptance) -> String? {
        switch self {
        case .vp8: return nil
        case .vp9: return "profile-id=0"
        case .h264:
            let profile = if case .profile(let own) = h264 { own } else { H264Profile.constrainedBaseline }
            return "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=\(profile.levelID)"
        }
    }

    /// True if the remote peer's format parameters describe a stream that our encoder may send and our decoder can
    /// read.
    func accepts(formatParameters text: String?, _ h264: H264Acceptance) -> Bool {
        let parameters = FormatParameters(text ?? "")
        switch self {
        case .vp8: return true
        case .vp9: return (parameters["profile-id"] ?? "0") == "0"
        case .h264:
            // packetization-mode 0 would forbid fragments.
            return parameters["packetization-mode"] == "1" && h264.accepts(parameters["profile-level-id"] ?? "42000a")
        }
    }
}

/// `key=value;key=value` of an `a=fmtp` line; keys are case-insensitive.
struct FormatParameters {
    private var values: [String: String] = [:]
    init(_ text: String) {
        for part in text.split(separator: ";") {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard let key = pair.first else { continue }
            values[key.trimmedASCII.lowercased()] = pair.count > 1 ? String(pair[1].trimmedASCII) : ""
        }
    }
    subscript(key: String) -> String? { values[key] }
}
