import RTP
import TestSupport
import Testing
import WebRTCTransport

/// A server's own frames, which its trailer marks, never reach a depayloader.
@Suite(.timeLimit(.minutes(1)))
struct FillerTrailerTests {
    private static let trailer = Array("ownnb7iGurKq7bc4cgay5KHP14uRW6tjqn5e0WI60rQ".utf8)

    private struct Receiver {
        var session: InboundRTP
        var sequence: UInt16 = 65_530
        var timestamp: UInt32 = 0
        /// The payloads that a depayloader gets, and those of them that follow a gap.
        var payloads: [[UInt8]] = []
        var discontinuities: [[UInt8]] = []
        var shown: UInt8 = 9
        var keyframeRequests = 0

        init(_ codec: VideoCodec, _ kind: MediaKind = .video, trailer: [UInt8] = FillerTrailerTests.trailer) {
            session = InboundRTP(kind, storage: SimulatedPacket.self)
            var parameters = RTPSessionParameters(clockRate: 90_000, ssrc: 7, cname: "a")
            (parameters.caps, parameters.rtxTypes) = ([96: ""], [97: 96])
            parameters.codecs = kind == .video ? [96: codec] : [:]
            session.configure(parameters)
            session.setFiller(FillerTrailer(trailer))
            session.select(9, now: .zero) { _ in }
        }

        /// A frame of one packet or several.
        /// - Parameter first: the first packet that may select the stream.
        mutating func receive(
            _ parts: [[UInt8]], ssrc: UInt8 = 9, skipping lost: Int? = nil, padding: UInt8 = 0,
            selectingFrom first: Int = 0
        ) {
            timestamp &+= 3000
            for (index, part) in parts.enumerated() {
                let marker: UInt8 = index == parts.count - 1 ? 0x80 : 0
                defer { sequence &+= 1 }
                guard index != lost else { continue }
                let header: [UInt8] =
                    [padding > 0 ? 0xa0 : 0x80, 96 | marker, UInt8(sequence >> 8), UInt8(sequence & 255)]
                    + (0..<4).reversed().map { UInt8(truncatingIfNeeded: timestamp >> ($0 * 8)) } + [0, 0, 0, ssrc]
                let end = padding > 0 ? [UInt8](repeating: 0, count: Int(padding) - 1) + [padding] : []
                (header + part + end).withUnsafeBytes {
                    var (payloads, gaps): ([[UInt8]], [[UInt8]]) = ([], [])
                    if ssrc != shown, session.maySelect(rtp: $0), index >= first {
                        shown = ssrc
                        session.select(UInt32(ssrc), now: .milliseconds(Int(timestamp / 90))) { action in
                            guard case .rtcp(let compound) = action else { return }
                            keyframeRequests +=
                                compound.withUnsafeBytes { RTCPCompound(parsing: $0) }.keyframeRequests.count
                        }
                    }
                    session.received(
                        rtp: $0, activeType: 96, now: .milliseconds(Int(timestamp / 90)), running: { 0 }
                    ) { action in
                        guard case .packet(let packet, _, let isGap) = action else { return }
                        let payload = packet.withBytes { Array($0.dropFirst(12)) } ?? []
                        payloads.append(payload)
                        if isGap { gaps.append(payload) }
                    }
                    self.payloads += payloads
                    discontinuities += gaps
                }
            }
        }

        var dropped: UInt64 { session.statistics.fillerFrames }
    }

    /// VP8 of 8x8 in one packet, and H.264 of 2x2 in one STAP-A, behind whose last unit the trailer is.
    @Test(
        arguments: [
            (.vp8, [0x10, 0x10, 2, 0, 0x9d, 1, 0x2a, 8, 0, 8, 0]), (.h264, [0x18, 0, 2, 0x67, 0x42, 0, 2, 0x65, 0x88]),
        ] as [(VideoCodec, [UInt8])])
    func sixFramesAtTheEndOfATrack(codec: VideoCodec, frame: [UInt8]) {
        var receiver = Receiver(codec)
        receiver.receive([[0x10, 1]])
        for _ in 0..<6 { receiver.receive([frame + Self.trailer]) }
        #expect(receiver.payloads == [[0x10, 1]] && receiver.dropped == 6)
        receiver.receive([[0x10, 2]])
        receiver.receive([[0x10, 3]])
        #expect(receiver.payloads == [[0x10, 1], [0x10, 2], [0x10, 3]])
        #expect(receiver.discontinuities == [[0x10, 2]], "the depayloader must know that frames are missing")
    }

    /// Each packet has a header of its codec in front of its part of the frame, also of the trailer.
    @Test(
        arguments: [
            (.vp8, [0x10], [0x00]), (.vp8, [0x90, 0x80, 0x85, 0x01], [0x80, 0x80, 0x85, 0x01]),
            (.vp9, [0x08], [0x00]), (.h264, [0x7c, 0x85], [0x7c, 0x05]),
        ] as [(VideoCodec, [UInt8], [UInt8])], [1, 3, 20, 42, 43, 60])
    func fragments(codec: (VideoCodec, [UInt8], [UInt8]), tail: Int) {
        var receiver = Receiver(codec.0)
        let frame = [UInt8](repeating: 9, count: 20) + Self.trailer
        let parts = [
            codec.1 + frame.prefix(3), codec.2 + frame.dropFirst(3).dropLast(tail), codec.2 + frame.suffix(tail),
        ]
        receiver.receive(parts)
        #expect(receiver.payloads.isEmpty && receiver.dropped == 1, "\(receiver.payloads)")
        // A frame of the service of the same shape stays whole and in order.
        let other = parts.map { Array($0.dropLast()) + [1] }
        receiver.receive(other)
        #expect(receiver.payloads == other && receiver.dropped == 1)
    }

