// Sound inside the element: what Opus takes and gives.
import GStreamerKit

enum AudioFormat {
    static let rate: UInt64 = 48_000
    /// What the encoder is given: as many channels as the input has, two at most.
    static let sentCaps = "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)[ 1, 2 ], layout=(string)interleaved"
    /// What leaves the element: constant, whatever the far side sends.
    static let returnedCaps =
        "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)2, layout=(string)interleaved, channel-mask=(bitmask)0x3"
    private static let returnedFrame = 4
    /// ns, of one Opus packet; RFC 7587 4.2 lets it be another, and everybody sends this.
    static let packet: ClockTime = 20_000_000

    /// How long so many bytes of what is returned play.
    static func duration(bytes: Int) -> ClockTime { UInt64(clamping: bytes / returnedFrame) &* 1_000_000_000 / rate }

    static func returnedBytes(_ duration: ClockTime) -> Int {
        Int(clamping: min(duration, 60_000_000_000) &* rate / 1_000_000_000) &* returnedFrame
    }

    static func capsText(channels: Int) -> String {
        let mask = channels == 2 ? ", channel-mask=(bitmask)0x3" : ""
        return "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)\(channels), layout=(string)interleaved\(mask)"
    }
}

extension Buffer {
    /// Signed samples without a sound.
    static func silence(bytes: Int) -> Buffer {
        let buffer = Buffer(size: bytes)
        _ = buffer.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: 0) }
        return buffer
    }
}
