/// Memory that keeps an RTP packet.
///
/// The values of a session keep packets of any kind instead of being generic over one: another target's generic code is not
/// specialised for its type, and a packet would cost many times as much.
package protocol PacketStorage: AnyObject, Sendable {
    init(copying bytes: UnsafeRawBufferPointer)
    var size: Int { get }
    /// Calls `body` once with the bytes, or not at all if they cannot be read.
    func lendBytes(to body: (UnsafeRawBufferPointer) -> Void)
}

extension PacketStorage {
    /// Lends the bytes; nil: they cannot be read.
    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R? {
        var result: R?
        lendBytes { result = body($0) }
        return result
    }
}
