import GStreamerKit
import Log
import MediaPipeline
import TestSupport
import Testing
import WebRTCTransport

/// The encoders of two media paths on one input, as while one path takes over from another.
@Suite(.timeLimit(.minutes(1))) struct VideoSendBranchTests {
    private struct Path {
        let branch: VideoSendBranch
        let bin = Bin(name: nil)
        let sizes = Watched<[Int]>([])

        init(_ number: Int, _ chain: InputChain, in pipeline: Pipeline) throws {
            let settings = VideoSendSettings(
                size: CurrentFrameSize(width: 320, height: 176), framerate: 30, bitrate: 600_000, encoder: "")
            branch = VideoSendBranch(
                path: PathID(number), input: chain, settings: settings, receiving: BusyTime(), logger: .none)
            let end = try Element(factory: "fakesink")
            end.set("async", false)
            pipeline.add(bin)
            bin.add([end])
            let seen = sizes
            try branch.start(
                RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: UInt32(number), transportWideCCExtension: nil),
                to: try #require(end.staticPad("sink")), in: bin, markers: nil, onEncoder: { _, _ in }
            ) { size in seen.change { $0.append(size.width) } }
        }

        func limit(to bitrate: Int) {
            branch.apply(
                target: BitrateTarget(target: bitrate, estimate: bitrate, reason: .delay, isLimitedByNetwork: true))
        }
    }

    /// A narrow path makes its own frames smaller and fewer. The other path keeps all of its frames, while both live and when
    /// the narrow one ends.
    @Test func eachPathAdaptsForItself() throws {
        GStreamerRuntime.initialise()
        let pipeline = try Pipeline(
            description: "videotestsrc ! video/x-raw,width=320,height=176,framerate=30/1 ! identity name=i")
        let source = try #require(pipeline.child(named: "i")?.staticPad("src"))
        let bin = Bin(name: "chain")
        let chain = try InputChain(pacing: InputPacing(), sink: source)
        let entry = try GhostPad(name: "sink", target: try chain.install(in: bin))
        bin.add(entry)
        chain.configure(width: 320, height: 176, fit: .stretch)
        pipeline.add(bin)
        try source.link(entry)
        let wide = try Path(1, chain, in: pipeline)
        let narrow = try Path(2, chain, in: pipeline)
        for id in [1, 2] as [PathID] { chain.gate.open(path: id) }
        chain.gate.set(playing: true)
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        narrow.limit(to: 0)
        #expect(narrow.sizes.wait { $0.contains(80) })
        let before = (wide.sizes.read { $0.count }, narrow.sizes.read { $0.count })
        #expect(narrow.sizes.wait { $0.count >= before.1 + 5 })
        // At most every third frame, of a quarter of the size.
        #expect(wide.sizes.read { $0.count } - before.0 >= 10)
        narrow.branch.stop()
        narrow.branch.close()
        let count = wide.sizes.read { $0.count }
        #expect(wide.sizes.wait { $0.count >= count + 10 })
        #expect(wide.sizes.read { $0.allSatisfy { $0 == 320 } })
        wide.branch.stop()
        wide.branch.close()
    }
}
