import GStreamerKit
import MediaPipeline
import Testing

/// Durations of Opus packets (RFC 6716 3.1 and 3.2).
@Suite struct OpusPacketTests {
    private static func duration(_ bytes: [UInt8]) -> ClockTime? {
        bytes.withUnsafeBytes { OpusPacket.duration($0) }
    }
    private static func first(_ configuration: UInt8, _ code: UInt8 = 0) -> UInt8 { configuration << 3 | code }

    @Test func eachConfigurationHasItsDuration() {
        let table: [(UInt8, Double)] = [
            (0, 10), (1, 20), (2, 40), (3, 60), (11, 60), (12, 10), (13, 20), (14, 10), (15, 20), (16, 2.5), (17, 5),
            (18, 10), (19, 20), (28, 2.5), (31, 20),
        ]
        for (configuration, milliseconds) in table {
            let packet = [Self.first(configuration), 1, 2]
            #expect(Self.duration(packet) == ClockTime(milliseconds * 1_000_000), "\(configuration)")
        }
    }

    @Test func theFramesOfAPacketAdd() {
        #expect(Self.duration([Self.first(31, 1), 0]) == 40_000_000)
        #expect(Self.duration([Self.first(31, 2), 1, 0]) == 40_000_000)
        #expect(Self.duration([Self.first(31, 3), 3, 0]) == 60_000_000)
        // The flags for padding and variable bitrate are no part of the count.
        #expect(Self.duration([Self.first(16, 3), 0xF0, 0]) == 120_000_000)
    }

    @Test func damagedPacketsHaveNone() {
        #expect(Self.duration([]) == nil)
        #expect(Self.duration([Self.first(31, 3)]) == nil)
        #expect(Self.duration([Self.first(31, 3), 0]) == nil)
        #expect(Self.duration([Self.first(31, 3), 7]) == nil)
        #expect(Self.duration([Self.first(16, 3), 63]) == nil)
    }

    @Test func silenceHasTheDurationThatIsAskedFor() {
        GStreamerRuntime.initialise()
        for milliseconds in [2.5, 5, 7.5, 10, 20, 30, 40, 60, 80, 100, 120] {
            let duration = ClockTime(milliseconds * 1_000_000)
            #expect(OpusPacket.silence(duration).withBytes(OpusPacket.duration) == duration, "\(milliseconds)")
        }
        #expect(OpusPacket.silence(20_000_000).withBytes(Array.init) == [0xf8, 0xff, 0xfe])
        // Impossible durations yield the nearest possible one.
        #expect(OpusPacket.silence(0).withBytes(OpusPacket.duration) == 2_500_000)
        #expect(OpusPacket.silence(.max).withBytes(OpusPacket.duration) != nil)
    }
}
