import RTP
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

    @Test func theActiveSequenceSetCounts() throws {
        // 640x352 as sequence parameter set 1, the picture parameter set 1 that names it, and a keyframe of that one.
        let sequence: [UInt8] = [0x67, 0x42, 0xc0, 0x28, 0x56, 0x80, 0xa0, 0x2d, 0x90]
        let pps: [UInt8] = [0x68, 0x48, 0xe3, 0x88]
        let slice: [UInt8] = [0x65, 0x88, 0x41, 0x80, 0x11]
        var reader = try #require(EncodedVideoReader(codec: .h264))
        _ = read(&reader, Self.stream([Self.sequenceSet, Self.pictureSet, Self.keySlice]))
        #expect(reader.format?.size == FrameSize(width: 320, height: 176))
        // No receiver can begin with a keyframe whose picture parameter set has not come.
        #expect(!read(&reader, Self.stream([slice])).isKeyframe)
        #expect(read(&reader, Self.stream([sequence, pps, slice])) == .init(isKeyframe: true))
        #expect(reader.format?.size == FrameSize(width: 640, height: 352))
        #expect(reader.format?.profile?.levelID == "42e028")
        // The former sets are still valid, and all of them are repeated.
        let key = read(&reader, Self.stream([Self.keySlice]))
        #expect(reader.format?.size == FrameSize(width: 320, height: 176))
        #expect(
            key.rewritten
                == Self.stream([Self.sequenceSet, sequence, Self.pictureSet, pps, Self.keySlice]))
    }

    /// 120 x 68 macroblocks, cropped.
    @Test(
        arguments: [
            ("4:2:0", [0x67, 0x64, 0x00, 0x28, 0xac, 0xb4, 0x03, 0xc0, 0x11, 0x3f, 0x2a], 1920, 1080),
            ("4:4:4", [0x67, 0xf4, 0x00, 0x28, 0x91, 0x96, 0x80, 0x78, 0x02, 0x27, 0xe2, 0x50], 1920, 1080),
            ("4:2:2", [0x67, 0x7a, 0x00, 0x28, 0xbc, 0xb4, 0x03, 0xc0, 0x11, 0x3b, 0x24, 0x4a], 1910, 1080),
            ("monochrome", [0x67, 0x64, 0x00, 0x28, 0xf2, 0xd0, 0x0f, 0x00, 0x44, 0xe5, 0x3c, 0x4a], 1910, 1080),
            ("4:2:2 interlaced", [0x67, 0x7a, 0x00, 0x28, 0xbc, 0xb4, 0x03, 0xc0, 0x22, 0x36, 0x49, 0x50], 1910, 1080),
        ] as [(String, [UInt8], Int, Int)])
    func theCropDependsOnTheChromaFormat(_ name: String, _ sequence: [UInt8], _ width: Int, _ height: Int) throws {
        var reader = try #require(EncodedVideoReader(codec: .h264))
        #expect(read(&reader, Self.stream([sequence, Self.pictureSet, Self.keySlice])).isKeyframe)
        #expect(reader.format?.size == FrameSize(width: width, height: height))
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
