import Queues

/// Spreads the packets of large frames over time, so that they do not overflow a short queue on the path: a token bucket
/// that lets `burst` bytes leave at once and more at `share` of the target bitrate. Retransmissions overtake the packets
/// that wait. If the caller comes late, as on a busy machine, everything that was due leaves. A value without a clock.
package struct SendPacer: Sendable {
    package enum Kind: Sendable {
        /// The first packet of a keyframe; others may be marked too.
        case keyframe
        case media, retransmission
    }

    /// The least burst: eight packets of 1200 bytes; those of the payloaders are a little smaller.
    package static let leastBurst = 8 * 1200
    /// A frame of the usual size at 30 frames a second is no burst: on a path that carries the target it would gain nothing
    /// from waiting.
    private static let usualFramesPerSecond = 30
    /// Multiple of the target. Less would delay the frames behind a keyframe for longer, more would fill queues on a path
    /// that carries little more than the target.
    package static let share = 1.8
    /// No packet waits longer, if the target falls while packets wait or an encoder exceeds it: the receiver's jitter buffer
    /// would give the frame up.
    package static let longestWait = Duration.milliseconds(250)

    private struct Packet {
        var bytes: [UInt8]
        var offered: Duration
        var isOfKeyframe: Bool
    }
    private var retransmissions = RingBuffer<Packet>()
    private var media = RingBuffer<Packet>()
    private var waitingBytes = 0
    private var bytesPerSecond: Double
    /// Lets the packets that wait now leave within `longestWait`; 0 if none waits.
    private var leastBytesPerSecond = 0.0
    /// The bytes that may leave now. The last packet of a burst may overdraw it.
    private var budget: Double
    private var burst: Double
    private var updated = Duration.zero
    /// The latest keyframe: its RTP timestamp, and when its first packet was offered.
    private var keyframe: (timestamp: UInt32, offered: Duration)?

    /// The time that all packets together have waited.
    package private(set) var totalDelay = Duration.zero
    /// The time from the first packet of the latest keyframe to its last one that has left.
    package private(set) var keyframeDelay: Duration?

    package init(bitrate: Int) {
        (bytesPerSecond, burst) = (Self.rate(bitrate), Double(Self.burst(bitrate)))
        budget = burst
    }

    /// The bytes that may leave at once at a target bitrate.
    package static func burst(_ bitrate: Int) -> Int { max(leastBurst, bitrate / 8 / usualFramesPerSecond) }

    private static func rate(_ bitrate: Int) -> Double { Double(max(bitrate, 8000)) / 8 * share }

    package var isEmpty: Bool { media.isEmpty && retransmissions.isEmpty }

    package mutating func pace(bitrate: Int, now: Duration) {
        refill(now)
        (bytesPerSecond, burst) = (Self.rate(bitrate), Double(Self.burst(bitrate)))
    }

    /// Returns true if the packet may leave at once; otherwise it waits for `next`.
    /// - Parameter mustWait: another packet is leaving, which this one must not overtake.
    package mutating func offer(
        _ packet: UnsafeRawBufferPointer, _ kind: Kind, mustWait: Bool = false, now: Duration
    ) -> Bool {
        refill(now)
        let isOfKeyframe = isOfKeyframe(packet, kind, now)
        if isEmpty, !mustWait, budget > 0 {
            leave(packet.count, isOfKeyframe, now)
            return true
        }
        let waiting = Packet(bytes: Array(packet), offered: now, isOfKeyframe: isOfKeyframe)
        if case .retransmission = kind { retransmissions.append(waiting) } else { media.append(waiting) }
        waitingBytes += packet.count
        leastBytesPerSecond = max(leastBytesPerSecond, Double(waitingBytes) / (Self.longestWait / .seconds(1)))
        return false
    }

    /// Takes the next packet that may leave now; nil if none waits or all must wait longer: see `wait`.
    package mutating func next(now: Duration) -> [UInt8]? {
        refill(now)
        guard budget > 0, let packet = retransmissions.popFirst() ?? media.popFirst() else { return nil }
        waitingBytes -= packet.bytes.count
        totalDelay += now - packet.offered
        leave(packet.bytes.count, packet.isOfKeyframe, now)
        if isEmpty { (leastBytesPerSecond, budget) = (0, min(budget, burst)) }
        return packet.bytes
    }

    /// Time until the next packet may leave; nil if none waits.
    package func wait(now: Duration) -> Duration? {
        isEmpty ? nil : max(.zero, .seconds(-budget / currentRate) - (now - updated))
    }

    package mutating func clear() {
        (retransmissions, media) = (RingBuffer(), RingBuffer())
        (waitingBytes, leastBytesPerSecond) = (0, 0)
    }

    private var currentRate: Double { max(bytesPerSecond, leastBytesPerSecond) }

    private mutating func refill(_ now: Duration) {
        guard now > updated else { return }
        // Packets that wait use all the time that has passed, however late this call is; without any, only a burst is
        // saved up.
        let most = max(burst, Double(waitingBytes))
        budget = min(most, budget + currentRate * ((now - updated) / .seconds(1)))
        updated = now
    }

    private mutating func isOfKeyframe(_ packet: UnsafeRawBufferPointer, _ kind: Kind, _ now: Duration) -> Bool {
        guard kind != .retransmission, packet.count >= 12 else { return false }
        let timestamp = packet.bigEndian32(at: 4)
        if kind == .keyframe, keyframe?.timestamp != timestamp { keyframe = (timestamp, now) }
        return keyframe?.timestamp == timestamp
    }

    private mutating func leave(_ size: Int, _ isOfKeyframe: Bool, _ now: Duration) {
        budget -= Double(size)
        if isOfKeyframe, let keyframe { keyframeDelay = now - keyframe.offered }
    }
}
