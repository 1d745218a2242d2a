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
        } else if let image = TIFFImage(reader) {
            self.init(.tiff, (image.width, image.height))
        } else {
            return nil
        }
    }
}

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

    /// Walks the marker segments (ITU-T T.81 annex B) up to the first end marker. Returns false if the walk does not get
    /// there, or if `visit` returns false.
    /// - Parameter visit: receives each segment from its FF byte on; that of a scan includes its entropy-coded data.
    func walkJPEG(_ visit: (_ marker: Int, _ segment: Range<Int>) -> Bool) -> Bool {
        var offset = 2
        while byte(offset) == 0xFF, let marker = byte(offset + 1) {
            switch marker {
            case 0xD9: return true
            case 0xD8, 0x00: return false
            case 0xFF: offset += 1  // a fill byte
            case 0x01, 0xD0...0xD7: offset += 2  // stand alone
            default:
                guard let length = number(offset + 2, size: 2), length >= 2, offset + 2 + length <= bytes.count else {
                    return false
                }
                let header = offset..<(offset + 2 + length)
                let segment = marker == 0xDA ? offset..<scanEnd(header.upperBound) : header
                guard visit(marker, segment) else { return false }
                offset = segment.upperBound
            }
        }
        return false
    }

    /// Entropy-coded data stuffs every FF with a zero byte (B.1.1.5) and may contain restart markers; any other marker
    /// ends it.
    private func scanEnd(_ start: Int) -> Int {
        var offset = start
        while offset + 1 < bytes.count {
            if bytes[offset] == 0xFF {
                switch bytes[offset + 1] {
                case 0x00, 0xD0...0xD7, 0xFF: break
                default: return offset
                }
            }
            offset += 1
        }
        return bytes.count
    }

    /// Reads the size from the frame header, and walks to the end marker.
    func jpegSize() -> (width: Int, height: Int)? {
        var size: (width: Int, height: Int)?
        var hasScan = false
        let isComplete = walkJPEG { marker, segment in
            if marker == 0xDA {
                hasScan = true
                return size != nil
            }
            guard (0xC0...0xCF).contains(marker), marker != 0xC4, marker != 0xC8, marker != 0xCC else { return true }
            guard size == nil, segment.count >= 10, let height = number(segment.lowerBound + 5, size: 2),
                let width = number(segment.lowerBound + 7, size: 2)
            else { return false }
            size = (width, height)
            return true
        }
        return isComplete && hasScan ? size : nil
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
}
