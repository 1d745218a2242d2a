import DecartProtocol
import Glibc
import TestSupport
import Testing

@Suite("Reference images", .timeLimit(.minutes(1)))
struct ReferenceImageTests {
    private static func big(_ value: Int, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
    }

    private static func little(_ value: Int, _ count: Int) -> [UInt8] { big(value, count).reversed() }

    static func png(_ width: Int, _ height: Int, extra: [UInt8] = []) -> [UInt8] {
        func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] { big(data.count, 4) + type.utf8 + data + [0, 0, 0, 0] }
        return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
            + chunk("IHDR", big(width, 4) + big(height, 4) + [8, 2, 0, 0, 0]) + extra + chunk("IDAT", [1, 2, 3])
            + chunk("IEND", [])
    }

    static func jpeg(_ width: Int, _ height: Int, marker: UInt8 = 0xC0) -> [UInt8] {
        let jfif: [UInt8] = [0x4A, 0x46, 0x49, 0x46, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0]
        let start: [UInt8] = [0xFF, 0xD8, 0xFF, 0xE0, 0, 16] + jfif
        let frame: [UInt8] = [0xFF, marker, 0, 11, 8] + big(height, 2) + big(width, 2) + [1, 1, 0x11, 0]
        return start + frame + [0xFF, 0xDA, 0, 4, 0, 0, 1, 2, 0xFF, 0, 3, 0xFF, 0xD9]
    }

    static func webp(_ chunks: [(String, [UInt8])]) -> [UInt8] {
        let body = chunks.flatMap { name, data -> [UInt8] in
            [UInt8](name.utf8) + little(data.count, 4) + data + (data.count % 2 == 1 ? [0] : [])
        }
        return [UInt8]("RIFF".utf8) + little(body.count + 4, 4) + "WEBP".utf8 + body
    }

    static func vp8(_ width: Int, _ height: Int) -> [UInt8] {
        [0, 0, 0, 0x9D, 1, 0x2A] + little(width, 2) + little(height, 2)
    }
    static func vp8l(_ width: Int, _ height: Int) -> [UInt8] { [0x2F] + little((width - 1) | (height - 1) << 14, 4) }
    static func vp8x(_ width: Int, _ height: Int, flags: UInt8 = 0) -> [UInt8] {
        [flags, 0, 0, 0] + little(width - 1, 3) + little(height - 1, 3)
    }

    static func tiff(_ width: Int, _ height: Int, isLittle: Bool = true, stripAt: Int = 8, strip: Int = 4) -> [UInt8] {
        let n = isLittle ? little : big
        func field(_ tag: Int, _ type: Int, _ value: Int) -> [UInt8] {
            n(tag, 2) + n(type, 2) + n(1, 4) + (type == 3 ? n(value, 2) + [0, 0] : n(value, 4))
        }
        let magic: [UInt8] = isLittle ? [0x49, 0x49, 0x2A, 0] : [0x4D, 0x4D, 0, 0x2A]
        let head: [[UInt8]] = [magic, n(12, 4), [9, 9, 9, 9], n(4, 2)]
        let fields = [
            field(256, 3, width), field(257, 4, height), field(273, 4, stripAt), field(279, 4, strip), n(0, 4),
        ]
        return Array((head + fields).joined())
    }

    /// Builds a little-endian TIFF with one directory of `fields`, followed by `extra`.
    static func tiff(fields: [(tag: Int, type: Int, count: Int, value: Int)], extra: [UInt8] = []) -> [UInt8] {
        var bytes: [UInt8] = [0x49, 0x49, 0x2A, 0] + little(12, 4) + [9, 9, 9, 9] + little(fields.count, 2)
        for field in fields {
            bytes += little(field.tag, 2) + little(field.type, 2) + little(field.count, 4) + little(field.value, 4)
        }
        return bytes + little(0, 4) + extra
    }

    static let good: [(String, [UInt8], ReferenceImage.Format, Int, Int)] = [
        ("png", png(640, 480), .png, 640, 480),
        ("png at the bounds", png(8192, 4028), .png, 8192, 4028),
        ("jpeg", jpeg(640, 480), .jpeg, 640, 480),
        ("progressive jpeg", jpeg(640, 480, marker: 0xC2), .jpeg, 640, 480),
        ("webp lossy", webp([("VP8 ", vp8(640, 480))]), .webp, 640, 480),
        ("webp lossless", webp([("VP8L", vp8l(640, 480))]), .webp, 640, 480),
        ("webp extended", webp([("VP8X", vp8x(640, 480)), ("VP8 ", vp8(640, 480))]), .webp, 640, 480),
        ("tiff", tiff(640, 480), .tiff, 640, 480),
        ("tiff, big-endian", tiff(640, 480, isLittle: false), .tiff, 640, 480),
    ]

    @Test(arguments: good.indices) func accepts(_ index: Int) throws {
        let (_, bytes, format, width, height) = ReferenceImageTests.good[index]
        let image = try ReferenceImage(bytes: bytes)
        #expect(image.format == format && image.width == width && image.height == height)
        #expect(Base64.decode(image.base64) == bytes)
        #expect(!String(reflecting: image).contains("137"))
    }

    static let bad: [(String, [UInt8])] = [
        ("empty", []), ("one byte", [0x89]), ("html", [UInt8]("<html>".utf8)),
        ("svg", [UInt8]("<svg xmlns='x'/>".utf8)),
        ("pdf", [UInt8]("%PDF-1.7".utf8)), ("gif", [UInt8]("GIF89a".utf8) + [1, 0, 1, 0]),
        ("bmp", [UInt8]("BM".utf8) + [UInt8](repeating: 0, count: 60)),
        ("passwd", [UInt8]("root:x:0:0:root:/root:/bin/bash\n".utf8)), ("zeros", [UInt8](repeating: 0, count: 4096)),
        ("png magic only", [UInt8](png(1, 1).prefix(8))), ("png 0 wide", png(0, 1)),
        ("png 65535 x 65535", png(65535, 65535)),
        ("png 2^32-1", png(0xFFFF_FFFF, 0xFFFF_FFFF)), ("png too wide", png(8193, 1)),
        ("png too many pixels", png(8192, 4029)),
        ("apng", png(16, 16, extra: big(8, 4) + "acTL".utf8 + [UInt8](repeating: 0, count: 12))),
        ("png with an endless chunk", png(16, 16, extra: [0x7F, 0xFF, 0xFF, 0xFF] + "tEXt".utf8)),
        ("jpeg of 18375 x 11175", jpeg(18375, 11175)), ("jpeg 0 high", jpeg(16, 0)),
        (
            "jpeg whose only end is that of a thumbnail between its scans",
            Array(jpeg(16, 16).dropLast(2)) + [0xFF, 0xE1, 0, 6, 0xFF, 0xD8, 0xFF, 0xD9]
        ),
        ("jpeg without frame", [0xFF, 0xD8, 0xFF, 0xDA, 0, 2, 0xFF, 0xD9]),
        ("jpeg with a short segment", [0xFF, 0xD8, 0xFF, 0xE0, 0, 1]),
        ("jpeg, only fill", [0xFF, 0xD8] + [UInt8](repeating: 0xFF, count: 5000)),
        ("webp animated", webp([("VP8X", vp8x(16, 16, flags: 2)), ("ANIM", [0, 0, 0, 0, 0, 0])])),
        ("webp with frames", webp([("VP8X", vp8x(16, 16)), ("ANMF", [0, 0])])),
        ("webp without data", webp([("VP8X", vp8x(16, 16))])),
        ("webp too wide", webp([("VP8 ", vp8(8193, 1))])),
        ("webp, wrong start code", webp([("VP8 ", [0, 0, 0, 1, 2, 3, 1, 0, 1, 0])])),
        ("webp, lies about length", [UInt8]("RIFF".utf8) + [255, 255, 255, 255] + "WEBP".utf8),
        (
            "tiff with strips that overlap",
            tiff(
                fields: [
                    (tag: 256, type: 3, count: 1, value: 16), (tag: 257, type: 3, count: 1, value: 16),
                    (tag: 273, type: 3, count: 20, value: 66), (tag: 279, type: 3, count: 20, value: 66),
                ], extra: (0..<20).flatMap { _ in little(50, 2) })
        ),
        (
            "tiff of compression 6",
            tiff(fields: [
                (tag: 256, type: 3, count: 1, value: 16), (tag: 257, type: 3, count: 1, value: 16),
                (tag: 259, type: 3, count: 1, value: 6), (tag: 273, type: 4, count: 1, value: 8),
                (tag: 279, type: 4, count: 1, value: 4),
            ])
        ),
        ("tiff, directory outside", [0x49, 0x49, 0x2A, 0] + little(0x7FFF_FFFF, 4)),
        ("tiff, strip outside", tiff(16, 16, stripAt: 0x7FFF_FFFF)),
        ("tiff, strip too long", tiff(16, 16, strip: 0x7FFF_FFFF)), ("tiff too wide", tiff(9000, 1)),
        ("bigtiff", [0x49, 0x49, 0x2B, 0, 8, 0, 0, 0]),
        ("over 10 MiB", png(16, 16) + [UInt8](repeating: 0, count: 10 << 20)),
    ]

    @Test(arguments: bad.indices) func refuses(_ index: Int) {
        let (name, bytes) = ReferenceImageTests.bad[index]
        #expect(throws: ProtocolError.self, "\(name)") { try ReferenceImage(bytes: bytes) }
    }

    /// Each directory entry may claim as many values as the file has bytes. The suite's time limit is many times the
    /// normal duration.
    @Test func tiffDirectoriesThatAskForMuchAreRefused() {
        let (size, once) = (4, (tag: 279, type: 4, count: 1, value: 4))
        let base = [
            (tag: 256, type: 3, count: 1, value: 16), (tag: 257, type: 3, count: 1, value: 16),
            (tag: 273, type: 4, count: 1, value: 8),
        ]
        #expect(throws: Never.self) { try ReferenceImage(bytes: Self.tiff(fields: base + [once])) }
        let filler = [UInt8](repeating: 0, count: 10_000_000 - 70_000 * 12)
        let many = (tag: 273, type: 3, count: filler.count / 2, value: size)
        for (name, fields) in [
            ("a tag twice", base + [once, once]),
            ("two widths", base + [once, (tag: 256, type: 3, count: 1, value: 16)]),
            ("a width of two values", Array(base.dropFirst()) + [once, (tag: 256, type: 3, count: 2, value: 16)]),
            (
                "strips and tiles that together claim more than the file holds",
                [256, 257].map { (tag: $0, type: 3, count: 1, value: 16) }
                    + [273, 279, 324, 325].map { (tag: $0, type: 3, count: filler.count / 2, value: size) }
            ),
            ("the same huge tag all over", base + Array(repeating: many, count: 65_000)),
        ] {
            #expect(throws: ProtocolError.self, "\(name)") {
                try ReferenceImage(bytes: Self.tiff(fields: fields, extra: filler))
            }
        }
    }

    @Test func cutOffAnywhereIsRefused() {
        for (name, bytes, _, _, _) in ReferenceImageTests.good {
            for length in 0..<bytes.count {
                #expect(throws: ProtocolError.self, "\(name) cut to \(length)") {
                    try ReferenceImage(bytes: Array(bytes.prefix(length)))
                }
            }
        }
    }

    /// An image with one wrong byte is rejected or stays within all bounds.
    @Test(arguments: good.indices) func oneWrongByteIsRefusedOrWithinTheBounds(_ index: Int) {
        let (name, bytes, format, _, _) = ReferenceImageTests.good[index]
        var (accepted, refused) = (0, 0)
        for index in bytes.indices {
            for value: UInt8 in [0, 1, 0x7F, 0x80, 0xFF] where value != bytes[index] {
                var changed = bytes
                changed[index] = value
                guard let image = try? ReferenceImage(bytes: changed) else {
                    refused += 1
                    continue
                }
                accepted += 1
                let sides = 1...ReferenceImage.maximumSide
                #expect(image.format == format, "\(name), byte \(index) = \(value)")
                #expect(
                    sides.contains(image.width) && sides.contains(image.height), "\(name), byte \(index) = \(value)")
                #expect(
                    image.width * image.height <= ReferenceImage.maximumPixels, "\(name), byte \(index) = \(value)")
            }
        }
        // Damage to signature or lengths is rejected; bytes that only a decoder reads are not checked.
        #expect(accepted > 0 && refused >= 8, "\(name): \(accepted) accepted, \(refused) refused")
    }

    @Test func files() throws {
        try TemporaryFolder.with { folder in
            let good = try folder.write("good.txt", Self.png(16, 16))
            #expect(try ReferenceImage(path: good).format == .png)
            let (link, fifo) = (folder.path("link"), folder.path("fifo"))
            let (dangling, loop) = (folder.path("dangling"), folder.path("loop"))
            #expect(symlink(good, link) == 0)
            #expect(try ReferenceImage(path: link).format == .png)

            #expect(mkfifo(fifo, 0o600) == 0)
            #expect(symlink(folder.path("nothing"), dangling) == 0)
            #expect(symlink(loop, loop) == 0)
            let sparse = try folder.makeSparse("sparse", size: 10 << 30)
            let empty = try folder.write("empty", [])
            var longest = Duration.zero
            for bad in [
                fifo, dangling, loop, sparse, empty, folder.root, folder.path("nothing"), good + "/x", "/dev/zero",
                "/dev/null", "/proc/self/environ", "/etc/passwd", "", "a\u{0}b", String(repeating: "x", count: 10_000),
            ] {
                let start = ContinuousClock.now
                // The suite's time limit guards against a path on which reading blocks.
                #expect(throws: ProtocolError.self, "\(bad.prefix(40))") { try ReferenceImage(path: bad) }
                longest = max(longest, ContinuousClock.now - start)
            }
            measure("time to refuse a path", longest, atMost: .seconds(1))
        }
    }
}
