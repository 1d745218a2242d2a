// Pictures carry where and when they were taken, and by whom: none of that is the service's business. Removed are EXIF,
// XMP, IPTC and comments, nothing that pictures are made of; the one thing in EXIF that changes how a picture looks,
// its orientation, is kept. TIFF is left as it is: there, metadata and picture share one directory.

enum ImageMetadata {
    /// - Parameter bytes: a file that `ImageHeader` accepts. Anything unexpected is left as it is.
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

    /// Segments up to the first scan; what follows is picture.
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
                // EXIF or XMP
                if has("Exif\0\0", at: offset + 4) {
                    orientation = orientation ?? exifOrientation(at: offset + 10, end: end)
                }
            case 0xED, 0xFE:
                // IPTC, comment
                break
            default:
                output += slice(offset, end)
            }
            offset = end
        }
        return nil
    }

    /// EXIF 2.32 §4.6.4: tag 0x0112 of the first directory; nil if it is absent or says what is usual.
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

    /// A segment that says the orientation and no more.
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
            // Whatever hides behind the end goes too.
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
            // RFC 9649 §2.7: the extended header says which of them follow.
            if has("VP8X", at: offset), chunk.count > 8 { chunk[8] &= ~0x0C }
            output += chunk
            offset = next
        }
        let length = output.count - 8
        for index in 0..<4 { output[4 + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        return output
    }
}
