import GStreamerKit
import Log
import MediaPipeline
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// The encoders of two media paths on one input, as while one path takes over from another.
@Suite(.timeLimit(.minutes(1))) struct VideoSendBranchTests {
    private struct Path {
        let branch: VideoSendBranch
        let bin = Bin(name: nil)
        let sizes = Watched<[Int]>([])
        /// For each encoded frame, whether it is a keyframe.
        let keyframes = Watched<[Bool]>([])

        init(_ number: Int, _ chain: InputChain, in pipeline: Pipeline) throws {
            let settings = VideoSendSettings(
                size: CurrentFrameSize(width: 320, height: 176), framerate: 30, bitrate: 600_000, encoder: "")
            branch = VideoSendBranch(
                path: PathID(number), input: chain, settings: settings, receiving: BusyTime(), logger: .none)
            // It takes packets one by one, unlike a sink.
            let (end, sink) = (try Element(factory: "identity"), try Element(factory: "fakesink"))
            sink.set("async", false)
            end.staticPad("src")?.addProbe(.buffer) { [keyframes] item in
                guard case .buffer(let packet) = item else { return .pass }
                let keyframe = packet.withBytes(Self.isKeyframe) ?? nil
                if let keyframe { keyframes.change { $0.append(keyframe) } }
                return .pass
            }
            pipeline.add(bin)
            bin.add([end, sink])
            try end.link(sink)
            let seen = sizes
            try branch.start(
                RTPSendParameters(codec: .vp8, payloadType: 96, ssrc: UInt32(number), transportWideCCExtension: nil),
                to: try #require(end.staticPad("sink")), in: bin, markers: nil, onEncoder: { _, _ in }
            ) { size in seen.change { $0.append(size.width) } }
        }

        /// Of the first packet of a frame; nil: another packet. The picture ID of VP8 has 15 bits here (RFC 7741 4.2, 4.3).
        private static func isKeyframe(_ packet: UnsafeRawBufferPointer) -> Bool? {
            packet.count > 16 && packet[12] & 0x17 == 0x10 ? packet[16] & 1 == 0 : nil
        }

        func limit(to bitrate: Int) {
            branch.apply(
                target: BitrateTarget(target: bitrate, estimate: bitrate, reason: .delay, isLimitedByNetwork: true))
        }
    }

    private func run(_ body: (_ wide: Path, _ narrow: Path) throws -> Void) throws {
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
        let (wide, narrow) = (try Path(1, chain, in: pipeline), try Path(2, chain, in: pipeline))
        for id in [1, 2] as [PathID] { chain.gate.open(path: id) }
        chain.gate.set(playing: true)
        pipeline.setState(.playing)
        defer { pipeline.setState(.null) }
        try body(wide, narrow)
        for path in [wide, narrow] {
            path.branch.stop()
            path.branch.close()
        }
    }

    /// A narrow path makes its own frames smaller and fewer. The other path keeps all of its frames, while both live and when
    /// the narrow one ends.
    @Test func eachPathAdaptsForItself() throws {
        try run { wide, narrow in
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
        }
    }

    /// A stream that no participant of a room receives is not encoded, and comes back with a keyframe.
    @Test func anUnwantedStream() throws {
        try run { wide, other in
            func wait(frames: Int) {
                let count = wide.sizes.read { $0.count }
                #expect(wide.sizes.wait { $0.count >= count + frames })
            }
            #expect(other.keyframes.wait { $0.count > 5 })
            other.branch.setWanted([])
            // One may be in the encoder.
            wait(frames: 5)
            let (taken, encoded) = (other.sizes.read { $0.count }, other.keyframes.read { $0.count })
            // More than the shortest time between two keyframes.
            wait(frames: 20)
            #expect(other.sizes.read { $0.count } == taken && other.keyframes.read { $0.count } == encoded)
            other.branch.setWanted([""])
            #expect(other.keyframes.wait { $0.count > encoded + 5 })
            let first = other.keyframes.read { Array($0[encoded...(encoded + 5)]) }
            #expect(first == [true] + Array(repeating: false, count: 5))
        }
    }

    @Test func theStatusIsThatOfTheEncoder() throws {
        try run { path, other in
            #expect(path.keyframes.wait { $0.count > 5 })
            let status: SendStatus = path.branch.status
            #expect(status.encoder == "vp8enc" && status.codingTime.frames > 5 && status.cpuShare == 1)
            #expect(status.layers.isEmpty, "one stream")
            other.branch.stop()
            other.branch.close()
            #expect(other.branch.status.encoder == nil && path.branch.status.encoder == "vp8enc")
        }
    }
}
