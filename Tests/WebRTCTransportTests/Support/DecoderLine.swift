import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The receiver's elements behind a source of RTP packets.
final class DecoderLine {
    let pipeline: Pipeline
    let decoder: Bin
    private let source: Pad
    /// Keyframe requests.
    let requests = Watched(0)

    init(_ codec: VideoCodec, payloadType: Int = 96) throws {
        GStreamerRuntime.initialise()
        (pipeline, source) = (Pipeline(), Pad(name: "src", direction: .source))
        decoder = try VideoDecoderBin.make(codec: codec)
        let drain = try makeDrain()
        pipeline.add([decoder, drain])
        try decoder.link(drain)
        source.setEventFunction { [requests] event in
            if event.isForceKeyUnit { requests.change { $0 += 1 } }
            return .handled(true)
        }
        try source.link(try #require(decoder.staticPad("sink")))
        source.setActive(true)
        pipeline.setState(.playing)
        source.push(Event.streamStart(id: "test", groupID: 1))
        source.push(
            Event.caps(
                try Caps(
                    "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(payloadType), "
                        + "encoding-name=(string)\(codec.encodingName), packetization-mode=(string)1")))
        source.push(Event.timeSegment())
    }

    deinit {
        pipeline.setState(.null)
        source.setActive(false)
    }

    @discardableResult func push(
        _ packet: [UInt8], at time: ClockTime, isDiscontinuous: Bool = false
    ) -> FlowReturn {
        let buffer = packet.withUnsafeBytes(Buffer.init(copying:))
        buffer.pts = time
        if isDiscontinuous { buffer.isDiscontinuous = true }
        return source.push(buffer)
    }
}

/// A sink that drops what it gets at once.
func makeDrain() throws(GStreamerError) -> Element {
    let drain = try Element(factory: "fakesink")
    drain.set("async", false)
    drain.set("sync", false)
    return drain
}
