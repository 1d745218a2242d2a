import GStreamerKit
import Log
import MediaPipeline
import RTP
import Synchronization
import TestSupport
import Testing
import WebRTCTransport

/// The service changes its codec while the branch decodes.
@Suite(.timeLimit(.minutes(2))) struct VideoReceiveBranchTests {
    private struct Stream {
        let caps: Caps
        let packets: [[UInt8]]
    }

    /// The packets of ten frames.
    private static func stream(_ encoder: String, _ payloader: String, _ name: String, type: Int, first: Int? = nil)
        throws -> Stream
    {
        GStreamerRuntime.initialise()
        let pipeline = try Pipeline(
            description: "videotestsrc num-buffers=10 ! video/x-raw,width=160,height=96,framerate=30/1,format=I420 ! "
                + "\(encoder) ! \(payloader) pt=\(type) ssrc=7 seqnum-offset=\(first ?? type * 100) mtu=1000 ! "
                + "identity name=out ! fakesink sync=false")
        let packets = Watched<[[UInt8]]>([])
        pipeline.child(named: "out")?.staticPad("src")?.addProbe([.buffer, .downstreamEvent]) { item in
            if case .buffer(let packet) = item {
                packet.withBytes { bytes in packets.change { $0.append(Array(bytes)) } }
            }
            return .pass
        }
        pipeline.setState(.playing)
        // Each frame ends with a marker.
        let isWhole = packets.wait(.seconds(30)) { $0.filter { $0[1] & 0x80 != 0 }.count >= 10 }
        pipeline.setState(.null)
        #expect(isWhole)
        return Stream(
            caps: try Caps(
                "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(type), "
                    + "encoding-name=(string)\(name), ssrc=(uint)7"), packets: packets.value)
    }

    private static let vp8 = ("vp8enc deadline=1", "rtpvp8pay", "VP8", 96)
    private static let vp9 = ("vp9enc deadline=1 cpu-used=8", "rtpvp9pay", "VP9", 98)
    private static let h264 = ("x264enc tune=zerolatency speed-preset=ultrafast", "rtph264pay", "H264", 108)

    /// The branch behind a pad that pushes packets, and what it asks for.
    private final class Line {
        let pipeline = Pipeline()
        let branch: VideoReceiveBranch
        let frames = Watched(0)
        let changes = Watched(0)
        let requests = Watched(0)
        private let source = Pad(name: "packets", direction: .source)
        private let element: Element
        private let host: OutputHost
        private var time: ClockTime = 0

        init(_ codec: VideoCodec) throws {
            (element, host) = try OutputHost.make()
            let bin = Bin(name: nil)
            host.handle.unowned.add(bin)
            pipeline.add(element)
            branch = VideoReceiveBranch(path: 1, output: host.output, followsReceived: true, logger: .none)
            source.setEventFunction { [requests] event in
                if event.isForceKeyUnit { requests.change { $0 += 1 } }
                return .handled(true)
            }
            pipeline.setState(.playing)
            try branch.start(
                codec, from: source, in: bin, markers: nil, onCodec: { [changes] in changes.change { $0 += 1 } },
                onFrame: { [frames] _ in frames.change { $0 += 1 } })
            source.setActive(true)
            source.push(Event.streamStart(id: "test", groupID: 1))
        }

        func begin(_ stream: Stream) {
            source.push(Event.caps(stream.caps))
            if time == 0 { source.push(Event.timeSegment()) }
        }

        func push(_ packets: some Collection<[UInt8]>) {
            for packet in packets {
                let buffer = packet.withUnsafeBytes(Buffer.init(copying:))
                (buffer.pts, buffer.dts) = (time, time)
                _ = source.push(buffer)
                if packet[1] & 0x80 != 0 { time += 33_333_333 }
            }
        }

        /// What the branch says of the messages of its elements while they are taken out: true would build them again, nil
        /// would end the connection.
        func claimsWhileChanging(_ body: () throws -> Void) rethrows -> [Bool?] {
            let claims = Watched<[Bool?]>([])
            let present = Set(host.handle.unowned.allElements.map(\.name))
            host.onMessage.withLock {
                $0 = { [branch] message in
                    guard present.contains(message.sourceName) else { return }
                    let claim = branch.claims(message)
                    claims.change { $0.append(claim) }
                }
            }
            defer { host.onMessage.withLock { $0 = nil } }
            try body()
            return claims.value
        }

        func stop() {
            branch.stop()
            pipeline.setState(.null)
            source.setActive(false)
            branch.close()
        }
    }

    private func withLine(_ codec: VideoCodec, _ body: (Line) throws -> Void) throws {
        let line = try Line(codec)
        defer { line.stop() }
        try body(line)
    }

    /// All frames of each codec are decoded, the first one too, although its packets come before its decoder exists.
    @Test func backAndForthWithoutALostFrame() throws {
        let streams = try [Self.vp8, Self.h264, Self.vp9, Self.vp8, Self.h264].map {
            try Self.stream($0, $1, $2, type: $3)
        }
        try withLine(.vp8) { line in
            for (index, stream) in streams.enumerated() {
                line.begin(stream)
                // The last packet comes after the change, if there is one.
                line.push(stream.packets.dropLast())
                #expect(line.changes.value == index)
                if index > 0 {
                    #expect(line.frames.wait(.seconds(20)) { $0 == index * 10 })
                    try line.branch.changeCodec()
                }
                line.push(stream.packets.suffix(1))
                #expect(line.frames.wait(.seconds(20)) { $0 == index * 10 + 10 }, "\(line.frames.value)")
            }
            #expect(line.requests.value == 0, "a keyframe was there")
            #expect(line.branch.busy.count == UInt64(streams.map(\.packets.count).reduce(0, +)))
        }
    }

    /// Before the first packet any codec is right, so the guess at the start costs no frame.
    @Test func theFirstCodecIsAnother() throws {
        let stream = try Self.stream(Self.h264.0, Self.h264.1, Self.h264.2, type: Self.h264.3)
        try withLine(.vp8) { line in
            line.begin(stream)
            #expect(line.changes.value == 1)
            line.push(stream.packets.prefix(3))
            try line.branch.changeCodec()
            line.push(stream.packets.dropFirst(3))
            #expect(line.frames.wait(.seconds(20)) { $0 == 10 })
            #expect(line.requests.value == 0)
        }
    }

    /// The codec that was there before comes back before the change is carried out.
    @Test func aChangeThatIsTakenBack() throws {
        let ones = try [100, 200, 300].map {
            try Self.stream(Self.vp8.0, Self.vp8.1, Self.vp8.2, type: 96, first: $0)
        }
        let other = try Self.stream(Self.h264.0, Self.h264.1, Self.h264.2, type: 108)
        try withLine(.vp8) { line in
            line.begin(ones[0])
            line.push(ones[0].packets)
            #expect(line.frames.wait(.seconds(20)) { $0 == 10 })
            line.begin(other)
            line.push(other.packets)
            line.begin(ones[1])
            line.push(ones[1].packets)
            #expect(line.frames.value == 10)
            try line.branch.changeCodec()
            line.push(ones[2].packets)
            #expect(line.frames.wait(.seconds(20)) { $0 == 30 }, "\(line.frames.value)")
            #expect(line.changes.value == 1)
            // And a later change is still followed.
            line.begin(other)
            #expect(line.changes.value == 2)
            try line.branch.changeCodec()
            line.push(other.packets)
            #expect(line.frames.wait(.seconds(20)) { $0 == 40 }, "\(line.frames.value)")
        }
    }

    @Test func whatElementsReportWhileTheyAreTakenOutIsNoFailure() throws {
        let (vp8, h264) = (
            try Self.stream(Self.vp8.0, Self.vp8.1, Self.vp8.2, type: Self.vp8.3),
            try Self.stream(Self.h264.0, Self.h264.1, Self.h264.2, type: Self.h264.3)
        )
        try withLine(.vp8) { line in
            line.begin(vp8)
            line.push(vp8.packets)
            #expect(line.frames.wait(.seconds(20)) { $0 == 10 })
            line.begin(h264)
            let claims = try line.claimsWhileChanging { try line.branch.changeCodec() }
            #expect(!claims.isEmpty && claims.allSatisfy { $0 == false }, "\(claims)")
            line.push(h264.packets)
            #expect(line.frames.wait(.seconds(20)) { $0 == 20 })
        }
    }

    /// Packets with another payload type of the same codec go to the same elements.
    @Test func anotherPacketizationModeIsNoChange() throws {
        let streams = try [125, 108].map { try Self.stream(Self.h264.0, Self.h264.1, Self.h264.2, type: $0) }
        try withLine(.h264) { line in
            for stream in streams {
                line.begin(stream)
                line.push(stream.packets)
            }
            #expect(line.frames.wait(.seconds(20)) { $0 == 20 }, "\(line.frames.value)")
            #expect(line.changes.value == 0)
        }
    }
}
