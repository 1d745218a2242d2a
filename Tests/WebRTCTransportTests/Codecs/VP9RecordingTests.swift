import FoundationEssentials
import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// Sixty frames of VP9 as Decart's SDK for Python 0.2.4 with the LiveKit SDK 1.2.1 sends them: L2T3 in K-SVC, 320x176 and
/// 640x352. RTP packets in order, without padding and header extensions, each behind its length (16 bits).
extension Transport {
    @Suite(.serialized, .timeLimit(.minutes(1)))
    struct VP9RecordingTests {
        private struct Packet {
            var bytes: [UInt8]
            /// RTP timestamp.
            let time: UInt32
            let spatialLayer: Int
            /// P: the frame refers to earlier ones.
            let refersBack: Bool
        }

        private static func recording() throws -> [Packet] {
            let file = "\(#filePath.dropLast("Codecs/VP9RecordingTests.swift".count))Recordings/vp9-k-svc.rtp"
            var rest = [UInt8](try Data(contentsOf: URL(filePath: file)))[...]
            var packets: [Packet] = []
            while let high = rest.popFirst(), let low = rest.popFirst() {
                let bytes = Array(rest.prefix(Int(high) << 8 | Int(low)))
                rest = rest.dropFirst(bytes.count)
                let packet = try bytes.withUnsafeBytes { bytes -> Packet in
                    let header = RTPHeader.length(bytes)
                    let payload = UnsafeRawBufferPointer(rebasing: bytes[header...])
                    let indices = try #require(VP9PayloadDescriptor(payload)?.layerIndices)
                    return Packet(
                        bytes: Array(bytes), time: bytes[4..<8].reduce(0) { $0 << 8 | UInt32($1) },
                        spatialLayer: Int(payload[indices] >> 1 & 7), refersBack: payload[0] & 0x40 != 0)
                }
                packets.append(packet)
            }
            return packets
        }

        /// As an SFU forwards them: numbers without a gap, and the marker on the last packet of each frame.
        private static func forwarded(_ packets: [Packet]) -> [Packet] {
            packets.indices.map { index in
                var packet = packets[index]
                (packet.bytes[2], packet.bytes[3]) = (UInt8(index >> 8), UInt8(index & 255))
                let isLast = index + 1 == packets.count || packets[index + 1].time != packet.time
                packet.bytes[1] = packet.bytes[1] & 0x7f | (isLast ? 0x80 : 0)
                return packet
            }
        }

        /// The same packets again, from the next frame on.
        private static func repeated(_ packets: [Packet]) -> [Packet] {
            guard let first = packets.first, let last = packets.last else { return [] }
            return packets.map { packet in
                let time = packet.time &+ (last.time &- first.time) &+ 3000
                var bytes = packet.bytes
                bytes.replaceSubrange(4..<8, with: withUnsafeBytes(of: time.bigEndian, Array.init))
                return Packet(
                    bytes: bytes, time: time, spatialLayer: packet.spatialLayer, refersBack: packet.refersBack)
            }
        }

        /// Decodes the packets with the receiver's elements.
        /// - Returns: the height of each decoded frame, and the number of keyframe requests.
        private func decode(_ packets: [Packet]) throws -> (heights: [Int], requests: Int) {
            let line = try DecoderLine(.vp9, payloadType: 98)
            let heights = Watched<[Int]>([])
            let decoded = try #require(line.decoder.staticPad("src"))
            decoded.addProbe(.buffer) { [pad = decoded.unowned] _ in
                let height = pad.currentCaps.flatMap(VideoInfo.init(caps:))?.height ?? 0
                heights.change { $0.append(height) }
                return .pass
            }
            let start = try #require(packets.first).time
            for packet in packets {
                #expect(line.push(packet.bytes, at: ClockTime(packet.time &- start) * 100_000 / 9) == .ok)
            }
            return (heights.value, line.requests.value)
        }

        /// All frames of the packets are decoded, with the first height before that time and the second one from then on, and
        /// no keyframe is requested.
        private func expectFrames(
            of packets: [Packet], height: Int, before change: UInt32 = .max, then next: Int = 0,
            sourceLocation: SourceLocation = #_sourceLocation
        ) throws {
            let (heights, requests) = try decode(packets)
            let first = frames(packets.filter { $0.time < change })
            let expected =
                Array(repeating: height, count: first) + Array(repeating: next, count: frames(packets) - first)
            #expect(heights == expected, sourceLocation: sourceLocation)
            #expect(requests == 0, sourceLocation: sourceLocation)
        }

