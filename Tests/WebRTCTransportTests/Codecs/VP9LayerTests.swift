import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Packets of VP9 with spatial layers (RFC 9628), as libwebrtc sends them for LiveKit's clients: non-flexible mode, a number
/// of 15 bits, and K-SVC, where only the layers of keyframes refer to each other.
struct VP9LayerTests {
    /// Of the LiveKit SDK for Python 1.2.1, as in FrameTrailerTests.
    private static let trailer: [UInt8] =
        [0xfe, 0xf7, 0xff, 0xf9, 0x9f, 0x18, 0x13, 0xb2, 0x8f, 0xf9, 0xfd, 0xfb, 0xff, 0xff, 0xff, 0xf6, 0xea]
        + Array("LKTS".utf8)

    /// - Parameters:
    ///   - flags: B and E; I and L are set.
    ///   - layer: TID, U, SID and D.
    private static func packet(
        _ flags: UInt8, layer: UInt8, time: UInt8, marker: Bool = false, body: [UInt8] = [0x86, 1, 2, 3],
        first: UInt8 = 0x80
    ) -> [UInt8] {
        [first, marker ? 0xe2 : 0x62, 0, 1, 0, 0, 0, time, 0, 0, 0, 77, 0xa0 | flags, 0x92, time, layer, 9] + body
    }

    private static let layerOctet = 15
    private static let (begin, end, whole): (UInt8, UInt8, UInt8) = (0x08, 0x04, 0x0c)

    private func correct(_ joiner: inout VP9LayerJoiner, _ packet: [UInt8]) -> [UInt8]? {
        packet.withUnsafeBytes { joiner.correct($0) }
    }

    private func describe(_ payload: [UInt8]) -> VP9PayloadDescriptor? {
        payload.withUnsafeBytes(VP9PayloadDescriptor.init)
    }

    // MARK: Joining

    @Test func onlyTheBeginningOfAnUpperLayerChanges() throws {
        var joiner = VP9LayerJoiner()
        for time: UInt8 in 0..<3 {
            for base in [Self.begin, 0, Self.end] {
                #expect(correct(&joiner, Self.packet(base, layer: 0x00, time: time)) == nil)
            }
            let first = Self.packet(Self.begin, layer: 0x02, time: time)
            let corrected = try #require(correct(&joiner, first))
            #expect(corrected[Self.layerOctet] == 0x03 && corrected.count == first.count)
            #expect(corrected.indices.filter { corrected[$0] != first[$0] } == [Self.layerOctet])
            #expect(correct(&joiner, Self.packet(0, layer: 0x02, time: time)) == nil)
            let top = correct(&joiner, Self.packet(Self.whole, layer: 0x04, time: time, marker: true))
            #expect(top?[Self.layerOctet] == 0x05)
        }
    }

