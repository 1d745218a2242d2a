// The size that a frame announces, read before a decoder allocates for it: 20 bytes of VP8 or VP9 may claim gigabytes.
// It knows values and bytes only.

package import RTP

package struct FrameSize: Sendable, Equatable {
    package var width: Int
    package var height: Int
    package init(width: Int, height: Int) { (self.width, self.height) = (width, height) }

    /// Allows 4K video in either orientation; the models' frames have a tenth of that.
    package static let maximumSide = 4096
    package static let maximumPixels = 4096 * 2304

    package var isAcceptable: Bool {
        width > 0 && height > 0 && width <= Self.maximumSide && height <= Self.maximumSide
            && width * height <= Self.maximumPixels
    }
}

extension VideoCodec {
    /// The sizes that a depayloaded frame announces. Empty: it uses a size announced before. nil: the size cannot be
    /// parsed. H.264 and H.265 must be in byte-stream format.
    package func announcedSizes(in frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        switch self {
        case .vp8: vp8Sizes(frame)
        case .vp9: vp9Sizes(frame)
        case .h264: h264Sizes(frame)
        case .h265: h265Sizes(frame)
        }
    }

    /// RFC 6386 9.1: only a keyframe has a size.
    private func vp8Sizes(_ frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        guard let first = frame.first, first & 1 == 0 else { return [] }
        guard frame.count >= 10 else { return nil }
        return [
            FrameSize(
                width: (Int(frame[6]) | Int(frame[7]) << 8) & 0x3fff,
                height: (Int(frame[8]) | Int(frame[9]) << 8) & 0x3fff)
        ]
    }

    /// VP9 bitstream annex B: a superframe has an index at its end.
    private func vp9Sizes(_ frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        var sizes: [FrameSize] = []
        var start = 0
        for length in Self.vp9Index(frame) ?? [frame.count] {
            guard length <= frame.count - start else { return nil }
            if length > 0 {
                guard let size = Self.vp9Size(UnsafeRawBufferPointer(rebasing: frame[start..<(start + length)])) else {
                    return nil
                }
                sizes += size
            }
            start += length
        }
        return sizes
    }

    /// The lengths of the frames in a superframe; nil: the frame has no index.
    static func vp9Index(_ frame: UnsafeRawBufferPointer) -> [Int]? {
        guard let marker = frame.last, marker >> 5 == 6 else { return nil }
        let (count, width) = (Int(marker & 7) + 1, Int(marker >> 3 & 3) + 1)
        let start = frame.count - 2 - count * width
        guard start >= 0, frame[start] == marker else { return nil }
        return (0..<count).map { index in
            (0..<width).reduce(0) { $0 | Int(frame[start + 1 + index * width + $1]) << (8 * $1) }
        }
    }

    /// Parses the uncompressed header (VP9 bitstream 6.2) up to the frame size; nil if damaged.
    private static func vp9Size(_ frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        var bits = BitReader(frame)
        guard bits.number(2) == 2, let low = bits.number(1), let high = bits.number(1) else { return nil }
        let profile = high << 1 | low
        if profile == 3 { bits.skip(1) }
        // show_existing_frame: no new frame is decoded.
        guard let repeats = bits.number(1) else { return nil }
        if repeats == 1 { return [] }
        guard let isDelta = bits.number(1), let isShown = bits.number(1), let isResilient = bits.number(1) else {
            return nil
        }
        if isDelta == 0 {
            guard bits.number(24) == 0x498342, skipColors(&bits, profile) else { return nil }
            return size(&bits)
        }
        let isIntraOnly = isShown == 1 ? 0 : bits.number(1)
        if isResilient == 0 { bits.skip(2) }
        guard let isIntraOnly else { return nil }
        if isIntraOnly == 1 {
            guard bits.number(24) == 0x498342, profile == 0 || skipColors(&bits, profile) else { return nil }
            bits.skip(8)
            return size(&bits)
        }
        // frame_size_with_refs: the first marked one of three references has the size, else the header.
        bits.skip(8 + 3 * 4)
        for _ in 0..<3 {
            guard let isFound = bits.number(1) else { return nil }
            if isFound == 1 { return [] }
        }
        return size(&bits)
    }

    /// A frame that refers to others may announce its size too.
    fileprivate static func isVP9Keyframe(_ frame: UnsafeRawBufferPointer) -> Bool {
        // Profile 3 has another bit in front of show_existing_frame and frame_type.
        frame.first.map { $0 & ($0 & 0x30 == 0x30 ? 0x06 : 0x0c) == 0 } ?? false
    }

