// The RTP session of one kind of media (RFC 3550): the boundary between packets and the pipeline. It keeps the packets that
// were sent for retransmission, reports on what arrived, requests what is missing, and puts the rest in order. It knows
// payload types and SSRCs; it must not know ICE, DTLS or SDP.
import GStreamerKit
import ICE
internal import Synchronization

/// Takes outgoing packets that may leave together.
/// - Parameter forEach: calls its argument with each packet. `isDelta` is the buffer's DELTA_UNIT flag; payloaders leave it
///   off the first packet of a keyframe.
typealias RTPOutput = (_ forEach: ((_ packet: UnsafeRawBufferPointer, _ isDelta: Bool) -> Void) -> Void) -> Void

/// Negotiated parameters of an RTP session.
struct RTPSessionParameters: Sendable {
    /// Caps of inbound packets as text, by payload type; without those of RTX.
    var caps: [Int: String] = [:]
    var clockRate: Int
    /// Our SSRC, as in the local description.
    var ssrc: UInt32
    var cname: String
    /// Inbound RTX (RFC 4588): the payload type that each one repeats.
    var repeatedTypes: [Int: Int] = [:]
    /// Inbound RTX: the media SSRC that each RTX SSRC repeats, as far as it is declared.
    var repeatedSSRCs: [UInt32: UInt32] = [:]
    /// Outbound RTX: the payload type, and the SSRC for each of our SSRCs.
    var retransmission: (payloadType: Int, ssrcs: [UInt32: UInt32])?
    /// The extension with the transport-wide sequence number, if the remote peer gets feedback about it.
    var transportWideCC: UInt8?
}

extension RTPSessionParameters {
    init(_ video: NegotiatedVideo, _ identity: LocalIdentity) {
        self.init(clockRate: 90_000, ssrc: identity.ssrc, cname: identity.cname)
        for codec in [video.codec] + video.alternatives {
            var text =
                "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(codec.payloadType), "
            text += "encoding-name=(string)\(codec.codec.encodingName)"
            if codec.codec == .h264 { text += ", packetization-mode=(string)1" }
            caps[codec.payloadType] = text
            if let type = codec.retransmissionPayloadType { repeatedTypes[type] = codec.payloadType }
        }
        repeatedSSRCs = video.repeatedSSRCs
        if video.codec.usesTransportCC { transportWideCC = video.extensions.transportWideCC }
        guard let type = video.codec.retransmissionPayloadType else { return }
        var ssrcs = [identity.ssrc: identity.rtxSSRC]
        for stream in identity.streams(video.sentLayers) { ssrcs[stream.ssrc] = stream.rtxSSRC }
        retransmission = (type, ssrcs)
    }

    init(_ audio: NegotiatedAudio, _ identity: LocalIdentity) {
        self.init(clockRate: 48_000, ssrc: identity.audioSSRC, cname: identity.cname)
        caps[audio.payloadType] =
            "application/x-rtp, media=(string)audio, clock-rate=(int)48000, payload=(int)\(audio.payloadType), "
            + "encoding-name=(string)OPUS, encoding-params=(string)2"
    }
}

/// Counters of an RTP session.
struct RTPSessionFigures: Sendable {
    var nacksSent: UInt64 = 0
    var nacksReceived: UInt64 = 0
    var plisSent: UInt64 = 0
    var plisReceived: UInt64 = 0
    var retransmissions: UInt64 = 0
    /// Packets of the stream that is shown that did not arrive, retransmissions not counted; nil: no stream is shown yet.
    var packetsLost: Int?
    var jitter: Duration?
}

// @unchecked: fields under `MARK: Network thread only` are accessed on the network thread only; the others are constant
// or locked.
final class RTPSession: @unchecked Sendable {
    private let kind: MediaKind
    private let bin: Bin
    private let network: NetworkThread
    /// Takes the packets of the payloader.
    private let packetsIn: Pad
    private let sendPad: GhostPad
    private let receivePad: GhostPad
    private let output: PacketOutput
    private let inbound: InboundStream

