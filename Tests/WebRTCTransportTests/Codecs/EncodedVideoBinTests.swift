import GStreamerKit
import RTP
import Synchronization
import Testing
import WebRTCTransport

/// Encoded frames that leave as they arrive.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct EncodedVideoBinTests {
    // 320x176, constrained baseline 1.3.
    private static let sequenceSet: [UInt8] = [0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x05, 0xe4]
    private static let pictureSet: [UInt8] = [0x68, 0xce, 0x0f, 0xc8]
    private static let keySlice: [UInt8] = [0x65, 0x88, 0x84, 0x11]
    private static let deltaSlice: [UInt8] = [0x41, 0x9a, 0x22, 0x33]

    private struct Frame: Equatable {
        var time: ClockTime?
        var units: [[UInt8]]
        var isDelta: Bool
    }

    /// Sends access units, each of packets with one NAL unit, and returns the frames that leave.
    private func receive(_ units: [(time: ClockTime, units: [[UInt8]])]) throws -> [Frame] {
        GStreamerRuntime.initialise()
        let bin = try EncodedVideoBin.makeReceiver(.h264)
        let pipeline = Pipeline()
        pipeline.add([bin])
        let frames = Mutex<[Frame]>([])
        let output = Pad(name: "frames", direction: .sink)
        output.setChainFunction { buffer in
            let units = buffer.withBytes { bytes in
                EncodedVideoReader.units(in: bytes).map { [UInt8](UnsafeRawBufferPointer(rebasing: bytes[$0])) }
            }
            frames.withLock { $0.append(Frame(time: buffer.pts, units: units ?? [], isDelta: buffer.isDeltaUnit)) }
            return .ok
        }
        output.setActive(true)
        let input = Pad(name: "rtp", direction: .source)
        let (sink, source) = (try #require(bin.staticPad("sink")), try #require(bin.staticPad("src")))
        try source.link(output)
        try input.link(sink)
        pipeline.setState(.playing)
        defer {
            pipeline.setState(.null)
            input.setActive(false)
            output.setActive(false)
        }
        input.setActive(true)
        input.push(Event.streamStart(id: "rtp", groupID: Event.nextGroupID()))
        input.push(
            Event.caps(
                try Caps("application/x-rtp, media=(string)video, clock-rate=(int)90000, encoding-name=(string)H264")))
        input.push(Event.timeSegment())
        var sequence: UInt8 = 0
        for unit in units {
            for (index, part) in unit.units.enumerated() {
                let marker: UInt8 = index == unit.units.count - 1 ? 0x80 : 0
                let stamp = UInt32(truncatingIfNeeded: unit.time * 90 / 1_000_000)
                let header: [UInt8] =
                    [0x80, 96 | marker, 0, sequence]
                    + (0..<4).reversed().map { UInt8(truncatingIfNeeded: stamp >> ($0 * 8)) } + [0, 0, 0, 9]
                let packet = (header + part).withUnsafeBytes(Buffer.init(copying:))
                packet.pts = unit.time
                #expect(input.push(packet) == .ok)
                sequence += 1
            }
        }
        return frames.withLock { $0 }
    }

    /// A sender that marks parameter sets, or a delimiter, as the end of a frame: frames alone leave, at their times.
    @Test func anAccessUnitWithoutASliceIsJoinedWithTheFrameBehindIt() throws {
        let sets = [Self.sequenceSet, Self.pictureSet]
        let (delimiter, second): ([UInt8], ClockTime) = ([0x09, 0xf0], 1_000_000_000)
        // The depayloader drops all that comes before the first keyframe.
        let frames = try receive([
            (1_000_000, sets + [Self.keySlice]), (second, [delimiter] + sets), (second, [Self.keySlice]),
            (2 * second, [Self.deltaSlice]), (3 * second, [delimiter]), (3 * second + 1_000_000, [Self.deltaSlice]),
            (4 * second, sets), (5 * second, [delimiter]), (5 * second, [Self.keySlice, Self.keySlice]),
        ])
        #expect(
            frames == [
                Frame(time: 1_000_000, units: sets + [Self.keySlice], isDelta: false),
                Frame(time: second, units: [delimiter] + sets + [Self.keySlice], isDelta: false),
                Frame(time: 2 * second, units: [Self.deltaSlice], isDelta: true),
                Frame(time: 3 * second + 1_000_000, units: [delimiter, Self.deltaSlice], isDelta: true),
                Frame(time: 5 * second, units: sets + [delimiter, Self.keySlice, Self.keySlice], isDelta: false),
            ], "\(frames)")
    }
}
