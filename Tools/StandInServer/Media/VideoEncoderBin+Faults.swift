// Faults of the video that direct sessions and rooms send.
import GStreamerKit
import WebRTCTransport

extension VideoEncoderBin {
    /// Corrupts encoded frames between encoder and payloader, where each buffer is a whole frame.
    func spoilFrames(while faults: MediaFaults) {
        bin.payloader?.staticPad("sink")?.addProbe(.buffer) { item in
            guard case .buffer(let buffer) = item, faults.isOn(.garbage),
                let copy = buffer.withBytes({ Buffer(copying: $0) })
            else { return .pass }
            (copy.pts, copy.dts, copy.duration) = (buffer.pts, buffer.dts, buffer.duration)
            _ = copy.withMutableBytes(Garbage.spoil)
            return .replace(copy)
        }
    }

    static func setSSRC(_ ssrc: UInt32, at exit: Element) throws {
        exit.set("caps", caps: try Caps("application/x-rtp, ssrc=(uint)\(ssrc)"))
    }
}

extension Bin {
    var payloader: Element? { allElements.first { $0.factoryName?.hasSuffix("pay") ?? false } }

    /// Adds the capsfilter that the packets leave through. Its caps select the payloader's SSRC: another one than
    /// `described` with the `wrongSSRC` fault. Without such caps, the payloader takes the described SSRC from the RTP
    /// session.
    func exit(_ faults: MediaFaults?, described: UInt32, in pipeline: Pipeline) throws -> Element {
        let other = try Element(factory: "capsfilter")
        if faults?.contains(.wrongSSRC) ?? false {
            try VideoEncoderBin.setSSRC(described &+ 0x1234_5678, at: other)
        }
        pipeline.add(other)
        try link(other)
        return other
    }
}
