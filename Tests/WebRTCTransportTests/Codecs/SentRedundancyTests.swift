import GStreamerKit
import TestSupport
import Testing
import WebRTCTransport

/// The redundancy of a running payloader follows the latest description.
@Suite(.timeLimit(.minutes(1)))
struct SentRedundancyTests {
    private struct Packets: Sendable {
        var types: [UInt8] = []
        /// Payloads that begin with the header of a copy.
        var copies: [Bool] = []
        var sequences: [UInt16] = []
        var isOver = false
    }

    @Test func itIsWithdrawnAndRestored() throws {
        GStreamerRuntime.initialise()
        let source = try Bin(
            description: """
                audiotestsrc num-buffers=30 samplesperbuffer=960 ! audio/x-raw,rate=48000,channels=2 ! identity
                """, ghostUnlinkedPads: true)
        let (redundancy, arrived, seen) = (SentRedundancy(), Watched(0), Watched(Packets()))
        let payloader = try OpusPayloader.make(
            AudioSendParameters(payloadType: 111, ssrc: 1, redundancyType: 63), redundancy)
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        let chain = [source, try AudioEncoderBin.make(), payloader, sink]
        let pipeline = Pipeline()
        pipeline.add(chain)
        try pipeline.linkChain(chain)
        // On one thread with the packets.
        payloader.staticPad("sink")?.addProbe(.buffer) { _ in
            if arrived.value == 10 { redundancy.set(payloadType: nil) }
            if arrived.value == 20 { redundancy.set(payloadType: 62) }
            if arrived.value > 20 { redundancy.set(payloadType: 62) }
            arrived.change { $0 += 1 }
            return .pass
        }
        let pad = try #require(sink.staticPad("sink"))
        pad.addProbe(.buffer) { item in
            if case .buffer(let packet) = item {
                _ = packet.withBytes { bytes in
                    seen.change {
                        $0.types.append(bytes[1] & 0x7f)
                        $0.copies.append(bytes[12] == 0x80 | 111)
                        $0.sequences.append(UInt16(bytes[2]) << 8 | UInt16(bytes[3]))
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
        let packets = seen.value
        try #require(packets.types.count >= 30)
        #expect(packets.types[..<10].allSatisfy { $0 == 63 } && packets.types[10..<20].allSatisfy { $0 == 111 })
        #expect(packets.types[20...].allSatisfy { $0 == 62 })
        // The first packet of each period has none before it.
        #expect(!packets.copies[0] && packets.copies[1..<10].allSatisfy(\.self))
        #expect(!packets.copies[20] && packets.copies[21...].allSatisfy(\.self))
        #expect(zip(packets.sequences, packets.sequences.dropFirst()).allSatisfy { $1 == $0 &+ 1 })
    }
}
