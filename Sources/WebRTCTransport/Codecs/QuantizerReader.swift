package import RTP

/// Reads how coarsely an encoder has quantized a frame, from the frame's own header. What a bitrate is worth depends on the
/// content, and this shows it. It knows bytes only; a damaged or unusual header has no answer.
package struct QuantizerReader: Sendable {
    /// Quantizers above these look bad: those at which libwebrtc scales frames down.
    private static let coarsest: [VideoCodec: Double] = [.h264: 37, .vp8: 95, .vp9: 185]
    /// Steps of the quantizer that halve the bitrate.
    private static let octave: [VideoCodec: Double] = [.h264: 6, .vp8: 30, .vp9: 45]
    /// A header is at the start, behind parameter sets.
    private static let examined = 2048

    private let codec: VideoCodec
    // What the slice headers of H.264 depend on, by the ID of the parameter set.
    private var sequenceSets: [Int: H264SequenceSet] = [:]
    private var pictureSets: [Int: H264PictureSet] = [:]

    package init(_ codec: VideoCodec) { self.codec = codec }

    /// By how much the quantizer exceeds the coarsest good one, in octaves of the bitrate: at 1, the frame would need twice
    /// the bitrate. Negative: it could do with less. nil: the frame does not say.
    package mutating func excess(_ frame: UnsafeRawBufferPointer) -> Double? {
        guard let coarsest = Self.coarsest[codec], let octave = Self.octave[codec], let found = quantizer(frame) else {
            return nil
        }
        return (Double(found) - coarsest) / octave
    }

    /// The quantizer of the frame: 0 to 51 in H.264, to 127 in VP8, to 255 in VP9.
    package mutating func quantizer(_ frame: UnsafeRawBufferPointer) -> Int? {
        let start = UnsafeRawBufferPointer(rebasing: frame.prefix(Self.examined))
        return switch codec {
        case .h264: h264(start)
        case .vp8: Self.vp8(start)
        case .vp9: Self.vp9(start)
        case .h265: nil
        }
    }

    // MARK: H.264 (7.3.2.1, 7.3.2.2, 7.3.3), 4:2:0 in frames

    private struct H264SequenceSet {
        var frameNumberBits: Int
        var orderType: Int
        var orderBits = 0
        var isDeltaZero = false
        var isFramesOnly: Bool
    }

    private struct H264PictureSet {
        var sequenceSet: Int
        var hasOrder: Bool
        var isWeighted: Bool
        var isCABAC: Bool
        var references: Int
        var quantizer: Int
        var hasRedundant: Bool
    }

    private mutating func h264(_ frame: UnsafeRawBufferPointer) -> Int? {
        for unit in EncodedVideoReader.units(in: frame) where !unit.isEmpty {
            let head = frame[unit.lowerBound]
            let plain = VideoCodec.withoutEmulationPrevention(frame[unit].dropFirst().prefix(256))
            let found = plain.withUnsafeBytes { bytes -> Int? in
                var bits = BitReader(bytes)
                switch head & 0x1f {
                case 7: keepSequenceSet(&bits)
                case 8: keepPictureSet(&bits)
                case 1, 5:
                    return sliceQuantizer(&bits, isInstantRefresh: head & 0x1f == 5, isReference: head >> 5 & 3 > 0)
                default: break
                }
                return nil
            }
            if head & 0x1f == 1 || head & 0x1f == 5 { return found }
        }
        return nil
    }

    private mutating func keepSequenceSet(_ bits: inout BitReader) {
        guard let profile = bits.number(8) else { return }
        bits.skip(16)
        guard let id = bits.golomb(), id < 32 else { return }
        if VideoCodec.h264ChromaProfiles.contains(profile) {
            guard VideoCodec.chromaFormat(&bits) == 1 else { return }
        }
        guard let numberBits = bits.golomb(), numberBits <= 12, let type = bits.golomb(), type <= 2 else { return }
        var set = H264SequenceSet(frameNumberBits: numberBits + 4, orderType: type, isFramesOnly: true)
        if type == 0 {
            guard let orderBits = bits.golomb(), orderBits <= 12 else { return }
            set.orderBits = orderBits + 4
        } else if type == 1 {
            guard let isDeltaZero = bits.number(1), bits.golomb() != nil, bits.golomb() != nil,
                let count = bits.golomb(), count <= 255
            else { return }
            set.isDeltaZero = isDeltaZero == 1
            for _ in 0..<count { guard bits.golomb() != nil else { return } }
        }
        guard bits.golomb() != nil else { return }
        bits.skip(1)
        guard bits.golomb() != nil, bits.golomb() != nil, let isFramesOnly = bits.number(1) else { return }
        set.isFramesOnly = isFramesOnly == 1
        sequenceSets[id] = set
    }

    private mutating func keepPictureSet(_ bits: inout BitReader) {
        guard let id = bits.golomb(), id < 256, let sequenceSet = bits.golomb(), let isCABAC = bits.number(1),
            let hasOrder = bits.number(1), bits.golomb() == 0, let references = bits.golomb(), references < 32,
            bits.golomb() != nil, let isWeighted = bits.number(1), bits.number(2) != nil, let quantizer = bits.signed(),
            bits.golomb() != nil, bits.golomb() != nil
        else { return }
        bits.skip(2)
        guard let hasRedundant = bits.number(1) else { return }
        pictureSets[id] = H264PictureSet(
            sequenceSet: sequenceSet, hasOrder: hasOrder == 1, isWeighted: isWeighted == 1, isCABAC: isCABAC == 1,
            references: references + 1, quantizer: 26 + quantizer, hasRedundant: hasRedundant == 1)
    }

    private func sliceQuantizer(_ bits: inout BitReader, isInstantRefresh: Bool, isReference: Bool) -> Int? {
        guard bits.golomb() != nil, let type = bits.golomb(), let id = bits.golomb(), let picture = pictureSets[id],
            let sequence = sequenceSets[picture.sequenceSet], sequence.isFramesOnly
        else { return nil }
        let isPredicted = type % 5 == 0
        // B slices do not occur in WebRTC.
        guard isPredicted || type % 5 == 2 else { return nil }
        bits.skip(sequence.frameNumberBits)
        if isInstantRefresh { guard bits.golomb() != nil else { return nil } }
        if sequence.orderType == 0 {
            bits.skip(sequence.orderBits)
            if picture.hasOrder { guard bits.golomb() != nil else { return nil } }
        } else if sequence.orderType == 1, !sequence.isDeltaZero {
            guard bits.golomb() != nil else { return nil }
            if picture.hasOrder { guard bits.golomb() != nil else { return nil } }
        }
        if picture.hasRedundant { guard bits.golomb() != nil else { return nil } }
        if isPredicted {
            var references = picture.references
            guard let hasOwn = bits.number(1) else { return nil }
            if hasOwn == 1 {
                guard let own = bits.golomb(), own < 32 else { return nil }
                references = own + 1
            }
            guard skipReordering(&bits) else { return nil }
            if picture.isWeighted { guard skipWeights(&bits, references) else { return nil } }
        }
        if isReference {
            if isInstantRefresh {
                bits.skip(2)
            } else {
                guard skipMarking(&bits) else { return nil }
            }
        }
        if picture.isCABAC, isPredicted { guard bits.golomb() != nil else { return nil } }
        guard let delta = bits.signed(), (0...51).contains(picture.quantizer + delta) else { return nil }
        return picture.quantizer + delta
    }

    private func skipReordering(_ bits: inout BitReader) -> Bool {
        guard let isReordered = bits.number(1) else { return false }
        guard isReordered == 1 else { return true }
        for _ in 0..<66 {
            guard let operation = bits.golomb() else { return false }
            if operation == 3 { return true }
            guard bits.golomb() != nil else { return false }
        }
        return false
    }

    private func skipWeights(_ bits: inout BitReader, _ references: Int) -> Bool {
        guard bits.golomb() != nil, bits.golomb() != nil else { return false }
        for _ in 0..<references {
            for count in [2, 4] {
                guard let isPresent = bits.number(1) else { return false }
                for _ in 0..<(isPresent * count) { guard bits.golomb() != nil else { return false } }
            }
        }
        return true
    }

    private func skipMarking(_ bits: inout BitReader) -> Bool {
        guard let isAdaptive = bits.number(1) else { return false }
        guard isAdaptive == 1 else { return true }
        for _ in 0..<66 {
            guard let operation = bits.golomb(), operation <= 6 else { return false }
            if operation == 0 { return true }
            for _ in 0..<(operation == 5 ? 0 : operation == 3 ? 2 : 1) {
                guard bits.golomb() != nil else { return false }
            }
        }
        return false
    }

    // MARK: VP8 (RFC 6386 9.2 to 9.6, 19.2)

    private static func vp8(_ frame: UnsafeRawBufferPointer) -> Int? {
        guard let first = frame.first else { return nil }
        let isKeyframe = first & 1 == 0
        let start = isKeyframe ? 10 : 3
        guard frame.count > start + 2 else { return nil }
        var bits = VP8BoolDecoder(UnsafeRawBufferPointer(rebasing: frame[start...]))
        if isKeyframe { bits.skip(2) }
        if bits.number(1) == 1 {
            let (updatesMap, updatesData) = (bits.number(1), bits.number(1))
            if updatesData == 1 {
                bits.skip(1)
                for length in [7, 7, 7, 7, 6, 6, 6, 6] where bits.number(1) == 1 { bits.skip(length + 1) }
            }
            if updatesMap == 1 { for _ in 0..<3 where bits.number(1) == 1 { bits.skip(8) } }
        }
        // Type, level and sharpness of the loop filter.
        bits.skip(1 + 6 + 3)
        if bits.number(1) == 1, bits.number(1) == 1 {
            for _ in 0..<8 where bits.number(1) == 1 { bits.skip(7) }
        }
        bits.skip(2)
        let index = bits.number(7)
        return bits.isExhausted ? nil : index
    }

    // MARK: VP9 (bitstream 6.2, profile 0)

    private static func vp9(_ frame: UnsafeRawBufferPointer) -> Int? {
        var bits = BitReader(frame)
        guard bits.number(2) == 2, bits.number(2) == 0, bits.number(1) == 0, let isDelta = bits.number(1),
            let isShown = bits.number(1), let isResilient = bits.number(1)
        else { return nil }
        if isDelta == 0 {
            bits.skip(24 + 3 + 1 + 32)
            guard skipRenderSize(&bits) else { return nil }
        } else {
            guard let isIntraOnly = isShown == 1 ? 0 : bits.number(1), isIntraOnly == 0 else { return nil }
            if isResilient == 0 { bits.skip(2) }
            bits.skip(8 + 3 * 4)
            var isFound = 0
            for _ in 0..<3 where isFound == 0 {
                guard let next = bits.number(1) else { return nil }
                isFound = next
            }
            if isFound == 0 { bits.skip(32) }
            guard skipRenderSize(&bits) else { return nil }
            bits.skip(1)
            guard let isSwitchable = bits.number(1) else { return nil }
            if isSwitchable == 0 { bits.skip(2) }
        }
        if isResilient == 0 { bits.skip(2) }
        bits.skip(2)
        // The loop filter.
        bits.skip(6 + 3)
        if bits.number(1) == 1, bits.number(1) == 1 {
            for _ in 0..<6 where bits.number(1) == 1 { bits.skip(7) }
        }
        return bits.number(8)
    }

    private static func skipRenderSize(_ bits: inout BitReader) -> Bool {
        guard let differs = bits.number(1) else { return false }
        if differs == 1 { bits.skip(32) }
        return true
    }
}

/// Decodes the flags and literals of a VP8 header, whose probabilities are all one half (RFC 6386 7.3).
private struct VP8BoolDecoder {
    private let bytes: UnsafeRawBufferPointer
    private var at = 2
    private var value: UInt32
    private var range: UInt32 = 255
    private var shifted = 0
    private(set) var isExhausted = false

    /// - Parameter bytes: two or more.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        value = UInt32(bytes[0]) << 8 | UInt32(bytes[1])
    }

    mutating func skip(_ count: Int) { for _ in 0..<count { _ = bit() } }

    mutating func number(_ count: Int) -> Int { (0..<count).reduce(0) { sum, _ in sum << 1 | bit() } }

    private mutating func bit() -> Int {
        let split = 1 + (range - 1) >> 1
        let isSet = value >= split << 8
        if isSet {
            (range, value) = (range - split, value - split << 8)
        } else {
            range = split
        }
        while range < 128 {
            (range, value) = (range << 1, value << 1)
            shifted += 1
            guard shifted == 8 else { continue }
            shifted = 0
            if at < bytes.count {
                value |= UInt32(bytes[at])
                at += 1
            } else {
                isExhausted = true
            }
        }
        return isSet ? 1 : 0
    }
}
