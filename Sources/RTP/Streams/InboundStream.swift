/// What the receiving side of an RTP session does next.
package enum InboundAction {
    /// The packets behind it are of another stream or codec than those before.
    case source(ssrc: UInt32, payloadType: Int)
    /// Hand on a packet for the depayloader.
    /// - Parameters:
    ///   - time: the running time of its media, ns.
    ///   - isDiscontinuous: packets before it are missing, or belong to another stream.
    case packet(any PacketStorage, time: RunningTime, isDiscontinuous: Bool)
    /// Announce audio packets that were given up; times in nanoseconds.
    case lost(sequence: UInt16, time: RunningTime, duration: RunningTime)
    /// Send a compound RTCP packet.
    case rtcp([UInt8])
}

/// The remote stream that a session shows. It puts the packets in order and gives them the running time of their media. A
/// value without a clock.
struct InboundStream {
    private let kind: MediaKind
    private let storage: any PacketStorage.Type
    private var ssrc: UInt32 = 0
    private struct Received {
        var packet: any PacketStorage
        var payloadType: Int
        var isStray: Bool
        var timestamp: UInt32
        var endsFrame: Bool
        var time: RunningTime
        var codec: VideoCodec?
    }
    private var codecs: [Int: VideoCodec] = [:]
    /// The server's own frames, which are dropped, and how many there were.
    var filler = FillerTrailer()
    private(set) var fillerFrames: UInt64 = 0
    /// Frames that were dropped for their size.
    var oversizedFrames: UInt64 { frameLimit.drops }
    /// The packets of a frame whose end has not come: it may say that the frame is the server's own. Empty without `filler`.
    private var held: [Received] = []
    /// Such frames are small.
    static var maximumHeld: Int { 64 }
    private var buffer: JitterBuffer<Received>
    private var clock: PlayoutClock
    /// The stream and codec that the depayloader knows of.
    private var announced: (ssrc: UInt32, payloadType: Int)?
    /// The actions since the last flush that concern the depayloader.
    private var pending = 0
    /// A depayloader of video does nothing before the end of a frame, so the packets of a frame wait for each other instead of
    /// waking its thread one by one.
    private var isFrameOver = false
    private static var maximumPending: Int { 64 }
    private var hasLost = false
    private var frameLimit = FrameLimit()
    /// The time of the latest packet, and the time from one to the next, ns.
    private var lastTime: RunningTime?
    private var spacing: RunningTime = 20_000_000
    /// The running time of the packets that arrived together.
    private var arrival: Int64?
    /// The latest packet, and the longest of the latest times between two packets of one frame, µs.
    private var latest: (timestamp: UInt32, arrival: Duration)?
    private var packetGap: Int64 = 0
    private static var shortestTail: Int64 { 8_000 }
    private static var longestTail: Int64 { 100_000 }

    init(_ kind: MediaKind, _ storage: any PacketStorage.Type) {
        (self.kind, self.storage) = (kind, storage)
        buffer = JitterBuffer(requests: false)
        clock = Self.makeClock(kind, 90_000)
    }

