import GStreamerKit

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

    /// The codecs that this installation decodes, that of most senders first.
    package static var decodable: [VideoCodec] { [.h264, .vp8, .vp9].filter(\.isDecodable) }

    package var isDecodable: Bool { installedDecoder != nil && GStreamerRuntime.hasElement(depayloader) }

    package var installedEncoder: String? { encoders.first(where: GStreamerRuntime.hasElement) }
    package var installedDecoder: String? { decoderChoices.first?.factory }

    /// True if this installation can both send and receive the codec.
    package var isAvailable: Bool {
        isDecodable && installedEncoder != nil && GStreamerRuntime.hasElement(payloader)
    }
}
