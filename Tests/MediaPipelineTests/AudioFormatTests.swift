import GStreamerKit
import MediaPipeline
import Testing

@Suite struct AudioFormatTests {
    private func positioned(_ fields: String) throws -> Caps? {
        GStreamerRuntime.initialise()
        return AudioFormat.positioned(try Caps("audio/x-raw, format=S16LE, rate=48000, \(fields)"))
    }

    @Test(arguments: [3, 4, 5, 6, 7, 8, 16]) func channelsWithoutPositionsGetThem(channels: Int) throws {
        for mask in ["", ", channel-mask=(bitmask)0x0"] {
            let caps = try #require(try positioned("channels=\(channels)\(mask)"))
            let text = try #require(caps.first?.string("channel-mask"))
            let bits = UInt64(text.dropFirst(2), radix: 16)?.nonzeroBitCount
            #expect(bits == channels, "\(text)")
        }
    }

    @Test(arguments: [("S16LE", 2, 4), ("S24_32BE", 1, 4), ("S20LE", 3, 9), ("U8", 1, 1), ("F64LE", 2, 16)])
    func aSampleHasAllChannels(format: String, channels: Int, bytes: Int) throws {
        GStreamerRuntime.initialise()
        let caps = try Caps("audio/x-raw, format=\(format), rate=48000, channels=\(channels)")
        #expect(AudioFormat.sampleBytes(caps) == bytes)
    }

    @Test func otherCapsStay() throws {
        #expect(try positioned("channels=1") == nil && positioned("channels=2") == nil)
        #expect(try positioned("channels=6, channel-mask=(bitmask)0x3f") == nil)
        #expect(try positioned("channels=64") == nil)
        #expect(AudioFormat.positioned(try Caps("audio/x-opus, channels=6")) == nil)
    }
}