    /// The layers of a keyframe have D.
    @Test func aKeyframeIsAsItShouldBe() {
        var joiner = VP9LayerJoiner()
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 1)) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x03, time: 1, marker: true)) == nil)
    }

    /// An SFU forwards only the layer that a subscriber shows, where the other frames do without the lower ones; it sets the
    /// marker on the last packet that it forwards.
    @Test func aLayerThatComesAloneBeginsTheFrame() {
        var joiner = VP9LayerJoiner()
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 1, marker: true)) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x02, time: 2, marker: true)) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x03, time: 3))?[Self.layerOctet] == 0x02)
        // Without the last packet of that frame.
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 4)) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x02, time: 4, marker: true)) != nil)
        // A marker ends a frame, whatever the next timestamp is.
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 4)) == nil)
    }

    @Test func otherStreamsAndPacketsStayAsTheyAre() {
        var joiner = VP9LayerJoiner()
        let header: [UInt8] = [0x80, 0x62, 0, 1, 0, 0, 0, 1, 0, 0, 0, 77]
        for payload: [UInt8] in [[0x0c, 0x86], [0x8c, 0x92, 1, 0x86], [0x08, 0x86], [0x2c], []] {
            #expect(correct(&joiner, header + payload) == nil)
        }
        #expect(correct(&joiner, []) == nil)
        // Its header claims to be longer.
        #expect(correct(&joiner, [0x9f] + header.dropFirst() + [0x2c, 0x02, 9, 0x86]) == nil)
    }

    /// libwebrtc probes the network with padding, at the timestamp of the frame before.
    @Test func paddingBelongsToNoFrame() {
        var joiner = VP9LayerJoiner()
        let padding: [UInt8] = [0xa0, 0x62, 0, 1, 0, 0, 0, 1, 0, 0, 0, 77] + [UInt8](repeating: 0, count: 254) + [255]
        #expect(correct(&joiner, padding) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 1)) == nil)
        #expect(correct(&joiner, padding) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x02, time: 1, marker: true)) != nil)
        #expect(correct(&joiner, padding) == nil)
        #expect(correct(&joiner, Self.packet(Self.whole, layer: 0x02, time: 1)) == nil)
    }

    // MARK: The index

    private func index(_ lengths: UInt8...) -> [UInt8] {
        let marker = 0xd7 + UInt8(lengths.count)
        return [marker] + lengths.flatMap { [$0, 0, 0, 0] } + [marker]
    }

    @Test func theIndexHasTheLengthOfEachLayer() {
        var joiner = VP9LayerJoiner()
        for time: UInt8 in 0..<2 {
            _ = correct(&joiner, Self.packet(Self.begin, layer: 0x00, time: time))
            _ = correct(&joiner, Self.packet(Self.end, layer: 0x00, time: time, body: [1, 2, 3] + Self.trailer))
            _ = correct(&joiner, Self.packet(Self.whole, layer: 0x02, time: time, body: [1, 2, 3, 2], first: 0xa0))
            _ = correct(&joiner, Self.packet(Self.whole, layer: 0x04, time: time, marker: true))
            #expect(joiner.index(frameSize: 13) == index(7, 2, 4))
        }
        // The depayloader has lost a layer.
        #expect(joiner.index(frameSize: 9) == index(9))
        _ = correct(&joiner, Self.packet(Self.whole, layer: 0x00, time: 2, marker: true))
        #expect(joiner.index(frameSize: 4) == index(4))
        for layer: UInt8 in 0..<9 { _ = correct(&joiner, Self.packet(Self.whole, layer: layer << 1, time: 3)) }
        #expect(joiner.index(frameSize: 36) == index(36))
    }

    @Test func theSizeOfAnUpperLayerCounts() {
        // A keyframe of 320x176, and one of 16384x16384.
        let small: [UInt8] = [0x82, 0x49, 0x83, 0x42, 0x10, 0x13, 0xf0, 0x0a, 0xf0]
        let large: [UInt8] = [0x82, 0x49, 0x83, 0x42, 0x13, 0xff, 0xf3, 0xff, 0xf0]
        func verdict(_ layers: [[UInt8]]) -> FrameGate.Verdict {
            var joiner = VP9LayerJoiner()
            for (layer, body) in layers.enumerated() {
                _ = correct(&joiner, Self.packet(Self.whole, layer: UInt8(layer) << 1, time: 1, body: body))
            }
            let frame = layers.flatMap { $0 }
            var gate = FrameGate(codec: .vp9)
            return (frame + joiner.index(frameSize: frame.count)).withUnsafeBytes { gate.judge($0) }
        }
        #expect(verdict([small, small, small]) == .pass)
        #expect(verdict([small, large]) == .drop && verdict([small, small, Array(large.prefix(8))]) == .drop)
        #expect(verdict([large]) == .drop)
    }

    // MARK: Trailers

    @Test func theTrailerOfALowerLayerIsRemoved() {
        var joiner = VP9LayerJoiner()
        let body: [UInt8] = [0x86, 1, 2, 3]
        func packet(_ flags: UInt8, _ layer: UInt8, marker: Bool = false) -> [UInt8] {
            Self.packet(flags, layer: layer, time: 1, marker: marker, body: body + Self.trailer)
        }
        func padded() -> [UInt8] {
            Self.packet(Self.end, layer: 0x02, time: 1, body: body + Self.trailer + [1], first: 0xa0)
        }
        #expect(correct(&joiner, packet(Self.whole, 0x00)) == Self.packet(Self.whole, layer: 0x00, time: 1))
        #expect(correct(&joiner, packet(Self.end, 0x02)) == Self.packet(Self.end, layer: 0x02, time: 1))
        #expect(correct(&joiner, packet(Self.whole, 0x02)) == Self.packet(Self.whole, layer: 0x03, time: 1))
        // Within a layer it is part of the frame, and padding follows the payload.
        #expect(correct(&joiner, packet(0, 0x02)) == nil)
        #expect(correct(&joiner, padded()) == nil)
        // That of the highest layer is behind the whole frame.
        #expect(correct(&joiner, packet(Self.end, 0x02, marker: true)) == nil)
        // Nothing would be left.
        #expect(correct(&joiner, Self.packet(Self.end, layer: 0x00, time: 2, body: Self.trailer)) == nil)
    }

    // MARK: The descriptor

    @Test(
        arguments: [
            ([0x0c], nil, 1), ([0x8c, 0x05], nil, 2), ([0x8c, 0x92, 0x05], nil, 3),
            ([0x2c, 0x02, 9], 1, 3), ([0xac, 0x92, 0x05, 0x03, 9], 3, 5),
            // Flexible mode: no TL0PICIDX, up to three references.
            ([0x3c, 0x02], 1, 2), ([0x7c, 0x02, 0x04], 1, 3), ([0x7c, 0x02, 0x05, 0x07, 0x09], 1, 5),
            // Not flexible: no references.
            ([0x6c, 0x02, 9], 1, 3),
            // Scalability structures: nothing; two sizes; two frames of one and no reference; all of it.
            ([0x0e, 0x00], nil, 2), ([0x0e, 0x30, 2, 128, 1, 96, 5, 0, 2, 192], nil, 10),
            ([0x0e, 0x08, 2, 0x04, 1, 0x40], nil, 6),
            ([0xae, 0x92, 0x05, 0x00, 9, 0x38, 2, 128, 1, 96, 5, 0, 2, 192, 2, 0x04, 1, 0x48, 1, 2], 3, 20),
        ] as [([UInt8], Int?, Int)])
    func descriptors(bytes: [UInt8], layerIndices: Int?, length: Int) throws {
        let found = try #require(describe(bytes + [0x86]))
        #expect(found.layerIndices == layerIndices && found.length == length && bytes.count == length)
        #expect(found.beginsLayerFrame && found.endsLayerFrame)
        // Each shorter one is truncated.
        for count in 0...bytes.count { #expect(describe(Array(bytes.prefix(count))) == nil) }
    }

    /// Seeded, so that a failure is reproducible. No bytes trap, and nothing points outside of them.
    @Test func anyBytes() {
        var random = SeededGenerator(seed: 9628)
        var joiner = VP9LayerJoiner()
        for _ in 0..<50_000 {
            let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            if let found = describe(bytes) {
                #expect(found.length < bytes.count && found.layerIndices ?? 0 < found.length)
            }
            let tail = Bool.random(using: &random) ? Self.trailer : []
            if let corrected = correct(&joiner, [0x80] + bytes + tail) {
                #expect(corrected.count <= 1 + bytes.count + 21)
            }
            #expect(joiner.index(frameSize: bytes.count).count >= 6)
        }
    }
}
