/// Reads numbers from bytes; returns nil past the end.
struct ByteReader {
    let bytes: [UInt8]

    func byte(_ offset: Int) -> Int? { bytes.indices.contains(offset) ? Int(bytes[offset]) : nil }

    func number(_ offset: Int, size: Int, littleEndian: Bool = false) -> Int? {
        guard offset >= 0, size <= 4, size <= bytes.count, offset <= bytes.count - size else { return nil }
        return (0..<size).reduce(0) { sum, index in
            sum << 8 | Int(bytes[offset + (littleEndian ? size - 1 - index : index)])
        }
    }

    func has(_ wanted: [UInt8], at offset: Int) -> Bool {
        guard offset >= 0, wanted.count <= bytes.count, offset <= bytes.count - wanted.count else { return false }
        return wanted.indices.allSatisfy { bytes[offset + $0] == wanted[$0] }
    }

    func has(_ wanted: StaticString, at offset: Int) -> Bool {
        has(wanted.withUTF8Buffer { [UInt8]($0) }, at: offset)
    }

    func slice(_ start: Int, _ end: Int) -> ArraySlice<UInt8> {
        bytes[min(max(start, 0), bytes.count)..<min(max(end, start, 0), bytes.count)]
    }
}
