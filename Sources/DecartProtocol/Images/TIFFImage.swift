/// The first image of a TIFF file: its size, the fields that a decoder needs, and its strips or tiles.
struct TIFFImage {
    let width: Int
    let height: Int
    private let reader: ByteReader
    private let isLittle: Bool
    private let fields: [Field]
    private let offsetsTag: Int
    private let strips: [Range<Int>]

    private struct Field {
        let tag: Int
        let type: Int
        let count: Int
        let value: Range<Int>
    }

    /// The fields that change the pixels or their colours (TIFF 6.0 and its supplements): baseline, fax, predictor,
    /// colour, tiles, JPEG tables, YCbCr and ICC profile.
    private static let keptTags: Set<Int> = [
        254, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 282, 283, 284, 292, 293, 296, 301, 317, 318, 319,
        320, 322, 323, 324, 325, 332, 338, 339, 347, 529, 530, 531, 532, 34675,
    ]

    /// Returns nil unless the first image file directory (TIFF 6.0 §2) and its strips or tiles lie within the file.
    init?(_ reader: ByteReader) {
        let isLittle = reader.has([0x49, 0x49, 0x2A, 0x00], at: 0)
        guard isLittle || reader.has([0x4D, 0x4D, 0x00, 0x2A], at: 0) else { return nil }
        guard let directory = reader.number(4, size: 4, littleEndian: isLittle), directory >= 8,
            let count = reader.number(directory, size: 2, littleEndian: isLittle), count > 0,
            directory + 2 + count * 12 + 4 <= reader.bytes.count
        else { return nil }

        var fields: [Field] = []
        var tags: Set<Int> = []
        var values: [Int: [Int]] = [:]
        // Bounds the work on a crafted file: each value takes at least 2 bytes, so a valid file has no more values than
        // this.
        var budget = reader.bytes.count / 2
        for index in 0..<count {
            let entry = directory + 2 + index * 12
            guard let tag = reader.number(entry, size: 2, littleEndian: isLittle) else { return nil }
            guard TIFFImage.keptTags.contains(tag) else { continue }
            let field = TIFFImage.field(tag, at: entry, reader, isLittle: isLittle)
            // ImageWidth, ImageLength, StripOffsets, StripByteCounts, TileOffsets, TileByteCounts.
            if [256, 257, 273, 279, 324, 325].contains(tag) {
                let most = tag == 256 || tag == 257 ? 1 : budget
                guard let field, !tags.contains(tag), [3, 4].contains(field.type), field.count > 0, field.count <= most
                else { return nil }
                let size = field.type == 3 ? 2 : 4
                values[tag] = (0..<field.count).compactMap {
                    reader.number(field.value.lowerBound + $0 * size, size: size, littleEndian: isLittle)
                }
                budget -= field.count
            }
            guard let field, tags.insert(tag).inserted else { continue }
            fields.append(field)
        }
        let (offsetsTag, lengthsTag) = values[273] == nil ? (324, 325) : (273, 279)
        guard let width = values[256]?.first, let height = values[257]?.first,
            let offsets = values[offsetsTag], let lengths = values[lengthsTag],
            offsets.count == lengths.count,
            zip(offsets, lengths).allSatisfy({ $0 >= 8 && $0 + $1 <= reader.bytes.count })
        else { return nil }
        (self.width, self.height) = (width, height)
        (self.reader, self.isLittle) = (reader, isLittle)
        self.offsetsTag = offsetsTag
        let unused = offsetsTag == 273 ? [324, 325] : [273, 279]
        self.fields = fields.filter { !unused.contains($0.tag) }
        strips = zip(offsets, lengths).map { $0..<($0 + $1) }
    }

    /// Returns nil for an unknown type or a value outside the file.
    private static func field(_ tag: Int, at entry: Int, _ reader: ByteReader, isLittle: Bool) -> Field? {
        // The size of each type, from BYTE (1) to DOUBLE (12).
        let sizes = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8]
        guard let type = reader.number(entry + 2, size: 2, littleEndian: isLittle), sizes.indices.contains(type),
            let count = reader.number(entry + 4, size: 4, littleEndian: isLittle),
            let offset = reader.number(entry + 8, size: 4, littleEndian: isLittle)
        else { return nil }
        let size = count * sizes[type]
        let start = size > 4 ? offset : entry + 8
        guard start + size <= reader.bytes.count else { return nil }
        return Field(tag: tag, type: type, count: count, value: start..<(start + size))
    }

    /// A new file with the kept fields and the strips or tiles only. Returns nil if they overlap, or if an old JPEG
    /// image (compression 6) needs offsets that other fields contain.
    func stripped() -> [UInt8]? {
        let compression = fields.first { $0.tag == 259 }
        guard compression.flatMap({ reader.number($0.value.lowerBound, size: 2, littleEndian: isLittle) }) != 6,
            // Bounds the copies: only overlapping values and strips exceed the file together.
            fields.reduce(strips.reduce(0) { $0 + $1.count }, { $0 + $1.value.count }) <= reader.bytes.count
        else { return nil }
        var pixels: [UInt8] = []
        var offsets: [UInt8] = []
        let offsetSize = fields.first { $0.tag == offsetsTag }?.type == 3 ? 2 : 4
        for strip in strips {
            let offset = 8 + pixels.count
            guard offsetSize == 4 || offset <= 0xFFFF else { return nil }
            offsets += encoded(offset, offsetSize)
            pixels += reader.bytes[strip]
        }
        if !pixels.count.isMultiple(of: 2) { pixels.append(0) }

        var directory = encoded(fields.count, 2)
        var values: [UInt8] = []
        let start = 8 + pixels.count + 2 + fields.count * 12 + 4
        for field in fields {
            let value = field.tag == offsetsTag ? offsets[...] : reader.bytes[field.value]
            directory += encoded(field.tag, 2) + encoded(field.type, 2) + encoded(field.count, 4)
            if value.count <= 4 {
                directory += value
                directory += [UInt8](repeating: 0, count: 4 - value.count)
            } else {
                directory += encoded(start + values.count, 4)
                values += value
                if !value.count.isMultiple(of: 2) { values.append(0) }
            }
        }
        var output = Array(reader.bytes.prefix(4))
        output += encoded(8 + pixels.count, 4)
        output += pixels
        output += directory
        output += encoded(0, 4)  // no other image follows
        output += values
        // Only padding makes it larger, unless the strips or values overlap the directory.
        return output.count <= reader.bytes.count + 64 ? output : nil
    }

    private func encoded(_ value: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: value >> (8 * (isLittle ? $0 : size - 1 - $0))) }
    }
}
