/// The sending side of an RTP session (RFC 3550): what was sent of each stream, and the answers to NACKs and keyframe
/// requests. A value that packets and times drive; it knows no socket, thread, clock or pad.
package struct OutboundRTP: Sendable {
    private var streams: [UInt32: SentStream] = [:]
    private var retransmission: (payloadType: Int, ssrcs: [UInt32: UInt32])?
    private var retransmissionTypes: [Int: Int] = [:]
    private var budget = RetransmissionBudget()
    private var keyframes = KeyframePace()
    package private(set) var statistics = RTPSessionStatistics()
    /// More than simulcast has layers; a payloader that changes its SSRC must not fill the memory.
    private static let maximumStreams = 6

    package init() {}

    package mutating func configure(_ parameters: RTPSessionParameters) {
        retransmission = parameters.retransmission
        retransmissionTypes = parameters.retransmissionTypes
        budget = RetransmissionBudget(parameters.limits)
        keyframes = KeyframePace(shortest: parameters.limits.keyframeInterval)
    }

    /// Adds a stream beside the one of the parameters.
    package mutating func add(_ ssrc: UInt32, rtx: UInt32) { retransmission?.ssrcs[ssrc] = rtx }

    package func lastPacket(of ssrc: UInt32) -> (sequence: UInt16, timestamp: UInt32)? { streams[ssrc]?.last }

    /// Forgets a stream that has ended, so that another one takes its place.
    package mutating func remove(_ ssrc: UInt32) {
        streams[ssrc] = nil
        retransmission?.ssrcs[ssrc] = nil
    }

    /// - Parameters:
    ///   - bytes: those of `packet`, at least a fixed header.
    ///   - running: the running time of its media, ns.
    ///   - random: chooses the first sequence number of the retransmissions of a stream.
    ///   - retired: see `SentStream.sent`.
    package mutating func sent(
        _ packet: any PacketStorage, _ bytes: UnsafeRawBufferPointer, running: Int64?, now: Duration,
        using random: inout some RandomNumberGenerator, retired: inout [any PacketStorage]
    ) {
        let ssrc = bytes.bigEndian32(at: 8)
        if streams[ssrc] == nil {
            guard streams.count < Self.maximumStreams else { return }
            let rtx = retransmission.flatMap { wanted in wanted.ssrcs[ssrc].map { ($0, wanted.payloadType) } }
            streams[ssrc] = SentStream(
                retransmission: rtx, otherTypes: retransmissionTypes,
                firstSequence: UInt16.random(in: 0..<0x8000, using: &random))
        }
        streams[ssrc]?.sent(packet, bytes, running: running, now: now, retired: &retired)
    }

    /// The sender information of the streams that have sent since the last report.
    /// - Parameters:
    ///   - running: the running time, ns; nil: there is none, and no report.
    ///   - ntp: the same moment as NTP time.
    package mutating func reports(running: Int64?, ntp: UInt64, clockRate: Int) -> [RTCPPackets.SenderInformation] {
        guard let running else { return [] }
        var reports: [RTCPPackets.SenderInformation] = []
        for ssrc in streams.keys.sorted() {
            guard let stream = streams[ssrc], stream.sentSinceReport, let latest = stream.latest else { continue }
            streams[ssrc]?.reported()
            let passed = Double(running &- latest.running) / 1e9 * Double(clockRate)
            let units = UInt32(truncatingIfNeeded: Int64(max(-1e15, min(passed, 1e15))))
            reports.append(
                RTCPPackets.SenderInformation(
                    ssrc: ssrc, ntp: ntp, timestamp: latest.timestamp &+ units, packets: stream.packets,
                    octets: stream.octets))
        }
        return reports
    }

    /// Ends all streams.
    package mutating func end() -> [UInt32] {
        defer { streams.removeAll() }
        return streams.keys.sorted()
    }

    // MARK: Feedback

    /// - Parameters:
    ///   - roundTrip: nil: not known yet.
    ///   - bitrate: our send target, bit/s, of which retransmissions get a share.
    package mutating func pace(roundTrip: Duration?, bitrate: Int) {
        budget.pace(roundTrip: roundTrip, bitrate: bitrate)
        if let roundTrip { keyframes.pace(roundTrip: roundTrip) }
    }

    /// Counts a NACK.
    /// - Returns: false if it is not about one of our streams.
    package mutating func nacked(_ ssrc: UInt32) -> Bool {
        guard streams[ssrc] != nil else { return false }
        statistics.nacksReceived &+= 1
        return true
    }

    /// The retransmission of a packet, which must leave then; nil: it is not kept, or the budget does not allow it.
    package mutating func retransmission(of sequence: UInt16, ssrc: UInt32, now: Duration) -> [UInt8]? {
        let stream = streams[ssrc]
        guard budget.allows(ssrc: ssrc, sequence: sequence, now: now, size: { stream?.size(of: sequence, now: now) }),
            let packet = streams[ssrc]?.makeRetransmission(of: sequence, now: now)
        else { return nil }
        statistics.retransmissions &+= 1
        return packet
    }

    package var canPad: Bool { streams.values.contains(where: \.canPad) }

    /// A packet of about so many bytes that only fills the path; nil: nothing was sent, or RTX is not negotiated.
    package mutating func padding(_ bytes: Int) -> [UInt8]? {
        for ssrc in streams.keys.sorted() {
            if let packet = streams[ssrc]?.makePadding(bytes) { return packet }
        }
        return nil
    }

    /// Counts a keyframe request of the remote peer.
    /// - Returns: false if it is not about one of our streams.
    package mutating func keyframeRequested(_ ssrc: UInt32) -> Bool {
        guard streams[ssrc] != nil else { return false }
        statistics.plisReceived &+= 1
        return true
    }

    /// Decides when the encoder makes the keyframe.
    /// - Parameters:
    ///   - ssrc: of the stream, or of the layer of a simulcast, of which the remote peer has lost a frame.
    ///   - hasWaited: true for a request that comes again after `.after`.
    package mutating func paceKeyframe(_ ssrc: UInt32, hasWaited: Bool, now: Duration) -> KeyframePace.Answer {
        keyframes.request(ssrc: ssrc, hasWaited: hasWaited, now: now)
    }
}
