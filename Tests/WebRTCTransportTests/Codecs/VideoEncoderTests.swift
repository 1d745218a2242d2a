import GStreamerKit
import RTP
import Synchronization
import Testing
import WebRTCTransport

@Suite(.serialized, .timeLimit(.minutes(1)))
struct VideoEncoderTests {
    /// A remote peer that requests a keyframe for every frame gets three or four a second, and its last request is
    /// still served. Times are those of the frames.
    @Test(arguments: [
        (VideoCodec.vp8, ""), (.vp9, ""), (.h264, "x264enc"), (.h264, "openh264enc"),
        (.vp8, "identity ! vp8enc deadline=1"),
    ])
    func aStormOfKeyframeRequestsMakesFewKeyframes(codec: VideoCodec, description: String) throws {
        GStreamerRuntime.initialise()
        let (width, height) = (320, 176)
        let parameters = RTPSendParameters(codec: codec, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: 500_000, encoderDescription: description)
        let drain = try makeDrain()
        let pipeline = Pipeline()
        pipeline.add([encoder.bin, drain])
        try encoder.bin.link(drain)
        let sink = try #require(encoder.bin.staticPad("sink"))
        let source = try #require(encoder.bin.staticPad("src"))
        let keyframes = Mutex<[ClockTime]>([])
        let encoded = try #require(encoder.encoder.staticPad("src"))
        encoded.addProbe(.buffer) { item in
            if case .buffer(let buffer) = item, !buffer.isDeltaUnit {
                keyframes.withLock { $0.append(buffer.pts ?? 0) }
            }
            return .pass
        }
        let input = Pad(name: "raw", direction: .source)
        try input.link(sink)
        pipeline.setState(.playing)
        defer {
            pipeline.setState(.null)
            input.setActive(false)
        }
        try input.startRawVideo(width: width, height: height)
        let interval = ClockTime(1_000_000_000 / 30)
        for number in 0..<120 as Range<ClockTime> {
            // Requests for three seconds, the last one soon after a keyframe was due.
            if number < 92 { source.send(Event.forceKeyUnitUpstream(allHeaders: false)) }
            // As after the connection: nothing that was encoded before has been sent.
            if number == 110 || number == 112 { source.send(Event.forceKeyUnitUpstream()) }
            let frame = Buffer(size: width * height * 3 / 2)
            _ = frame.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: UInt8(number)) }
            frame.pts = number * interval
            frame.duration = interval
            #expect(input.push(frame) == .ok)
        }
        // x264enc begins an hour later, so that no time is negative.
        let all = keyframes.withLock { times in times.map { $0 - (times.first ?? 0) } }
        #expect(all.suffix(2) == [110 * interval, 112 * interval], "\(all.map { $0 / 1_000_000 }) ms")
        let times = all.dropLast(2)
        #expect((10...12).contains(times.count), "\(times.map { $0 / 1_000_000 }) ms")
        #expect(
            zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= 300_000_000 }, "\(times.map { $0 / 1_000_000 }) ms")
        let last = try #require(times.last)
        #expect(last >= 92 * interval, "the last request")
    }

    /// A keyframe on request leaves as one access unit: parameter sets and slices, one marker, no delimiter. Also one of
    /// several slices.
    @Test(
        arguments: [
            ("x264enc", false), ("openh264enc", false),
            ("x264enc tune=zerolatency aud=false sliced-threads=true threads=4 key-int-max=1000", true),
        ])
    func aRequestedKeyframeIsOneAccessUnit(encoderDescription: String, hasSlices: Bool) throws {
        GStreamerRuntime.initialise()
        let (width, height) = (320, 176)
        let parameters = RTPSendParameters(codec: .h264, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: 500_000, encoderDescription: encoderDescription)
        let pipeline = Pipeline()
        pipeline.add([encoder.bin])
        let sink = try #require(encoder.bin.staticPad("sink"))
        let source = try #require(encoder.bin.staticPad("src"))
        let packets = Mutex<[[UInt8]]>([])
        let output = Pad(name: "rtp", direction: .sink)
        output.setChainFunction { buffer in
            packets.withLock { $0.append(buffer.withBytes { [UInt8]($0) } ?? []) }
            return .ok
        }
        output.setActive(true)
        try source.link(output)
        let input = Pad(name: "raw", direction: .source)
        try input.link(sink)
        pipeline.setState(.playing)
        defer {
            pipeline.setState(.null)
            input.setActive(false)
            output.setActive(false)
        }
        try input.startRawVideo(width: width, height: height)
        let interval = ClockTime(1_000_000_000 / 30)
        for number in 0..<40 as Range<ClockTime> {
            if number == 20 { source.send(Event.forceKeyUnitUpstream()) }
            if number == 30 { source.send(Event.forceKeyUnitUpstream(allHeaders: false)) }
            let frame = Buffer(size: width * height * 3 / 2)
            _ = frame.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: UInt8(number)) }
            frame.pts = number * interval
            frame.duration = interval
            #expect(input.push(frame) == .ok)
        }
        let all = packets.withLock { $0 }
        let markers = all.filter { $0[1] & 0x80 != 0 }.map { Array($0[4..<8]) }
        #expect(markers.count >= 38 && Set(markers).count == markers.count, "a marker for each time stamp")
        let units = all.flatMap { NALTypes.of(Array($0.dropFirst(12))) }
        let slices = units.indices.filter { units[$0] == 5 }
        let keyframes = slices.filter { $0 == 0 || units[$0 - 1] != 5 }
        #expect(keyframes.count == 3 && keyframes.allSatisfy { $0 > 0 && [6, 8].contains(units[$0 - 1]) }, "\(units)")
        #expect(slices.count == keyframes.count * (hasSlices ? 2 : 1), "\(units)")
        #expect(units.count { $0 == 7 } == keyframes.count, "\(units)")
        #expect(!units.contains(9), "\(units)")
    }
}

private enum NALTypes {
    /// Types of the NAL units that begin in the payload of a packet (RFC 6184).
    static func of(_ payload: [UInt8]) -> [UInt8] {
        guard let first = payload.first else { return [] }
        switch first & 31 {
        case 24:
            var (types, at): ([UInt8], Int) = ([], 1)
            while at + 2 < payload.count {
                types.append(payload[at + 2] & 31)
                at += 2 + (Int(payload[at]) << 8 | Int(payload[at + 1]))
            }
            return types
        case 28: return payload.count > 1 && payload[1] & 0x80 != 0 ? [payload[1] & 31] : []
        default: return [first & 31]
        }
    }
}
