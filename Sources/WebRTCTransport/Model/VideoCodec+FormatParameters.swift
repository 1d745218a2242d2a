import RTP

extension VideoCodec {
    /// Format parameters of our offers. H.264: constrained baseline 3.1 or the profile of an encoded input, packets with
    /// one NAL unit or fragments (RFC 6184 8.1).
    func formatParameters(_ h264: H264Acceptance) -> String? {
        switch self {
        case .vp8, .h265: return nil
        case .vp9: return "profile-id=0"
        case .h264:
            let profile = if case .profile(let own) = h264 { own } else { H264Profile.constrainedBaseline }
            return "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=\(profile.levelID)"
        }
    }

    /// True if the remote peer's format parameters describe a stream that our decoder can read, and our encoder may send
    /// unless we only receive.
    func accepts(formatParameters text: String?, _ h264: H264Acceptance, receivesOnly: Bool = false) -> Bool {
        let parameters = FormatParameters(text ?? "")
        switch self {
        case .vp8: return true
        case .vp9:
            // 8 bits in each profile; the others have more.
            let profile = parameters["profile-id"] ?? "0"
            return profile == "0" || receivesOnly && profile == "1"
        case .h264:
            // Mode 0, the default, forbids fragments to who sends. Mode 2 interleaves, which no depayloader reads.
            let mode = parameters["packetization-mode"] ?? "0"
            return (mode == "1" || receivesOnly && mode == "0")
                && h264.accepts(parameters["profile-level-id"] ?? "42000a")
        case .h265:
            // Main profile, and units in the order of decoding (RFC 7798 7.1).
            return receivesOnly && parameters["profile-id"] ?? "1" == "1"
                && parameters["sprop-max-don-diff"] ?? "0" == "0"
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
