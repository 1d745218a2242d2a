package import GStreamerKit
internal import Synchronization

/// What gives RTP for raw I420: one stream, or several of one picture.
package protocol VideoSender: Sendable {
    /// Raw I420 in ("sink"), RTP out ("src").
    var bin: Bin { get }
    var encoders: [Element] { get }
    /// bit/s, in all; takes effect with the next frame.
    func setBitrate(_ bitrate: Int)
    /// Of the frames from now on; before their caps.
    func setSize(width: Int, height: Int)
}

extension VideoEncoderBin: VideoSender {
    package var encoders: [Element] { [encoder] }
    package func setSize(width: Int, height: Int) {}
}

/// An encoder for each stream of a simulcast (RFC 8853), all on the thread that brings the frames, the best one first. A
/// stream that the bit rate does not suffice for is left out; it comes back with a key frame.
package final class SimulcastEncoderBin: VideoSender {
    package let bin: Bin
    private let layers: [Layer]
    private let rids: [String]
    private let allocation: Mutex<SimulcastAllocation>

    private struct Layer: Sendable {
        let layer: SimulcastLayer
        let encoder: VideoEncoderBin
        /// nil: full size.
        let filter: Element?
        let isSent: Flag
    }
    private final class Flag: Sendable { let value = Atomic(true) }

    /// - Parameters:
    ///   - layers: all of them named by `parameters`.
    ///   - bitrate: of all together, bit/s.
    ///   - encoderDescription: as of `VideoEncoderBin`, for each.
    package init(
        parameters: RTPSendParameters, layers: [SimulcastLayer], allocation: SimulcastAllocation,
        size: (width: Int, height: Int), bitrate: Int, encoderDescription: String = ""
    ) throws(GStreamerError) {
        bin = Bin()
        let tee = try Element(factory: "tee")
        let funnel = try Element(factory: "rtpfunnel")
        // RFC 8853 wants no such thing, but servers that switch between streams are glad of it.
        funnel.set("common-ts-offset", Int.random(in: 0..<Int(Int32.max)))
        bin.add([tee, funnel])
        var made: [Layer] = []
        for layer in layers {
            guard let stream = parameters.layers.first(where: { $0.rid == layer.rid }) else { continue }
            var own = parameters
            (own.ssrc, own.layers) = (stream.ssrc, [])
            let encoder = try VideoEncoderBin(parameters: own, bitrate: bitrate, encoderDescription: encoderDescription)
            var (chain, filter): ([Element], Element?) = ([encoder.bin], nil)
            if layer.divisor > 1 {
                let scale = try Element(factory: "videoscale")
                // A whole number of pixels becomes one: neighbours are enough, and nothing else is.
                scale.set("method", "bilinear")
                let sized = try Element(factory: "capsfilter")
                (chain, filter) = ([scale, sized, encoder.bin], sized)
            }
            bin.add(chain)
            try bin.linkChain(chain)
            guard let branch = tee.requestPad("src_%u"), let first = chain[0].staticPad("sink"),
                let end = encoder.bin.staticPad("src"), let entry = funnel.requestPad("sink_%u")
            else { throw GStreamerError(.linkFailed, "no pads for another stream of the simulcast") }
            let isSent = Flag()
            first.addGate { isSent.value.load(ordering: .relaxed) }
            try branch.link(first)
            try end.link(entry)
            made.append(Layer(layer: layer, encoder: encoder, filter: filter, isSent: isSent))
        }
        guard !made.isEmpty, let sink = tee.staticPad("sink"), let source = funnel.staticPad("src") else {
            throw GStreamerError(.linkFailed, "a simulcast without streams")
        }
        bin.add(try GhostPad(name: "sink", target: sink))
        bin.add(try GhostPad(name: "src", target: source))
        self.layers = made
        rids = made.map(\.layer.rid)
        self.allocation = Mutex(allocation)
        setSize(width: size.width, height: size.height)
        setBitrate(bitrate)
    }

    package var encoders: [Element] { layers.map(\.encoder.encoder) }

    /// Those that are sent now, the best one first.
    package var sentLayers: [String] { Array(rids.suffix(allocation.withLock(\.count))) }

    package func setBitrate(_ bitrate: Int) {
        for (layer, share) in zip(layers, allocation.withLock { $0.share(bitrate) }) {
            if share > 0 { layer.encoder.setBitrate(share) }
            let wasSent = layer.isSent.value.exchange(share > 0, ordering: .relaxed)
            if share > 0, !wasSent { layer.encoder.bin.staticPad("src")?.send(Event.forceKeyUnitUpstream()) }
        }
    }

    package func setSize(width: Int, height: Int) {
        for layer in layers {
            let size = layer.layer.size(of: (width, height))
            if let caps = try? Caps("video/x-raw, width=(int)\(size.width), height=(int)\(size.height), pixel-aspect-ratio=(fraction)1/1") {
                layer.filter?.set("caps", caps: caps)
            }
        }
    }
}
