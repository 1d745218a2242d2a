// Sound goes back as it came: Opus packets are taken out of RTP and put into RTP of our own, in step with the pictures by
// their time stamps; nothing is decoded.
import GStreamerKit
import WebRTCTransport

/// RTP in at the pad `sink`; Opus leaves through a pad of no element, as pictures leave `PaintingBin` and for the same
/// reason.
struct SoundEcho {
    let bin: Bin
    /// Until it is linked, what comes goes nowhere.
    let echoed: Pad

    init() throws {
        let bin = try Bin(
            description: "rtpopusdepay ! fakesink name=end sync=false async=false", ghostUnlinkedPads: true)
        guard let end = bin.child(named: "end")?.staticPad("sink") else {
            throw GStreamerError(.linkFailed, "the fakesink has no pad")
        }
        let echoed = Pad(name: "echoed", direction: .source)
        self.bin = bin
        self.echoed = echoed
        end.addProbe([.buffer, .downstreamEvent]) { item in
            switch item {
            case .event(let event):
                if [.streamStart, .caps, .segment].contains(event.kind) { echoed.push(event) }
                return .pass
            case .buffer(let buffer):
                if let copy = buffer.copyOfMetadata() { _ = echoed.push(copy) }
                return .drop
            case .query:
                return .pass
            }
        }
        echoed.setActive(true)
    }

    /// Opus in, RTP for `connection` out; in the pipeline, linked and running when it comes back.
    func send(to connection: PeerConnection, _ parameters: AudioSendParameters, in pipeline: Pipeline) throws {
        let payloader = try Element(factory: "rtpopuspay")
        payloader.set("pt", parameters.payloadType)
        payloader.set("ssrc", Int(parameters.ssrc))
        payloader.set("seqnum-offset", Int.random(in: 0..<32768))
        pipeline.add(payloader)
        try payloader.link("src", to: connection.bin, "audio_rtp_sink")
        guard let sink = payloader.staticPad("sink") else { throw GStreamerError(.linkFailed, "a pad is missing") }
        payloader.syncStateWithParent()
        try echoed.link(sink)
    }

    /// The sound of `connection` comes here from now on.
    func receive(from connection: PeerConnection, in pipeline: Pipeline) throws {
        pipeline.add(bin)
        bin.syncStateWithParent()
        try connection.bin.link("audio_rtp_src", to: bin, "sink")
    }
}
