import WebRTCTransport

/// Facts of a session's media: a snapshot for tests and the page. Nil: not known yet.
package struct MediaStatistics: Sendable, Equatable {
    package struct Size: Sendable, Equatable {
        package var width: Int
        package var height: Int
    }

    /// Name of the video codec in SDP.
    package var codec: String?
    package var size: Size?
    /// Audio and video of the last second, bit/s.
    package var receivedBitrate: Int?
    package var sentBitrate: Int?
    package var roundTripTime: Duration?
    /// Time from the arrival of the latest frame's first packet to the end of its transformation.
    package var delay: Duration?

    package init() {}
}

/// Turns byte counters of a connection into bitrates.
struct BitrateMeter {
    private var bytes: UInt64?
    private var time: ContinuousClock.Instant?

    /// - Returns: bit/s since the previous call; nil at the first one.
    mutating func rate(_ bytes: UInt64, now: ContinuousClock.Instant = .now) -> Int? {
        defer { (self.bytes, time) = (bytes, now) }
        guard let before = self.bytes, let time, bytes >= before, now > time else { return nil }
        let rate = Double(bytes &- before) * 8 / ((now - time) / .seconds(1))
        return rate.isFinite && rate < 1e12 ? Int(rate) : nil
    }
}

extension PeerConnectionStatistics {
    var allBytesReceived: UInt64 { bytesReceived &+ (audio?.bytesReceived ?? 0) }
    var allBytesSent: UInt64 { bytesSent &+ (audio?.bytesSent ?? 0) }
}
