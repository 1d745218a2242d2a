// Frames of the room itself at the end of a track, so that no receiver shows the last frame for ever: six black keyframes,
// or ten packets of silence, each with the room's trailer behind it, as LiveKit's servers send them.
import WebRTCTransport

package enum FillerFrames {
    static let videoCount = 6
    static let audioCount = 10
    /// Between two frames.
    static let videoInterval = Duration.milliseconds(33)
    static let audioInterval = Duration.milliseconds(20)

    /// A keyframe of 8x8 pixels.
    private static let vp8: [UInt8] = [
        0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x08, 0x00, 0x08, 0x00, 0x00, 0x47, 0x08, 0x85, 0x85, 0x88, 0x85, 0x84,
        0x88, 0x02, 0x02, 0x00, 0x0c, 0x0d, 0x60, 0x00, 0xfe, 0xff, 0xab, 0x50, 0x80,
    ]
    /// NAL units of a keyframe of 2x2 pixels.
    private static let h264: [[UInt8]] = [
        [
            0x67, 0x42, 0xc0, 0x1f, 0x0f, 0xd9, 0x1f, 0x88, 0x88, 0x84, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03,
            0x00, 0xc8, 0x3c, 0x60, 0xc9, 0x20,
        ],
        [0x68, 0x87, 0xcb, 0x83, 0xcb, 0x20],
        [0x65, 0x88, 0x84, 0x0a, 0xf2, 0x62, 0x80, 0x00, 0xa7, 0xbe],
    ]

    /// The RTP payload of a frame; nil for codecs that have none.
    package static func payload(_ codec: String, trailer: [UInt8]) -> [UInt8]? {
        switch codec {
        case "vp8":
            // The descriptor's S bit: the frame begins (RFC 7741 section 4.2).
            return [0x10] + vp8 + trailer
        case "h264":
            // STAP-A (RFC 6184 section 5.7.1).
            return [0x78] + h264.flatMap { [UInt8($0.count >> 8), UInt8(truncatingIfNeeded: $0.count)] + $0 } + trailer
        case "opus":
            return [0xf8, 0xff, 0xfe] + [UInt8](repeating: 0, count: 77) + trailer
        default: return nil
        }
    }

    /// - Parameter step: RTP time units between two frames.
    package static func packet(
        _ payload: [UInt8], _ parameters: (payloadType: Int, ssrc: UInt32), number: Int,
        after last: (sequence: UInt16, timestamp: UInt32), step: Int
    ) -> [UInt8] {
        let sequence = last.sequence &+ UInt16(truncatingIfNeeded: number)
        let timestamp = last.timestamp &+ UInt32(truncatingIfNeeded: number * step)
        var header: [UInt8] = [0x80, 0x80 | UInt8(truncatingIfNeeded: parameters.payloadType)]
        header += [UInt8(sequence >> 8), UInt8(truncatingIfNeeded: sequence)]
        for value in [timestamp, parameters.ssrc] {
            header += stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
        }
        return header + payload
    }
}
