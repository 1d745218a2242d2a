import GStreamerKit
import ICE

/// The remote stream that a session shows. It puts the packets in order, gives them the running time of their media, and
/// hands them on.
// @unchecked: used on the network thread only.
final class InboundStream: @unchecked Sendable {
    private let kind: MediaKind
    private let latency: Duration
    private let bin: Bin
    private let network: NetworkThread
    private let output: PacketOutput
    /// Called with the packets to request again.
    var onRequest: ([UInt16]) -> Void = { _ in }

    private var ssrc: UInt32 = 0
    private var caps: [Int: String] = [:]
    private struct Received {
        var packet: Buffer
        var payloadType: Int
        var isStray: Bool
        var timestamp: UInt32
        var endsFrame: Bool
    }
    private var buffer: JitterBuffer<Received>
    private var clock: PlayoutClock
    private struct Announced: Equatable {
        var ssrc: UInt32
        var payloadType: Int
    }
    /// The stream and codec that the receiver knows of.
    private var announced: Announced?
    private var delivery: [PacketOutput.Item] = []
    /// A depayloader of video does nothing before the end of a frame, so the packets of a frame wait for each other instead of
    /// waking its thread one by one.
    private var isFrameOver = false
    private static let mostItems = 64
    private var hasLost = false
    private var frameLimit = FrameLimit()
    /// The time of the latest packet, and the time from one to the next, ns.
    private var lastTime: ClockTime?
    private var spacing: ClockTime = 20_000_000
    /// The running time of the packets that arrived together.
    private var arrival: Int64?
    private var wakeTimer: NetworkTimer?

    init(_ kind: MediaKind, latency: Duration, bin: Bin, network: NetworkThread, output: PacketOutput) {
        (self.kind, self.latency, self.bin, self.network, self.output) = (kind, latency, bin, network, output)
        buffer = JitterBuffer(latency: latency, requests: false)
        clock = Self.makeClock(kind, 90_000, latency)
    }

    /// The times of audio change gradually, because jumps are audible.
    private static func makeClock(_ kind: MediaKind, _ clockRate: Int, _ latency: Duration) -> PlayoutClock {
        PlayoutClock(clockRate: clockRate, latency: latency, largestLead: kind == .video ? .milliseconds(50) : nil)
    }

    /// The delay that keeps the stream in sync with another one, ns.
    var delay: Int64 = 0 {
        didSet { clock.delay = delay }
    }
    /// The time from a request to the next one for the same packet.
    var requestInterval = Duration.milliseconds(100) {
        didSet { buffer.retry = requestInterval }
    }

    /// Begins with the next packet of another stream.
    func begin(_ ssrc: UInt32?, _ parameters: RTPSessionParameters) {
        (self.ssrc, caps) = (ssrc ?? 0, parameters.caps)
        buffer = JitterBuffer(latency: latency, requests: !parameters.repeatedTypes.isEmpty)
        buffer.retry = requestInterval
        clock = Self.makeClock(kind, parameters.clockRate, latency)
        clock.delay = delay
        (lastTime, hasLost, frameLimit) = (nil, true, FrameLimit())
    }

    /// False if no packet is missing.
    var isWaiting: Bool { buffer.isWaiting }
    func isMissing(_ sequence: UInt16) -> Bool { buffer.isMissing(sequence) }

    /// The running time at which media of an RTP timestamp are due, without `delay`; nil before the first packet.
    func undelayedTime(of timestamp: UInt32) -> Int64? { clock.undelayedTime(of: timestamp) }

    /// - Parameter isStray: the packet has another payload type than the stream. It has its place in the order, so that nothing
    ///   waits for it, and is dropped then.
    func insert(_ packet: UnsafeRawBufferPointer, type: Int, isStray: Bool, sequence: UInt16, _ now: Duration) {
        if arrival == nil { arrival = bin.currentRunningTime.map { Int64(clamping: $0) } }
        guard let arrival else { return }
        let copy = Buffer(copying: packet)
        let timestamp = packet.bigEndian32(at: 4)
        let time = ClockTime(clock.time(of: timestamp, arrival: arrival))
        (copy.pts, copy.dts) = (time, time)
        let received = Received(
            packet: copy, payloadType: type, isStray: isStray, timestamp: timestamp,
            endsFrame: kind == .audio || packet[1] & 0x80 != 0)
        switch buffer.insert(received, sequence: sequence, now: now) {
        case .inOrder: deliver(received)
        case .restarted:
            hasLost = true
            drain(now)
        case .waits: drain(now)
        case .refused: break
        }
    }

    private func drain(_ now: Duration) {
        while let next = buffer.next(now: now) {
            switch next {
            case .packet(let received): deliver(received)
            case .lost(let sequence, let count): lose(sequence, count)
            }
        }
        let wanted = buffer.requests(now: now)
        if !wanted.isEmpty { onRequest(wanted) }
        wake(at: buffer.nextWake)
    }

    private func deliver(_ received: Received) {
        guard !received.isStray,
            frameLimit.take(
                timestamp: received.timestamp, size: received.packet.size, endsFrame: received.endsFrame)
        else {
            // The next packet is a discontinuity, so that the depayloader drops what it has of this frame.
            hasLost = true
            return
        }
        let (packet, announced) = (received.packet, Announced(ssrc: ssrc, payloadType: received.payloadType))
        if announced != self.announced, let text = caps[announced.payloadType],
            let caps = try? Caps("\(text), ssrc=(uint)\(ssrc)")
        {
            self.announced = announced
            delivery.append(.caps(caps))
        }
        // The end of the frame before may have been lost.
        isFrameOver = isFrameOver || !delivery.isEmpty && packet.pts != lastTime
        if let time = packet.pts {
            if !hasLost, let lastTime, time > lastTime, time - lastTime <= 120_000_000 { spacing = time - lastTime }
            lastTime = time
        }
        if hasLost { packet.isDiscontinuous = true }
        hasLost = false
        delivery.append(.packet(packet))
        isFrameOver = isFrameOver || received.endsFrame || delivery.count >= Self.mostItems
    }

    /// Tells a decoder of audio to conceal lost packets, as rtpjitterbuffer does. A depayloader of video sees the gap itself.
    private func lose(_ sequence: UInt16, _ count: Int) {
        hasLost = true
        guard kind == .audio, let lastTime else { return }
        let lost = Structure("GstRTPPacketLost")
        lost["seqnum"] = GValueBox(uint: Int(sequence))
        lost["timestamp"] = GValueBox(uint64: lastTime &+ spacing)
        lost["duration"] = GValueBox(uint64: spacing &* UInt64(clamping: count))
        lost["might-have-been-fec"] = GValueBox(false)
        delivery.append(.event(Event.customDownstream(lost)))
        isFrameOver = true
    }

    /// Hands on the frames that are complete. Call after packets that arrived together.
    func flush() {
        arrival = nil
        guard isFrameOver else { return }
        isFrameOver = false
        output.deliver(&delivery)
    }

    private func wake(at due: Duration?) {
        guard let due else { return stopWaiting() }
        network.advance(&wakeTimer, after: due - MonotonicTime.now) { [weak self] in
            self?.drain(MonotonicTime.now)
            self?.flush()
        }
    }

    private func stopWaiting() {
        wakeTimer?.cancel()
        wakeTimer = nil
    }

    func end() {
        stopWaiting()
        delivery = []
    }
}
