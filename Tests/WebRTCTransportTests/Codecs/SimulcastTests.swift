import GStreamerKit
import RTP
import Synchronization
import Testing
import TestSupport
import WebRTCTransport

@Suite(.timeLimit(.minutes(1)))
struct SimulcastTests {
    // MARK: Layers

    @Test(arguments: [
        (1280, 704, "f/1280x704 h/654x360 q/326x180"), (704, 1280, "f/704x1280 h/360x654 q/180x326"),
        (1920, 1080, "f/1920x1080 h/640x360 q/320x180"), (960, 540, "f/960x540 h/640x360 q/320x180"),
        (958, 540, "h/958x540 q/318x180"), (480, 270, "h/480x270 q/320x180"), (480, 20, "h/480x20 q/320x16"),
        (1280, 20, "f/1280x20 h/852x16 q/426x16"),
        (478, 270, ""), (0, -5, ""),
    ])
    func layersBySize(width: Int, height: Int, expected: String) {
        let words = SimulcastLayer.layers(width: width, height: height).map { layer in
            let size = layer.size(of: (width, height))
            return "\(layer.rid)/\(size.width)x\(size.height)"
        }
        #expect(words.joined(separator: " ") == expected)
    }

    private static let layers = SimulcastLayer.layers(width: 1280, height: 720)
    private static var allocation: SimulcastAllocation {
        SimulcastAllocation(layers, width: 1280, height: 720, frameRate: 30)
    }

