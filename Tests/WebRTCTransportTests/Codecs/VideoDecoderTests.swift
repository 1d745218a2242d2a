import GStreamerKit
import RTP
import TestSupport
import Testing
import WebRTCTransport

/// What stands in front of the decoder: the limit on the frame size in the bit stream, and the request for a keyframe.
extension Transport {
    @Suite(.timeLimit(.minutes(1)))
    struct VideoDecoderTests {
        private struct BitWriter {
            private var bits: [UInt8] = []
            mutating func put(_ value: Int, _ count: Int) {
                for shift in (0..<count).reversed() { bits.append(UInt8(truncatingIfNeeded: value >> shift & 1)) }
            }
            /// Writes ue(v) (H.264 9.1).
            mutating func golomb(_ value: Int) {
                let count = Int.bitWidth - (value + 1).leadingZeroBitCount
                put(0, count - 1)
                put(value + 1, count)
            }
            var bytes: [UInt8] {
                stride(from: 0, to: bits.count, by: 8).map { at in
                    (at..<at + 8).reduce(UInt8(0)) { byte, index in
                        let bit: UInt8 = index < bits.count ? bits[index] : 0
                        return byte << 1 | bit
                    }
                }
            }
        }

        /// Returns the RTP payloads of a keyframe that has a valid header and no decodable data.
        private static func keyFrame(_ codec: VideoCodec, _ width: Int, _ height: Int) -> [[UInt8]] {
            let rest = [UInt8](repeating: 0x55, count: 200)
            switch codec {
            case .vp8:
                let size = [width & 255, width >> 8, height & 255, height >> 8].map { UInt8($0) }
                return [[0x10, 0x90, 0x0c, 0x00, 0x9d, 0x01, 0x2a] + size + rest]
            case .vp9:
                var bits = BitWriter()
                for (value, count) in [
                    (2, 2), (0, 2), (0, 1), (0, 1), (1, 1), (0, 1), (0x498342, 24), (1, 3), (0, 1), (width - 1, 16),
                    (height - 1, 16),
                ] {
                    bits.put(value, count)
                }
                return [[0x0c] + bits.bytes + rest]
            case .h264:
                var bits = BitWriter()
                for (value, count) in [(0x67, 8), (66, 8), (0xe0, 8), (31, 8)] { bits.put(value, count) }
                for value in [0, 0, 2, 1] { bits.golomb(value) }
                bits.put(0, 1)
                bits.golomb((width + 15) / 16 - 1)
                bits.golomb((height + 15) / 16 - 1)
                for (value, count) in [(1, 1), (1, 1), (0, 1), (0, 1), (1, 1)] { bits.put(value, count) }
                return [bits.bytes, [0x68, 0xce, 0x3c, 0x80], [0x65, 0x88, 0x84] + rest]
            case .h265:
                // Main profile, level 3.1, with emulation prevention bytes.
                let set: [UInt8] = [0x42, 1, 1, 1, 0x60, 0, 0, 3, 0, 0x90, 0, 0, 3, 0, 0, 3, 0, 0x5d]
                var bits = BitWriter()
                for value in [0, 1, width, height] { bits.golomb(value) }
                for value in [0, 1] { bits.put(value, 1) }
                return [[0x40, 1, 0x0c, 1], set + bits.bytes, [0x44, 1, 0xc1, 0x72], [0x26, 1, 0xaf] + rest]
            }
        }

        /// Returns the RTP payload of a frame that refers to an earlier one.
        private static func deltaFrame(_ codec: VideoCodec) -> [UInt8] {
            let rest = [UInt8](repeating: 0x55, count: 200)
            return switch codec {
            case .vp8: [0x10, 0x91, 0x0c, 0x00] + rest
            case .vp9: [0x4c, 0x86] + rest
            case .h264: [0x41, 0x9a, 0x24] + rest
            case .h265: [0x02, 0x01, 0xd0] + rest
            }
        }

        private final class Line {
            private let elements: DecoderLine
            var requests: Watched<Int> { elements.requests }
            /// Frames that reached the decoder.
            let frames = Watched(0)
            /// The numbers of these frames.
            let times = Watched<[Int]>([])
            private var sequence = 0

            init(_ codec: VideoCodec) throws {
                elements = try DecoderLine(codec)
                let inner = elements.decoder.allElements.first { $0.factoryName == codec.installedDecoder }
                try #require(inner?.staticPad("sink")).addProbe(.buffer) { [frames, times] item in
                    if case .buffer(let frame) = item, let time = frame.pts {
                        times.change { $0.append(Int(time / 33_000_000)) }
                    }
                    frames.change { $0 += 1 }
                    return .drop
                }
            }