    private static func skipColors(_ bits: inout BitReader, _ profile: Int) -> Bool {
        if profile >= 2 { bits.skip(1) }
        guard let space = bits.number(3) else { return false }
        if space != 7 { bits.skip(1) }
        if profile & 1 == 1 { bits.skip(space == 7 ? 1 : 3) }
        return true
    }

    private static func size(_ bits: inout BitReader) -> [FrameSize]? {
        guard let width = bits.number(16), let height = bits.number(16) else { return nil }
        return [FrameSize(width: width + 1, height: height + 1)]
    }

    /// Sizes of all sequence parameter sets (H.264 7.3.2.1.1), at any position in the frame.
    private func h264Sizes(_ frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        var sizes: [FrameSize] = []
        for unit in EncodedVideoReader.units(in: frame) {
            let type = frame[unit.lowerBound] & 0x1f
            guard type == 7 || type == 15 else { continue }
            let set = UnsafeRawBufferPointer(rebasing: frame[unit].dropFirst())
            guard let found = Self.h264Sizes(ofSet: set) else { return nil }
            sizes.append(found.coded)
        }
        return sizes
    }

    /// Sizes of all sequence parameter sets (H.265 7.3.2.2.1), at any position in the frame.
    private func h265Sizes(_ frame: UnsafeRawBufferPointer) -> [FrameSize]? {
        var sizes: [FrameSize] = []
        for unit in EncodedVideoReader.units(in: frame) where frame[unit.lowerBound] >> 1 & 0x3f == 33 {
            guard let size = Self.h265Size(ofSet: frame[unit].dropFirst(2).prefix(2048)) else { return nil }
            sizes.append(size)
        }
        return sizes
    }

    /// - Parameter set: the parameter set without the header of its unit.
    private static func h265Size(ofSet set: Slice<UnsafeRawBufferPointer>) -> FrameSize? {
        withoutEmulationPrevention(set).withUnsafeBytes { bytes in
            var bits = BitReader(bytes)
            bits.skip(4)
            guard let subLayers = bits.number(3) else { return nil }
            // profile_tier_level (7.3.3): 88 bits of a profile and 8 of a level, in general and for each sub-layer.
            bits.skip(1 + 96)
            var skipped = 0
            for _ in 0..<subLayers {
                guard let hasProfile = bits.number(1), let hasLevel = bits.number(1) else { return nil }
                skipped += 88 * hasProfile + 8 * hasLevel
            }
            if subLayers > 0 { skipped += 2 * (8 - subLayers) }
            bits.skip(skipped)
            guard bits.golomb() != nil, let chroma = bits.golomb(), chroma <= 3 else { return nil }
            if chroma == 3 { bits.skip(1) }
            guard let width = bits.golomb(), let height = bits.golomb() else { return nil }
            return FrameSize(width: width, height: height)
        }
    }

    static func withoutEmulationPrevention(_ unit: some Sequence<UInt8>) -> [UInt8] {
        var plain: [UInt8] = []
        var zeros = 0
        for byte in unit {
            if zeros >= 2, byte == 3 {
                zeros = 0
                continue
            }
            if zeros >= 2, byte < 3 { break }
            zeros = byte == 0 ? zeros + 1 : 0
            plain.append(byte)
        }
        return plain
    }

    /// Returns the size that is decoded, in whole macroblocks, and the one that is shown.
    /// - Parameter set: The parameter set from profile_idc on, with emulation prevention bytes.
    static func h264Sizes(ofSet set: UnsafeRawBufferPointer) -> (coded: FrameSize, shown: FrameSize)? {
        // The size precedes the VUI, and the scaling lists before it have 1 KiB at most.
        return withoutEmulationPrevention(set.prefix(2048)).withUnsafeBytes { bytes in
            var bits = BitReader(bytes)
            guard let profile = bits.number(8) else { return nil }
            bits.skip(16)
            guard bits.golomb() != nil else { return nil }
            // 4:2:0, unless the set says something else.
            var chroma = 1
            if h264ChromaProfiles.contains(profile) {
                guard let format = chromaFormat(&bits) else { return nil }
                chroma = format
            }
            guard bits.golomb() != nil, let order = bits.golomb() else { return nil }
            if order == 0 {
                guard bits.golomb() != nil else { return nil }
            } else if order == 1 {
                bits.skip(1)
                guard bits.golomb() != nil, bits.golomb() != nil, let count = bits.golomb(), count <= 255 else {
                    return nil
                }
                for _ in 0..<count { guard bits.golomb() != nil else { return nil } }
            }
            guard bits.golomb() != nil else { return nil }
            bits.skip(1)
            guard let width = bits.golomb(), let height = bits.golomb(), let isProgressive = bits.number(1) else {
                return nil
            }
            let coded = FrameSize(width: (width + 1) * 16, height: (height + 1) * 16 * (2 - isProgressive))
            // direct_8x8_inference_flag, and mb_adaptive_frame_field_flag before it in interlaced video.
            bits.skip(2 - isProgressive)
            guard bits.number(1) == 1, let left = bits.golomb(), let right = bits.golomb(), let top = bits.golomb(),
                let bottom = bits.golomb()
            else { return (coded, coded) }
            // In units of chroma samples (H.264 7.4.2.1.1): 4:2:0 and 4:2:2 have half of them in a row, 4:2:0 alone has
            // half of the rows.
            let (columns, rows) = (chroma == 1 || chroma == 2 ? 2 : 1, chroma == 1 ? 2 : 1)
            let shown = FrameSize(
                width: coded.width - columns * (left + right),
                height: coded.height - rows * (2 - isProgressive) * (top + bottom))
            return (coded, shown)
        }
    }

