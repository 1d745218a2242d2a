// Audio formats inside the element: the input and output of Opus.
package import GStreamerKit

package enum AudioFormat {
    static let rate: UInt64 = 48_000
    /// Caps of the encoder's input: as many channels as `audio_sink` gets, at most two.
    static let sentCaps =
        "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)[ 1, 2 ], layout=(string)interleaved"
    /// Caps of `audio_src`: constant, whatever the remote peer sends.
    package static let returnedCaps = capsText(channels: 2)
    package static let templateCaps = "\(returnedCaps); \(OpusPacket.caps)"
    private static let returnedFrame = 4
    /// Duration of one Opus packet, ns. RFC 7587 4.2 allows others, but 20 ms is what peers send.
    static let packet: ClockTime = 20_000_000

    /// More than two channels without positions, as capture cards have them: no element mixes those.
    static let unpositionedCaps = "audio/x-raw, channels=(int)[ 3, 28 ]"

    /// The caps with usual positions for channels that have none; nil if they have positions or need none.
    package static func positioned(_ caps: Caps) -> Caps? {
        guard let format = caps.first, format.name == "audio/x-raw", let channels = format.int("channels"),
            (3...28).contains(channels), format["channel-mask"].map({ $0 == GValueBox(bitmask: 0) }) ?? true
        else { return nil }
        // Front, rear and side pairs before the centre of the rear, as GStreamer assumes for these numbers.
        let usual: [Int: UInt64] = [3: 0x7, 4: 0x33, 5: 0x37, 6: 0x3f, 7: 0x13f, 8: 0xc3f]
        return caps.setting("channel-mask", GValueBox(bitmask: usual[channels] ?? 1 << UInt64(channels) &- 1))
    }

    /// Bytes of one sample of all channels; nil: unknown.
    package static func sampleBytes(_ caps: Caps) -> Int? {
        // S24_32LE has 24 bits in 32; S20LE has 20 in 24.
        guard let format = caps.first, format.name == "audio/x-raw", let channels = format.int("channels"),
            channels > 0,
            let word = format.string("format")?.split(separator: "_").last, let bits = Int(word.filter(\.isNumber))
        else { return nil }
        return max(1, (bits &+ 7) / 8 &* channels)
    }

    /// Returns how long `bytes` of output audio play, ns.
    static func duration(bytes: Int) -> ClockTime { UInt64(clamping: bytes / returnedFrame) &* 1_000_000_000 / rate }

    static func returnedBytes(_ duration: ClockTime) -> Int {
        Int(clamping: min(duration, 60_000_000_000) &* rate / 1_000_000_000) &* returnedFrame
    }

    /// True if a gap in place of this buffer is not heard: its samples are silent, or its packet is DTX.
    static func isQuiet(_ buffer: Buffer, isRaw: Bool) -> Bool {
        // Opus: DTX, or silence.
        guard isRaw else { return buffer.size <= 8 }
        return buffer.withBytes { bytes in
            bytes.bindMemory(to: Int16.self).allSatisfy { $0.magnitude < quietest }
        } ?? true
    }
    /// -40 dBFS.
    private static let quietest = 328

    static func capsText(channels: Int) -> String {
        let mask = channels == 2 ? ", channel-mask=(bitmask)0x3" : ""
        return
            "audio/x-raw, format=(string)S16LE, rate=(int)48000, channels=(int)\(channels), layout=(string)interleaved\(mask)"
    }
}

extension Buffer {
    /// Returns a buffer of signed samples that are all zero.
    static func silence(bytes: Int) -> Buffer {
        let buffer = Buffer(size: bytes)
        _ = buffer.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: 0) }
        return buffer
    }
}
