import MediaPipeline
import RTP
import WebRTCTransport

/// Statistics of one of a media path's peer connections.
struct ConnectionStatistics: Sendable {
    /// `direct`; in a room `room`, or `publisher` and `subscriber` if its server takes two connections only.
    var name: String
    var statistics: PeerConnectionStatistics
}

/// Encoder and decoder of a media path.
struct CodecStatistics: Sendable {
    var codec: VideoCodec?
    /// Element factories.
    var encoder: String?
    var decoder: String?
    var encoding = CodingTime()
    var decoding = CodingTime()
    /// Fraction of the frames that the CPU carries.
    var cpuShare = 1.0

    var isLimitedByCPU: Bool { cpuShare < 1 }
}