    // @unchecked: the closures are called on the threads that `configure` names.
    private final class Setup: @unchecked Sendable {
        let parameters: RTPSessionParameters
        let onRTP: RTPOutput
        let onRTCP: (UnsafeRawBufferPointer) -> Void

        init(
            _ parameters: RTPSessionParameters, onRTP: @escaping RTPOutput,
            onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
        ) {
            (self.parameters, self.onRTP, self.onRTCP) = (parameters, onRTP, onRTCP)
        }
    }
    private enum Life: Sendable {
        case new
        case configured(Setup)
        case stopped
    }
    private let life = Mutex(Life.new)

    /// Our streams, and what the streaming thread needs for each packet.
    private struct Outgoing: Sendable {
        var streams: [UInt32: SentStream] = [:]
        var retransmission: (payloadType: Int, ssrcs: [UInt32: UInt32])?
        var segment: Event?
        var isSending = true

        mutating func sent(_ packet: Buffer, _ bytes: UnsafeRawBufferPointer, now: Duration) {
            let ssrc = bytes.bigEndian32(at: 8)
            let running = packet.pts.flatMap { segment?.runningTime(of: $0) }.map { Int64(clamping: $0) }
            if streams[ssrc] == nil {
                guard streams.count < LocalIdentity.videoSSRCs else { return }
                let repeated = retransmission.flatMap { wanted in wanted.ssrcs[ssrc].map { ($0, wanted.payloadType) } }
                streams[ssrc] = SentStream(retransmission: repeated, firstSequence: UInt16.random(in: 0..<0x8000))
            }
            streams[ssrc]?.sent(packet, bytes, running: running, now: now)
        }
    }
    private let outgoing = Mutex(Outgoing())

    // MARK: Network thread only
    /// Set from `configure` to `stop`.
    private var active: Setup?
    private var received: [UInt32: ReceptionStatistics] = [:]
    private var recorder = TransportFeedbackRecorder()
    private var lastMediaSSRC: UInt32 = 0
    /// The stream that is shown.
    private var selected: UInt32?
    /// Learns from the first packet of an RTX SSRC that was missing.
    private var repeated = RetransmissionSources()
    private var cnames: [UInt32: [UInt8]] = [:]
    private var budget = RetransmissionBudget()
    private(set) var figures = RTPSessionFigures()
    private var reportTimer: NetworkTimer?
    private var lastReport: Duration?
    private var areReportsReduced = false
    private var lastKeyframeRequest: Duration?
    private var waitsForKeyframeRequest = false
    private var keyframes = KeyframePace()

    /// A transport-wide feedback message of the largest size still fits into a datagram behind so many bytes.
    private static let mostBeforeFeedback = 700
    /// The least interval between two keyframe requests.
    private static let keyframeRequestInterval = Duration.milliseconds(100)
    /// The interval of reports while no media are sent.
    private static let reducedReportInterval = Duration.seconds(15)
    /// Feedback is due within 50 to 250 ms; lip sync needs an early report of audio, but few later ones.
    private var reportInterval: Duration { kind == .video ? .milliseconds(100) : .milliseconds(500) }

    /// - Parameters:
    ///   - prefix: the bin gets the ghost pads `PREFIXrtp_sink` and `PREFIXrtp_src`.
    ///   - latency: how long a missing packet is waited for.
    ///   - hasOutputThread: see `PacketOutput`.
    init(
        _ kind: MediaKind, prefix: String, latency: Duration, bin: Bin, network: NetworkThread,
        hasOutputThread: Bool = true
    ) {
        (self.kind, self.bin, self.network) = (kind, bin, network)
        packetsIn = Pad(name: "\(prefix)packets_in", direction: .sink)
        sendPad = GhostPad(name: "\(prefix)rtp_sink", direction: .sink)
        receivePad = GhostPad(name: "\(prefix)rtp_src", direction: .source)
        let relay = Relay()
        output = PacketOutput(
            streamID: "gst-decart/\(prefix)rtp", latency: ClockTime(max(0, Int64(clamping: latency.clockTime))),
            hasThread: hasOutputThread,
            requestKeyframe: { relay.requestKeyframe() })
        inbound = InboundStream(kind, latency: latency, bin: bin, network: network, output: output)
        relay.session = self
        inbound.onRequest = { [weak self] in self?.request($0) }
        bin.add(sendPad)
        bin.add(receivePad)
        sendPad.setTarget(packetsIn)
        receivePad.setTarget(output.pad)
    }

