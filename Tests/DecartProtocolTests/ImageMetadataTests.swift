import DecartProtocol
import Testing

@Suite("Metadata of pictures", .timeLimit(.minutes(1)))
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

    @Test func jpegKeepsPictureAndOrientation() throws {
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

    @Test func pngLosesTextsAndTrailer() throws {
        func chunk(_ type: String, _ data: String) -> [UInt8] {
            [0, 0, 0, UInt8(data.utf8.count)] + type.utf8 + data.utf8 + [0, 0, 0, 0]
        }
        let metadata = ["eXIf", "tEXt", "zTXt", "iTXt", "tIME"].flatMap { chunk($0, "canary") }
        let gamma = chunk("gAMA", "abcd")
        let image = try ReferenceImage(bytes: Make.png(64, 48, extra: metadata + gamma) + Array("canary".utf8))
        #expect(image.bytes == Make.png(64, 48, extra: gamma))
    }

    @Test func webpLosesItsChunksAndFlags() throws {
        let bytes = Make.webp([
            ("VP8X", Make.vp8x(64, 48, flags: 0x1C)), ("EXIF", Array("canary!".utf8)), ("VP8 ", Make.vp8(64, 48)),
            ("XMP ", Array("canary".utf8)),
        ])
        let image = try ReferenceImage(bytes: bytes)
        #expect(image.bytes == Make.webp([("VP8X", Make.vp8x(64, 48, flags: 0x10)), ("VP8 ", Make.vp8(64, 48))]))
    }

    @Test func tiffIsLeftAlone() throws {
        #expect(try ReferenceImage(bytes: Make.tiff(64, 48)).bytes == Make.tiff(64, 48))
    }
}
