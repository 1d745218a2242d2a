// Reads the header of an image file with bounds checks and without decoding. Walks the file's own structure to its end,
// so that truncated and animated files are rejected.

/// Format and size in pixels. `init` returns nil unless the bytes are a complete, still image of a known format.
struct ImageHeader: Equatable {
    let format: ReferenceImage.Format
    let width: Int
    let height: Int

    private init(_ format: ReferenceImage.Format, _ size: (width: Int, height: Int)) {
        self.format = format
        (width, height) = size
    }

    init?(_ bytes: [UInt8]) {
        let reader = ByteReader(bytes: bytes)
        if reader.has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], at: 0), let size = reader.pngSize() {
            self.init(.png, size)
        } else if reader.has([0xFF, 0xD8, 0xFF], at: 0), let size = reader.jpegSize() {
            self.init(.jpeg, size)
        } else if reader.has("RIFF", at: 0), reader.has("WEBP", at: 8), let size = reader.webpSize() {
            self.init(.webp, size)
        } else if let size = reader.tiffSize() {
            self.init(.tiff, size)
        } else {
            return nil
        }
    }
}

/// Reads numbers from bytes; returns nil past the end.
struct ByteReader {
    let bytes: [UInt8]

    func byte(_ offset: Int) -> Int? { bytes.indices.contains(offset) ? Int(bytes[offset]) : nil }

    /// Returns an unsigned number of up to 4 bytes.
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
}

extension ByteReader {
    /// Walks the chunks (length, type, data, CRC) from IHDR to IEND (PNG third edition, §5).
    func pngSize() -> (width: Int, height: Int)? {
        guard number(8, size: 4) == 13, has("IHDR", at: 12),
            let width = number(16, size: 4), let height = number(20, size: 4)
        else { return nil }
        var offset = 8
        var hasData = false
        while let length = number(offset, size: 4), offset + 12 + length <= bytes.count {
            if has("acTL", at: offset + 4) { return nil }  // animated
            if has("IDAT", at: offset + 4) { hasData = true }
            if has("IEND", at: offset + 4) { return hasData ? (width, height) : nil }
            offset += 12 + length
        }
        return nil
    }

    /// Walks the marker segments (ITU-T T.81 annex B) past the frame header to a scan, then looks for the end marker.
    func jpegSize() -> (width: Int, height: Int)? {
        var offset = 2
        var size: (Int, Int)?
        while let prefix = byte(offset), prefix == 0xFF, let marker = byte(offset + 1) {
            switch marker {
            case 0xFF:  // a fill byte
                offset += 1
                continue
            case 0x01, 0xD0...0xD7:  // stand alone
                offset += 2
                continue
            case 0xD8, 0xD9, 0x00:
                return nil
            default:
                break
            }
            guard let length = number(offset + 2, size: 2), length >= 2, offset + 2 + length <= bytes.count else {
                return nil
            }
            if (0xC0...0xCF).contains(marker), marker != 0xC4, marker != 0xC8, marker != 0xCC {
                guard size == nil, length >= 8, let height = number(offset + 5, size: 2),
                    let width = number(offset + 7, size: 2)
                else { return nil }
                size = (width, height)
            }
            offset += 2 + length
            if marker == 0xDA { return hasJPEGEnd(after: offset) ? size : nil }
        }
        return nil
    }

    private func hasJPEGEnd(after start: Int) -> Bool {
        var offset = start
        // Entropy-coded data stuffs every FF with a zero byte (B.1.1.5), so FF D9 is the end marker.
        while offset + 1 < bytes.count {
            if bytes[offset] == 0xFF, bytes[offset + 1] == 0xD9 { return true }
            offset += 1
        }
        return false
    }