    @Test func neverMoreThanThereIs() {
        var allocation = Self.allocation
        var random = SeededGenerator(seed: 5)
        for _ in 0..<2000 {
            let total = Int.random(in: 0...5_000_000, using: &random)
            let shares = allocation.allocate(total)
            #expect(shares.count == 3 && shares.reduce(0, +) <= total)
            // The smallest layer is always sent, and layers stop from the largest down.
            #expect(total < 10 || shares[2] > 0)
            #expect(shares.map { $0 > 0 } == shares.map { $0 > 0 }.sorted { !$0 && $1 })
        }
        for total in [Int.min, -1, 0, Int.max] { #expect(allocation.allocate(total).allSatisfy { $0 >= 0 }) }
    }

    @Test func theBestOneGetsMostAndGoesFirst() {
        var allocation = Self.allocation
        let plenty = allocation.allocate(3_500_000)
        #expect(plenty == [2_890_000, 450_000, 160_000])
        #expect(allocation.allocate(500_000)[0] == 0 && allocation.count == 2)
        #expect(allocation.allocate(100_000) == [0, 0, 100_000] && allocation.count == 1)
        // A stopped layer resumes when the bit rate leaves a margin, so that it will not stop again at once.
        #expect(allocation.allocate(800_000)[0] == 0 && allocation.count == 2)
        #expect(allocation.allocate(1_000_000)[0] > 600_000 && allocation.count == 3)
        #expect(allocation.allocate(800_000)[0] > 600_000)
    }

    /// The full size has all frames, and so has the layer of two that is not scaled.
    @Test func theLowerOnesHaveFewerFrames() {
        #expect(Self.layers.map { $0.maximum?.framerate } == [nil, 20, 20])
        #expect(SimulcastLayer.layers(width: 640, height: 352).map { $0.maximum?.bitrate } == [nil, 160_000])
    }

    // MARK: Descriptions

    private static let ridLine = "a=extmap:5 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\n"

    private func offer(_ lines: String, extmap: String = Self.ridLine) -> String {
        SampleOffer.session + SampleOffer.video(adding: extmap + lines.replacing("\n", with: "\r\n"))
    }

    @Test func whatIsOfferedAndWhatTheAnswerLeavesOfIt() throws {
        let cases: [(answer: (String) -> String, layers: [String])] = [
            ({ $0 }, ["f", "h", "q"]),
            ({ $0.replacing("recv f;h;q", with: "recv h;q") }, ["h", "q"]),
            ({ $0.replacing("recv f;h;q", with: "recv ~f;q,h;x") }, ["q"]),
            ({ $0.replacing("a=simulcast:", with: "a=nothing:") }, []),
            ({ $0.replacing("sdes:rtp-stream-id", with: "sdes:other") }, []),
        ]
        for (mangle, layers) in cases {
            try withConnection({ $0.simulcast = ["f", "h", "q"] }) { ours in
                try withConnection({ $0.acceptsSimulcast = true }) { theirs in
                    let text = try ours.createOffer()
                    let video = try #require(try SDPDescription(parsing: text).media.first)
                    #expect(video.values("rid") == ["f send", "h send", "q send"])
                    #expect(video.value("simulcast") == "send f;h;q" && video.values("ssrc").isEmpty)
                    #expect(video.value("msid") != nil)
                    let answer = try theirs.createAnswer(to: text)
                    let answered = try #require(try SDPDescription(parsing: answer).media.first)
                    #expect(answered.values("rid") == ["f recv", "h recv", "q recv"])
                    #expect(answered.value("simulcast") == "recv f;h;q")
                    try ours.setAnswer(mangle(answer))
                    let parameters = try #require(ours.sendParameters)
                    #expect(parameters.layers.map(\.rid) == layers)
                    // Each layer has its own SSRCs; the smallest has the SSRC of a single stream.
                    let numbers = parameters.layers.flatMap { [$0.ssrc, $0.rtxSSRC] }
                    #expect(Set(numbers).count == numbers.count)
                    #expect(parameters.layers.last.map { $0.ssrc == parameters.ssrc } ?? true)
                }
            }
        }
    }

    @Test(
        arguments: [
            ("a=simulcast:send f;h;q\n", "f;h;q"), ("a=simulcast:recv a send b;c\n", "b;c"),
            ("a=simulcast:send 1,2;~3;4\n", "1;4"), ("a=simulcast:send a;a;b;c;d\n", "a;b"),
            ("a=simulcast:send\n", nil), ("a=simulcast:send ;;,\n", nil), ("a=simulcast:recv f;h;q\n", nil),
            ("a=simulcast:send \u{e4};a-b;abcdefghijklmnopq\n", nil),
        ] as [(String, String?)])
    func whatIsTakenOfAnOffer(lines: String, expected: String?) throws {
        for (extmap, accepts) in [(Self.ridLine, true), (Self.ridLine, false), ("", true)] {
            let answer = try withConnection({ $0.acceptsSimulcast = accepts }) {
                try $0.createAnswer(to: offer(lines, extmap: extmap))
            }
            let video = try #require(try SDPDescription(parsing: answer).media.first)
            let isTaken = accepts && !extmap.isEmpty
            #expect(video.value("simulcast") == (isTaken ? expected.map { "recv \($0)" } : nil))
            // The answer keeps the extension without simulcast too, or the remote peer could not add simulcast later.
            #expect(video.values("extmap").contains { $0.hasSuffix("sdes:rtp-stream-id") } == !extmap.isEmpty)
        }
    }

    // MARK: Packets

    private static func packet(ssrc: UInt8, rid: String? = nil, id: UInt8 = 5) -> [UInt8] {
        let head: [UInt8] = [rid == nil ? 0x80 : 0x90, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, ssrc]
        guard let rid else { return head + [1] }
        let element: [UInt8] = [0xbe, 0xde, 0, 1, id << 4 | UInt8(rid.utf8.count - 1)]
        return head + element + Array(rid.utf8) + [0, 0, 1]
    }

    @Test func eachStreamIsNamedInItsPackets() {
        var ids = HeaderExtensionIDs()
        (ids.rid, ids.repairedRID) = (5, 6)
        let streams = [RTPEncoding(rid: "f", ssrc: 3, rtxSSRC: 4), RTPEncoding(rid: "q", ssrc: 1, rtxSSRC: 2)]
        let writer = HeaderExtensionWriter(ids: ids, mid: "0", streams: streams)
        for (ssrc, id, rid) in [(3, 5, "f"), (4, 6, "f"), (1, 5, "q"), (2, 6, "q")] as [(UInt8, UInt8, String)] {
            let written = Self.packet(ssrc: ssrc).withUnsafeBytes { bytes in
                writer.write(bytes, sendTime: .zero, reserve: 20).map { Array($0.buffer[..<$0.length]) }
            }
            #expect(written == Self.packet(ssrc: ssrc, rid: rid, id: id))
        }
        let other = Self.packet(ssrc: 9).withUnsafeBytes { writer.write($0, sendTime: .zero, reserve: 20)?.length }
        #expect(other == Self.packet(ssrc: 9).count)
    }
}

extension Transport {
    @Suite(.timeLimit(.minutes(2)))
    struct SimulcastMediaTests {
        /// Three layers are sent; the receiver selects the largest, and the next one when the bit rate falls.
        @Test(arguments: [VideoCodec.vp8, .h264])
        func theBestOneArrivesAndAnotherTakesItsPlace(codec: VideoCodec) throws {
            GStreamerRuntime.initialise()
            let size = (width: 960, height: 540)
            let layers = SimulcastLayer.layers(width: size.width, height: size.height)
            var configuration = PeerConnectionConfiguration()
            configuration.codec = codec
            (configuration.direction, configuration.simulcast) = (.sendonly, layers.map(\.rid))
            let a = try TestPeer(configuration)
            var accepting = PeerConnectionConfiguration()
            (accepting.direction, accepting.acceptsSimulcast) = (.recvonly, true)
            let b = try TestPeer(accepting)
            defer { TestPeer.stop(a, b) }
            try join(a, b)
            try b.startMedia()
            try a.startMedia(
                width: size.width, height: size.height, framerate: 15, bitrate: 1_500_000,
                simulcast: SimulcastAllocation(layers, width: size.width, height: size.height, frameRate: 15))
            #expect(b.waitForFrames(10))
            #expect(b.seen.wait(.seconds(20)) { $0.size == (960, 540) && $0.streams.count == 3 })
            #expect(Set(b.seen.value.streams) == ["f", "h", "q"])
            let simulcast = try #require(a.simulcast.withLock { $0 })
            for (bitrate, sent, size) in [
                (200_000, ["h", "q"], (640, 360)), (20_000, ["q"], (320, 180)),
                (2_000_000, ["f", "h", "q"], (960, 540)),
            ] {
                simulcast.setBitrate(bitrate)
                #expect(simulcast.sentLayers == sent)
                #expect(b.seen.wait(.seconds(20)) { $0.size == size }, "\(bitrate): \(b.size)")
                let frames = b.frames
                #expect(b.seen.wait(.seconds(20)) { $0.frames >= frames + 10 && $0.size == size })
            }
            // Layers that nothing receives are not encoded, and come back at once.
            for (wanted, size) in [(["q"], (320, 180)), (["f", "h", "q"], (960, 540))] {
                simulcast.setWanted(Set(wanted))
                #expect(simulcast.sentLayers == wanted)
                #expect(b.seen.wait(.seconds(20)) { $0.size == size }, "\(wanted): \(b.size)")
            }
            // Congestion control covers all layers: they share transport-wide sequence numbers, so none seems lost.
            let target = try #require(a.connection.statistics().bitrateTarget)
            measure("target with three layers", Double(target.target), atLeast: 1_000_000, unit: "bit/s")
            #expect(b.connection.statistics().packetsRefused == 0)
        }
    }
}
