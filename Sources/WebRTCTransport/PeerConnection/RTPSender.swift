// Sends our RTP and RTCP: header extensions, pacing, SRTP, batches of datagrams, and the congestion control of video. It
// must not know DTLS or SDP.
import EventLoopThreads
import GStreamerKit
import ICE
import Log
import MediaSecurity
import RTP
import Synchronization

// @unchecked: fields under `MARK: Network thread only` are accessed on the network thread only; the others are constant
// or locked. Packets are sent on streaming threads and on the network thread.
final class RTPSender: @unchecked Sendable {
    private let ice: ICETransport
    private let network: NetworkThread
    private let rtp: RTPSessions
    private let identity: LocalIdentity
    private let firstTarget: Int
    private let limits: FeedbackLimits
    private let logger: Logger
    private let onEvent: @Sendable (PeerConnectionEvent) -> Void
    private let videoSent: PacketCounter
    private let audioSent = PacketCounter()
    private let rateControl: SendRateControl

    private struct Outward {
        /// nil before the handshake has finished and after a failure or close().
        var srtp: SRTPTransform?
        /// nil before video is negotiated.
        var pacer: PacedSender?
        /// False: padding cannot be sent, or what it shows would not be seen.
        var canProbe = false
    }
    private let outward = Mutex(Outward())

    /// Protected packets that leave together. They borrow the memory of their writer, which reuses it after `batchLimit`
    /// packets.
    private typealias Batch = [UnsafeRawBufferPointer]
    private static let batchLimit = 16

    // MARK: Network thread only
    private var bitrateRange: ClosedRange<Int>
    private var log: CongestionLog
    private var proof: UplinkProof
    /// The present probe of the path, and the bytes that were sent before it.
    private var probe: (cluster: ProbeCluster, began: Duration, bytesBefore: UInt64)?
    private static let probeStep = Duration.milliseconds(5)

    init(
        _ configuration: PeerConnectionConfiguration, over ice: ICETransport, network: NetworkThread, rtp: RTPSessions,
        identity: LocalIdentity, videoSent: PacketCounter, onEvent: @escaping @Sendable (PeerConnectionEvent) -> Void
    ) {
        (self.ice, self.network, self.rtp, self.identity) = (ice, network, rtp, identity)
        (firstTarget, bitrateRange) = (configuration.firstTarget, configuration.bitrateRange)
        (self.videoSent, self.onEvent) = (videoSent, onEvent)
        limits = configuration.feedbackLimits
        logger = configuration.loggers.rtp
        log = CongestionLog(configuration.loggers.congestion)
        proof = UplinkProof(ssrcs: identity.ssrc..<identity.ssrc + LocalIdentity.videoSSRCs)
        rateControl = SendRateControl(
            range: configuration.bitrateRange, start: configuration.firstTarget,
            adapts: configuration.adaptsBitrate, ssrc: identity.ssrc)
    }

    // MARK: Any thread

    func configure(_ video: NegotiatedVideo) throws(GStreamerError) {
        let writer = HeaderExtensionWriter(
            ids: video.extensions, mid: video.mid, streams: identity.streams(video.sentLayers), count: Self.batchLimit)
        // Used by one thread at a time, which the pacer ensures.
        nonisolated(unsafe) var batch = Batch()
        batch.reserveCapacity(Self.batchLimit)
        let retransmission = Set(([video.codec] + video.alternatives).compactMap(\.retransmissionPayloadType))
        let pacer = PacedSender(
            bitrate: firstTarget, network: network,
            send: { [weak self] packet in
                if batch.count >= Self.batchLimit { self?.flush(&batch) }
                self?.add(
                    rtp: packet, writer, retransmission.contains(Int(packet[1] & 0x7f)) ? .retransmission : .media,
                    to: &batch)
            },
            pad: { [weak self] packet in
                if batch.count >= Self.batchLimit { self?.flush(&batch) }
                self?.add(rtp: packet, writer, .padding, to: &batch)
            }, flush: { [weak self] in self?.flush(&batch) })
        let canProbe = writer.hasTransportSequence && !retransmission.isEmpty
        outward.withLock { ($0.pacer, $0.canProbe) = (pacer, canProbe) }
        var parameters = RTPSessionParameters(video, identity)
        parameters.limits = limits
        try rtp.video.configure(
            parameters,
            onRTP: { [weak self] forEach in
                // Before the keys nothing can be sent, and nothing waits for them.
                guard self?.outward.withLock({ $0.srtp }) != nil else { return }
                pacer.offer { offer in
                    forEach { packet, isDelta in
                        guard packet.count >= 12 else { return }
                        let isRetransmission = retransmission.contains(Int(packet[1] & 0x7f))
                        offer(packet, isRetransmission ? .retransmission : isDelta ? .media : .keyframe)
                    }
                }
            }, onRTCP: { [weak self] packet in self?.send(rtcp: packet, of: .video) })
    }

