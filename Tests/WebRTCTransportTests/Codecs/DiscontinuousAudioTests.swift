import GStreamerKit
import TestSupport
import Testing
import WebRTCTransport

/// Discontinuous transmission: silence costs hardly any packets, and none of those that are left out has a number.
@Suite(.timeLimit(.minutes(1)))
struct DiscontinuousAudioTests {
    private struct Packets: Sendable {
        var sequences: [UInt16] = []
        var markers: [Bool] = []
        var isOver = false
    }

    /// Packets of `frames` frames of 20 ms.
    private func packets(_ wave: String, frames: Int, isDiscontinuous: Bool) throws -> Packets {
        GStreamerRuntime.initialise()
        let source = try Bin(
            description: """
                audiotestsrc wave=\(wave) num-buffers=\(frames) samplesperbuffer=960 \
                ! audio/x-raw,rate=48000,channels=2 ! identity
                """, ghostUnlinkedPads: true)
        var parameters = AudioSendParameters(payloadType: 111, ssrc: 1, redundancyType: 63)
        parameters.isDiscontinuous = isDiscontinuous
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        let chain = [
            source, try AudioEncoderBin.make(isDiscontinuous: isDiscontinuous), try OpusPayloader.make(parameters),
            sink,
        ]
        let (pipeline, seen) = (Pipeline(), Watched(Packets()))
        pipeline.add(chain)
        try pipeline.linkChain(chain)
        let pad = try #require(sink.staticPad("sink"))
        pad.addProbe(.buffer) { item in
            if case .buffer(let packet) = item {
                _ = packet.withBytes { bytes in
                    seen.change {
                        $0.sequences.append(UInt16(bytes[2]) << 8 | UInt16(bytes[3]))
                        $0.markers.append(bytes[1] & 0x80 != 0)
                    }
                }
            }
            return .pass
        }
        pad.addProbe(.downstreamEvent) { item in
            if case .event(let event) = item, event.kind == .eos { seen.change { $0.isOver = true } }
            return .pass
        }
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        try #require(seen.wait(.seconds(40)) { $0.isOver })
        return seen.value
    }

    @Test func silenceIsHardlySent() throws {
        let sent = try packets("silence", frames: 500, isDiscontinuous: true)
        // Opus sends one frame of 400 ms then, and some until it is sure: 2.5 a second in place of 50.
        #expect((10...60).contains(sent.sequences.count), "\(sent.sequences.count) packets in 10 s")
        #expect(zip(sent.sequences, sent.sequences.dropFirst()).allSatisfy { $1 == $0 &+ 1 }, "none seems to be lost")
        #expect(sent.markers.contains(true), "the packet behind a pause is marked")
    }

    @Test func soundIsSentAsBefore() throws {
        #expect(try packets("sine", frames: 100, isDiscontinuous: true).sequences.count >= 100)
        #expect(try packets("silence", frames: 100, isDiscontinuous: false).sequences.count >= 100)
    }
}