            func push(_ payloads: [[UInt8]], at time: Int, isDiscontinuous: Bool = false) {
                for (index, payload) in payloads.enumerated() {
                    let marker: UInt8 = index == payloads.count - 1 ? 0x80 : 0
                    let header: [UInt8] = [0x80, 96 | marker] + big(sequence, 2) + big(time * 3000, 4) + big(77, 4)
                    sequence += 1
                    elements.push(
                        header + payload, at: ClockTime(time * 33_000_000), isDiscontinuous: isDiscontinuous)
                }
            }

            /// - Parameter lost: the packet that does not arrive.
            func push(_ payloads: [[UInt8]], at time: Int, losing lost: Int?) {
                for (index, payload) in payloads.enumerated() {
                    if index == lost {
                        sequence += 1
                        hasLost = true
                    } else {
                        let marker: UInt8 = index == payloads.count - 1 ? 0x80 : 0
                        let header: [UInt8] = [0x80, 96 | marker] + big(sequence, 2) + big(time * 3000, 4) + big(77, 4)
                        sequence += 1
                        elements.push(header + payload, at: ClockTime(time * 33_000_000), isDiscontinuous: hasLost)
                        hasLost = false
                    }
                }
            }
            private var hasLost = false

            /// Waits for the error on the bus and returns its text.
            func error() -> String? {
                while let message = elements.pipeline.bus.next(timeout: .seconds(20)) {
                    if message.kind == .error { return message.problem?.text }
                }
                return nil
            }
        }

        @Test(arguments: VideoCodec.allCases, [(4096, 2304), (2304, 4096), (640, 352), (16, 16)])
        func aSizeThatModelsHavePasses(codec: VideoCodec, size: (Int, Int)) throws {
            let line = try Line(codec)
            for time in 0..<3 { line.push(Self.keyFrame(codec, size.0, size.1), at: time) }
            #expect(line.frames.wait(.seconds(20)) { $0 == 3 }, "\(line.frames.value) of 3 frames reach the decoder")
        }

        @Test(arguments: VideoCodec.allCases, [(16_383, 16_383), (4112, 2304), (4096, 2320), (16_383, 16)])
        func aLargerOneNeverReachesTheDecoder(codec: VideoCodec, size: (Int, Int)) throws {
            let line = try Line(codec)
            let good = Self.keyFrame(codec, 640, 352)
            line.push(good, at: 0)
            try #require(line.frames.wait(.seconds(20)) { $0 == 1 })
            line.push(Self.keyFrame(codec, size.0, size.1), at: 1)
            #expect(line.requests.wait(.seconds(20)) { $0 >= 1 }, "no keyframe is asked for")
            #expect(line.frames.value == 1)
            // The next frame of a permitted size passes again.
            line.push(good, at: 2)
            #expect(line.frames.wait(.seconds(20)) { $0 == 2 }, "the next keyframe does not reach the decoder")
            for time in 3..<6 { line.push(Self.keyFrame(codec, size.0, size.1), at: time) }
            let error = try #require(line.error(), "three oversized keyframes in a row are no error")
            #expect(error.contains("4096") && error.contains("pixels"), "\(error)")
            #expect(line.frames.value == 2)
        }

        /// No gap tells the depayloader that the first keyframe is missing.
        @Test(arguments: VideoCodec.allCases)
        func aStreamThatBeginsWithoutAKeyframeGetsOneRequested(codec: VideoCodec) throws {
            let line = try Line(codec)
            // Three seconds at 30 frames a second.
            for time in 0...91 { line.push([Self.deltaFrame(codec)], at: time) }
            #expect(line.frames.value == 0)
            #expect(line.requests.value >= 2, "\(line.requests.value) requests")
        }

        /// The packets that came before the SRTP keys had the parameter sets.
        @Test func aKeyframeWithoutItsParameterSetsGetsAnotherRequested() throws {
            let line = try Line(.h264)
            line.push([Self.keyFrame(.h264, 640, 352)[2]], at: 0)
            for time in 1...3 { line.push([Self.deltaFrame(.h264)], at: time) }
            #expect(line.frames.value == 0 && line.requests.value == 1, "\(line.requests.value) requests")
            line.push(Self.keyFrame(.h264, 640, 352), at: 4)
            #expect(line.frames.wait(.seconds(20)) { $0 == 1 })
        }

        /// A keyframe of three slices, the second one in three fragments.
        private static func slices(_ codec: VideoCodec) -> [[UInt8]] {
            let starts: [[UInt8]] =
                codec == .h265
                ? [[0x26, 1, 0xaf], [0x62, 1, 0x93], [0x62, 1, 0x13], [0x62, 1, 0x53], [0x26, 1, 0x2f]]
                : [[0x65, 0x88, 0x84], [0x7c, 0x85], [0x7c, 0x05], [0x7c, 0x45], [0x65, 0x08, 0x84]]
            let rest = [UInt8](repeating: 0x55, count: 200)
            return Array(keyFrame(codec, 640, 352).dropLast()) + starts.map { $0 + rest }
        }