    func configure(_ audio: NegotiatedAudio) throws(GStreamerError) {
        let writer = HeaderExtensionWriter(ids: audio.extensions, mid: audio.mid)
        try rtp.addAudio().configure(
            RTPSessionParameters(audio, identity),
            onRTP: { [weak self] forEach in forEach { packet, _ in self?.send(audio: packet, writer) } },
            onRTCP: { [weak self] packet in self?.send(rtcp: packet, of: .audio) })
    }

    func stop() {
        let pacer = outward.withLock { outward in
            outward.srtp = nil
            return outward.pacer
        }
        pacer?.stop()
    }

    func forge(audio packet: UnsafeRawBufferPointer) {
        guard let srtp = outward.withLock(\.srtp), let agent = ice.agent,
            packet.count + SRTPTransform.maximumOverhead <= 1500
        else { return }
        withUnsafeTemporaryAllocation(byteCount: 1500, alignment: 16) { scratch in
            scratch.copyMemory(from: packet)
            guard let protected = srtp.protectRTP(scratch, length: packet.count) else { return }
            agent.send(UnsafeRawBufferPointer(rebasing: scratch[..<protected]))
        }
    }

    func forge(rtp packet: [UInt8]) {
        let pacer = outward.withLock(\.pacer)
        packet.withUnsafeBytes { bytes in pacer?.offer { $0(bytes, .media) } }
    }

    // MARK: Network thread

    func start(_ srtp: SRTPTransform) {
        outward.withLock { $0.srtp = srtp }
        report(rateControl.target)
    }

    /// - Returns: true if the packet proves that our video arrives.
    func received(_ compound: RTCPCompound, _ now: Duration) -> Bool {
        let vanished = rateControl.fullPacketsVanish
        if let target = rateControl.received(compound, now: now) { report(target) }
        if !vanished, rateControl.fullPacketsVanish {
            logger.warning("the path loses each packet of full length: sends shorter ones")
            rtp.video.sendShortPackets()
        }
        probeIfDue(now)
        return proof.received(compound, now: now)
    }

    /// Call several times a second, because missing feedback lowers the target too.
    func tick() {
        if let target = rateControl.tick(now: MonotonicTime.now) { report(target) }
        if let report = rateControl.lastReport { log.checkLoss(report, now: MonotonicTime.now) }
        // A connection that sends no video gets no receiver reports: consent checks measure its round trip.
        rtp.video.roundTripChanged(
            to: rateControl.roundTrip ?? ice.roundTrip, bitrate: rateControl.target.target)
    }

    func setBitrateRange(_ range: ClosedRange<Int>) {
        guard range != bitrateRange else { return }
        bitrateRange = range
        guard let target = rateControl.setRange(range, now: MonotonicTime.now) else { return }
        // `start` reports it otherwise.
        if outward.withLock({ $0.srtp != nil }) { report(target) }
    }

    private func report(_ target: BitrateTarget) {
        log.changed(target)
        pace()
        onEvent(.bitrateTarget(target))
    }

    private func pace() {
        // Media that wait leave with a probe, in place of padding.
        let probing = probe.map { Int(Double($0.cluster.rate) / SendPacer.share) } ?? 0
        outward.withLock(\.pacer)?.pace(bitrate: max(rateControl.target.target, probing))
    }

    private func probeIfDue(_ now: Duration) {
        guard probe == nil, outward.withLock({ $0.srtp != nil && $0.canProbe }), rtp.video.canPad,
            let cluster = rateControl.nextProbe(now: now)
        else { return }
        logger.debug("probes the path with \(cluster.rate / 1000) kbit/s")
        probe = (cluster, now, rateControl.bytesSent)
        pace()
        continueProbe()
    }

