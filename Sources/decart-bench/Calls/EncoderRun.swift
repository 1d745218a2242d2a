import GStreamerKit
import Synchronization
import WebRTCTransport

/// Runs the product's VP8 encoder at full speed.
struct EncoderRun {
    /// Returns the encoded frames.
    static func encode(_ count: Int, from pattern: TestPattern) throws -> [[UInt8]] {
        let parameters = RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let product = try VideoEncoderBin(parameters: parameters, bitrate: Clip.bitrate)
        let (chain, encoder, pipeline) = (product.bin, product.encoder, Pipeline())
        let drain = try Element(factory: "fakesink")
        drain.set("async", false)
        pipeline.add([chain, drain])
        try chain.link(drain)
        guard let sink = chain.staticPad("sink"), let source = encoder.staticPad("src") else {
            throw BenchError("the encoder has no pads")
        }
        let collected = Mutex<[[UInt8]]>([])
        source.addProbe(.buffer) { item in
            if case .buffer(let buffer) = item, let bytes = buffer.withBytes({ Array($0) }) {
                collected.withLock { $0.append(bytes) }
            }
            return .drop
        }
        let input = Pad(name: "raw", direction: .source)
        try input.link(sink)
        pipeline.setState(.playing)
        input.setActive(true)
        input.push(Event.streamStart(id: "decart-bench/raw", groupID: Event.nextGroupID()))
        input.push(Event.caps(try Caps(TestPattern.caps)))
        input.push(Event.timeSegment())
        for number in 0..<count {
            let frame = pattern.frame(number)
            frame.pts = ClockTime(number) * PacedSource.interval
            frame.duration = PacedSource.interval
            guard input.push(frame) == .ok else { throw BenchError("the encoder refused a frame") }
        }
        input.push(Event.eos())
        pipeline.setState(.null)
        input.setActive(false)
        return collected.withLock { $0 }
    }
}
