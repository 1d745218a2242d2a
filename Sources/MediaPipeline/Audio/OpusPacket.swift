// Opus packets that pass without being decoded (RFC 6716): their duration, and packets of silence that need no encoder.
package import GStreamerKit

package enum OpusPacket {
    static let capsName = "audio/x-opus"
    /// Caps of packets in pad templates: one stream of one or two channels.
    package static let caps = "audio/x-opus, channel-mapping-family=(int)0"

    /// Caps of packets with these channels, for elements that ask for all fields. Each decoder of two channels decodes
    /// packets of one.
    static func caps(channels: Int) -> String {
        "\(caps), rate=(int)48000, channels=(int)\(channels), stream-count=(int)1, coupled-count=(int)\(channels - 1)"
    }

    /// ns. RFC 6716 3.2.5: a packet has 120 ms at most.
    private static let longest: ClockTime = 120_000_000
    private static let shortestFrame: ClockTime = 2_500_000

    /// Duration of a packet, ns; nil: it is damaged.
    package static func duration(_ packet: UnsafeRawBufferPointer) -> ClockTime? {
        guard let first = packet.first else { return nil }
        let frames: ClockTime
        switch first & 3 {
        case 0: frames = 1
        case 1, 2: frames = 2
        default:
            guard packet.count >= 2 else { return nil }
            frames = ClockTime(packet[1] & 0x3f)
        }
        let duration = frames &* frameDuration(first >> 3)
        return (1...longest).contains(duration) ? duration : nil
    }

    /// RFC 6716 3.1, table 2.
    private static func frameDuration(_ configuration: UInt8) -> ClockTime {
        let size = Int(configuration & 3)
        switch configuration {
        case ..<12: return [10_000_000, 20_000_000, 40_000_000, 60_000_000][size]
        case ..<16: return [10_000_000, 20_000_000][size & 1]
        default: return shortestFrame << ClockTime(size)
        }
    }

    /// A packet of this duration, a sum of frames, whose samples are all zero: CELT at full band whose frames have the
    /// silence flag (RFC 6716 4.3), as WebRTC's implementations send it.
    package static func silence(_ duration: ClockTime) -> Buffer {
        let duration = min(max(duration, shortestFrame), longest)
        let size: Int = (0...3).last { duration % (shortestFrame << ClockTime($0)) == 0 } ?? 0
        let count = duration / (shortestFrame << ClockTime(size))
        let configuration = UInt8(28 + size) << 3
        let frames = [[UInt8]](repeating: [0xff, 0xfe], count: Int(clamping: count)).flatMap { $0 }
        let header: [UInt8] = count == 1 ? [configuration] : [configuration | 3, UInt8(clamping: count)]
        let bytes: [UInt8] = header + frames
        return bytes.withUnsafeBytes { Buffer(copying: $0) }
    }
}
