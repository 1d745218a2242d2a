import GStreamerKit
import RTP
import Synchronization
import Testing
import WebRTCTransport

/// Frames of the LiveKit SDK for Python 1.2.1 (libwebrtc), as they leave the depayloader, with time and number.
private let h264 = "0000000161e0007e408e0328e89c10e128fef7fff99f1813b28ff9fdfbfffffff6ea4c4b5453"
private let vp9 = """
    86004092b8685743c06030180c06030180c060304fe2a300000000028070ac2000005afc3afbb0cc49fcd43142a180\
    fef7fff99f181553f823fdfbfffffff7ea4c4b5453
    """

struct FrameTrailerTests {
    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8.filter { $0 > 0x20 })
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<($0 + 2)], as: UTF8.self), radix: 16)
        }
    }

    private func length(_ frame: [UInt8]) -> Int? {
        FrameTrailer.length(end: frame.suffix(FrameTrailer.envelope), frameSize: frame.count)
    }

    @Test(arguments: [(h264, 17, 9, UInt64(1_795_399_078_473_734)), (vp9, 47, 8, 1_795_399_051_118_556)])
    func framesOfTheSDK(frame: String, size: Int, number: UInt32, time: UInt64) throws {
        let frame = Self.bytes(frame)
        let length = try #require(self.length(frame))
        #expect(frame.count - length == size && length == 21)
        let trailer = FrameTrailer(reading: frame.suffix(length))
        #expect(trailer.frameID == number)
        #expect(trailer.timestamp == time)
        #expect(trailer.userData == nil)
        // What we write is the same, byte by byte.
        #expect(trailer.bytes == Array(frame.suffix(length)))
    }

    @Test(arguments: [
        FrameTrailer(timestamp: 1), FrameTrailer(frameID: .max), FrameTrailer(timestamp: .max - 3, frameID: 7),
        FrameTrailer(userData: [0, 1, 255]), FrameTrailer(timestamp: 0, frameID: 0, userData: []),
        FrameTrailer(userData: [UInt8](repeating: 7, count: 248)),
    ])
    func roundTrip(trailer: FrameTrailer) throws {
        let bytes = try #require(trailer.bytes)
        #expect(length([1, 2, 3] + bytes) == bytes.count)
        #expect(FrameTrailer(reading: bytes) == trailer)
    }

    @Test func trailersThatCannotBe() {
        #expect(FrameTrailer().bytes == nil)
        #expect(FrameTrailer(userData: [UInt8](repeating: 7, count: 249)).bytes == nil)
        // FF FF FE becomes the start code 00 00 01.
        #expect(FrameTrailer(timestamp: 0x06_12FF_FFFE).bytes == nil)
        #expect(FrameTrailer(timestamp: 0x06_12FF_FFFD).bytes != nil)
        #expect(FrameTrailer(frameID: 0xFFFF_FE00).bytes == nil)
    }

    @Test func framesWithoutATrailer() {
        let frame = Self.bytes(h264)
        #expect(length([]) == nil && length([1, 2, 3]) == nil)
        #expect(length(Array(frame.dropLast())) == nil)
        // The length exceeds the frame, or is shorter than the envelope.
        #expect(length(Array(frame.suffix(20))) == nil)
        for wrong: UInt8 in [4, 0, 255] {
            var other = frame
            other[other.count - 5] = ~wrong
            #expect(length(other) == nil)
        }
    }

    @Test func unknownAndTruncatedElementsAreSkipped() {
        func read(_ elements: [UInt8]) -> FrameTrailer {
            FrameTrailer(reading: elements.map { ~$0 } + [~UInt8(elements.count + 5), 0x4c, 0x4b, 0x54, 0x53])
        }
        #expect(read([9, 2, 1, 1, 2, 4, 0, 0, 0, 5]) == FrameTrailer(frameID: 5))
        #expect(read([2, 4, 0, 0, 0]) == FrameTrailer())
        #expect(read([2, 3, 0, 0, 5, 3, 1, 7]) == FrameTrailer(userData: [7]))
        #expect(read([1]) == FrameTrailer() && read([]) == FrameTrailer())
        #expect(FrameTrailer(reading: [1, 2]) == FrameTrailer())
    }

    /// A raw frame's trailer follows it through encoder, payloader, depayloader and decoder of each codec.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [(VideoCodec.vp8, ""), (.vp9, ""), (.h264, "x264enc"), (.h264, "openh264enc")], [true, false])
    func trailersFollowFrames(codec: (VideoCodec, String), keepsTrailers: Bool) throws {
        GStreamerRuntime.initialise()
        let (width, height, count) = (320, 176, 20)
        let parameters = RTPSendParameters(codec: codec.0, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let encoder = try VideoEncoderBin(
            parameters: parameters, bitrate: 500_000, encoderDescription: codec.1)
        let decoder = try VideoDecoderBin.make(codec: codec.0, keepsTrailers: keepsTrailers)
        let drain = try makeDrain()
        let pipeline = Pipeline()
        pipeline.add([encoder.bin, decoder, drain])
        try encoder.bin.link(decoder)
        try decoder.link(drain)
        let decoded = Mutex<[[UInt8]?]>([])
        try #require(decoder.staticPad("src")).addProbe(.buffer) { item in
            if case .buffer(let frame) = item { decoded.withLock { $0.append(frame[.trailer]) } }
            return .pass
        }
        // What the decoder itself gets has no trailer.
        let marked = Mutex(0)
        let inner = decoder.allElements.first { $0.factoryName == codec.0.installedDecoder }
        try #require(inner?.staticPad("sink")).addProbe(.buffer) { item in
            if case .buffer(let frame) = item, frame.suffix(4) == Array("LKTS".utf8) { marked.withLock { $0 += 1 } }
            return .pass
        }
        let input = Pad(name: "raw", direction: .source)
        try input.link(try #require(encoder.bin.staticPad("sink")))
        pipeline.setState(.playing)
        defer {
            pipeline.setState(.null)
            input.setActive(false)
        }
        try input.startRawVideo(width: width, height: height)
        let interval = ClockTime(1_000_000_000 / 30)
        var sent: [[UInt8]?] = []
        for number in 0..<count {
            let frame = Buffer(size: width * height * 3 / 2)
            _ = frame.withMutableBytes { $0.initializeMemory(as: UInt8.self, repeating: UInt8(number * 7)) }
            frame.pts = ClockTime(number) * interval
            frame.duration = interval
            // A frame may have none.
            let trailer =
                number == 3 ? nil : FrameTrailer(timestamp: 1_795_399_078_000_000, frameID: UInt32(number)).bytes
            frame[.trailer] = trailer
            sent.append(trailer)
            #expect(input.push(frame) == .ok)
        }
        #expect(decoded.withLock(\.self) == (keepsTrailers ? sent : sent.map { _ in nil }))
        #expect(marked.withLock(\.self) == 0)
    }

    /// No bytes trap, whatever they claim.
    @Test func anyBytes() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let body = (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
            }
            let frame = body + [.random(in: 200...255, using: &random), 0x4c, 0x4b, 0x54, 0x53]
            if let length = self.length(frame) {
                #expect((5...frame.count).contains(length))
                _ = FrameTrailer(reading: frame.suffix(length))
            }
            _ = FrameTrailer(reading: frame)
        }
    }
}
