import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The quantizer of encoded frames, whose encoders were told which one to use.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct QuantizerReaderTests {
    private static func frames(_ encoder: String, _ caps: String) throws -> [[UInt8]] {
        GStreamerRuntime.initialise()
        let bin = try Bin(
            description: "videotestsrc num-buffers=12 pattern=ball ! video/x-raw,format=I420,width=320,height=180 ! "
                + "\(encoder) ! \(caps) ! appsink name=sink sync=false", ghostUnlinkedPads: false)
        let pipeline = Pipeline()
        pipeline.add([bin])
        let found = Watched<[[UInt8]]>([])
        bin.allElements.first { $0.factoryName == "appsink" }?.staticPad("sink")?.addProbe(.buffer) { item in
            if case .buffer(let buffer) = item {
                let bytes = buffer.withBytes { [UInt8]($0) } ?? []
                found.change { $0.append(bytes) }
            }
            return .pass
        }
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        _ = found.wait { $0.count >= 12 }
        return found.read { $0 }
    }

    @Test(
        arguments: [
            (
                VideoCodec.h264,
                "x264enc pass=quant quantizer=31 tune=zerolatency speed-preset=ultrafast key-int-max=2560", 31
            ),
            (
                .h264,
                "x264enc pass=quant quantizer=24 tune=zerolatency speed-preset=veryfast bframes=0 key-int-max=2560", 24
            ),
            (.vp8, "vp8enc deadline=1 min-quantizer=40 max-quantizer=40", 59),
            (.vp8, "vp8enc deadline=1 min-quantizer=9 max-quantizer=9 error-resilient=default token-partitions=4", 10),
            (.vp9, "vp9enc deadline=1 min-quantizer=40 max-quantizer=40 lag-in-frames=0", 160),
            (.vp9, "vp9enc deadline=1 min-quantizer=12 max-quantizer=12 lag-in-frames=0 error-resilient=default", 48),
        ] as [(VideoCodec, String, Int)])
    func whatTheEncoderWasTold(codec: VideoCodec, encoder: String, quantizer: Int) throws {
        let caps = codec == .h264 ? "video/x-h264,stream-format=byte-stream,alignment=au" : "video/x-\(codec.rawValue)"
        var reader = QuantizerReader(codec)
        let found = try Self.frames(encoder, caps).map { frame in frame.withUnsafeBytes { reader.quantizer($0) } }
        #expect(found.count == 12)
        // Encoders of H.264 quantize keyframes finer.
        #expect(found.dropFirst().allSatisfy { $0 == quantizer }, "\(found)")
    }

    /// Every prefix of a frame, and every byte of its head changed: an answer or none.
    @Test(
        arguments: [
            (VideoCodec.h264, "x264enc tune=zerolatency speed-preset=veryfast"), (.vp8, "vp8enc deadline=1"),
            (.vp9, "vp9enc deadline=1 lag-in-frames=0"),
        ] as [(VideoCodec, String)])
    func whatIsDamaged(codec: VideoCodec, encoder: String) throws {
        let caps = codec == .h264 ? "video/x-h264,stream-format=byte-stream,alignment=au" : "video/x-\(codec.rawValue)"
        for frame in try Self.frames(encoder, caps).prefix(3) {
            var reader = QuantizerReader(codec)
            _ = frame.withUnsafeBytes { reader.excess($0) }
            for length in 0..<min(80, frame.count) {
                _ = Array(frame.prefix(length)).withUnsafeBytes { reader.excess($0) }
                var other = frame
                for change: UInt8 in [0x00, 0x01, 0x80, 0xff] {
                    other[length] = frame[length] ^ change
                    let excess = other.withUnsafeBytes { reader.excess($0) }
                    if let excess { #expect((-7...3).contains(excess)) }
                }
            }
        }
    }
}