    /// The profiles whose sequence parameter set has a chroma format (H.264 7.3.2.1.1).
    static let h264ChromaProfiles = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]

    /// Reads the chroma format (chroma_format_idc) of the high profiles, and skips their bit depths and scaling lists.
    static func chromaFormat(_ bits: inout BitReader) -> Int? {
        guard let format = bits.golomb(), format <= 3 else { return nil }
        if format == 3 { bits.skip(1) }
        guard bits.golomb() != nil, bits.golomb() != nil else { return nil }
        bits.skip(1)
        guard let hasMatrix = bits.number(1) else { return nil }
        guard hasMatrix == 1 else { return format }
        for list in 0..<(format == 3 ? 12 : 8) {
            guard let isPresent = bits.number(1) else { return nil }
            guard isPresent == 1 else { continue }
            var (last, next) = (8, 8)
            for _ in 0..<(list < 6 ? 16 : 64) {
                if next != 0 {
                    guard let change = bits.signed() else { return nil }
                    next = (last + change) & 0xff
                }
                if next != 0 { last = next }
            }
        }
        return format
    }
}

/// Reads bits, most significant first; returns nil past the end.
struct BitReader {
    private let bytes: UnsafeRawBufferPointer
    private var at = 0
    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func skip(_ count: Int) { at += count }

    mutating func number(_ count: Int) -> Int? {
        guard at + count <= bytes.count * 8 else { return nil }
        var value = 0
        for _ in 0..<count {
            value = value << 1 | Int(bytes[at >> 3] >> UInt8(7 - at & 7) & 1)
            at += 1
        }
        return value
    }

    /// ue(v) of up to 32 bits (H.264 9.1).
    mutating func golomb() -> Int? {
        var zeros = 0
        while let bit = number(1) {
            if bit == 1 { return number(zeros).map { (1 << zeros) - 1 + $0 } }
            zeros += 1
            guard zeros <= 32 else { return nil }
        }
        return nil
    }

    /// se(v): 1, -1, 2, -2 … (H.264 9.1.1)
    mutating func signed() -> Int? { golomb().map { $0 & 1 == 1 ? ($0 + 1) / 2 : -$0 / 2 } }
}

/// Drops oversized frames before the decoder, and all frames that depend on them. A value.
package struct FrameGate {
    package enum Verdict: Sendable, Equatable {
        case pass
        /// Drop the frame and request a keyframe.
        case drop
        /// As `drop`, but too many frames in a row were oversized: report an error.
        case fail(FrameSize?)
    }
    private let codec: VideoCodec
    private var isRefusing = false
    private var refusedInRow = 0
    private static let maximumRefused = 3

    package init(codec: VideoCodec) { self.codec = codec }

    package mutating func judge(_ frame: UnsafeRawBufferPointer) -> Verdict {
        let sizes = codec.announcedSizes(in: frame)
        if let sizes, sizes.allSatisfy(\.isAcceptable) {
            if !sizes.isEmpty, codec != .vp9 || VideoCodec.isVP9Keyframe(frame) {
                (isRefusing, refusedInRow) = (false, 0)
            }
            return isRefusing ? .drop : .pass
        }
        isRefusing = true
        refusedInRow += 1
        guard refusedInRow >= Self.maximumRefused else { return .drop }
        refusedInRow = 0
        return .fail(sizes?.first { !$0.isAcceptable })
    }
}
