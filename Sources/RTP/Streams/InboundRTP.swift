/// The receiving side of an RTP session (RFC 3550): it counts what arrives, requests what is missing, puts the packets of the
/// stream that is shown in order, and reports. A value that packets and times drive; it knows no socket, thread, clock or pad.
package struct InboundRTP {
    private let kind: MediaKind
    private var parameters = RTPSessionParameters(clockRate: 90_000, ssrc: 0, cname: "")
    /// True from `configure` to `end`. Before and after it, nothing happens.
    private var isActive = false
    private var received: [UInt32: ReceptionStatistics] = [:]
    private var recorder = TransportFeedbackRecorder()
    private var lastMediaSSRC: UInt32 = 0
    /// The stream that is shown.
    private var selected: UInt32?
    private var stream: InboundStream
    private let storage: any PacketStorage.Type
    /// The latest packets of a frame of each stream that is not shown, while it may be one of the server's own.
    private var unshown: [UInt32: Unshown] = [:]
    private struct Unshown {
        var packets: [any PacketStorage] = []
        /// Nothing of the stream has arrived before.
        var beginsStream: Bool
    }
    private static var maximumUnshown: Int { InboundStream.maximumHeld }
    /// Learns from the first packet of an RTX SSRC that was missing.
    private var rtxSources = RetransmissionSources()
    private var cnames: [UInt32: [UInt8]] = [:]
    private var counters = RTPSessionStatistics()
    private var lastReport: Duration?
    /// nil: reports have not begun.
    private var nextReport: Duration?
    private var areReportsReduced = false
    private var lastKeyframeRequest: Duration?
    /// A keyframe request waits until then.
    private var nextKeyframeRequest: Duration?

    /// Bytes; behind them, a transport-wide feedback message of the largest size still fits into the datagram.
    private static var maximumBeforeFeedback: Int { 700 }
    /// The least interval between two keyframe requests.
    private static var keyframeRequestInterval: Duration { .milliseconds(100) }
    /// Each keyframe fills the queue of a path that is too narrow.
    private static var narrowKeyframeRequestInterval: Duration { .seconds(1) }
    /// The interval of reports while no media are sent.
    private static var reducedReportInterval: Duration { .seconds(15) }
    /// Feedback is due within 50 to 250 ms; lip sync needs an early report of audio, but few later ones, and so does video
    /// whose feedback is REMB.
    private var reportInterval: Duration {
        kind == .video && !parameters.usesREMB ? Self.feedbackInterval : .milliseconds(500)
    }
    private static var feedbackInterval: Duration { .milliseconds(100) }

    /// - Parameter storage: what keeps the packets.
    package init(_ kind: MediaKind, storage: any PacketStorage.Type) {
        (self.kind, self.storage) = (kind, storage)
        stream = InboundStream(kind, storage)
    }

    package mutating func configure(_ parameters: RTPSessionParameters) {
        (self.parameters, isActive) = (parameters, true)
        rtxSources = RetransmissionSources(declared: parameters.rtxSSRCs)
        stream.begin(0, parameters)
    }

    /// Takes over what was negotiated since `configure`.
    package mutating func update(_ parameters: RTPSessionParameters) {
        guard isActive else { return }
        self.parameters = parameters
        rtxSources.declare(parameters.rtxSSRCs)
        stream.update(parameters)
    }

    package mutating func setRedundancy(_ redundancy: AudioRedundancy?) { parameters.redundancy = redundancy }

    package mutating func end() { (isActive, nextReport, nextKeyframeRequest) = (false, nil, nil) }

    /// When `wake` must be called, if no packet arrives before. Mutating, because a getter would get a copy of the whole
    /// receiver, which is a property of a class.
    package var nextWake: Duration? {
        mutating get {
            guard isActive else { return nil }
            return .earlier(.earlier(nextReport, stream.nextWake), nextKeyframeRequest)
        }
    }

    /// - Parameters:
    ///   - senders: called for the sender information of our streams if a report is due.
    ///   - random: varies the interval of reports.
    package mutating func wake(
        at now: Duration, senders: () -> [RTCPPackets.SenderInformation],
        using random: inout some RandomNumberGenerator, _ act: (InboundAction) -> Void
    ) {
        guard isActive else { return }
        request(stream.drain(now, act), act)
        if let nextKeyframeRequest, nextKeyframeRequest <= now {
            self.nextKeyframeRequest = nil
            requestKeyframe(now: now, act)
        }
        if let nextReport, nextReport <= now { report(now, senders, using: &random, act) }
    }

    // MARK: Packets

    /// Shows this remote stream from now on. A new one begins with a keyframe; of another one, a keyframe is requested.
    package mutating func select(_ ssrc: UInt32, now: Duration, _ act: (InboundAction) -> Void) {
        guard selected != ssrc, isActive else { return }
        selected = ssrc
        rtxSources.select(ssrc)
        stream.begin(ssrc, parameters)
        let isNew = received[ssrc] == nil || unshown[ssrc]?.beginsStream ?? false
        if kind == .video, !isNew { requestKeyframe(now: now, act) }
    }

    /// Audio of another payload type follows: its clock may have another rate.
    /// - Returns: true if it has.
    package mutating func changeType(to type: Int) -> Bool {
        guard isActive, let rate = parameters.clockRates[type], rate != parameters.clockRate else { return false }
        parameters.clockRate = rate
        // They measure jitter in units of the clock.
        received = [:]
        stream.change(clockRate: rate)
        return true
    }

    /// True if a packet of a stream that is not shown may select it. A frame of the server's own may not, which its end says.
    /// `received` hands on what was before, if the stream is selected. Call it before that, for each packet of video that is no
    /// retransmission.
    package mutating func maySelect(rtp packet: UnsafeRawBufferPointer) -> Bool {
        guard isActive, !stream.filler.isEmpty else { return true }
        let ssrc = packet.bigEndian32(at: 8)
        var frame = unshown.removeValue(forKey: ssrc) ?? Unshown(beginsStream: received[ssrc] == nil)
        let timestamp = frame.packets.first?.withBytes { $0.bigEndian32(at: 4) }
        // The remote peer may never send the marker that ends a frame, nor a packet that selects the stream.
        if let timestamp, timestamp != packet.bigEndian32(at: 4) || frame.packets.count >= Self.maximumUnshown {
            frame = Unshown(beginsStream: false)
        }
        frame.packets.append(storage.init(copying: packet))
        let isOver = packet[1] & 0x80 != 0
        if isOver, stream.isFiller(frame.packets) {
            counters.fillerFrames &+= 1
            return false
        }
        unshown[ssrc] = frame
        return isOver || frame.packets.count >= Self.maximumUnshown
    }

    /// Takes a decrypted packet of 12 bytes or more; call `flush` after those that arrived together.
    /// - Parameters:
    ///   - activeType: the payload type that is shown.
    ///   - running: called at most once for packets that arrived together; the running time, ns.
    package mutating func received(
        rtp packet: UnsafeRawBufferPointer, activeType: Int?, now: Duration, running: () -> Int64?,
        _ act: (InboundAction) -> Void
    ) {
        guard isActive else { return }
        let (type, ssrc) = (Int(packet[1] & 0x7f), packet.bigEndian32(at: 8))
        let sequence = packet.bigEndian16(at: 2)
        received[ssrc, default: ReceptionStatistics(clockRate: parameters.clockRate)]
            .received(sequence: sequence, timestamp: packet.bigEndian32(at: 4), now: now)
        recordTransport(packet, now)
        if let type = parameters.rtxTypes[type] {
            guard let (restored, sequence) = restore(packet, ssrc, type: type) else { return }
            let wanted = restored.withUnsafeBytes {
                stream.insert(
                    $0, type: type, isStray: type != activeType, isRetransmission: true, sequence: sequence, now: now,
                    running: running, act)
            }
            request(wanted, act)
        } else if let redundancy = parameters.redundancy, type == redundancy.payloadType {
            guard ssrc == selected else { return }
            unpack(packet, redundancy, activeType: activeType, now: now, running: running, act)
        } else if ssrc == selected, parameters.caps[type] != nil {
            let before = unshown.removeValue(forKey: ssrc)?.packets.dropLast() ?? []
            for earlier in before {
                earlier.withBytes { insert($0, activeType: activeType, now: now, running: running, act) }
            }
            insert(packet, activeType: activeType, now: now, running: running, act)
        } else if kind == .audio, parameters.caps[type] != nil, stream.filler.ends(packet, endsFrame: true) {
            counters.fillerFrames &+= 1
        }
    }

    /// Takes the copies of missing packets, and then the packet itself.
    private mutating func unpack(
        _ packet: UnsafeRawBufferPointer, _ redundancy: AudioRedundancy, activeType: Int?, now: Duration,
        running: () -> Int64?, _ act: (InboundAction) -> Void
    ) {
        let own = packet.bigEndian16(at: 2)
        for (bytes, sequence) in RedundantAudio.packets(in: packet, redundancy) {
            let isCopy = sequence != own
            guard !isCopy || stream.lacks(sequence) else { continue }
            if isCopy { counters.packetsRecovered &+= 1 }
            // A copy is as late as a retransmission, so its arrival says nothing about the path.
            let wanted = bytes.withUnsafeBytes {
                stream.insert(
                    $0, type: redundancy.mediaType, isStray: redundancy.mediaType != activeType,
                    isRetransmission: isCopy, sequence: sequence, now: now, running: running, act)
            }
            request(wanted, act)
        }
    }

    private mutating func insert(
        _ packet: UnsafeRawBufferPointer, activeType: Int?, now: Duration, running: () -> Int64?,
        _ act: (InboundAction) -> Void
    ) {
        let type = Int(packet[1] & 0x7f)
        let wanted = stream.insert(
            packet, type: type, isStray: type != activeType, isRetransmission: false,
            sequence: packet.bigEndian16(at: 2), now: now, running: running, act)
        request(wanted, act)
    }

    /// Takes a packet of a stream that was rejected: only the congestion control of who sends it must know that it arrived.
    package mutating func refused(rtp packet: UnsafeRawBufferPointer, now: Duration) {
        if isActive { recordTransport(packet, now) }
    }

    private mutating func recordTransport(_ packet: UnsafeRawBufferPointer, _ now: Duration) {
        guard let id = parameters.transportWideCC, let number = TransportSequence.number(in: packet, id: id) else {
            return
        }
        lastMediaSSRC = packet.bigEndian32(at: 8)
        recorder.received(number, now: now)
        if areReportsReduced || parameters.usesREMB { scheduleReport(at: now + Self.feedbackInterval) }
    }

    /// Drops the server's own frames from now on.
    package mutating func setFiller(_ trailer: FillerTrailer) { stream.filler = trailer }

    /// - Returns: the packet that RTX repeats, if it is missing.
    private mutating func restore(
        _ packet: UnsafeRawBufferPointer, _ ssrc: UInt32, type: Int
    ) -> (packet: [UInt8], sequence: UInt16)? {
        guard let selected, stream.isWaiting, rtxSources.mayRepeat(selected, rtx: ssrc),
            let restored = RTPHeader.restore(packet, payloadType: type, ssrc: selected),
            stream.isMissing(restored.sequence)
        else { return nil }
        rtxSources.learn(selected, rtx: ssrc)
        return restored
    }

    /// Call after packets that arrived together.
    /// - Returns: true if a frame is complete: the depayloader gets everything up to here.
    package mutating func flush() -> Bool { stream.flush() }

    // MARK: Feedback

    private mutating func request(_ sequences: [UInt16], _ act: (InboundAction) -> Void) {
        guard !sequences.isEmpty, let selected else { return }
        counters.nacksSent &+= UInt64(sequences.count)
        act(.rtcp(parameters.compound(RTCPPackets.nack(sequences, from: parameters.ssrc, to: selected))))
    }

    /// Requests a keyframe of the stream that is shown. Several requests within a moment are one.
    package mutating func requestKeyframe(now: Duration, _ act: (InboundAction) -> Void) {
        guard isActive, let selected, nextKeyframeRequest == nil else { return }
        let interval = stream.isBeyondRepair ? Self.narrowKeyframeRequestInterval : Self.keyframeRequestInterval
        if let last = lastKeyframeRequest, now - last < interval {
            nextKeyframeRequest = last + interval
            return
        }
        lastKeyframeRequest = now
        counters.plisSent &+= 1
        act(.rtcp(parameters.compound(RTCPPackets.pictureLossIndication(from: parameters.ssrc, to: selected))))
    }

    /// Takes a compound packet, of which messages about streams of another session have no effect.
    /// - Returns: the latest sender report of the stream that is shown.
    package mutating func received(_ compound: RTCPCompound, now: Duration) -> SenderTime? {
        guard isActive else { return nil }
        var shown: (report: RTCPCompound.SenderReport, running: Int64)?
        for report in compound.senderReports {
            received[report.ssrc]?.senderReported(UInt32(truncatingIfNeeded: report.ntp >> 16), now: now)
            if report.ssrc == selected, let running = stream.undelayedTime(of: report.timestamp) {
                shown = (report, running)
            }
        }
        for (ssrc, cname) in compound.names where received[ssrc] != nil { cnames[ssrc] = cname }
        // The name follows the report in the same packet.
        guard let shown, let cname = cnames[shown.report.ssrc] else { return nil }
        return SenderTime(ntp: NTPTime.nanoseconds(shown.report.ntp), running: shown.running, cname: cname)
    }

    // MARK: Reports

    /// Begins to send reports, once packets can leave.
    package mutating func startReports(now: Duration) {
        if isActive, nextReport == nil { scheduleReport(at: now + .milliseconds(50)) }
    }

    /// Sends fewer reports while no media are sent: ten a second cost more than 10 kbit/s.
    package mutating func setReports(areReduced: Bool, now: Duration) {
        guard areReportsReduced != areReduced else { return }
        areReportsReduced = areReduced
        if !areReduced, nextReport != nil { scheduleReport(at: now + reportInterval) }
    }

    private mutating func scheduleReport(at time: Duration) { nextReport = min(nextReport ?? time, time) }

    private mutating func report(
        _ now: Duration, _ senders: () -> [RTCPPackets.SenderInformation],
        using random: inout some RandomNumberGenerator, _ act: (InboundAction) -> Void
    ) {
        var compound: [UInt8] = []
        if !areReportsReduced || lastReport.map({ now - $0 >= Self.reducedReportInterval }) ?? true {
            lastReport = now
            compound = report(senders(), now)
        }
        while let body = recorder.takeFeedback() {
            if compound.count > Self.maximumBeforeFeedback {
                act(.rtcp(compound))
                compound = []
            }
            if compound.isEmpty { compound = RTCPPackets.receiverReport(parameters.ssrc) }
            compound += RTCPPackets.transportFeedback(body, from: parameters.ssrc, to: lastMediaSSRC)
        }
        if !compound.isEmpty { act(.rtcp(compound)) }
        // Participants whose reports coincide would stay so (RFC 3550 6.3.1).
        let varied = reportInterval * (0.75 + Double(random.next() % 512) / 1024)
        nextReport = now + (areReportsReduced && recorder.isEmpty ? Self.reducedReportInterval : varied)
    }

    private mutating func report(_ senders: [RTCPPackets.SenderInformation], _ now: Duration) -> [UInt8] {
        var reports: [ReceptionReport] = []
        for ssrc in received.keys.sorted() {
            if let report = received[ssrc]?.report(on: ssrc, now: now) { reports.append(report) }
        }
        // A report has room for 31 blocks; there are no more sources than places for them.
        let blocks = reports.prefix(31)
        guard let first = senders.first else {
            return RTCPPackets.receiverReport(parameters.ssrc, blocks)
                + RTCPPackets.sourceDescription([parameters.ssrc], cname: parameters.cname)
        }
        var compound = RTCPPackets.senderReport(first, blocks)
        for other in senders.dropFirst() {
            compound += RTCPPackets.senderReport(other, [ReceptionReport]())
        }
        return compound + RTCPPackets.sourceDescription(senders.map(\.ssrc), cname: parameters.cname)
    }

    // MARK: Settings and statistics

    /// Sets the interval after which a NACK is repeated to the time in which the retransmission should have arrived.
    package mutating func pace(roundTrip: Duration) {
        stream.requestInterval = min(
            max(roundTrip + max(roundTrip / 8, .milliseconds(10)), .milliseconds(20)), .seconds(2))
    }

    /// Delays the stream by this, ns, to keep it in sync with another one.
    package mutating func setDelay(_ delay: Int64) { stream.delay = delay }

    /// The counters, with those of the stream that is shown.
    package var statistics: RTPSessionStatistics {
        var statistics = counters
        let shown = selected.flatMap { received[$0] }
        (statistics.packetsLost, statistics.jitter) = (shown?.packetsLost, shown?.jitter)
        statistics.fillerFrames &+= stream.fillerFrames
        statistics.oversizedFrames &+= stream.oversizedFrames
        return statistics
    }

    /// Forgets a remote stream whose place another one takes.
    package mutating func forget(_ ssrc: UInt32) {
        (received[ssrc], cnames[ssrc], unshown[ssrc]) = (nil, nil, nil)
        rtxSources.forget(rtx: ssrc)
    }
}

/// The clock of the stream that is shown, from its sender report; times in nanoseconds.
package struct SenderTime {
    /// The sender's NTP time.
    package var ntp: Int64
    /// The running time at which media of that time are due here, without the delay for lip sync.
    package var running: Int64
    package var cname: [UInt8]
}
