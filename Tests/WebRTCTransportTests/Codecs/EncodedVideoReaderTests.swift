import Testing
import WebRTCTransport

@Suite struct EncodedVideoReaderTests {
    // 320x176, constrained baseline 1.3.
    private static let sequenceSet: [UInt8] = [0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x05, 0xe4]
    private static let pictureSet: [UInt8] = [0x68, 0xce, 0x0f, 0xc8]
    /// first_mb_in_slice 0, slice_type 7 (I), 5 (P), 6 (B).
    private static let keySlice: [UInt8] = [0x65, 0x88, 0x84, 0x11]
    private static let deltaSlice: [UInt8] = [0x41, 0x9a, 0x22, 0x33]
    private static let bidirectionalSlice: [UInt8] = [0x01, 0x9e, 0x22, 0x33]

    private static func stream(_ units: [[UInt8]]) -> [UInt8] { units.flatMap { [0, 0, 0, 1] + $0 } }
    private static func lengths(_ units: [[UInt8]]) -> [UInt8] {
        units.flatMap { [0, 0, 0, UInt8($0.count)] + $0 }
    }

    private func read(_ reader: inout EncodedVideoReader, _ bytes: [UInt8]) -> EncodedVideoReader.Frame {
        bytes.withUnsafeBytes { reader.read($0) }
    }

    @Test func aByteStreamWithItsSetsStaysAsItIs() throws {
        var reader = try #require(EncodedVideoReader(codec: .h264))
        let key = read(&reader, Self.stream([Self.sequenceSet, Self.pictureSet, Self.keySlice]))
        #expect(key == .init(isKeyframe: true))
        #expect(reader.format?.size.width == 320 && reader.format?.size.height == 176)
        #expect(reader.format?.profile?.levelID == "42e01f")
        #expect(reader.format?.profile?.name == "constrained-baseline")
        #expect(read(&reader, Self.stream([Self.deltaSlice])) == .init(isKeyframe: false))
    }

    @Test func setsAreRepeatedBeforeAKeyframe() throws {
        var reader = try #require(EncodedVideoReader(codec: .h264))
        // A receiver cannot begin with a keyframe without sets.
        #expect(!read(&reader, Self.stream([Self.keySlice])).isKeyframe)
        _ = read(&reader, Self.stream([Self.sequenceSet, Self.pictureSet]))
        let key = read(&reader, Self.stream([Self.keySlice]))
        #expect(key.rewritten == Self.stream([Self.sequenceSet, Self.pictureSet, Self.keySlice]))
        let delimited = read(&reader, Self.stream([[0x09, 0xf0], Self.keySlice]))
        #expect(delimited.rewritten == Self.stream([[0x09, 0xf0], Self.sequenceSet, Self.pictureSet, Self.keySlice]))
    }

    @Test func theAVCFormatBecomesAByteStream() throws {
        let (sequence, picture) = (Self.sequenceSet, Self.pictureSet)
        let record: [UInt8] =
            [1, 0x42, 0xc0, 0x0d, 0xff, 0xe1, 0, UInt8(sequence.count)] + sequence + [1, 0, UInt8(picture.count)]
            + picture
        var reader = try #require(EncodedVideoReader(codec: .h264, configuration: record))
        #expect(
            read(&reader, Self.lengths([Self.keySlice])).rewritten == Self.stream([sequence, picture, Self.keySlice]))
        #expect(read(&reader, Self.lengths([Self.deltaSlice])).rewritten == Self.stream([Self.deltaSlice]))
        for length in 0..<record.count {
            _ = EncodedVideoReader(codec: .h264, configuration: Array(record.prefix(length)))
        }
    }

    @Test func bidirectionalSlicesAreFound() throws {
        var reader = try #require(EncodedVideoReader(codec: .h264))
        #expect(read(&reader, Self.stream([Self.bidirectionalSlice])).isReordered)
        #expect(!read(&reader, Self.stream([Self.deltaSlice])).isReordered)
    }

    @Test func damagedFramesAreNoKeyframes() throws {
        let whole = Self.stream([Self.sequenceSet, Self.pictureSet, Self.keySlice])
        for length in 0...whole.count {
            var reader = try #require(EncodedVideoReader(codec: .h264))
            _ = read(&reader, Array(whole.prefix(length)))
            var other = try #require(EncodedVideoReader(codec: .h264, configuration: [1, 0x42, 0, 30, 0xff, 0xe0, 0]))
            _ = read(&other, Array(whole.prefix(length)))
        }
        var reader = try #require(EncodedVideoReader(codec: .vp8))
        #expect(read(&reader, []) == .init(isKeyframe: false))
        #expect(read(&reader, [0x10, 0, 0]) == .init(isKeyframe: false))
    }

    @Test func vp8HasItsSizeInKeyframes() throws {
        var reader = try #require(EncodedVideoReader(codec: .vp8))
        let key: [UInt8] = [0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xb0, 0x00, 1, 2]
        #expect(read(&reader, key) == .init(isKeyframe: true))
        #expect(reader.format?.size.width == 320 && reader.format?.size.height == 176)
        #expect(read(&reader, [0x11, 0x02, 0x00, 7]) == .init(isKeyframe: false))
    }
}