    /// Fills up to the rate of the probe what media have not sent.
    private func continueProbe() {
        guard let probe else { return }
        let now = MonotonicTime.now
        let passed = now - probe.began
        let length = Duration.microseconds(probe.cluster.duration)
        let pacer = outward.withLock { $0.srtp == nil ? nil : $0.pacer }
        guard passed < length, let pacer else {
            self.probe = nil
            rateControl.probeEnded(now: now)
            return pace()
        }
        let share = min(length, passed + Self.probeStep) / .seconds(1)
        var missing =
            Int(Double(probe.cluster.rate) / 8 * share) - Int(clamping: rateControl.bytesSent &- probe.bytesBefore)
        pacer.fill {
            let packet = missing > 0 ? rtp.video.padding(missing) : nil
            missing -= packet?.count ?? 0
            return packet
        }
        network.schedule(after: Self.probeStep) { [weak self] in self?.continueProbe() }
    }

    func fill(_ statistics: inout PeerConnectionStatistics) {
        (statistics.packetsSent, statistics.bytesSent) = (videoSent.packets, videoSent.bytes)
        statistics.audio?.packetsSent = audioSent.packets
        statistics.audio?.bytesSent = audioSent.bytes
        statistics.bitrateTarget = rateControl.target
        statistics.bitrateRange = bitrateRange
        statistics.paddingBytesSent = rateControl.paddingBytes
        if !proof.isStale(now: MonotonicTime.now) {
            statistics.roundTripTime = rateControl.lastRoundTrip
            statistics.fractionLost = rateControl.lastReport.map { Double($0.fractionLost) / 256 }
            statistics.remotePacketsLost = rateControl.lastReport?.packetsLost
        }
        if let delays = outward.withLock(\.pacer)?.delays {
            (statistics.totalSendDelay, statistics.keyframeSendDelay) = (delays.total, delays.keyframe)
        }
    }

    // MARK: Streaming threads

    /// Also called on the network thread, see `PacedSender`.
    private func add(
        rtp packet: UnsafeRawBufferPointer, _ writer: HeaderExtensionWriter, _ purpose: PacketPurpose,
        to batch: inout Batch
    ) {
        let now = MonotonicTime.now
        guard let srtp = outward.withLock({ $0.srtp }),
            let (buffer, length) = writer.write(packet, sendTime: now, reserve: SRTPTransform.maximumOverhead)
        else { return }
        rateControl.willSend(
            rtp: length, sequence: writer.hasTransportSequence ? writer.transportSequence : nil, purpose,
            number: packet.bigEndian32(at: 8) == identity.ssrc ? packet.bigEndian16(at: 2) : nil, now: now)
        guard let protected = srtp.protectRTP(buffer, length: length) else { return }
        batch.append(UnsafeRawBufferPointer(rebasing: buffer[..<protected]))
        writer.keep()
    }

    private func flush(_ batch: inout Batch) {
        guard !batch.isEmpty else { return }
        logger.log("sends \(batch.count) RTP packets")
        ice.agent?.send(batch) { videoSent.count(batch[$0].count) }
        batch.removeAll(keepingCapacity: true)
    }

    /// Audio takes no part in congestion control: its bitrate is small and never adapted.
    private func send(audio packet: UnsafeRawBufferPointer, _ writer: HeaderExtensionWriter) {
        guard let srtp = outward.withLock(\.srtp), let agent = ice.agent,
            let (buffer, length) = writer.write(packet, sendTime: .zero, reserve: SRTPTransform.maximumOverhead),
            let protected = srtp.protectRTP(buffer, length: length)
        else { return }
        logger.log("sends RTP, \(protected) bytes")
        if agent.send(UnsafeRawBufferPointer(rebasing: buffer[..<protected])) { audioSent.count(protected) }
    }

    func send(rtcp packet: UnsafeRawBufferPointer, of kind: MediaKind) {
        guard let srtp = outward.withLock(\.srtp), let agent = ice.agent,
            packet.count + SRTPTransform.maximumOverhead <= 1500
        else { return }
        if kind == .video { rateControl.willSend(rtcp: packet, now: MonotonicTime.now) }
        withUnsafeTemporaryAllocation(byteCount: 1500, alignment: 16) { scratch in
            scratch.copyMemory(from: packet)
            guard let protected = srtp.protectRTCP(scratch, length: packet.count) else { return }
            agent.send(UnsafeRawBufferPointer(rebasing: scratch[..<protected]))
        }
    }
}
