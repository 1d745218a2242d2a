// Defaults of unset settings, by transport and codec.
import DecartProtocol
import DecartSession
import RTP
import Signalling
import WebRTCTransport

/// Defaults for one transport; the limits are those of the service's own SDKs.
private struct TransportDefaults {
    let maximumFramerate: Int
    /// bit/s.
    let maximumBitrate: Int
    /// Used if it is installed, else VP8.
    let codec: VideoCodec

    init(_ transport: MediaTransportKind) {
        switch transport {
        case .webrtc: (maximumFramerate, maximumBitrate, codec) = (26, 2_500_000, .vp8)
        case .livekit: (maximumFramerate, maximumBitrate, codec) = (30, 3_500_000, .h264)
        }
    }
}

extension TransformSettings.Encoding {
    /// An unset maximum depends on transport and codec; VP9 needs a little less. A minimum above the maximum is lowered
    /// to it.
    func bitrateRange(_ transport: MediaTransportKind) -> ClosedRange<Int> {
        let own = TransportDefaults(transport).maximumBitrate
        let limit = transport == .livekit && videoCodec(transport) == .vp9 ? 3_000_000 : own
        let maximum = maxBitrate > 0 ? max(maxBitrate, 10_000) : limit
        return min(minBitrate, maximum)...maximum
    }

    /// The first frames look good on a path that carries them, and a slow one refuses the bitrate within a round trip or two.
    /// The layers of a simulcast need more. Without congestion control it is the bitrate of the whole session.
    func startBitrate(_ transport: MediaTransportKind, _ size: (width: Int, height: Int), _ framerate: Int) -> Int {
        let range = bitrateRange(transport)
        let floor = videoCodec(transport).qualityFloor(size, framerate: framerate)
        let first = simulcast && transport == .livekit ? floor * 3 / 2 : max(600_000, floor)
        return congestionControl == .off ? range.upperBound : min(max(first, range.lowerBound), range.upperBound)
    }

    /// `auto` means the codec of the configured encoder, else the service's default: VP8 over a direct connection,
    /// H.264 in a room if it is installed.
    func videoCodec(_ transport: MediaTransportKind) -> VideoCodec {
        let own = TransportDefaults(transport).codec
        return VideoCodec(rawValue: codec.rawValue) ?? encoderCodec ?? (own.isAvailable ? own : .vp8)
    }

    /// Found by name: the name of every encoder in GStreamer contains its codec.
    private var encoderCodec: VideoCodec? {
        VideoCodec.allCases.first {
            !$0.encoders.isEmpty && encoder.lowercased().contains($0 == .h264 ? "264" : $0.rawValue)
        }
    }
}

extension TransformSettings {
    /// - Parameter format: that of the output.
    func sentFramerate(_ transport: MediaTransportKind, _ format: VideoFormat) -> Int {
        framerate > 0 ? framerate : min(format.framerate, TransportDefaults(transport).maximumFramerate)
    }

    /// All codecs that a session may need.
    var videoCodecs: [VideoCodec] {
        if let subscribeToken = subscribeToken.flatMap({ try? SubscribeToken($0.reveal()) }) {
            return [encoding.videoCodec(subscribeToken.transport)]
        }
        let codecs = transport.kinds.map(encoding.videoCodec)
        return codecs.first == codecs.last ? Array(codecs.prefix(1)) : codecs
    }
}

extension TransportChoice {
    /// The transports that a session may use, the expected one first.
    var kinds: [MediaTransportKind] {
        switch self {
        case .auto: [.livekit, .webrtc]
        case .livekit: [.livekit]
        case .webrtc: [.webrtc]
        }
    }
}
