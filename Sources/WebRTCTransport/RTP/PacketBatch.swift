/// Protected packets that leave together. It borrows their memory, which the writer of the packets reuses after `limit`
/// packets.
struct PacketBatch {
    static let limit = 16
    private var packets: [UnsafeRawBufferPointer] = []

    init() { packets.reserveCapacity(Self.limit) }

    var isFull: Bool { packets.count >= Self.limit }

    mutating func append(_ packet: UnsafeRawBufferPointer) { packets.append(packet) }

    /// Lends the packets and removes them.
    mutating func drain(_ body: ([UnsafeRawBufferPointer]) -> Void) {
        guard !packets.isEmpty else { return }
        body(packets)
        packets.removeAll(keepingCapacity: true)
    }
}
