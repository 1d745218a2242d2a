/// Masks and unmasks the payload of one frame (RFC 6455 §5.3), which may come in parts.
package struct WebSocketMask: Sendable {
    /// The key from the next byte's position on; that byte's part is the least significant one.
    private var key: UInt32

    /// - Parameter key: its first byte on the wire is the most significant one.
    package init(_ key: UInt32) { self.key = key.byteSwapped }

    /// Eight bytes at a time, because a payload can have several megabytes.
    package mutating func apply(to bytes: UnsafeMutableRawBufferPointer) {
        let word = UInt64(littleEndian: UInt64(key) << 32 | UInt64(key))
        var index = 0
        while index <= bytes.count - 8 {
            bytes.storeBytes(
                of: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) ^ word, toByteOffset: index,
                as: UInt64.self)
            index += 8
        }
        while index < bytes.count {
            bytes[index] ^= UInt8(truncatingIfNeeded: key)
            key = key >> 8 | key << 24
            index += 1
        }
    }
}
