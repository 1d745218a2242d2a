/// Base64 (RFC 4648 §4) and base64url (§5).
package enum Base64 {
    package enum Alphabet: Sendable {
        /// `+` and `/`, with padding.
        case standard
        /// `-` and `_`, without padding.
        case url
    }

    package static func encode(_ bytes: [UInt8], alphabet: Alphabet = .standard) -> String {
        let digits = alphabet == .standard ? standardDigits : urlDigits
        var output: [UInt8] = []
        output.reserveCapacity((bytes.count / 3 + 1) * 4)
        var group: UInt32 = 0
        var held = 0
        for byte in bytes {
            group = group << 8 | UInt32(byte)
            held += 1
            if held == 3 {
                for shift in [18, 12, 6, 0] as [UInt32] { output.append(digits[Int(group >> shift & 63)]) }
                group = 0
                held = 0
            }
        }
        if held > 0 {
            group <<= UInt32(8 * (3 - held))
            for shift in ([18, 12, 6] as [UInt32]).prefix(held + 1) { output.append(digits[Int(group >> shift & 63)]) }
            if alphabet == .standard {
                for _ in held..<3 { output.append(UInt8(ascii: "=")) }
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns nil if a character is not in the alphabet or the length is impossible. Padding is optional.
    package static func decode(_ text: String, alphabet: Alphabet = .standard) -> [UInt8]? {
        let values = alphabet == .standard ? standardValues : urlValues
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count / 4 * 3 + 3)
        var group: UInt32 = 0
        var held = 0
        var padding = 0
        for digit in text.utf8 {
            if digit == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            let value = values[Int(digit)]
            guard value < 64, padding == 0 else { return nil }
            group = group << 6 | UInt32(value)
            held += 1
            if held == 4 {
                output.append(UInt8(truncatingIfNeeded: group >> 16))
                output.append(UInt8(truncatingIfNeeded: group >> 8))
                output.append(UInt8(truncatingIfNeeded: group))
                group = 0
                held = 0
            }
        }
        guard padding == 0 || (held > 0 && held + padding == 4) else { return nil }
        switch held {
        case 0:
            return output
        case 2:
            return output + [UInt8(truncatingIfNeeded: group >> 4)]
        case 3:
            return output + [UInt8(truncatingIfNeeded: group >> 10), UInt8(truncatingIfNeeded: group >> 2)]
        default:
            return nil
        }
    }

    private static let standardDigits = [UInt8]("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let urlDigits = [UInt8]("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    private static let standardValues = values(of: standardDigits)
    private static let urlValues = values(of: urlDigits)

    /// 256 entries; 255 marks a byte that is not a digit.
    private static func values(of digits: [UInt8]) -> [UInt8] {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
        return values
    }
}
