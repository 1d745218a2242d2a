import GStreamerKit
import RTP
import TestSupport
import WebRTCTransport

/// A packet's payload in the simulation: which frame it is a part of.
struct FramePart {
    var frame: UInt32
    var isKeyframe: Bool
    var index: UInt16
    var count: UInt16
    /// µs of virtual time.
    var captured: Int64

    static let size = 20

    func write(to bytes: inout [UInt8]) {
        bytes += frame.bytes
        bytes += [isKeyframe ? 1 : 0, 0, 0, 0]
        bytes += index.bytes
        bytes += count.bytes
        bytes += UInt64(captured).bytes
    }

    /// - Parameter payload: of an RTP packet.
    init?(_ payload: ArraySlice<UInt8>) {
        guard payload.count >= Self.size else { return nil }
        func number(_ from: Int, _ count: Int) -> UInt64 {
            payload.dropFirst(from).prefix(count).reduce(0) { $0 << 8 | UInt64($1) }
        }
        (frame, isKeyframe) = (UInt32(number(0, 4)), number(4, 1) == 1)
        (index, count, captured) = (UInt16(number(8, 2)), UInt16(number(10, 2)), Int64(number(12, 8)))
    }

    init(frame: UInt32, isKeyframe: Bool, index: UInt16, count: UInt16, captured: Int64) {
        (self.frame, self.isKeyframe, self.index) = (frame, isKeyframe, index)
        (self.count, self.captured) = (count, captured)
    }
}

extension FixedWidthInteger {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}

/// An encoder and payloader that follow a target bitrate within half a second, as libvpx does: frames vary, keyframes are
/// larger, and what exceeds the target is saved by the frames after it.
struct SimulatedEncoder {
    var framesPerSecond = 30.0
    /// Bytes of a keyframe as a multiple of the mean frame.
    var keyframeSize = 5.0
    var wantsKeyframe = true
    /// The frames need no higher bitrate.
    var most = Int.max
    private(set) var frames: UInt32 = 0
    private var sequence: UInt16
    private var debt = 0.0
    /// Bytes of a frame at the bitrate that the rate control has reached.
    private var mean: Double?
    private var random: SeededGenerator
    static let ssrc: UInt32 = 0x1234_0001
    static let payloadType: UInt8 = 96
    private static let packetSize = 1188

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        sequence = UInt16.random(in: 0...UInt16.max, using: &random)
    }

    var nextFrame: Duration { .seconds(Double(frames) / framesPerSecond) }

    /// - Parameter send: takes each packet, and false for those of a keyframe.
    mutating func encode(at now: Duration, bitrate: Int, _ send: ([UInt8], _ isDelta: Bool) -> Void) {
        let wanted = Double(min(bitrate, most)) / 8 / framesPerSecond
        let mean = (self.mean ?? wanted) + 0.25 * (wanted - (self.mean ?? wanted))
        self.mean = mean
        let size = max(
            200, wantsKeyframe ? mean * keyframeSize : mean * .random(in: 0.8...1.2, using: &random) - debt * 0.1)
        debt = max(-mean * 5, min(mean * 10, debt + size - mean))
        let count = UInt16((size / Double(Self.packetSize)).rounded(.up))
        let timestamp = UInt32(truncatingIfNeeded: Int64(now / .seconds(1) * 90_000))
        let captured = Int64(now / .microseconds(1))
        for index in 0..<count {
            let part = FramePart(
                frame: frames, isKeyframe: wantsKeyframe, index: index, count: count, captured: captured)
            var packet = [0x80, Self.payloadType | (index == count - 1 ? 0x80 : 0)]
            packet += sequence.bytes + timestamp.bytes + Self.ssrc.bytes
            part.write(to: &packet)
            let length = 12 + max(FramePart.size, Int(size) / Int(count))
            packet += [UInt8](repeating: 0, count: length - packet.count)
            send(packet, !wantsKeyframe)
            sequence &+= 1
        }
        frames += 1
        wantsKeyframe = false
    }
}

/// A depayloader and decoder: a frame is shown if it is complete and all before it, from a keyframe on, were.
struct SimulatedDecoder {
    /// A frame that is shown.
    struct Frame: Equatable {
        var captured: Duration
        /// When it was complete.
        var delivered: Duration
        /// When a synchronised sink shows it.
        var displayed: Duration
    }
    private(set) var frames: [Frame] = []
    private var frame: UInt32?
    private var parts: UInt16 = 0
    private var last: UInt32?
    private(set) var delay = PlayoutDelay(.video)

    /// - Parameter time: the running time of the packet's media.
    /// - Returns: true if a keyframe is needed.
    mutating func receive(_ packet: any PacketStorage, time: Duration, at now: Duration) -> Bool {
        guard let part = FramePart(packet.payload) else { return false }
        if part.frame != frame { (frame, parts) = (part.frame, 0) }
        guard part.index == parts else { return true }
        parts += 1
        guard parts == part.count else { return false }
        guard part.isKeyframe || last == part.frame &- 1 else { return true }
        last = part.frame
        delay.ready(after: ClockTime(max(0, (now - time).nanoseconds)), now: ClockTime(now.nanoseconds))
        frames.append(
            Frame(
                captured: .microseconds(part.captured), delivered: now,
                displayed: max(now, time + .nanoseconds(Int64(delay.current)))))
        return false
    }
}

final class SimulatedPacket: PacketStorage {
    let bytes: [UInt8]
    init(copying bytes: UnsafeRawBufferPointer) { self.bytes = Array(bytes) }
    var size: Int { bytes.count }
    func lendBytes(to body: (UnsafeRawBufferPointer) -> Void) { bytes.withUnsafeBytes(body) }
}

extension PacketStorage {
    var bytes: [UInt8] {
        var copy: [UInt8] = []
        lendBytes { copy = Array($0) }
        return copy
    }
    var payload: ArraySlice<UInt8> { bytes.dropFirst(bytes.withUnsafeBytes { RTPHeader.length($0) }) }
}
