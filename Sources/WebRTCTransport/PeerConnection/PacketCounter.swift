import Synchronization

/// Counts sent packets. Streaming threads and the network thread write it; any thread reads.
final class PacketCounter: Sendable {
    private let packetCount = Atomic<UInt64>(0)
    private let byteCount = Atomic<UInt64>(0)

    var packets: UInt64 { packetCount.load(ordering: .relaxed) }
    var bytes: UInt64 { byteCount.load(ordering: .relaxed) }

    func count(_ bytes: Int) {
        packetCount.wrappingAdd(1, ordering: .relaxed)
        byteCount.wrappingAdd(UInt64(clamping: bytes), ordering: .relaxed)
    }
}