    /// The pad's closure is older than the session.
    private final class Relay: @unchecked Sendable {
        weak var session: RTPSession?
        func requestKeyframe() {
            guard let session else { return }
            session.network.async { [weak session] in session?.requestKeyframe() }
        }
    }

    // MARK: Sending

    /// Sets up the session. `onRTP` and `onRTCP` get unprotected packets: `onRTP` on streaming threads and the network
    /// thread, `onRTCP` on the network thread.
    func configure(
        _ parameters: RTPSessionParameters, onRTP: @escaping RTPOutput,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        let setup = Setup(parameters, onRTP: onRTP, onRTCP: onRTCP)
        let isFirst = life.withLock { life in
            guard case .new = life else { return false }
            life = .configured(setup)
            return true
        }
        guard isFirst else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        outgoing.withLock { $0.retransmission = parameters.retransmission }
        packetsIn.setChainFunction { [weak self] in self?.send([$0]) ?? .flushing }
        packetsIn.setChainListFunction { [weak self] in self?.send($0) ?? .flushing }
        packetsIn.setEventFunction { [weak self] event in
            switch event.kind {
            case .segment: self?.outgoing.withLock { $0.segment = event }
            case .eos: self?.network.async { [weak self] in self?.sendBye() }
            default: break
            }
            return .handled(true)
        }
        packetsIn.setActive(true)
        network.async { [weak self] in
            guard let self, isConfigured else { return }
            active = setup
            repeated = RetransmissionSources(declared: parameters.repeatedSSRCs)
            inbound.begin(nil, parameters)
        }
    }

    private var setup: Setup? {
        life.withLock { life in
            guard case .configured(let setup) = life else { return nil }
            return setup
        }
    }
    var isConfigured: Bool { setup != nil }

    /// Lets packets leave, or drops them before the session counts them. Returns true if this is a change.
    func setSending(_ sends: Bool) -> Bool {
        outgoing.withLock { outgoing in
            defer { outgoing.isSending = sends }
            return outgoing.isSending != sends
        }
    }

    /// Requests a keyframe from the local encoder at once, because no packet before this moment has left.
    func startWithKeyframe() { packetsIn.push(Event.forceKeyUnitUpstream()) }

