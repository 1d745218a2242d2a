import GStreamerKit
import RTP

/// Finds the access units of H.264 and H.265 from which packets are missing. Behind a gap rtph264depay waits for a keyframe,
/// and takes one whose slices have not all come for whole; rtph265depay does not wait. A value.
struct AccessUnitGate {
    enum Verdict { case pass, drop, requestKeyframe }

    private enum Damage {
        /// The frame of this RTP timestamp lacks packets.
        case frame(UInt32)
        /// A frame of an earlier time lacks its end.
        case before(ClockTime)
    }

    private let codec: VideoCodec
    private var damage: Damage?
    private var needsKeyframe = false

    init(codec: VideoCodec) { self.codec = codec }

    /// The next packet has to be seen, also if nothing is missing in front of it.
    var isWatching: Bool { if case .frame = damage { true } else { false } }

    /// A packet, before the depayloader gets it.
    /// - Parameters:
    ///   - last: the time of the packet before, which is the same in one frame.
    ///   - isDiscontinuous: packets are missing in front of it.
    mutating func see(
        _ packet: UnsafeRawBufferPointer, time: ClockTime, before last: ClockTime?, isDiscontinuous: Bool
    ) {
        guard packet.count >= 12 else { return }
        let timestamp = packet.bigEndian32(at: 4)
        if isDiscontinuous {
            let isWhole = time != last && codec.beginsAccessUnit(RTPHeader.media(packet))
            damage = isWhole ? .before(time) : .frame(timestamp)
        } else if case .frame(let damaged) = damage, damaged != timestamp {
            damage = .before(time)
        }
    }

    /// Drops all frames up to the next keyframe.
    /// - Returns: false if that is so already.
    mutating func waitForKeyframe() -> Bool { !exchange(&needsKeyframe, with: true) }

    /// A frame from the depayloader.
    mutating func judge(_ frame: UnsafeRawBufferPointer, time: ClockTime?) -> Verdict {
        switch damage {
        case .frame:
            needsKeyframe = true
            return .requestKeyframe
        case .before(let limit):
            if let time, time < limit {
                needsKeyframe = true
                return .requestKeyframe
            }
            damage = nil
        case nil: break
        }
        guard needsKeyframe else { return .pass }
        needsKeyframe = !codec.hasKeyframe(frame)
        return needsKeyframe ? .drop : .pass
    }
}

extension VideoCodec {
    /// True for a byte-stream with a slice of a keyframe.
    fileprivate func hasKeyframe(_ frame: UnsafeRawBufferPointer) -> Bool {
        EncodedVideoReader.units(in: frame).contains { unit in
            let first = frame[unit.lowerBound]
            return self == .h265 ? (16...21).contains(first >> 1 & 0x3f) : first & 0x1f == 5
        }
    }
}
