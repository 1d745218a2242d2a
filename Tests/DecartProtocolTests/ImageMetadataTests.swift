import DecartProtocol
import Testing

@Suite("Metadata of images", .timeLimit(.minutes(1)))
struct ImageMetadataTests {
    private typealias Make = ReferenceImageTests

    private func contains(_ bytes: [UInt8], _ text: String) -> Bool {
        bytes.indices.contains { bytes[$0...].starts(with: Array(text.utf8)) }
    }

    private func segment(_ marker: UInt8, _ data: [UInt8]) -> [UInt8] {
        [0xFF, marker, UInt8((data.count + 2) >> 8), UInt8((data.count + 2) & 255)] + data
    }

    /// EXIF data with an orientation and a canary.
    private func exif(_ orientation: UInt8, isLittle: Bool) -> [UInt8] {
        let head: [UInt8] =
            isLittle ? [0x49, 0x49, 0x2A, 0, 8, 0, 0, 0, 1, 0] : [0x4D, 0x4D, 0, 0x2A, 0, 0, 0, 8, 0, 1]
        let entry: [UInt8] =
            isLittle
            ? [0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]
            : [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0]
        return Array("Exif\0\0".utf8) + head + entry + [0, 0, 0, 0] + "canary GPS".utf8
    }

    @Test func jpegKeepsImageAndOrientation() throws {
        let plain = Make.jpeg(64, 48)
        for isLittle in [true, false] {
            for orientation: UInt8 in [1, 6, 9] {
                var bytes = plain
                bytes.insert(
                    contentsOf: segment(0xE1, exif(orientation, isLittle: isLittle))
                        + segment(0xE1, Array("http://ns.adobe.com/xap/1.0/\0canary".utf8))
                        + segment(0xED, Array("canary".utf8)) + segment(0xFE, Array("canary".utf8)), at: 2)
                let image = try ReferenceImage(bytes: bytes)
                #expect(!contains(image.bytes, "canary"))
                #expect(image.width == 64 && image.height == 48)
                if orientation == 6 {
                    // The orientation alone is written back, and a second pass changes nothing.
                    #expect(contains(image.bytes, "Exif"))
                    #expect(image.bytes.count == plain.count + 36)
                    #expect(try ReferenceImage(bytes: image.bytes).bytes == image.bytes)
                } else {
                    #expect(image.bytes == plain)
                }
            }
        }
    }

    @Test func brokenExifIsDropped() throws {
        for data: [UInt8] in [
            [], [0x49], [0x49, 0x49, 0x2A, 0, 255, 255, 255, 255], [0x4D, 0x4D, 0, 0x2A, 0, 0, 0, 8, 255, 255],
        ] {
            var bytes = Make.jpeg(64, 48)
            bytes.insert(contentsOf: segment(0xE1, Array("Exif\0\0".utf8) + data), at: 2)
            #expect(try ReferenceImage(bytes: bytes).bytes == Make.jpeg(64, 48))
        }
    }

    /// The other images of a multi-picture file, the film of a motion photo, a vendor's trailer.
    @Test func jpegEndsAtItsFirstEndMarker() throws {
        let plain = Make.jpeg(64, 48)
        var second = plain
        second.insert(contentsOf: segment(0xE1, exif(6, isLittle: true)), at: 2)
        let film = Array("\0\0\0\u{18}ftypmp42\0\0\0\0mp42canary".utf8)
        for trailer in [second, film, film + second, Array("canary".utf8), [0xFF]] {
            #expect(try ReferenceImage(bytes: plain + trailer).bytes == plain)
        }
    }

    @Test func progressiveJPEGLosesSegmentsBetweenItsScans() throws {
        let scan: [UInt8] = [0xFF, 0xDA, 0, 4, 0, 0, 7, 0xFF, 0, 0xFF, 0xD0, 8, 0xFF, 0xD7, 9]
        let table = segment(0xC4, [1, 2, 3])
        let start = Array(Make.jpeg(64, 48, marker: 0xC2).dropLast(2))
        let end: [UInt8] = [0xFF, 0xD9]
        let between = ([0xE0, 0xE1, 0xE2, 0xEB, 0xEE, 0xEF, 0xFE] as [UInt8]).flatMap {
            segment($0, Array("canary".utf8))
        }
        let exif = segment(0xE1, exif(6, isLittle: false))
        let parts = [start, between, exif, table, scan, between, scan, between, end]
        let image = try ReferenceImage(bytes: parts.flatMap { $0 })
        #expect(image.bytes == [start, table, scan, scan, end].flatMap { $0 })
    }

