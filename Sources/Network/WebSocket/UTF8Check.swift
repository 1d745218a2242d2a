/// Checks text that comes in parts, which may end inside a code point, against the table of well-formed UTF-8 (RFC 3629 §4).
package struct UTF8Check: Sendable {
    /// Bytes that the last code point still needs.
    private var missing = 0
    /// The values that the next of them may have.
    private var allowed = Self.continuation

    private static let continuation: ClosedRange<UInt8> = 0x80...0xBF

    package init() {}

    package var isComplete: Bool { missing == 0 }

    /// Returns false at the first byte that no valid text has there.
    package mutating func accepts(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            if missing == 0, index <= bytes.count - 8,
                bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
            {
                index += 8
                continue
            }
            guard accepts(bytes[index]) else { return false }
            index += 1
        }
        return true
    }

    private mutating func accepts(_ byte: UInt8) -> Bool {
        guard missing == 0 else {
            guard allowed.contains(byte) else { return false }
            (missing, allowed) = (missing - 1, Self.continuation)
            return true
        }
        switch byte {
        case 0...0x7F: break
        case 0xC2...0xDF: (missing, allowed) = (1, Self.continuation)
        case 0xE0: (missing, allowed) = (2, 0xA0...0xBF)
        // No surrogates.
        case 0xED: (missing, allowed) = (2, 0x80...0x9F)
        case 0xE1...0xEF: (missing, allowed) = (2, Self.continuation)
        case 0xF0: (missing, allowed) = (3, 0x90...0xBF)
        case 0xF1...0xF3: (missing, allowed) = (3, Self.continuation)
        case 0xF4: (missing, allowed) = (3, 0x80...0x8F)
        default: return false
        }
        return true
    }
}
