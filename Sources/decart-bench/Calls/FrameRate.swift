import GStreamerKit
import Glibc
import WebRTCTransport

/// Runs a session of the plugin with the stand-in on this machine: counts the frames sent per second and the dropped
/// ones.
struct FrameRate {
    let plugin: String
    let transport: String
    let codec: String
    let pattern: String
    let framerate: Int
    let seconds: Int

    static let names = ["sent", "skipped", "dropped", "kilobits", "alone"]

    /// Returns the rates by these names, per second. `alone` is the frame rate of the encoder without session
    /// and decoder, fed at full speed.
    func measure() throws -> [String: Double] {
        try Plugin.load(plugin)
        var rates = try session()
        rates["alone"] = try alone()
        return rates
    }

    private var source: String {
        "pattern=\(pattern) ! video/x-raw,format=I420,width=1280,height=704,framerate=\(framerate)/1"
    }

    private func session() throws -> [String: Double] {
        let standIn = try StandInProcess()
        defer { standIn.end() }
        let pipeline = try Pipeline(
            description:
                "videotestsrc is-live=true \(source) ! decarttransform name=t base-url=\(standIn.url) api-key=bench "
                + "transport=\(transport) codec=\(codec) width=1280 height=704 "
                + "framerate=\(framerate) ! fakesink sync=false")
        guard let element = pipeline.child(named: "t") else { throw BenchError("no decarttransform") }
        defer { pipeline.setState(.null) }
        pipeline.setState(.playing)
        let begun = ContinuousClock.now
        while element.structure("stats")?.int("frames-out") ?? 0 == 0 {
            guard .now - begun < .seconds(10) else { throw BenchError("no frame came back within 10 s") }
            pause(.milliseconds(20))
        }
        let before = element.structure("stats")
        let since = ContinuousClock.now
        pause(.seconds(seconds))
        let after = element.structure("stats")
        let elapsed = (.now - since).inSeconds
        func rate(_ field: String) -> Double { Double((after?.int(field) ?? 0) - (before?.int(field) ?? 0)) / elapsed }
        return [
            "sent": rate("frames-sent"), "skipped": rate("frames-skipped"), "dropped": rate("frames-dropped"),
            "kilobits": rate("bytes-sent") * 8 / 1000,
        ]
    }

    private func alone() throws -> Double {
        guard let codec = VideoCodec(rawValue: self.codec) else { throw BenchError("\(self.codec) is no codec") }
        let frames = 90
        let pipeline = try Pipeline(description: "videotestsrc num-buffers=\(frames) \(source) ! identity name=end")
        let parameters = RTPSendParameters(codec: codec, payloadType: 96, ssrc: 1, transportWideCCExtension: nil)
        let encoder = try VideoEncoderBin(parameters: parameters, bitrate: Clip.bitrate)
        let sink = try Element(factory: "fakesink")
        sink.set("sync", false)
        guard let end = pipeline.child(named: "end") else { throw BenchError("no source") }
        pipeline.add([encoder.bin, sink])
        try end.link(encoder.bin)
        try encoder.bin.link(sink)
        let begun = ContinuousClock.now
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        while true {
            guard let message = pipeline.bus.next(timeout: .seconds(60) - (.now - begun)), message.kind != .error else {
                throw BenchError("the encoder did not come to its end within 60 s")
            }
            if message.kind == .eos { break }
        }
        return Double(frames) / (.now - begun).inSeconds
    }
}
