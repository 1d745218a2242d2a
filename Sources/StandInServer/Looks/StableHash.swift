/// FNV-1a, 64 bits: the same on every machine and in every run, which Swift's own seeded `Hasher` is not.
package enum StableHash {
    /// - Returns: the hash of the bytes; the offset basis for none.
    package static func fnv1a(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in bytes {
            hash ^= UInt64(byte)
            hash = hash &* 0x0000_0100_0000_01b3
        }
        return hash
    }
}