    /// Walks the RIFF chunks (RFC 9649 §2).
    func webpSize() -> (width: Int, height: Int)? {
        guard let riffLength = number(4, size: 4, littleEndian: true), riffLength + 8 <= bytes.count else { return nil }
        let end = riffLength + 8
        var offset = 12
        var size: (Int, Int)?
        var hasData = false
        while offset + 8 <= end, let length = number(offset + 4, size: 4, littleEndian: true),
            length <= end - offset - 8
        {
            let data = offset + 8
            if has("ANIM", at: offset) || has("ANMF", at: offset) {
                return nil
            } else if has("VP8X", at: offset), length >= 10 {
                guard let flags = byte(data), flags & 0x02 == 0 else { return nil }  // animated
                guard let width = number(data + 4, size: 3, littleEndian: true),
                    let height = number(data + 7, size: 3, littleEndian: true)
                else { return nil }
                size = (width + 1, height + 1)
            } else if has("VP8 ", at: offset), length >= 10 {
                guard has([0x9D, 0x01, 0x2A], at: data + 3),
                    let width = number(data + 6, size: 2, littleEndian: true),
                    let height = number(data + 8, size: 2, littleEndian: true)
                else { return nil }
                size = size ?? (width & 0x3FFF, height & 0x3FFF)
                hasData = true
            } else if has("VP8L", at: offset), length >= 5 {
                guard byte(data) == 0x2F, let bits = number(data + 1, size: 4, littleEndian: true) else { return nil }
                size = size ?? ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
                hasData = true
            }
            offset = data + length + (length & 1)
        }
        return hasData ? size : nil
    }

    /// Reads the size from the first image file directory (TIFF 6.0 §2), and checks that its strips or tiles lie within
    /// the file.
    func tiffSize() -> (width: Int, height: Int)? {
        let littleEndian: Bool
        if has([0x49, 0x49, 0x2A, 0x00], at: 0) {
            littleEndian = true
        } else if has([0x4D, 0x4D, 0x00, 0x2A], at: 0) {
            littleEndian = false
        } else {
            return nil
        }
        guard let directory = number(4, size: 4, littleEndian: littleEndian), directory >= 8,
            let count = number(directory, size: 2, littleEndian: littleEndian), count > 0,
            directory + 2 + count * 12 + 4 <= bytes.count
        else { return nil }

        var fields: [Int: [Int]] = [:]
        // Bounds the work on a crafted file: each value takes at least 2 bytes, so a valid file has no more values than
        // this.
        var budget = bytes.count / 2
        for index in 0..<count {
            let entry = directory + 2 + index * 12
            guard let tag = number(entry, size: 2, littleEndian: littleEndian) else { return nil }
            // ImageWidth, ImageLength, StripOffsets, StripByteCounts, TileOffsets, TileByteCounts.
            guard [256, 257, 273, 279, 324, 325].contains(tag) else { continue }
            let most = tag == 256 || tag == 257 ? 1 : budget
            guard fields[tag] == nil, let values = tiffValues(entry, littleEndian: littleEndian, most: most) else {
                return nil
            }
            fields[tag] = values
            budget -= values.count
        }
        guard let width = fields[256]?.first, let height = fields[257]?.first,
            let offsets = fields[273] ?? fields[324], let lengths = fields[279] ?? fields[325],
            offsets.count == lengths.count, !offsets.isEmpty,
            zip(offsets, lengths).allSatisfy({ $0 >= 8 && $0 + $1 <= bytes.count })
        else { return nil }
        return (width, height)
    }

    /// Returns the values of a directory entry of type SHORT or LONG; nil for another type or more than `most` values.
    private func tiffValues(_ entry: Int, littleEndian: Bool, most: Int) -> [Int]? {
        guard let type = number(entry + 2, size: 2, littleEndian: littleEndian),
            let count = number(entry + 4, size: 4, littleEndian: littleEndian), count > 0, count <= most
        else { return nil }
        let size = type == 3 ? 2 : 4
        guard type == 3 || type == 4 else { return nil }
        var start = entry + 8
        if count * size > 4 {
            guard let offset = number(entry + 8, size: 4, littleEndian: littleEndian) else { return nil }
            start = offset
        }
        var values: [Int] = []
        for index in 0..<count {
            guard let value = number(start + index * size, size: size, littleEndian: littleEndian) else { return nil }
            values.append(value)
        }
        return values
    }
}