        private func frames(_ packets: [Packet]) -> Int { Set(packets.map(\.time)).count }

        @Test func allLayers() throws {
            let packets = try Self.recording()
            #expect(packets.contains { $0.spatialLayer > 0 && $0.refersBack })
            try expectFrames(of: packets, height: 352)
        }

        /// An SFU forwards the lower layer only.
        @Test func theLowerLayer() throws {
            let packets = Self.forwarded(try Self.recording().filter { $0.spatialLayer == 0 })
            try expectFrames(of: packets, height: 176)
        }

        /// An SFU leaves the lower layer out where the upper one does without it.
        @Test func theUpperLayerBetweenKeyframes() throws {
            let packets = Self.forwarded(try Self.recording().filter { $0.spatialLayer > 0 || !$0.refersBack })
            try expectFrames(of: packets, height: 352)
        }

        /// An SFU switches down in the middle, as it may at any frame.
        @Test func theLayersChange() throws {
            let all = try Self.recording()
            let half = all[all.count / 2].time
            let packets = Self.forwarded(all.filter { $0.spatialLayer == 0 || $0.time < half })
            try expectFrames(of: packets, height: 352, before: half, then: 176)
        }

        /// An SFU switches up at a keyframe, with which the recording begins.
        @Test func theUpperLayerComes() throws {
            let all = try Self.recording()
            let again = Self.repeated(all)
            let packets = Self.forwarded(all.filter { $0.spatialLayer == 0 } + again)
            try expectFrames(of: packets, height: 176, before: try #require(again.first).time, then: 352)
        }

        /// A frame whose upper layer claims 16384x16384 pixels is dropped with what depends on it, until a keyframe comes.
        @Test func aLayerOfTooManyPixels() throws {
            var packets = try Self.recording()
            let middle = packets[packets.count / 2].time
            let target = try #require(packets.firstIndex { $0.time == middle && $0.spatialLayer > 0 })
            let header = packets[target].bytes.withUnsafeBytes(RTPHeader.length)
            let payload = Array(packets[target].bytes[header...])
            let length = try #require(payload.withUnsafeBytes(VP9PayloadDescriptor.init)?.length)
            let size: [UInt8] = [0x82, 0x49, 0x83, 0x42, 0x13, 0xff, 0xf3, 0xff, 0xf0]
            packets[target].bytes.replaceSubrange((header + length)..<(header + length + size.count), with: size)
            let (heights, requests) = try decode(packets)
            #expect(heights == Array(repeating: 352, count: frames(packets.filter { $0.time < middle })))
            #expect(requests > 0)
        }

        /// libvpx decodes what follows a frame without an index as a further frame, of any size.
        @Test func aHiddenFrame() throws {
            let all = try Self.recording()
            let first = try #require(all.first).time
            var packets = Self.forwarded(all.filter { $0.spatialLayer == 0 })
            let hidden = try all.filter { $0.time == first && $0.spatialLayer > 0 }.flatMap { packet in
                let payload = Array(packet.bytes[packet.bytes.withUnsafeBytes(RTPHeader.length)...])
                return payload.dropFirst(try #require(payload.withUnsafeBytes(VP9PayloadDescriptor.init)?.length))
            }
            let last = try #require(packets.lastIndex { $0.time == first })
            packets[last].bytes += hidden
            try expectFrames(of: packets, height: 176)
        }

        /// Behind each layer of a frame LiveKit's clients may append a trailer.
        @Test func trailersOfLayers() throws {
            let trailer = try #require(FrameTrailer(timestamp: 1_795_399_078_000_000, frameID: 7).bytes)
            let packets = try Self.recording().map { packet in
                var packet = packet
                let payload = Array(packet.bytes[packet.bytes.withUnsafeBytes(RTPHeader.length)...])
                let ends = payload.withUnsafeBytes(VP9PayloadDescriptor.init)?.endsLayerFrame ?? false
                if ends { packet.bytes += trailer }
                return packet
            }
            try expectFrames(of: packets, height: 352)
        }
    }
}
