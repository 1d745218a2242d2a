import GStreamerKit

/// Our half of a call whose other half is in the far side's process.
final class NearCall: Sendable {
    let call: Call
    private let far: FarSide
    private let number: Int
    private let send: @Sendable (PeerMessage) -> Void
    var progress: CallProgress { call.progress }

    /// Making the transport counts: `progress` begins before it.
    init(_ contender: Contender, far: FarSide, sending: Call.Sending, receiving: Call.Receiving) throws {
        self.far = far
        (number, send) = far.newCall()
        let begun = ContinuousClock.now
        call = try Call(contender, sending: sending, receiving: receiving, send: send)
        call.progress.begin(at: begun)
        far.listen(to: number) { [weak call] message in call?.receive(message) }
        try call.start()
    }

    /// Waits until so many frames have come back. Then does what every application does on a LATENCY message: without
    /// it webrtcbin's RTP session would send no sender reports.
    func waitUntilFlowing(_ frames: Int) throws {
        try progress.waitForFrames(frames)
        call.pipeline.recalculateLatency()
    }

    func stop() {
        far.listen(to: number, nil)
        call.stop()
        send(.stop)
    }
}

/// The work that is no transport's: source, payloader, nothing behind.
final class SourceOnly {
    private let pipeline = Pipeline()
    private let source: PacedSource

    init(_ clip: Clip) throws {
        source = PacedSource(caps: Payloader.clipCaps, pipeline: pipeline, next: clip.player())
        let payloader = try Element(factory: "rtpvp8pay")
        payloader.set("mtu", 1150)
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        sink.set("async", false)
        pipeline.add([payloader, sink])
        try payloader.link(sink)
        pipeline.setState(.playing)
        if let pad = payloader.staticPad("sink") { try source.pad.link(pad) }
        try source.start()
    }

    func stop() {
        pipeline.setState(.null)
        source.stop()
    }
}
