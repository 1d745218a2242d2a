package import GStreamerKit

/// Memory that keeps an RTP packet.
package protocol PacketStorage: Sendable {
    init(copying bytes: UnsafeRawBufferPointer)
    var size: Int { get }
    /// Lends the bytes; nil: they cannot be read.
    func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R?
}

extension Buffer: PacketStorage {}