    /// A stream that is not shown keeps no more packets than a frame of the server's own has.
    @Test func aFrameThatDoesNotEndIsNotKept() {
        var receiver = Receiver(.vp8)
        receiver.receive([[0x10, 1]])
        receiver.receive([[0x10, 2]] + (0..<999).map { [0x00, UInt8($0 % 256)] }, ssrc: 5, selectingFrom: 999)
        #expect((2...65).contains(receiver.payloads.count), "\(receiver.payloads.count)")
        #expect(receiver.payloads.last == [0x00, UInt8(998 % 256)])
    }

    @Test func paddingBehindTheTrailerDoesNotHideIt() {
        var receiver = Receiver(.vp8)
        receiver.receive([[0x10] + Self.trailer], padding: 5)
        #expect(receiver.payloads.isEmpty && receiver.dropped == 1)
    }

    @Test func silenceIsDroppedToo() {
        var receiver = Receiver(.vp8, .audio)
        receiver.receive([[0xf8, 0xff, 0xfe] + Self.trailer])
        receiver.receive([[0xf8, 1]])
        #expect(receiver.payloads == [[0xf8, 1]] && receiver.dropped == 1)
    }

    /// What only resembles such a frame, or has another room's trailer, is the service's.
    @Test func othersPass() {
        var receiver = Receiver(.vp8)
        let frames: [[UInt8]] = [
            [0x10] + Self.trailer.dropLast(), [0x10] + Self.trailer.dropFirst(), [0x10] + Self.trailer + [0],
            [0x10] + Self.trailer.reversed(), [0x10], [],
        ]
        for frame in frames { receiver.receive([frame]) }
        receiver.receive([[0x10] + Self.trailer, [0x00, 1]])
        #expect(receiver.payloads == frames + [[0x10] + Self.trailer, [0x00, 1]] && receiver.dropped == 0)
        var plain = Receiver(.vp8, trailer: [])
        plain.receive([[0x10] + Self.trailer])
        #expect(plain.payloads.count == 1 && plain.dropped == 0)
    }

    /// Nothing that was held is lost if the end of its frame is, and a frame that never ends is not held for ever.
    @Test func heldPacketsAreHandedOn() {
        var receiver = Receiver(.vp8)
        receiver.receive([[0x10, 1]])
        receiver.receive([[0x10, 2], [0, 3], [0, 4]], skipping: 2)
        // The packet is given up after a second.
        for _ in 0..<60 { receiver.receive([[0x10, 5]]) }
        #expect(receiver.payloads.prefix(4) == [[0x10, 1], [0x10, 2], [0, 3], [0x10, 5]])
        let long = (0..<200).map { [$0 == 0 ? 0x10 : 0, 6, UInt8($0)] }
        var other = Receiver(.vp8)
        other.receive([[0x10, 1]])
        other.receive(Array(long.dropLast()), skipping: 198)
        #expect(other.payloads.count >= 128)
    }

    // MARK: Other streams

    /// A frame of the server's own selects no stream, in however many packets it comes.
    @Test(arguments: [1, 2, 20, 43]) func framesOfAnotherStream(tail: Int) {
        var receiver = Receiver(.vp8)
        let frame = [UInt8](repeating: 9, count: 20) + Self.trailer
        receiver.receive([[0x10] + frame], ssrc: 5)
        receiver.receive([[0x10] + frame.dropLast(tail), [0] + frame.suffix(tail)], ssrc: 5)
        #expect(receiver.payloads.isEmpty && receiver.dropped == 2 && receiver.shown == 9)
        #expect(receiver.keyframeRequests == 0)
    }

    /// The first frame of another stream is handed on as a whole, and needs no request.
    @Test func anotherStreamIsShownFromItsFirstFrameOn() {
        var receiver = Receiver(.vp8)
        receiver.receive([[0x10, 1]])
        let frame: [[UInt8]] = [[0x10, 2], [0, 3], [0, 4]]
        receiver.receive(frame, ssrc: 5)
        receiver.receive([[0x10, 5]], ssrc: 5)
        #expect(receiver.payloads == [[0x10, 1]] + frame + [[0x10, 5]] && receiver.keyframeRequests == 0)
    }

    /// The beginning of a stream that is selected later is not its keyframe any more.
    @Test func astreamThatBeganWithAFillerIsAskedForAKeyframe() {
        var receiver = Receiver(.vp8)
        receiver.receive([[0x10] + Self.trailer], ssrc: 5)
        receiver.receive([[0x10, 1], [0, 2]], ssrc: 5)
        #expect(receiver.payloads == [[0x10, 1], [0, 2]] && receiver.keyframeRequests == 1)
    }
}