    @Test func jpegKeepsProfileAndColourTransform() throws {
        let plain = Make.jpeg(64, 48)
        let kept =
            segment(0xE2, Array("ICC_PROFILE\0".utf8) + [1, 1, 2, 3])
            + segment(0xEE, Array("Adobe".utf8) + [0, 100, 0, 0, 0, 0, 2])
        let dropped = ([0xE0, 0xE2, 0xE3, 0xEB, 0xEC, 0xEE] as [UInt8]).flatMap { segment($0, Array("canary".utf8)) }
        // A JFIF header with a thumbnail of one pixel.
        let jfif = segment(0xE0, Array("JFIF\0".utf8) + [1, 1, 0, 0, 1, 0, 1, 1, 1] + Array("pix".utf8))
        let (header, rest) = (Array(plain.prefix(20)), Array(plain.dropFirst(20)))
        // With a fill byte before the frame header.
        let parts = [[0xFF, 0xD8], dropped, jfif, kept, [0xFF], rest]
        let image = try ReferenceImage(bytes: parts.flatMap { $0 })
        #expect(image.bytes == [header, kept, rest].flatMap { $0 })
    }

    @Test func pngLosesTextsAndTrailer() throws {
        func chunk(_ type: String, _ data: String) -> [UInt8] {
            [0, 0, 0, UInt8(data.utf8.count)] + type.utf8 + data.utf8 + [0, 0, 0, 0]
        }
        let metadata = ["eXIf", "tEXt", "zTXt", "iTXt", "tIME", "caBX", "prVt"].flatMap { chunk($0, "canary") }
        let kept = ["gAMA", "iCCP", "tRNS", "pHYs"].flatMap { chunk($0, "abcd") }
        let image = try ReferenceImage(bytes: Make.png(64, 48, extra: metadata + kept) + Array("canary".utf8))
        #expect(image.bytes == Make.png(64, 48, extra: kept))
    }

    @Test func webpLosesItsChunksAndFlags() throws {
        let bytes = Make.webp([
            ("VP8X", Make.vp8x(64, 48, flags: 0x1C)), ("EXIF", Array("canary!".utf8)), ("VP8 ", Make.vp8(64, 48)),
            ("XMP ", Array("canary".utf8)), ("C2PA", Array("canary".utf8)),
        ])
        let image = try ReferenceImage(bytes: bytes + Array("canary".utf8))
        #expect(image.bytes == Make.webp([("VP8X", Make.vp8x(64, 48, flags: 0x10)), ("VP8 ", Make.vp8(64, 48))]))
    }

    @Test func tiffLosesFieldsAndWhatNoFieldReaches() throws {
        let needed = [
            (tag: 256, type: 3, count: 1, value: 64), (tag: 257, type: 3, count: 1, value: 48),
            (tag: 273, type: 4, count: 1, value: 8), (tag: 274, type: 3, count: 1, value: 6),
            (tag: 279, type: 4, count: 1, value: 4),
        ]
        // ImageDescription and an EXIF directory; `needed` and these make a directory of 2 + 7 * 12 + 4 bytes at 12.
        let personal = [(tag: 270, type: 2, count: 6, value: 102), (tag: 34665, type: 4, count: 1, value: 102)]
        let image = try ReferenceImage(bytes: Make.tiff(fields: needed + personal, extra: Array("canary".utf8)))
        #expect(image.bytes == Make.tiff(fields: needed))
    }

    /// Strips in another order, and values that the directory only refers to.
    @Test func tiffStripsAreMoved() throws {
        func fields(offsets: Int) -> [(tag: Int, type: Int, count: Int, value: Int)] {
            [
                (tag: 256, type: 3, count: 1, value: 64), (tag: 257, type: 3, count: 1, value: 48),
                (tag: 273, type: 4, count: 2, value: offsets), (tag: 279, type: 3, count: 2, value: 2 | 2 << 16),
            ]
        }
        // The directory ends at 12 + 2 + 4 * 12 + 4 = 66.
        let image = try ReferenceImage(
            bytes: Make.tiff(
                fields: fields(offsets: 72), extra: Array("canary".utf8) + [80, 0, 0, 0, 10, 0, 0, 0, 5, 6]))
        // 5, 6 come from the end; 9, 9 from the beginning.
        var expected = Make.tiff(fields: fields(offsets: 66), extra: [8, 0, 0, 0, 10, 0, 0, 0])
        expected.replaceSubrange(8..<12, with: [5, 6, 9, 9])
        #expect(image.bytes == expected)
        #expect(try ReferenceImage(bytes: expected).bytes == expected)
    }
}
