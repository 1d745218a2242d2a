import FoundationEssentials
import GStreamerKit
import RTP
import Synchronization
import WebRTCTransport

/// VP8 frames that are encoded once and sent repeatedly: media without the cost of an encoder.
struct Clip: Sendable {
    let frames: [[UInt8]]

    static let bitrate = 2_500_000
    static let caps = "video/x-vp8, profile=(string)0, width=(int)1280, height=(int)720, framerate=(fraction)30/1"

    /// Encodes 720p30 with the product's encoder and settings at full speed; the first frame is a keyframe.
    init(encoding count: Int) throws {
        let pattern = TestPattern()
        let parameters = RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let product = try VideoEncoderBin(parameters: parameters, bitrate: Self.bitrate)
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
        frames = collected.withLock { $0 }
    }

    init(contentsOf path: String) throws {
        frames = try PropertyListDecoder().decode([Data].self, from: Data(contentsOf: URL(filePath: path))).map(
            Array.init)
        guard !frames.isEmpty else { throw BenchError("\(path) holds no frames") }
    }

    func write(to path: String) throws {
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        try encoder.encode(frames.map { Data($0) }).write(to: URL(filePath: path))
    }

    /// Returns a function that finds the index of a frame by its first bytes and its size; nil for a frame that the clip does
    /// not have exactly once.
    func finder() -> @Sendable (UnsafeRawBufferPointer) -> Int? {
        @Sendable func key(_ frame: UnsafeRawBufferPointer) -> Int {
            var hasher = Hasher()
            hasher.combine(frame.count)
            hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: frame.prefix(64)))
            return hasher.finalize()
        }
        var indices: [Int: Int?] = [:]
        for (index, frame) in frames.enumerated() {
            let key = frame.withUnsafeBytes(key)
            indices[key] = indices[key] == nil ? .some(index) : .some(nil)
        }
        return { [indices] in indices[key($0)] ?? nil }
    }

    /// Returns a function that loops over the clip's frames; it restarts at the keyframe after a gap or a keyframe
    /// request.
    func player(_ onFrame: @escaping (Int) -> Void = { _ in }) -> (Bool) -> Buffer {
        var index = 0
        return { afresh in
            if afresh { index = 0 }
            defer { index = (index + 1) % frames.count }
            onFrame(index)
            return frames[index].withUnsafeBytes { Buffer(copying: $0) }
        }
    }
}