    private func send(_ buffers: [Buffer]) -> FlowReturn {
        guard let setup, outgoing.withLock(\.isSending) else { return .ok }
        let now = MonotonicTime.now
        withUnsafeTemporaryAllocation(byteCount: HeaderExtensionWriter.capacity, alignment: 16) { scratch in
            setup.onRTP { send in
                for buffer in buffers {
                    let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<buffer.copyBytes(to: scratch)])
                    guard bytes.count >= 12, bytes.count == buffer.size else { continue }
                    outgoing.withLock { $0.sent(buffer, bytes, now: now) }
                    send(bytes, buffer.isDeltaUnit)
                }
            }
        }
        return .ok
    }

    // MARK: Reports (network thread)

    /// Begins to send reports, once packets can leave.
    func startReports() {
        guard active != nil, reportTimer == nil else { return }
        scheduleReport(after: .milliseconds(50))
    }

    /// Sends fewer reports while no media are sent: ten a second cost more than 10 kbit/s.
    func setReports(areReduced: Bool) {
        guard areReportsReduced != areReduced else { return }
        areReportsReduced = areReduced
        if !areReduced, reportTimer != nil { scheduleReport(after: reportInterval) }
    }

    private func scheduleReport(after delay: Duration) {
        network.advance(&reportTimer, after: delay) { [weak self] in self?.sendReport() }
    }

    private func sendReport() {
        guard let setup = active else { return }
        let now = MonotonicTime.now
        var compound: [UInt8] = []
        let isDue = !areReportsReduced || lastReport.map { now - $0 >= Self.reducedReportInterval } ?? true
        if isDue {
            lastReport = now
            compound = report(setup.parameters, now)
        }
        while let body = recorder.takeFeedback() {
            if compound.count > Self.mostBeforeFeedback {
                compound.withUnsafeBytes(setup.onRTCP)
                compound = []
            }
            if compound.isEmpty { compound = RTCPPackets.receiverReport(setup.parameters.ssrc) }
            compound += RTCPPackets.transportFeedback(body, from: setup.parameters.ssrc, to: lastMediaSSRC)
        }
        if !compound.isEmpty { compound.withUnsafeBytes(setup.onRTCP) }
        // Participants whose reports coincide would stay so (RFC 3550 6.3.1).
        let varied = reportInterval * Double.random(in: 0.75...1.25)
        scheduleReport(after: areReportsReduced && recorder.isEmpty ? Self.reducedReportInterval : varied)
    }

    private func report(_ parameters: RTPSessionParameters, _ now: Duration) -> [UInt8] {
        var reports: [ReceptionReport] = []
        for ssrc in received.keys.sorted() {
            if let report = received[ssrc]?.report(on: ssrc, now: now) { reports.append(report) }
        }
        let running = bin.currentRunningTime.map { Int64(clamping: $0) }
        let ntp = NTPTime.now
        let senders = outgoing.withLock { outgoing -> [(UInt32, RTCPPackets.SenderInformation)] in
            outgoing.streams.keys.sorted().compactMap { ssrc in
                guard let running, let stream = outgoing.streams[ssrc], stream.sentSinceReport,
                    let latest = stream.latest
                else { return nil }
                outgoing.streams[ssrc]?.reported()
                let passed = Double(running &- latest.running) / 1e9 * Double(parameters.clockRate)
                let units = UInt32(truncatingIfNeeded: Int64(max(-1e15, min(passed, 1e15))))
                return (
                    ssrc,
                    RTCPPackets.SenderInformation(
                        ntp: ntp, timestamp: latest.timestamp &+ units, packets: stream.packets, octets: stream.octets)
                )
            }
        }
        // A report has room for 31 blocks; there are no more sources than places for them.
        let blocks = reports.prefix(31)
        guard let first = senders.first else {
            return RTCPPackets.receiverReport(parameters.ssrc, blocks)
                + RTCPPackets.sourceDescription([parameters.ssrc], cname: parameters.cname)
        }
        var compound = RTCPPackets.senderReport(first.0, first.1, blocks)
        for (ssrc, sender) in senders.dropFirst() {
            compound += RTCPPackets.senderReport(ssrc, sender, [ReceptionReport]())
        }
        return compound + RTCPPackets.sourceDescription(senders.map(\.0), cname: parameters.cname)
    }

    /// A feedback message leaves at once, in a compound packet of the least size (RFC 4585 section 3.1).
    private func send(feedback: [UInt8], _ setup: Setup) {
        let compound =
            RTCPPackets.receiverReport(setup.parameters.ssrc)
            + RTCPPackets.sourceDescription([setup.parameters.ssrc], cname: setup.parameters.cname) + feedback
        compound.withUnsafeBytes(setup.onRTCP)
    }

    private func sendBye() {
        guard let setup = active else { return }
        let ssrcs = outgoing.withLock { outgoing in
            defer { outgoing.streams.removeAll() }
            return outgoing.streams.keys.sorted()
        }
        guard !ssrcs.isEmpty else { return }
        send(feedback: RTCPPackets.bye(ssrcs), setup)
    }

    // MARK: Receiving (network thread)

    /// Shows this remote stream from now on. A new one begins with a keyframe; of another one, a keyframe is requested.
    func select(_ ssrc: UInt32) {
        guard selected != ssrc, let setup = active else { return }
        selected = ssrc
        repeated.select(ssrc)
        inbound.begin(ssrc, setup.parameters)
        if kind == .video, received[ssrc] != nil { requestKeyframe() }
    }

    /// Takes a decrypted packet of 12 bytes or more; `flush` hands on what arrived together.
    /// - Parameter activeType: the payload type that is shown.
    func received(rtp packet: UnsafeRawBufferPointer, activeType: Int?, now: Duration) {
        guard let setup = active else { return }
        let (type, ssrc) = (Int(packet[1] & 0x7f), packet.bigEndian32(at: 8))
        let sequence = packet.bigEndian16(at: 2)
        received[ssrc, default: ReceptionStatistics(clockRate: setup.parameters.clockRate)]
            .received(sequence: sequence, timestamp: packet.bigEndian32(at: 4), now: now)
        if let id = setup.parameters.transportWideCC, let number = TransportSequence.number(in: packet, id: id) {
            lastMediaSSRC = ssrc
            recorder.received(number, now: now)
            if areReportsReduced { scheduleReport(after: reportInterval) }
        }
        if let repeated = setup.parameters.repeatedTypes[type] {
            restore(packet, ssrc, type: repeated, isStray: repeated != activeType, now)
        } else if ssrc == selected, setup.parameters.caps[type] != nil {
            inbound.insert(packet, type: type, isStray: type != activeType, sequence: sequence, now)
        }
    }

    private func restore(
        _ packet: UnsafeRawBufferPointer, _ ssrc: UInt32, type: Int, isStray: Bool, _ now: Duration
    ) {
        guard let selected, inbound.isWaiting, repeated.mayRepeat(selected, rtx: ssrc),
            let (restored, sequence) = RTPHeader.restore(packet, payloadType: type, ssrc: selected),
            inbound.isMissing(sequence)
        else { return }
        repeated.learn(selected, rtx: ssrc)
        restored.withUnsafeBytes { inbound.insert($0, type: type, isStray: isStray, sequence: sequence, now) }
    }

    /// Hands on the packets that arrived together.
    func flush() { inbound.flush() }

    private func request(_ sequences: [UInt16]) {
        guard let selected, let setup = active else { return }
        figures.nacksSent &+= UInt64(sequences.count)
        send(feedback: RTCPPackets.nack(sequences, from: setup.parameters.ssrc, to: selected), setup)
    }
}

