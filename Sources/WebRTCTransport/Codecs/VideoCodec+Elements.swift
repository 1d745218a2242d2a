import GStreamerKit
package import RTP

// The elements that implement each codec.
extension VideoCodec {
    package var payloader: String { "rtp\(rawValue)pay" }
    package var depayloader: String { "rtp\(rawValue)depay" }

    /// Encoders in order of preference. Debian ships the H.264 ones in plugins-ugly and plugins-bad.
    package var encoders: [String] {
        switch self {
        case .vp8: ["vp8enc"]
        case .vp9: ["vp9enc"]
        case .h264: ["x264enc", "openh264enc"]
        // None is used.
        case .h265: []
        }
    }

    /// Decoders that Debian has: the order among decoders of the same rank, and names for the text of an error.
    package var decoders: [String] {
        switch self {
        case .vp8: ["vp8dec", "avdec_vp8"]
        case .vp9: ["vp9dec", "avdec_vp9"]
        case .h264: ["avdec_h264", "openh264dec"]
        case .h265: ["avdec_h265", "libde265dec"]
        }
    }

    /// The codecs that this installation decodes, that of most senders first.
    package static var decodable: [VideoCodec] { [.h264, .vp8, .vp9].filter(\.isDecodable) }

    /// As `decodable`, with the codec that is neither sent nor offered.
    package static var receivable: [VideoCodec] { decodable + [.h265].filter(\.isDecodable) }

    package var isDecodable: Bool { installedDecoder != nil && GStreamerRuntime.hasElement(depayloader) }

    /// "install …", with the packages that decode one of these encodings (`a=rtpmap`); empty if there is none.
    package static func decoderPackages(ofEncodings names: [String]) -> String {
        let missing = allCases.filter { names.contains($0.encodingName) && !$0.isDecodable }
        guard !missing.isEmpty else { return "" }
        return "install " + DebianPackage.list(missing.flatMap { [$0.depayloader] + $0.decoders })
    }

    package var installedEncoder: String? { encoders.first(where: GStreamerRuntime.hasElement) }
    package var installedDecoder: String? { decoderChoices.first?.factory }

    /// True if this installation can both send and receive the codec.
    package var isAvailable: Bool {
        isDecodable && installedEncoder != nil && GStreamerRuntime.hasElement(payloader)
    }
}
