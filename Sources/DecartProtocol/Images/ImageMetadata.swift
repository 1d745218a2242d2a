// Removes metadata from reference images, because place, time and author of a photograph are none of the service's
// business: EXIF, XMP, IPTC and comments. Keeps the image data and, in a JPEG, the EXIF orientation, which changes how
// the image looks. Leaves TIFF unchanged, because its metadata and image data share one directory.

enum ImageMetadata {
    /// Returns the bytes unchanged if their structure is unexpected.
    /// - Parameter bytes: a file that `ImageHeader` accepts.
    static func stripped(_ bytes: [UInt8], format: ReferenceImage.Format) -> [UInt8] {
        let reader = ByteReader(bytes: bytes)
        return switch format {
        case .jpeg: reader.strippedJPEG() ?? bytes
        case .png: reader.strippedPNG() ?? bytes
        case .webp: reader.strippedWebP() ?? bytes
        case .tiff: bytes
        }
    }
}

extension ByteReader {
    private func slice(_ start: Int, _ end: Int) -> ArraySlice<UInt8> {
        bytes[min(max(start, 0), bytes.count)..<min(max(end, start, 0), bytes.count)]
    }

    /// Strips the segments before the first scan; everything after them is image data.
    fileprivate func strippedJPEG() -> [UInt8]? {
        var output = Array(slice(0, 2))
        var orientation: Int?
        var offset = 2
        while let prefix = byte(offset), prefix == 0xFF, let marker = byte(offset + 1) {
            if marker == 0xFF {
                output.append(0xFF)
                offset += 1
                continue
            }
            if marker == 0x01 || (0xD0...0xD7).contains(marker) {
                output += slice(offset, offset + 2)
                offset += 2
                continue
            }
            guard let length = number(offset + 2, size: 2), length >= 2, offset + 2 + length <= bytes.count else {
                return nil
            }
            let end = offset + 2 + length
            switch marker {
            case 0xDA:
                if let orientation { output.insert(contentsOf: ByteReader.exif(orientation: orientation), at: 2) }
                return output + slice(offset, bytes.count)
            case 0xE1:
                // APP1: EXIF or XMP
                if has("Exif\0\0", at: offset + 4) {
                    orientation = orientation ?? exifOrientation(at: offset + 10, end: end)
                }
            case 0xED, 0xFE:
                // APP13 (IPTC) and COM (comment)
                break
            default:
                output += slice(offset, end)
            }
            offset = end
        }
        return nil
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

    fileprivate func strippedPNG() -> [UInt8]? {
        var output = Array(slice(0, 8))
        var offset = 8
        while let length = number(offset, size: 4), offset + 12 + length <= bytes.count {
            let end = offset + 12 + length
            let isMetadata = (["eXIf", "tEXt", "zTXt", "iTXt", "tIME"] as [StaticString]).contains {
                has($0, at: offset + 4)
            }
            if !isMetadata { output += slice(offset, end) }
            // Drop any data that follows the end chunk too.
            if has("IEND", at: offset + 4) { return output }
            offset = end
        }
        return nil
    }

    fileprivate func strippedWebP() -> [UInt8]? {
        guard let riffLength = number(4, size: 4, littleEndian: true), riffLength + 8 <= bytes.count else { return nil }
        let end = riffLength + 8
        var output = Array(slice(0, 12))
        var offset = 12
        while offset + 8 <= end, let length = number(offset + 4, size: 4, littleEndian: true),
            length <= end - offset - 8
        {
            let next = min(offset + 8 + length + (length & 1), end)
            if has("EXIF", at: offset) || has("XMP ", at: offset) {
                offset = next
                continue
            }
            var chunk = Array(slice(offset, next))
            // Clear the EXIF and XMP flags of the extended header (RFC 9649 §2.7).
            if has("VP8X", at: offset), chunk.count > 8 { chunk[8] &= ~0x0C }
            output += chunk
            offset = next
        }
        let length = output.count - 8
        for index in 0..<4 { output[4 + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        return output
    }
}
