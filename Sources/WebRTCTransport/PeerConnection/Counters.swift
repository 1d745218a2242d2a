import GStreamerKit
import Synchronization

/// Packet counters. Streaming threads and the network thread write them.
final class Counters: Sendable {
    let packetsSent = Atomic<UInt64>(0)
    let bytesSent = Atomic<UInt64>(0)
    let packetsReceived = Atomic<UInt64>(0)
    let bytesReceived = Atomic<UInt64>(0)
    let discarded = Atomic<UInt64>(0)
    let beforeKeys = Atomic<UInt64>(0)
    /// The latest REMB, bit/s; −1: none yet.
    let remoteEstimate = Atomic<Int>(-1)

    func sent(_ bytes: Int) {
        packetsSent.wrappingAdd(1, ordering: .relaxed)
        bytesSent.wrappingAdd(UInt64(clamping: bytes), ordering: .relaxed)
    }

    func received(_ bytes: Int) {
        packetsReceived.wrappingAdd(1, ordering: .relaxed)
        bytesReceived.wrappingAdd(UInt64(clamping: bytes), ordering: .relaxed)
    }

    /// - Parameter session: The `stats` structure of rtpsession.
    func audio(_ session: Structure?) -> AudioStatistics {
        var audio = AudioStatistics()
        audio.packetsSent = packetsSent.load(ordering: .relaxed)
        audio.bytesSent = bytesSent.load(ordering: .relaxed)
        audio.packetsReceived = packetsReceived.load(ordering: .relaxed)
        audio.bytesReceived = bytesReceived.load(ordering: .relaxed)
        for source in session?.structures("source-stats") ?? []
        where !(source["internal"]?.bool ?? false) && source["is-sender"]?.bool ?? false {
            audio.packetsLost = source.int("packets-lost")
            // The jitter is in RTP clock units of 1/48000 s.
            if let units = source.int("jitter") { audio.jitter = .nanoseconds(Int64(clamping: units) &* 20_833) }
        }
        return audio
    }

    func fill(_ statistics: inout PeerConnectionStatistics) {
        statistics.packetsSent = packetsSent.load(ordering: .relaxed)
        statistics.bytesSent = bytesSent.load(ordering: .relaxed)
        statistics.packetsReceived = packetsReceived.load(ordering: .relaxed)
        statistics.bytesReceived = bytesReceived.load(ordering: .relaxed)
        statistics.packetsRefused = discarded.load(ordering: .relaxed)
        statistics.packetsWithoutKeys = beforeKeys.load(ordering: .relaxed)
        let estimate = remoteEstimate.load(ordering: .relaxed)
        statistics.remoteBitrateEstimate = estimate < 0 ? nil : estimate
    }
}

/// Monotonic time, read without an allocation.
package enum MonotonicTime {
    /// Time since the first use in this process.
    package static var now: Duration { ContinuousClock.now - origin }
    static var nanoseconds: UInt64 {
        let now = ContinuousClock.now
        return UInt64(clamping: Int64((now - origin).clockTime)) &+ 1
    }
    private static let origin = ContinuousClock.now
}

extension PeerConnectionStatistics {
    /// Reads the `stats` structure of rtpsession. Internal sources are ours, the others the remote peer's.
    /// - Parameter ssrc: the remote peer's video. Its retransmissions have an SSRC of their own, whose loss and jitter
    ///   mean nothing.
    mutating func read(_ session: Structure, ssrc: UInt32?) {
        nacksSent = UInt64(clamping: session.int("sent-nack-count") ?? 0)
        nacksReceived = UInt64(clamping: session.int("recv-nack-count") ?? 0)
        for source in session.structures("source-stats") {
            let isInternal = source["internal"]?.bool ?? false
            if isInternal {
                plisReceived &+= UInt64(clamping: source.int("recv-pli-count") ?? 0)
                continue
            }
            plisSent &+= UInt64(clamping: source.int("sent-pli-count") ?? 0)
            let isVideo = ssrc == nil || source.int("ssrc") == ssrc.map(Int.init)
            if isVideo, source["is-sender"]?.bool ?? false {
                packetsLost = source.int("packets-lost")
                // The jitter is in RTP clock units of 1/90000 s.
                if let units = source.int("jitter") { jitter = .nanoseconds(Int64(clamping: units) &* 11_111) }
            }
            // Seconds in 16.16 fixed point, from this source's reports about our stream.
            if source["have-rb"]?.bool ?? false, let trip = source.int("rb-round-trip"), trip > 0 {
                roundTripTime = .nanoseconds(Int64(Double(trip) / 65_536 * 1e9))
            }
        }
    }
}
