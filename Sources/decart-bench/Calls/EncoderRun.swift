import GStreamerKit
import Synchronization
import WebRTCTransport

/// Runs a VP8 encoder at full speed, with the product's settings or with vp8enc's defaults at the same bitrate.
struct EncoderRun {
    private let chain: Element
    private let encoder: Element
    private let pipeline = Pipeline()

    init(tuned: Bool) throws {
        if tuned {
            let parameters = RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
            let product = try VideoEncoderBin(parameters: parameters, bitrate: Clip.bitrate)
            (chain, encoder) = (product.bin, product.encoder)
        } else {
            encoder = try Element(factory: "vp8enc")
            encoder.set("target-bitrate", Clip.bitrate)
            chain = encoder
        }
    }

    /// Returns the encoded frames. `timed` receives the CPU time of each frame.
    func encode(_ count: Int, from pattern: TestPattern, timed: ((Duration) -> Void)? = nil) throws -> [[UInt8]] {
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
            let before = ProcessStatistics.cpuTime
            guard input.push(frame) == .ok else { throw BenchError("the encoder refused a frame") }
            timed?(ProcessStatistics.cpuTime - before)
        }
        input.push(Event.eos())
        pipeline.setState(.null)
        input.setActive(false)
        return collected.withLock { $0 }
    }
}