    /// The times of audio change gradually, because jumps are audible.
    private static func makeClock(_ kind: MediaKind, _ clockRate: Int) -> PlayoutClock {
        PlayoutClock(clockRate: clockRate, largestLead: .milliseconds(kind == .video ? 50 : 100))
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
    mutating func begin(_ ssrc: UInt32, _ parameters: RTPSessionParameters) {
        self.ssrc = ssrc
        (codecs, held) = (parameters.codecs, [])
        buffer = JitterBuffer(requests: !parameters.rtxTypes.isEmpty)
        buffer.retry = requestInterval
        clock = Self.makeClock(kind, parameters.clockRate)
        clock.delay = delay
        // The first stream begins with a keyframe, and at a discontinuity a depayloader would request another one.
        (lastTime, hasLost) = (nil, announced != nil)
        frameLimit.begin()
    }

    /// Audio of another codec follows, whose timestamps have this rate.
    mutating func change(clockRate: Int) {
        clock = Self.makeClock(kind, clockRate)
        clock.delay = delay
    }

    /// Other codecs may arrive from now on.
    mutating func update(_ parameters: RTPSessionParameters) { codecs = parameters.codecs }

    /// False if no packet is missing.
    var isWaiting: Bool { buffer.isWaiting }
    var isBeyondRepair: Bool { buffer.isBeyondRepair }
    func isMissing(_ sequence: UInt16) -> Bool { buffer.isMissing(sequence) }
    func lacks(_ sequence: UInt16) -> Bool { buffer.lacks(sequence) }
    /// When `drain` must be called, if no packet arrives before.
    @inline(__always) var nextWake: Duration? { buffer.nextWake }

    /// The running time at which media of an RTP timestamp are due, without `delay`; nil before the first packet.
    func undelayedTime(of timestamp: UInt32) -> Int64? { clock.undelayedTime(of: timestamp) }

    /// - Parameters:
    ///   - isStray: the packet has another payload type than the stream. It has its place in the order, so that nothing
    ///     waits for it, and is dropped then.
    ///   - isRetransmission: the packet is RTX (RFC 4588), whose arrival says nothing about the delay of the path.
    ///   - running: the running time, ns; nil: the packet is dropped.
    /// - Returns: the packets to request again.
    mutating func insert(
        _ packet: UnsafeRawBufferPointer, type: Int, isStray: Bool, isRetransmission: Bool, sequence: UInt16,
        now: Duration, running: () -> Int64?, _ act: (InboundAction) -> Void
    ) -> [UInt16] {
        if arrival == nil { arrival = running() }
        guard let arrival else { return [] }
        let timestamp = packet.bigEndian32(at: 4)
        let repeated = isRetransmission ? clock.time(ofRepetition: timestamp, arrival: arrival) : nil
        let received = Received(
            packet: storage.init(copying: packet), payloadType: type, isStray: isStray, timestamp: timestamp,
            endsFrame: kind == .audio || packet[1] & 0x80 != 0,
            time: RunningTime(repeated ?? clock.time(of: timestamp, arrival: arrival)), codec: codecs[type])
        let media = RTPHeader.media(packet)
        let insertion = buffer.insert(
            received, sequence: sequence, endsFrame: received.endsFrame,
            beginsKeyframe: received.codec?.beginsDecoding(media) ?? false, isRetransmission: isRetransmission,
            now: now)
        // Padding between two frames has no marker, and ends nothing.
        let isPadding = media.isEmpty
        if insertion != .refused, kind == .video, !isRetransmission, !isPadding { expectRest(of: received, now) }
        switch insertion {
        case .inOrder: deliver(received, act)
        case .restarted:
            hasLost = true
            return drain(now, act)
        case .waits: return drain(now, act)
        case .refused: break
        }
        return []
    }

    /// Learns how far the packets of a frame are apart. If the next one does not come, the last of the frame may be lost.
    private mutating func expectRest(of received: Received, _ now: Duration) {
        if let latest, latest.timestamp == received.timestamp {
            let gap = max((now - latest.arrival).inMicroseconds, 0)
            packetGap = gap > packetGap ? gap : packetGap - (packetGap - gap) / 64
        }
        latest = (received.timestamp, now)
        guard !received.endsFrame else { return }
        let tail = min(max(2 * min(packetGap, Self.longestTail), Self.shortestTail), Self.longestTail)
        buffer.expectNext(within: .microseconds(tail), now: now)
    }

    /// - Returns: the packets to request again.
    mutating func drain(_ now: Duration, _ act: (InboundAction) -> Void) -> [UInt16] {
        while let next = buffer.next(now: now) {
            switch next {
            case .packet(let received): deliver(received, act)
            case .lost(let sequence, let count): lose(sequence, count, act)
            }
        }
        return buffer.requests(now: now)
    }

    /// True for the packets of a whole frame that is one of the server's own.
    func isFiller(_ packets: [any PacketStorage]) -> Bool {
        filler.ends(packets.map { ($0, $0.withBytes { codecs[Int($0[1] & 0x7f)] } ?? nil) })
    }

    private mutating func deliver(_ received: Received, _ act: (InboundAction) -> Void) {
        if let first = held.first, first.timestamp != received.timestamp { release(act) }
        guard !received.isStray,
            frameLimit.admit(
                timestamp: received.timestamp, size: received.packet.size, endsFrame: received.endsFrame)
        else {
            release(act)
            // The next packet is a discontinuity, so that the depayloader drops what it has of this frame.
            hasLost = true
            return
        }
        guard !filler.isEmpty else { return handOn(received, act) }
        held.append(received)
        guard received.endsFrame || held.count >= Self.maximumHeld else { return }
        if received.endsFrame, filler.ends(held.lazy.map { ($0.packet, $0.codec) }) {
            fillerFrames &+= 1
            held.removeAll(keepingCapacity: true)
            hasLost = true
        } else {
            release(act)
        }
    }

    /// Hands on the packets that were held.
    private mutating func release(_ act: (InboundAction) -> Void) {
        var packets: [Received] = []
        swap(&packets, &held)
        for packet in packets { handOn(packet, act) }
        packets.removeAll(keepingCapacity: true)
        held = packets
    }

    private mutating func handOn(_ received: Received, _ act: (InboundAction) -> Void) {
        if announced?.ssrc != ssrc || announced?.payloadType != received.payloadType {
            // Another codec has a depayloader of its own, which has lost nothing, and would request a second keyframe.
            if let announced, codecs[announced.payloadType] != received.codec { hasLost = false }
            announced = (ssrc, received.payloadType)
            act(.source(ssrc: ssrc, payloadType: received.payloadType))
            pending += 1
        }
        let time = received.time
        // The end of the frame before may have been lost.
        isFrameOver = isFrameOver || pending > 0 && time != lastTime
        if !hasLost, let lastTime, time > lastTime, time - lastTime <= 120_000_000 { spacing = time - lastTime }
        lastTime = time
        act(.packet(received.packet, time: time, isDiscontinuous: hasLost))
        hasLost = false
        pending += 1
        isFrameOver = isFrameOver || received.endsFrame || pending >= Self.maximumPending
    }

    /// Tells a decoder of audio to conceal lost packets, as rtpjitterbuffer does. A depayloader of video sees the gap itself.
    private mutating func lose(_ sequence: UInt16, _ count: Int, _ act: (InboundAction) -> Void) {
        release(act)
        hasLost = true
        guard kind == .audio, let lastTime else { return }
        act(.lost(sequence: sequence, time: lastTime &+ spacing, duration: spacing &* UInt64(clamping: count)))
        pending += 1
        isFrameOver = true
    }

    /// Call after packets that arrived together.
    /// - Returns: true if a frame is complete: the depayloader gets everything up to here.
    mutating func flush() -> Bool {
        arrival = nil
        guard isFrameOver else { return false }
        (isFrameOver, pending) = (false, 0)
        return true
    }
}
