/// Codecs of audio. Opus alone is sent; G.711, which each WebRTC endpoint must have (RFC 7874 3), is received where
/// `PeerConnectionConfiguration.audioCodecs` has it.
package enum AudioCodec: Sendable, CaseIterable {
    case opus, pcmu, pcma

    package var encodingName: String {
        switch self {
        case .opus: "OPUS"
        case .pcmu: "PCMU"
        case .pcma: "PCMA"
        }
    }

    var clockRate: Int { self == .opus ? 48_000 : 8_000 }

    /// As in an rtpmap. RFC 7587 7: that of Opus says 48 kHz and two channels, whatever the stream contains.
    var encoding: String { self == .opus ? "opus/48000/2" : "\(encodingName)/8000" }

    /// The type that stands for the codec without an rtpmap (RFC 3551 6).
    var staticPayloadType: Int? {
        switch self {
        case .opus: nil
        case .pcmu: 0
        case .pcma: 8
        }
    }

    /// The codec of packets with these caps; nil: none of ours.
    package init?(encodingName: String?) {
        guard let codec = Self.allCases.first(where: { $0.encodingName == encodingName }) else { return nil }
        self = codec
    }
}

/// One codec of an audio m-line.
package struct NegotiatedAudioCodec: Sendable, Equatable {
    package var codec: AudioCodec
    package var payloadType: Int
}
