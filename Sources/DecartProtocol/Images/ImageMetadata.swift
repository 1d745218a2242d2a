// Copies only what a decoder needs from a reference image, because place, time and author of a photograph are none of
// the service's business: EXIF, XMP, IPTC, comments, manifests, thumbnails, and whatever follows the end of the image,
// such as the other images of a multi-picture file or the film of a motion photo. Keeps colour profiles and, in a JPEG,
// the EXIF orientation, which changes how the image looks.

enum ImageMetadata {
    /// Returns nil if the metadata cannot be separated from the image.
    /// - Parameter bytes: a file that `ImageHeader` accepts.
    static func stripped(_ bytes: [UInt8], format: ReferenceImage.Format) -> [UInt8]? {
        let reader = ByteReader(bytes: bytes)
        return switch format {
        case .jpeg: reader.strippedJPEG()
        case .png: reader.strippedPNG()
        case .webp: reader.strippedWebP()
        case .tiff: TIFFImage(reader)?.stripped()
        }
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
    private func slice(_ start: Int, _ end: Int) -> ArraySlice<UInt8> {
        bytes[min(max(start, 0), bytes.count)..<min(max(end, start, 0), bytes.count)]
    }

    fileprivate func strippedJPEG() -> [UInt8]? {
        var output: [UInt8] = []
        var orientation: Int?
        var hasScan = false
        let isComplete = walkJPEG { marker, segment in
            let data = segment.lowerBound + 4
            switch marker {
            case 0xC0...0xCF, 0xDA...0xDF:
                // frame and scan headers, tables
                output += bytes[segment]
                hasScan = hasScan || marker == 0xDA
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
        guard isComplete else { return nil }
        var file: [UInt8] = [0xFF, 0xD8]
        if let orientation { file += ByteReader.exif(orientation: orientation) }
        return file + output + [0xFF, 0xD9]
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
            if ImageMetadata.pngChunks.contains(Array(slice(offset + 4, offset + 8))) { output += slice(offset, end) }
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
            var chunk = Array(slice(offset, next))
            offset = next
            guard ImageMetadata.webpChunks.contains(Array(chunk.prefix(4))) else { continue }
            // Clear the EXIF and XMP flags of the extended header (RFC 9649 §2.7).
            if chunk.starts(with: "VP8X".utf8), chunk.count > 8 { chunk[8] &= ~0x0C }
            output += chunk
        }
        let length = output.count - 8
        for index in 0..<4 { output[4 + index] = UInt8(truncatingIfNeeded: length >> (8 * index)) }
        return output
    }
}
