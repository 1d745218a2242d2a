package import GStreamerKit
package import RTP
internal import Synchronization

/// One encoder for each simulcast layer (RFC 8853), highest resolution first, all on the streaming thread that delivers
/// the frames. A layer is paused if the bitrate does not suffice for it; it resumes with a keyframe.
package final class SimulcastEncoderBin: VideoSender {
    package let bin: Bin
    private let branches: [Branch]
    private struct Shares {
        var allocation: SimulcastAllocation
        var bitrate: Int
        /// RIDs of the layers that the remote peer needs; nil: all.
        var wanted: Set<String>?
    }
    private let shares: Mutex<Shares>

    private final class Branch: Sendable {
        let layer: SimulcastLayer
        let encoder: VideoEncoderBin
        /// Capsfilter that fixes the layer's size; nil: full size.
        let filter: Element?
        let isSent = Atomic(true)
        private let limit: Mutex<RateLimit>

        init(_ layer: SimulcastLayer, _ encoder: VideoEncoderBin, _ filter: Element?) {
            (self.layer, self.encoder, self.filter) = (layer, encoder, filter)
            var limit = RateLimit()
            limit.set(framesPerSecond: layer.maximum?.framerate)
            self.limit = Mutex(limit)
        }

        /// True if the layer takes this frame.
        func takes(_ frame: Buffer) -> Bool {
            guard isSent.load(ordering: .relaxed) else { return false }
            return frame.pts.map { time in limit.withLock { $0.passes(time) } } ?? true
        }
    }

    /// - Parameters:
    ///   - layers: `parameters` must name all of them.
    ///   - bitrate: Sum of all layers, bit/s.
    ///   - encoderDescription: As in `VideoEncoderBin`, for each layer.
    package init(
        parameters: RTPSendParameters, layers: [SimulcastLayer], allocation: SimulcastAllocation,
        size: (width: Int, height: Int), bitrate: Int, encoderDescription: String = ""
    ) throws(GStreamerError) {
        bin = Bin()
        let tee = try Element(factory: "tee")
        let funnel = try Element(factory: "rtpfunnel")
        // All layers share one RTP timestamp offset, so that an SFU that switches between them need not guess.
        funnel.set("common-ts-offset", Int.random(in: 0..<Int(Int32.max)))
        bin.add([tee, funnel])
        var made: [Branch] = []
        for layer in layers {
            guard let stream = parameters.layers.first(where: { $0.rid == layer.rid }) else { continue }
            var own = parameters
            (own.ssrc, own.layers) = (stream.ssrc, [])
            let encoder = try VideoEncoderBin(
                parameters: own, bitrate: bitrate, encoderDescription: encoderDescription)
            var (chain, filter): ([Element], Element?) = ([encoder.bin], nil)
            if layer.scaleResolutionDownBy > 1 {
                let scale = try Element(factory: "videoscale")
                let sized = try Element(factory: "capsfilter")
                (chain, filter) = ([scale, sized, encoder.bin], sized)
            }
            bin.add(chain)
            try bin.linkChain(chain)
            guard let copy = tee.requestPad("src_%u"), let first = chain[0].staticPad("sink"),
                let end = encoder.bin.staticPad("src"), let entry = funnel.requestPad("sink_%u")
            else { throw GStreamerError(.linkFailed, "no pads for another stream of the simulcast") }
            let branch = Branch(layer, encoder, filter)
            // Weak, because the branch holds the bin that contains the pad.
            first.addProbe(.buffer) { [weak branch] item in
                guard let branch, case .buffer(let frame) = item else { return .drop }
                return branch.takes(frame) ? .pass : .drop
            }
            try copy.link(first)
            try end.link(entry)
            made.append(branch)
        }
        guard !made.isEmpty, let sink = tee.staticPad("sink"), let source = funnel.staticPad("src") else {
            throw GStreamerError(.linkFailed, "a simulcast without streams")
        }
        bin.add(try GhostPad(name: "sink", target: sink))
        bin.add(try GhostPad(name: "src", target: source))
        branches = made
        shares = Mutex(Shares(allocation: allocation, bitrate: bitrate))
        setSize(width: size.width, height: size.height)
        setBitrate(bitrate)
    }

    package var made: EncodedSum? { nil }
    package var codingTime: CodingTime { branches.reduce(CodingTime()) { $0 + $1.encoder.codingTime } }
    package var encoders: [Element] { branches.map(\.encoder.encoder) }
    package var followsBitrate: Bool { branches.allSatisfy(\.encoder.followsBitrate) }

    package var sentLayers: [String] {
        branches.filter { $0.isSent.load(ordering: .relaxed) }.map(\.layer.rid)
    }

    package func setBitrate(_ bitrate: Int) {
        shares.withLock { $0.bitrate = bitrate }
        applyShares()
    }

    package func setWanted(_ rids: Set<String>) {
        shares.withLock { $0.wanted = rids }
        applyShares()
    }

    private func applyShares() {
        let (list, wanted) = shares.withLock { ($0.allocation.allocate($0.bitrate), $0.wanted) }
        for (branch, share) in zip(branches, list) {
            let isSent = share > 0 && wanted?.contains(branch.layer.rid) ?? true
            if isSent { branch.encoder.setBitrate(share) }
            // The next frame is a keyframe, so this precedes it.
            if isSent, !branch.isSent.load(ordering: .relaxed) {
                branch.encoder.bin.staticPad("src")?.send(Event.forceKeyUnitUpstream())
            }
            branch.isSent.store(isSent, ordering: .relaxed)
        }
    }

    package func requestKeyframe() {
        for branch in branches { branch.encoder.requestKeyframe() }
    }

    package func setSize(width: Int, height: Int) {
        for branch in branches {
            let size = branch.layer.size(of: (width, height))
            let caps =
                "video/x-raw, width=(int)\(size.width), height=(int)\(size.height), pixel-aspect-ratio=(fraction)1/1"
            if let caps = try? Caps(caps) { branch.filter?.set("caps", caps: caps) }
        }
    }
}
