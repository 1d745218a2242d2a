// Reads an encoded stream that goes to a peer connection without being decoded, and repairs what a receiver would miss:
// a value over bytes.

package import RTP

package struct EncodedVideoFormat: Sendable, Equatable {
    package var codec: VideoCodec
    package var size: FrameSize
    /// H.264 only.
    package var profile: H264Profile?

    /// True if a connection that was negotiated for the other stream carries this one.
    package func fits(_ other: EncodedVideoFormat) -> Bool {
        guard codec == other.codec else { return false }
        guard let profile, let negotiated = other.profile else { return true }
        return profile.matches(negotiated)
    }
}

package struct EncodedVideoReader: Sendable {
    package struct Frame: Sendable, Equatable {
        /// A receiver can begin with this frame.
        package var isKeyframe: Bool
        /// H.264: the frame depends on a later one, which WebRTC cannot carry.
        package var isReordered = false
        /// The frame to send: H.264 as a byte-stream with parameter sets in front of each keyframe. nil: the frame as it
        /// is.
        package var rewritten: [UInt8]?

        package init(isKeyframe: Bool, isReordered: Bool = false, rewritten: [UInt8]? = nil) {
            (self.isKeyframe, self.isReordered, self.rewritten) = (isKeyframe, isReordered, rewritten)
        }
    }

    package let codec: VideoCodec
    /// Bytes of the length in front of each NAL unit (AVC); nil: start codes.
    private let lengthSize: Int?
    /// The latest parameter sets by their ID: at most 32 and 256 (H.264 7.4.2.1.1, 7.4.2.2).
    private var sequenceSets: [Int: [UInt8]] = [:]
    private var pictureSets: [Int: [UInt8]] = [:]
    /// Set by each keyframe.
    package private(set) var format: EncodedVideoFormat?

    /// - Parameter configuration: AVCDecoderConfigurationRecord (ISO/IEC 14496-15 5.3.3.1), for H.264 in the AVC format;
    ///   nil: a byte-stream, or another codec.
    /// - Returns: nil if the record is damaged.
    package init?(codec: VideoCodec, configuration: [UInt8]? = nil) {
        self.codec = codec
        guard codec == .h264, let configuration else {
            lengthSize = nil
            return
        }
        guard configuration.count >= 7 else { return nil }
        lengthSize = Int(configuration[4] & 3) + 1
        var rest = configuration[5...]
        for mask: UInt8 in [0x1f, 0xff] {
            guard let count = rest.popFirst() else { return nil }
            for _ in 0..<(count & mask) {
                guard let high = rest.popFirst(), let low = rest.popFirst() else { return nil }
                let length = Int(high) << 8 | Int(low)
                guard rest.count >= length else { return nil }
                Array(rest.prefix(length)).withUnsafeBytes { keep($0) }
                rest = rest.dropFirst(length)
            }
        }
    }

    package mutating func read(_ frame: UnsafeRawBufferPointer) -> Frame {
        codec == .h264 ? readH264(frame) : readOther(frame)
    }

    private mutating func readOther(_ frame: UnsafeRawBufferPointer) -> Frame {
        guard let size = codec.announcedSizes(in: frame)?.last else { return Frame(isKeyframe: false) }
        format = EncodedVideoFormat(codec: codec, size: size)
        return Frame(isKeyframe: true)
    }

    // MARK: H.264

    private enum UnitType: UInt8 { case slice = 1, instantRefresh = 5, sequenceSet = 7, pictureSet = 8, delimiter = 9 }

    private mutating func readH264(_ frame: UnsafeRawBufferPointer) -> Frame {
        let units = lengthSize.map { Self.units(in: frame, lengthSize: $0) } ?? Self.units(in: frame)
        // A bit for each NAL unit type that was seen.
        var types: UInt32 = 0
        var result = Frame(isKeyframe: false)
        var usedPictureSet: Int?
        for unit in units {
            guard let first = frame[unit].first else { continue }
            let type = first & 0x1f
            let isFirst = types & (1 << type) == 0
            types |= 1 << type
            switch UnitType(rawValue: type) {
            case .sequenceSet, .pictureSet: keep(UnsafeRawBufferPointer(rebasing: frame[unit]))
            case .instantRefresh where isFirst:
                // pic_parameter_set_id behind first_mb_in_slice and slice_type (H.264 7.3.3).
                usedPictureSet = Self.code(behind: 2, in: frame[unit])
            case .slice where isFirst:
                // The slice's type (H.264 7.3.3): 1 and 6 are B.
                result.isReordered = Self.code(behind: 1, in: frame[unit]).map { $0 % 5 == 1 } ?? false
            default: break
            }
        }
        guard let usedPictureSet, let shown = format(usingPictureSet: usedPictureSet) else {
            if lengthSize != nil { result.rewritten = Self.byteStream(frame, units) }
            return result
        }
        format = shown
        result.isKeyframe = true
        var missing: [[UInt8]] = []
        if types & (1 << UnitType.sequenceSet.rawValue) == 0 {
            missing += sequenceSets.sorted { $0.key < $1.key }.map(\.value)
        }
        if types & (1 << UnitType.pictureSet.rawValue) == 0 {
            missing += pictureSets.sorted { $0.key < $1.key }.map(\.value)
        }
        if lengthSize != nil || !missing.isEmpty {
            result.rewritten = Self.byteStream(frame, units, inserting: missing)
        }
        return result
    }

    /// The format by the active sequence set: the one that the slice's picture parameter set names. A stream may keep sets of
    /// earlier sizes under other IDs.
    private func format(usingPictureSet id: Int) -> EncodedVideoFormat? {
        // seq_parameter_set_id behind pic_parameter_set_id (H.264 7.3.2.2).
        guard let sequence = pictureSets[id]?.withUnsafeBytes({ Self.code(behind: 1, in: $0[...]) }),
            let set = sequenceSets[sequence], set.count >= 4
        else { return nil }
        let profile = H264Profile(idc: set[1], constraints: set[2], level: set[3])
        return set.withUnsafeBytes { VideoCodec.h264Sizes(ofSet: UnsafeRawBufferPointer(rebasing: $0[1...])) }
            .map { EncodedVideoFormat(codec: .h264, size: $0.shown, profile: profile) }
    }

    private mutating func keep(_ unit: UnsafeRawBufferPointer) {
        guard let first = unit.first else { return }
        let isSequence = first & 0x1f == UnitType.sequenceSet.rawValue
        // The ID follows profile, constraints and level, or comes first.
        var bits = BitReader(UnsafeRawBufferPointer(rebasing: unit.dropFirst(isSequence ? 4 : 1)))
        guard let id = bits.golomb(), id < (isSequence ? 32 : 256) else { return }
        let path: WritableKeyPath<Self, [Int: [UInt8]]> = isSequence ? \.sequenceSets : \.pictureSets
        self[keyPath: path][id] = Array(unit)
    }

    /// Reads the code ue(v) behind this number of others and the unit's header.
    private static func code(behind count: Int, in unit: Slice<UnsafeRawBufferPointer>) -> Int? {
        var bits = BitReader(UnsafeRawBufferPointer(rebasing: unit.dropFirst()))
        for _ in 0..<count { guard bits.golomb() != nil else { return nil } }
        return bits.golomb()
    }

    /// The NAL units of a byte-stream (H.264 annex B), without start codes and trailing zeros.
    package static func units(in frame: UnsafeRawBufferPointer) -> [Range<Int>] {
        var units: [Range<Int>] = []
        var begin: Int?
        func end(_ begin: Int?, at position: Int) {
            guard let begin else { return }
            var last = position
            while last > begin, frame[last - 1] == 0 { last -= 1 }
            if last > begin { units.append(begin..<last) }
        }
        var at = 0
        while at + 2 < frame.count {
            // If the third byte is above 1, none of the three bytes can begin a start code.
            if frame[at + 2] > 1 {
                at += 3
            } else if frame[at] == 0, frame[at + 1] == 0, frame[at + 2] == 1 {
                end(begin, at: at)
                begin = at + 3
                at += 3
            } else {
                at += 1
            }
        }
        end(begin, at: frame.count)
        return units
    }

    /// True if a byte-stream of H.264 has a slice.
    static func hasSlice(_ frame: UnsafeRawBufferPointer) -> Bool {
        // Types 1 to 5 (H.264 table 7-1).
        units(in: frame).contains {
            (UnitType.slice.rawValue...UnitType.instantRefresh.rawValue).contains(frame[$0.lowerBound] & 0x1f)
        }
    }

    /// The NAL units of the AVC format; those before a damaged length.
    package static func units(in frame: UnsafeRawBufferPointer, lengthSize: Int) -> [Range<Int>] {
        var units: [Range<Int>] = []
        var at = 0
        while frame.count - at > lengthSize {
            let length = frame[at..<(at + lengthSize)].reduce(0) { $0 << 8 | Int($1) }
            at += lengthSize
            guard length <= frame.count - at else { break }
            if length > 0 { units.append(at..<(at + length)) }
            at += length
        }
        return units
    }

    /// - Parameter sets: go behind an access unit delimiter, else to the front.
    private static func byteStream(
        _ frame: UnsafeRawBufferPointer, _ units: [Range<Int>], inserting sets: [[UInt8]] = []
    ) -> [UInt8] {
        let startCode: [UInt8] = [0, 0, 0, 1]
        let inserted = sets.flatMap { startCode + $0 }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(frame.count + inserted.count + 4 * units.count)
        let isDelimited = units.first.map { frame[$0.lowerBound] & 0x1f == UnitType.delimiter.rawValue } ?? false
        if !isDelimited { bytes += inserted }
        for (index, unit) in units.enumerated() {
            bytes += startCode
            bytes += frame[unit]
            if index == 0, isDelimited { bytes += inserted }
        }
        return bytes
    }
}
