// Reads an image file with bounds checks and without decoding: its size, and a copy of only what a decoder needs. Walks
// the file's own structure to its end, so that truncated and animated files are rejected.
//
// Place, time and author of a photograph are none of the service's business: the copy has no EXIF, XMP, IPTC, comments,
// manifests, thumbnails, and nothing that follows the end of the image, such as the other images of a multi-picture file
// or the film of a motion photo. It keeps colour profiles and, in a JPEG, the EXIF orientation, which changes how the
// image looks.

/// A complete, still image of a known format.
struct StillImage {
    let format: ReferenceImage.Format
    /// Pixels.
    let width: Int
    let height: Int
    /// The file without its metadata; nil if they cannot be separated from the image.
    let stripped: [UInt8]?
}

extension StillImage {
    /// Returns nil unless the bytes are such an image.
    init?(_ bytes: [UInt8]) {
        let reader = ByteReader(bytes: bytes)
        let image =
            if reader.has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], at: 0) {
                reader.png()
            } else if reader.has([0xFF, 0xD8, 0xFF], at: 0) {
                reader.jpeg()
            } else if reader.has("RIFF", at: 0), reader.has("WEBP", at: 8) {
                reader.webp()
            } else {
                TIFFImage(reader).map {
                    StillImage(format: .tiff, width: $0.width, height: $0.height, stripped: $0.stripped())
                }
            }
        guard let image else { return nil }
        self = image
    }

    /// Image, palette, transparency, colour space and pixel size (PNG third edition, §11).
    fileprivate static let pngChunks: Set<[UInt8]> = names([
        "IHDR", "PLTE", "IDAT", "IEND", "tRNS", "cHRM", "gAMA", "iCCP", "sBIT", "sRGB", "cICP", "mDCV", "cLLI", "bKGD",
        "pHYs",
    ])

    /// Header, colour profile, alpha and image (RFC 9649 §2).
    fileprivate static let webpChunks: Set<[UInt8]> = names(["VP8X", "ICCP", "ALPH", "VP8 ", "VP8L"])

    private static func names(_ names: [String]) -> Set<[UInt8]> { Set(names.map { Array($0.utf8) }) }
}

extension ByteReader {
    /// Walks the chunks (length, type, data, CRC) from IHDR to IEND (PNG third edition, §5).
    fileprivate func png() -> StillImage? {
        guard number(8, size: 4) == 13, has("IHDR", at: 12),
            let width = number(16, size: 4), let height = number(20, size: 4)
        else { return nil }
        var output = Array(slice(0, 8))
        var offset = 8
        var hasData = false
        while let length = number(offset, size: 4), offset + 12 + length <= bytes.count {
            let end = offset + 12 + length
            if has("acTL", at: offset + 4) { return nil }  // animated
            if has("IDAT", at: offset + 4) { hasData = true }
            if StillImage.pngChunks.contains(Array(slice(offset + 4, offset + 8))) { output += slice(offset, end) }
            if has("IEND", at: offset + 4) {
                return hasData ? StillImage(format: .png, width: width, height: height, stripped: output) : nil
            }
            offset = end
        }
        return nil
    }

