import GStreamerKit

/// The video codecs that can be negotiated, and the elements that implement them.
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

    package var payloader: String { "rtp\(rawValue)pay" }
    package var depayloader: String { "rtp\(rawValue)depay" }

    /// Encoders in order of preference. Debian ships the H.264 ones in plugins-ugly and plugins-bad.
    package var encoders: [String] {
        switch self {
        case .vp8: ["vp8enc"]
        case .vp9: ["vp9enc"]
        case .h264: ["x264enc", "openh264enc"]
        }
    }

    /// Decoders that Debian has: the order among decoders of the same rank, and names for the text of an error.
    package var decoders: [String] {
        switch self {
        case .vp8: ["vp8dec", "avdec_vp8"]
        case .vp9: ["vp9dec", "avdec_vp9"]
        case .h264: ["avdec_h264", "openh264dec"]
        }
    }

    package var installedEncoder: String? { encoders.first(where: GStreamerRuntime.hasElement) }
    package var installedDecoder: String? { decoderChoices.first?.factory }

    /// True if this installation can both send and receive the codec.
    package var isAvailable: Bool {
        installedEncoder != nil && installedDecoder != nil && GStreamerRuntime.hasElement(payloader)
            && GStreamerRuntime.hasElement(depayloader)
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

extension Substring {
    var trimmedASCII: Substring {
        var slice = self
        while let first = slice.first, first.isWhitespace { slice.removeFirst() }
        while let last = slice.last, last.isWhitespace { slice.removeLast() }
        return slice
    }
}
