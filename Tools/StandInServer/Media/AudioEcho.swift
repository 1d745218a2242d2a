// Sends audio back unchanged: takes Opus packets out of RTP and payloads them again, synchronised with the video by
// their timestamps. Nothing is decoded.
import GStreamerKit
import WebRTCTransport

/// Takes RTP at the pad `sink`; Opus leaves through a pad that belongs to no element, for the same reason as in
/// `PaintingBin`.
struct AudioEcho {
    let bin: Bin
    /// Drops packets until it is linked.
    let echoed: Pad

    /// - Parameters:
    ///   - delay: The delay of the video frames.
    ///   - viewers: They get the packets too.
    init(delay: Duration, viewers: Viewers) throws {
        let hold = max(0, Int(delay / .nanoseconds(1)))
        let waiting = hold > 0 ? "\(Self.holding(hold)) ! " : ""
        let bin = try Bin(
            description: "rtpopusdepay ! \(waiting)fakesink name=end sync=false async=false",
            ghostUnlinkedPads: true)
        let echoed = Pad(name: "echoed", direction: .source)
        (self.bin, self.echoed) = (bin, echoed)
        try bin.divertEnd(to: echoed) { buffer, caps in
            guard let copy = buffer.copyOfMetadata() else { return }
            copy.pts = copy.pts.map { $0 &+ UInt64(hold) }
            viewers.play(copy, caps)
            _ = echoed.push(copy)
        }
    }

    static func holding(_ time: Int) -> String {
        "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 min-threshold-time=\(time)"
    }

    /// Adds a payloader that sends the Opus packets on `connection`; it is linked and running on return.
    func send(
        to connection: PeerConnection, _ parameters: AudioSendParameters, in pipeline: Pipeline
    ) throws -> Element {
        let payloader = try OpusPayloader.make(parameters)
        pipeline.add(payloader)
        try payloader.link("src", to: connection.bin, "audio_rtp_sink")
        payloader.syncStateWithParent()
        try echoed.link(payloader.pad("sink"))
        return payloader
    }

    func stop(_ payloader: Element, in pipeline: Pipeline) {
        if let sink = payloader.staticPad("sink") { echoed.unlink(sink) }
        pipeline.takeOut([payloader])
    }

    /// Adds this bin to the pipeline and links it to the received audio of `connection`.
    func receive(from connection: PeerConnection, in pipeline: Pipeline) throws {
        pipeline.add(bin)
        bin.syncStateWithParent()
        try connection.bin.link("audio_rtp_src", to: bin, "sink")
    }
}
