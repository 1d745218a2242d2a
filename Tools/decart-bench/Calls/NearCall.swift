import GStreamerKit

/// The local peer of a call; the remote peer is in another process.
final class NearCall: Sendable {
    let call: Call
    private let far: FarSide
    private let number: Int
    private let send: @Sendable (PeerMessage) -> Void
    var progress: CallProgress { call.progress }

    /// Creates and starts the call. `progress` starts before the transport is created, so that this is measured too.
    init(_ implementation: Implementation, far: FarSide, sending: Call.Sending, receiving: Call.Receiving) throws {
        self.far = far
        (number, send) = far.newCall()
        let begun = ContinuousClock.now
        call = try Call(implementation, sending: sending, receiving: receiving, send: send)
        call.progress.begin(at: begun)
        far.listen(to: number) { [weak call] message in call?.receive(message) }
        try call.start()
    }

    /// Waits until `frames` frames have come back. Then recalculates the latency, as applications do on a LATENCY
    /// message: otherwise webrtcbin's RTP session would send no sender reports.
    func waitUntilFlowing(_ frames: Int) throws {
        try progress.waitForFrames(frames)
        call.pipeline.recalculateLatency()
    }

    func stop() {
        far.listen(to: number, nil)
        call.stop()
        send(PeerMessage(.stop))
    }
}

/// The load without a transport, to be subtracted: source and payloader into a fakesink.
final class SourceOnly {
    private let pipeline = Pipeline()
    private let source: PacedSource

    init(_ clip: Clip) throws {
        source = PacedSource(caps: Clip.caps, pipeline: pipeline, next: clip.player())
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
