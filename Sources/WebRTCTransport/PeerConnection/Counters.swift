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

    func audio(_ session: RTPSessionFigures) -> AudioStatistics {
        var audio = AudioStatistics()
        audio.packetsSent = packetsSent.load(ordering: .relaxed)
        audio.bytesSent = bytesSent.load(ordering: .relaxed)
        audio.packetsReceived = packetsReceived.load(ordering: .relaxed)
        audio.bytesReceived = bytesReceived.load(ordering: .relaxed)
        (audio.packetsLost, audio.jitter) = (session.packetsLost, session.jitter)
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

extension PeerConnectionStatistics {
    mutating func read(_ session: RTPSessionFigures) {
        (nacksSent, nacksReceived) = (session.nacksSent, session.nacksReceived)
        retransmissionsSent = session.retransmissions
        (plisSent, plisReceived) = (session.plisSent, session.plisReceived)
        (packetsLost, jitter) = (session.packetsLost, session.jitter)
    }
}