extension RTPSession {
    // MARK: RTCP from the remote peer (network thread)

    /// The messages about streams of another session have no effect.
    /// - Returns: the latest sender report of the stream that is shown.
    func received(_ compound: RTCPCompound, now: Duration) -> SenderTime? {
        guard let setup = active else { return nil }
        flush()
        var shown: (report: RTCPCompound.SenderReport, running: Int64)?
        for report in compound.senderReports {
            received[report.ssrc]?.senderReported(UInt32(truncatingIfNeeded: report.ntp >> 16), now: now)
            if report.ssrc == selected, let running = inbound.undelayedTime(of: report.timestamp) {
                shown = (report, running)
            }
        }
        for (ssrc, cname) in compound.names where received[ssrc] != nil { cnames[ssrc] = cname }
        for (ssrc, sequences) in compound.nacks { resend(sequences, of: ssrc, setup, now) }
        for ssrc in compound.keyframeRequests where outgoing.withLock({ $0.streams[ssrc] != nil }) {
            figures.plisReceived &+= 1
            makeKeyframe(ssrc, now)
        }
        // The name follows the report in the same packet.
        guard let shown, let cname = cnames[shown.report.ssrc] else { return nil }
        return SenderTime(ntp: NTPTime.nanoseconds(shown.report.ntp), running: shown.running, cname: cname)
    }

    /// Requests a keyframe from the local encoder, at once or later.
    /// - Parameter ssrc: of the stream, or of the layer of a simulcast, of which the remote peer has lost a frame.
    private func makeKeyframe(_ ssrc: UInt32, hasWaited: Bool = false, _ now: Duration) {
        guard active != nil else { return }
        switch keyframes.request(ssrc: ssrc, hasWaited: hasWaited, now: now) {
        case .now: packetsIn.push(Event.forceKeyUnitUpstream(ssrc: ssrc, allHeaders: false))
        case .after(let wait):
            network.schedule(after: wait) { [weak self] in
                self?.makeKeyframe(ssrc, hasWaited: true, MonotonicTime.now)
            }
        case .waits: break
        }
    }

