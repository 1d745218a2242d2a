/// Percent-encoding (RFC 3986 §2.1).
package enum PercentEncoding {
    /// Encodes everything but unreserved characters (§2.3), including '+', which many servers decode as a space.
    package static func encode(_ text: String) -> String {
        var output: [UInt8] = []
        for byte in text.utf8 {
            if byte.isAlphanumeric(or: "-._~") {
                output.append(byte)
            } else {
                output += [UInt8(ascii: "%"), hexDigits[Int(byte >> 4)], hexDigits[Int(byte & 15)]]
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns nil if an escape is incomplete or invalid, or the result is not UTF-8. Keeps '+' as it is.
    package static func decode(_ text: some StringProtocol) -> String? {
        decodedBytes(text).flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// Returns nil if an escape is incomplete or invalid.
    static func decodedBytes(_ text: some StringProtocol) -> [UInt8]? {
        var output: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            guard byte == UInt8(ascii: "%") else {
                output.append(byte)
                continue
            }
            guard let high = bytes.next().flatMap(value), let low = bytes.next().flatMap(value) else { return nil }
            output.append(high << 4 | low)
        }
        return output
    }

    /// Decodes one escape of three bytes; nil if it is none.
    static func byte(_ escape: ArraySlice<UInt8>) -> UInt8? {
        guard escape.count == 3, escape.first == UInt8(ascii: "%"),
            let high = value(escape[escape.startIndex + 1]), let low = value(escape[escape.startIndex + 2])
        else { return nil }
        return high << 4 | low
    }

    /// Decodes the query of a request target (`/path?a=b&c`), in order; skips items that cannot be decoded.
    package static func queryItems(ofTarget target: String) -> [(name: String, value: String)] {
        guard let mark = target.firstIndex(of: "?") else { return [] }
        return target[target.index(after: mark)...].split(separator: "&").compactMap { item in
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first.flatMap({ decode($0) }) else { return nil }
            guard parts.count > 1 else { return (name, "") }
            return decode(parts[1]).map { (name, $0) }
        }
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x41 + 10
        case 0x61...0x66: digit - 0x61 + 10
        default: nil
        }
    }

    private static let hexDigits = [UInt8]("0123456789ABCDEF".utf8)
}