    /// Walks the marker segments (ITU-T T.81 annex B) up to the first end marker. Returns false if the walk does not get
    /// there, or if `visit` returns false.
    /// - Parameter visit: receives each segment from its FF byte on; that of a scan includes its entropy-coded data.
    private func walkJPEG(_ visit: (_ marker: Int, _ segment: Range<Int>) -> Bool) -> Bool {
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

    fileprivate func jpeg() -> StillImage? {
        var size: (width: Int, height: Int)?
        var output: [UInt8] = []
        var orientation: Int?
        var hasScan = false
        let isComplete = walkJPEG { marker, segment in
            let data = segment.lowerBound + 4
            switch marker {
            case 0xC4, 0xC8, 0xCC, 0xDB...0xDF:
                // tables
                output += bytes[segment]
            case 0xC0...0xCF:
                // the frame header
                guard size == nil, segment.count >= 10, let height = number(segment.lowerBound + 5, size: 2),
                    let width = number(segment.lowerBound + 7, size: 2)
                else { return false }
                size = (width, height)
                output += bytes[segment]
            case 0xDA:
                hasScan = true
                output += bytes[segment]
                return size != nil
            case _ where hasScan:
                // Decoders read the application segments before the first scan only.
                break
            case 0xE0 where segment.count >= 18 && has("JFIF\0", at: data):
                // without its thumbnail
                output += [0xFF, 0xE0, 0, 16]
                output += slice(data, data + 12)
                output += [0, 0]
            case 0xE1 where has("Exif\0\0", at: data):
                orientation = orientation ?? exifOrientation(at: data + 6, end: segment.upperBound)
            case 0xE2 where has("ICC_PROFILE\0", at: data):
                output += bytes[segment]
            case 0xEE where segment.count >= 16 && has("Adobe", at: data):
                output += [0xFF, 0xEE, 0, 14]
                output += slice(data, data + 12)
            default:
                break
            }
            return true
        }
        guard isComplete, hasScan, let size else { return nil }
        var file: [UInt8] = [0xFF, 0xD8]
        if let orientation { file += ByteReader.exif(orientation: orientation) }
        file += output + [0xFF, 0xD9]
        return StillImage(format: .jpeg, width: size.width, height: size.height, stripped: file)
    }

    /// Reads tag 0x0112 of the first directory (EXIF 2.32 §4.6.4); nil if it is absent, invalid or the default (1).
    private func exifOrientation(at start: Int, end: Int) -> Int? {
        let part = ByteReader(bytes: Array(slice(start, end)))
        let isLittle = part.has([0x49, 0x49], at: 0)
        guard isLittle || part.has([0x4D, 0x4D], at: 0),
            let directory = part.number(4, size: 4, littleEndian: isLittle),
            let count = part.number(directory, size: 2, littleEndian: isLittle)
        else { return nil }
        for index in 0..<count {
            let entry = directory + 2 + index * 12
            guard let tag = part.number(entry, size: 2, littleEndian: isLittle) else { return nil }
            guard tag == 0x0112 else { continue }
            guard let value = part.number(entry + 8, size: 2, littleEndian: isLittle), (2...8).contains(value) else {
                return nil
            }
            return value
        }
        return nil
    }

    /// Makes an APP1 segment that holds only the orientation.
    private static func exif(orientation: Int) -> [UInt8] {
        let tiff: [UInt8] = [
            0x4D, 0x4D, 0, 0x2A, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0,
            UInt8(truncatingIfNeeded: orientation), 0, 0, 0, 0, 0, 0,
        ]
        return [0xFF, 0xE1, 0, UInt8(truncatingIfNeeded: 2 + 6 + tiff.count)] + "Exif\0\0".utf8 + tiff
    }

    /// Walks the RIFF chunks (RFC 9649 §2).
    fileprivate func webp() -> StillImage? {
        guard let riffLength = number(4, size: 4, littleEndian: true), riffLength + 8 <= bytes.count else { return nil }
        let end = riffLength + 8
        var output = Array(slice(0, 12))
        var offset = 12
        var size: (width: Int, height: Int)?
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
            let next = min(data + length + (length & 1), end)
            var chunk = Array(slice(offset, next))
            offset = next
            guard StillImage.webpChunks.contains(Array(chunk.prefix(4))) else { continue }
            // Clear the EXIF and XMP flags of the extended header (RFC 9649 §2.7).
            if chunk.starts(with: "VP8X".utf8), chunk.count > 8 { chunk[8] &= ~0x0C }
            output += chunk
        }
        guard hasData, let size else { return nil }
        let length = output.count - 8
        for index in 0..<4 { output[4 + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        return StillImage(format: .webp, width: size.width, height: size.height, stripped: output)
    }
}