        /// Nil: none is lost. 0 and 1 are parameter sets; 6 is the last slice of H.264.
        @Test(arguments: [VideoCodec.h264, .h265], [nil, 0, 1, 2, 3, 4, 5, 6] as [Int?])
        func aKeyframeThatLacksAPacketIsDropped(codec: VideoCodec, lost: Int?) throws {
            let line = try Line(codec)
            let (key, delta) = (Self.slices(codec), [Self.deltaFrame(codec)])
            line.push(key, at: 0, losing: nil)
            line.push(delta, at: 1, losing: nil)
            line.push(key, at: 2, losing: lost)
            // If the last packet was lost, this one shows it.
            line.push(delta, at: 3, losing: nil)
            line.push(delta, at: 4, losing: nil)
            let requests = line.requests.value
            line.push(key, at: 5, losing: nil)
            line.push(delta, at: 6, losing: nil)
            #expect(line.times.wait(.seconds(20)) { $0.last == 6 })
            #expect(line.times.value == (lost == nil ? [0, 1, 2, 3, 4, 5, 6] : [0, 1, 5, 6]))
            #expect(lost == nil ? requests == 0 : requests > 0, "\(requests) requests")
        }

        /// A keyframe follows at once, so that the depayloader gets its first packet in front of the damaged one's end.
        @Test(arguments: [VideoCodec.h264, .h265]) func aKeyframeBehindTheGapPasses(codec: VideoCodec) throws {
            let line = try Line(codec)
            let key = Self.slices(codec)
            line.push(key, at: 0, losing: nil)
            line.push(key, at: 1, losing: key.count - 1)
            line.push(key, at: 2, losing: nil)
            line.push([Self.deltaFrame(codec)], at: 3, losing: nil)
            #expect(line.times.wait(.seconds(20)) { $0.last == 3 })
            #expect(line.times.value == [0, 2, 3])
        }

        /// rtph265depay of GStreamer 1.22 passes the frames behind a gap. A later one does not, and asks for a keyframe
        /// itself, as rtph264depay does at the start: one more request.
        @Test func behindALossH265WaitsForAKeyframe() throws {
            let line = try Line(.h265)
            line.push(Self.keyFrame(.h265, 640, 352), at: 0)
            line.push([Self.deltaFrame(.h265)], at: 1)
            try #require(line.frames.wait(.seconds(20)) { $0 == 2 })
            line.push([Self.deltaFrame(.h265)], at: 2, isDiscontinuous: true)
            line.push([Self.deltaFrame(.h265)], at: 3)
            #expect(line.frames.value == 2, "\(line.frames.value) frames")
            #expect((1...2).contains(line.requests.value), "\(line.requests.value) requests")
            // The parameter sets before the gap still hold.
            line.push(Array(Self.keyFrame(.h265, 640, 352).suffix(1)), at: 4)
            #expect(line.frames.wait(.seconds(20)) { $0 == 3 })
        }

        /// K-SVC: in the frames behind a keyframe no layer refers to a lower one (D), and each frame has all of them.
        @Test func theLayersOfAFrameReachTheDecoderTogether() throws {
            let line = try Line(.vp9)
            let (key, delta) = (
                Array(Self.keyFrame(.vp9, 640, 352)[0].dropFirst()), Array(Self.deltaFrame(.vp9).dropFirst())
            )
            line.push([[0x2c, 0x00, 0] + key, [0x2c, 0x03, 0] + delta, [0x2c, 0x05, 0] + delta], at: 0)
            for time in 1...30 {
                line.push([0x00, 0x02, 0x04].map { [0x6c, $0, 1] + delta }, at: time)
            }
            #expect(line.frames.wait(.seconds(20)) { $0 == 31 }, "\(line.frames.value) of 31 frames reach the decoder")
            #expect(line.requests.value == 0)
        }

        @Test func theFirstRequestGoesOutAtOnce() throws {
            let joining = try Line(.h264)
            for time in 0...2 { joining.push([Self.deltaFrame(.h264)], at: time) }
            #expect((1...2).contains(joining.requests.value), "\(joining.requests.value) requests")
            let beginning = try Line(.h264)
            beginning.push(Self.keyFrame(.h264, 640, 352), at: 0)
            for time in 1...5 { beginning.push([Self.deltaFrame(.h264)], at: time) }
            #expect(beginning.requests.value == 0, "\(beginning.requests.value) requests")
        }
    }
}