    private func resend(_ sequences: [UInt16], of ssrc: UInt32, _ setup: Setup, _ now: Duration) {
        guard outgoing.withLock({ $0.streams[ssrc] != nil }) else { return }
        figures.nacksReceived &+= 1
        for sequence in sequences {
            let isAllowed = budget.allows(ssrc: ssrc, sequence: sequence, now: now) {
                outgoing.withLock { $0.streams[ssrc]?.size(of: sequence, now: now) }
            }
            guard isAllowed,
                let packet = outgoing.withLock({ $0.streams[ssrc]?.repeated(sequence, now: now) })
            else { continue }
            figures.retransmissions &+= 1
            packet.withUnsafeBytes { bytes in setup.onRTP { $0(bytes, true) } }
        }
    }

    /// Sets the interval after which a NACK is repeated to the time in which the retransmission should have arrived, and the
    /// least interval between two keyframes.
    /// - Parameters:
    ///   - roundTrip: nil: not known yet.
    ///   - bitrate: Our send target, bit/s, of which retransmissions get a share.
    func paceRetransmission(roundTrip: Duration?, bitrate: Int) {
        budget.pace(roundTrip: roundTrip, bitrate: bitrate)
        guard let roundTrip else { return }
        keyframes.pace(roundTrip: roundTrip)
        inbound.requestInterval = min(
            max(roundTrip + max(roundTrip / 4, .milliseconds(10)), .milliseconds(20)), .seconds(2))
    }

    /// Delays the stream by this, ns, to keep it in sync with another one.
    func setDelay(_ delay: Int64) { inbound.delay = delay }

    /// Requests a keyframe of the stream that is shown. Several requests within a moment are one.
    func requestKeyframe() {
        guard let setup = active, let selected, !waitsForKeyframeRequest else { return }
        let now = MonotonicTime.now
        if let last = lastKeyframeRequest, now - last < Self.keyframeRequestInterval {
            waitsForKeyframeRequest = true
            network.schedule(after: Self.keyframeRequestInterval - (now - last)) { [weak self] in
                self?.waitsForKeyframeRequest = false
                self?.requestKeyframe()
            }
            return
        }
        lastKeyframeRequest = now
        figures.plisSent &+= 1
        send(feedback: RTCPPackets.pictureLossIndication(from: setup.parameters.ssrc, to: selected), setup)
    }

    /// The counters, with those of the stream that is shown.
    var currentFigures: RTPSessionFigures {
        var current = figures
        let shown = selected.flatMap { received[$0] }
        (current.packetsLost, current.jitter) = (shown?.packetsLost, shown?.jitter)
        return current
    }

    /// Forgets a remote stream whose place another one takes.
    func forget(_ ssrc: UInt32) {
        (received[ssrc], cnames[ssrc]) = (nil, nil)
        repeated.forget(rtx: ssrc)
    }

    // MARK: End

    /// Stops packets in both directions. Any thread.
    func stop() {
        let wasStopped = life.withLock { life in
            if case .stopped = life { return true }
            life = .stopped
            return false
        }
        guard !wasStopped else { return }
        packetsIn.setActive(false)
        output.stop()
        outgoing.withLock { outgoing in
            outgoing.streams.removeAll()
            outgoing.segment = nil
        }
        network.async { [self] in
            inbound.end()
            reportTimer?.cancel()
            (reportTimer, active) = (nil, nil)
        }
    }

    /// Call after the bin has reached NULL.
    func dismantle() {
        sendPad.setTarget(nil)
        receivePad.setTarget(nil)
    }
}

/// The clock of the stream that is shown, from its sender report; times in nanoseconds.
struct SenderTime {
    /// The sender's NTP time.
    var ntp: Int64
    /// The running time at which media of that time are due here, without the delay for lip sync.
    var running: Int64
    var cname: [UInt8]
}
