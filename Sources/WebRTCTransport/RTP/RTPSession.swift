// The RTP session of one kind of media (RFC 3550): the boundary between packets and the pipeline. It gives `InboundRTP` and
// `OutboundRTP` pads, timers and the time, and carries out what they decide; it must not know ICE, DTLS or SDP.
import EventLoopThreads
import GStreamerKit
import ICE
import RTP
internal import Synchronization

/// Takes outgoing packets that may leave together.
/// - Parameter forEach: calls its argument with each packet. `isDelta` is the buffer's DELTA_UNIT flag; payloaders leave it
///   off the first packet of a keyframe.
typealias RTPOutput = (_ forEach: ((_ packet: UnsafeRawBufferPointer, _ isDelta: Bool) -> Void) -> Void) -> Void

// @unchecked: fields under `MARK: Network thread only` are accessed on the network thread only; the others are constant
// or locked.
final class RTPSession: @unchecked Sendable {
    private let bin: Bin
    private let network: NetworkThread
    /// Takes the packets of the payloader.
    private let packetsIn: Pad
    private let sendPad: GhostPad
    private let receivePad: GhostPad
    private let output: PacketOutput

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

    /// What the streaming thread needs for each packet.
    private struct Outgoing: Sendable {
        var media = OutboundRTP()
        var segment: Event?
        var isSending = true
        private var random = SystemRandomNumberGenerator()

        mutating func sent(
            _ packet: Buffer, _ bytes: UnsafeRawBufferPointer, now: Duration, retired: inout [any PacketStorage]
        ) {
            let running = packet.pts.flatMap { segment?.runningTime(of: $0) }.map { Int64(clamping: $0) }
            media.sent(packet, bytes, running: running, now: now, using: &random, retired: &retired)
        }
    }
    private let outgoing = Mutex(Outgoing())

    /// A change that may give packets up, whose memory may be the application's: they are released after the lock.
    private func change<Result: Sendable>(_ body: (inout Outgoing) -> Result) -> Result {
        let (result, former) = outgoing.withLock { outgoing in
            let former = outgoing
            return (body(&outgoing), former)
        }
        return withExtendedLifetime(former) { result }
    }

    // MARK: Network thread only
    /// Set from `configure` to `stop`.
    private var active: Setup?
    private var inbound: InboundRTP
    /// Caps of inbound packets, by payload type.
    private var caps: [Int: String] = [:]
    private var random = SystemRandomNumberGenerator()
    private var delivery: [PacketOutput.Item] = []
    /// RTCP to send after the call of `inbound` that decided so: no callback of the socket may find `inbound` in use.
    private var compounds: [[UInt8]] = []
    private var wakeTimer: NetworkTimer?
    /// What `wakeTimer` waits for.
    private var wakeTime: Duration?

    /// - Parameters:
    ///   - prefix: the bin gets the ghost pads `PREFIXrtp_sink` and `PREFIXrtp_src`.
    ///   - hasOutputThread: see `PacketOutput`.
    init(_ kind: MediaKind, prefix: String, bin: Bin, network: NetworkThread, hasOutputThread: Bool = true) {
        (self.bin, self.network) = (bin, network)
        packetsIn = Pad(name: "\(prefix)packets_in", direction: .sink)
        sendPad = GhostPad(name: "\(prefix)rtp_sink", direction: .sink)
        receivePad = GhostPad(name: "\(prefix)rtp_src", direction: .source)
        output = PacketOutput(streamID: "gst-decart/\(prefix)rtp", exit: receivePad, hasThread: hasOutputThread)
        inbound = InboundRTP(kind, storage: Buffer.self)
        output.start { [weak self] in self?.network.async { [weak self] in self?.requestKeyframe() } }
        bin.add(sendPad)
        bin.add(receivePad)
        sendPad.setTarget(packetsIn)
        receivePad.setTarget(output.pad)
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
        outgoing.withLock { $0.media.configure(parameters) }
        packetsIn.setChainFunction { [weak self] in self?.send([$0]) ?? .flushing }
        packetsIn.setChainListFunction { [weak self] in self?.send($0) ?? .flushing }
        packetsIn.setEventFunction { [weak self] event in
            switch event.kind {
            case .segment: self?.change { $0.segment = event }
            case .eos: self?.network.async { [weak self] in self?.sendBye() }
            default: break
            }
            return .handled(true)
        }
        packetsIn.setActive(true)
        network.async { [weak self] in
            guard let self, isConfigured else { return }
            (active, caps) = (setup, parameters.caps)
            inbound.configure(parameters)
        }
    }

    private var setup: Setup? {
        life.withLock { life in
            guard case .configured(let setup) = life else { return nil }
            return setup
        }
    }
    var isConfigured: Bool { setup != nil }

    /// Adds and removes streams that we send beside the described one.
    func add(_ ssrc: UInt32, rtx: UInt32) { outgoing.withLock { $0.media.add(ssrc, rtx: rtx) } }
    func lastPacket(of ssrc: UInt32) -> (sequence: UInt16, timestamp: UInt32)? {
        outgoing.withLock { $0.media.lastPacket(of: ssrc) }
    }
    func remove(_ ssrc: UInt32) { change { $0.media.remove(ssrc) } }

    /// Lets packets leave, or drops them before the session counts them. Returns true if this is a change.
    func setSending(_ sends: Bool) -> Bool {
        outgoing.withLock { outgoing in
            defer { outgoing.isSending = sends }
            return outgoing.isSending != sends
        }
    }

    /// Requests a keyframe from the local encoder at once, because no packet before this moment has left.
    func startWithKeyframe() { packetsIn.push(Event.forceKeyUnitUpstream()) }

    /// Lets the local payloaders make shorter packets, beginning with a keyframe, because the frames before it were lost.
    func sendShortPackets() {
        packetsIn.push(ShortPackets.request)
        startWithKeyframe()
    }

    private func send(_ buffers: [Buffer]) -> FlowReturn {
        guard let setup, outgoing.withLock(\.isSending) else { return .ok }
        let now = MonotonicTime.now
        // Released at the end, without a lock.
        var retired: [any PacketStorage] = []
        withUnsafeTemporaryAllocation(byteCount: HeaderExtensionWriter.capacity, alignment: 16) { scratch in
            setup.onRTP { send in
                for buffer in buffers {
                    let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<buffer.copyBytes(to: scratch)])
                    guard bytes.count >= 12, bytes.count == buffer.size else { continue }
                    outgoing.withLock { $0.sent(buffer, bytes, now: now, retired: &retired) }
                    send(bytes, buffer.isDeltaUnit)
                }
            }
        }
        return .ok
    }

    private func sendBye() {
        guard let setup = active else { return }
        let ssrcs = change { $0.media.end() }
        guard !ssrcs.isEmpty else { return }
        setup.parameters.compound(RTCPPackets.bye(ssrcs)).withUnsafeBytes(setup.onRTCP)
    }

    // MARK: Receiving (network thread)

    /// Shows this remote stream from now on. A new one begins with a keyframe; of another one, a keyframe is requested.
    func select(_ ssrc: UInt32) {
        inbound.select(ssrc, now: MonotonicTime.now) { perform($0) }
        settle()
    }

    /// As in `InboundRTP`.
    func changeType(to type: Int) -> Bool { inbound.changeType(to: type) }

    /// As in `InboundRTP`.
    func maySelect(rtp packet: UnsafeRawBufferPointer) -> Bool { inbound.maySelect(rtp: packet) }

    /// Takes a decrypted packet of 12 bytes or more. Call `flush` after those that arrived together.
    func received(rtp packet: UnsafeRawBufferPointer, activeType: Int?, now: Duration) {
        inbound.received(rtp: packet, activeType: activeType, now: now, running: { runningTime }) { perform($0) }
    }

    /// Takes redundant audio from now on, or none.
    func setRedundancy(_ redundancy: AudioRedundancy?) { inbound.setRedundancy(redundancy) }

    /// Takes over the codecs and RTX that were negotiated since `configure`; what is sent stays as it is.
    func update(_ parameters: RTPSessionParameters) {
        guard active != nil else { return }
        caps = parameters.caps
        inbound.update(parameters)
    }

    /// As `received`, of a stream that was rejected.
    func refused(rtp packet: UnsafeRawBufferPointer, now: Duration) { inbound.refused(rtp: packet, now: now) }

    /// Drops the server's own frames from now on.
    func setFiller(_ trailer: FillerTrailer) { inbound.setFiller(trailer) }

    private var runningTime: Int64? { bin.currentRunningTime.map { Int64(clamping: $0) } }

    /// Hands on the packets that arrived together, and sends the requests that they caused. The timer is set here and not for
    /// each packet: each one within a frame sets a time to request the next, which the end of the frame takes back.
    func flush() {
        if inbound.flush() { output.deliver(&delivery) }
        settle()
    }

    /// Requests a keyframe of the stream that is shown. Several requests within a moment are one.
    func requestKeyframe() {
        inbound.requestKeyframe(now: MonotonicTime.now) { perform($0) }
        settle()
    }

    /// Begins to send reports, once packets can leave.
    func startReports() {
        inbound.startReports(now: MonotonicTime.now)
        settle()
    }

    /// Sends fewer reports while no media are sent.
    func setReports(areReduced: Bool) {
        inbound.setReports(areReduced: areReduced, now: MonotonicTime.now)
        settle()
    }

    /// Call after each change of `inbound`.
    private func settle() {
        if let active, !compounds.isEmpty {
            let due = compounds
            compounds = []
            for compound in due { compound.withUnsafeBytes(active.onRTCP) }
        }
        let time = inbound.nextWake
        guard time != wakeTime else { return }
        wakeTime = time
        guard let time else {
            wakeTimer?.cancel()
            return wakeTimer = nil
        }
        network.move(&wakeTimer, after: time - MonotonicTime.now) { [weak self] in self?.wake() }
    }

    private func wake() {
        // The timer may be that of an earlier time that was given up.
        wakeTime = nil
        inbound.wake(at: MonotonicTime.now, senders: { senderReports() }, using: &random) { perform($0) }
        flush()
    }

    private func senderReports() -> [RTCPPackets.SenderInformation] {
        guard let clockRate = active?.parameters.clockRate else { return [] }
        let (running, ntp) = (runningTime, NTPTime.now)
        return outgoing.withLock { $0.media.reports(running: running, ntp: ntp, clockRate: clockRate) }
    }

    /// Carries out what `inbound` decides.
    private func perform(_ action: InboundAction) {
        switch action {
        case .source(let ssrc, let payloadType):
            guard let text = caps[payloadType], let caps = try? Caps("\(text), ssrc=(uint)\(ssrc)")
            else { return }
            delivery.append(.caps(caps))
        case .packet(let packet, let time, let isDiscontinuous):
            guard let packet = packet as? Buffer else { return }
            (packet.pts, packet.dts) = (time, time)
            if isDiscontinuous { packet.isDiscontinuous = true }
            delivery.append(.packet(packet))
        case .lost(let sequence, let time, let duration):
            let lost = Structure("GstRTPPacketLost")
            lost["seqnum"] = GValueBox(uint: Int(sequence))
            lost["timestamp"] = GValueBox(uint64: time)
            lost["duration"] = GValueBox(uint64: duration)
            lost["might-have-been-fec"] = GValueBox(false)
            delivery.append(.event(Event.customDownstream(lost)))
        case .rtcp(let compound):
            compounds.append(compound)
        }
    }
}

extension RTPSession {
    // MARK: RTCP from the remote peer (network thread)

    /// The messages about streams of another session have no effect.
    /// - Returns: the latest sender report of the stream that is shown.
    func received(_ compound: RTCPCompound, now: Duration) -> SenderTime? {
        guard let setup = active else { return nil }
        flush()
        for (ssrc, sequences) in compound.nacks where outgoing.withLock({ $0.media.nacked(ssrc) }) {
            for sequence in sequences { resend(sequence, of: ssrc, setup, now) }
        }
        for ssrc in compound.keyframeRequests where outgoing.withLock({ $0.media.keyframeRequested(ssrc) }) {
            makeKeyframe(ssrc, now)
        }
        return inbound.received(compound, now: now)
    }

    private func resend(_ sequence: UInt16, of ssrc: UInt32, _ setup: Setup, _ now: Duration) {
        let packet = outgoing.withLock { $0.media.retransmission(of: sequence, ssrc: ssrc, now: now) }
        packet?.withUnsafeBytes { bytes in setup.onRTP { $0(bytes, true) } }
    }

    /// True once there is something that padding can follow.
    var canPad: Bool { outgoing.withLock { $0.isSending && $0.media.canPad } }

    /// See `OutboundRTP.padding`. Nothing is sent by this.
    func padding(_ bytes: Int) -> [UInt8]? { outgoing.withLock { $0.isSending ? $0.media.padding(bytes) : nil } }

    /// Requests a keyframe from the local encoder, at once or later.
    private func makeKeyframe(_ ssrc: UInt32, hasWaited: Bool = false, _ now: Duration) {
        guard active != nil else { return }
        switch outgoing.withLock({ $0.media.paceKeyframe(ssrc, hasWaited: hasWaited, now: now) }) {
        case .now: packetsIn.push(Event.forceKeyUnitUpstream(ssrc: ssrc, allHeaders: false))
        case .after(let wait):
            network.schedule(after: wait) { [weak self] in
                self?.makeKeyframe(ssrc, hasWaited: true, MonotonicTime.now)
            }
        case .waits: break
        }
    }

    /// Sets the pace of NACKs, retransmissions and keyframes.
    /// - Parameters:
    ///   - roundTrip: nil: not known yet.
    ///   - bitrate: Our send target, bit/s, of which retransmissions get a share.
    func roundTripChanged(to roundTrip: Duration?, bitrate: Int) {
        outgoing.withLock { $0.media.pace(roundTrip: roundTrip, bitrate: bitrate) }
        if let roundTrip { inbound.pace(roundTrip: roundTrip) }
    }

    /// Delays the stream by this, ns, to keep it in sync with another one.
    func setDelay(_ delay: Int64) { inbound.setDelay(delay) }

    /// The counters, with those of the stream that is shown.
    var currentStatistics: RTPSessionStatistics {
        var statistics = inbound.statistics
        let sent = outgoing.withLock { $0.media.statistics }
        (statistics.nacksReceived, statistics.plisReceived) = (sent.nacksReceived, sent.plisReceived)
        statistics.retransmissions = sent.retransmissions
        return statistics
    }

    /// Forgets a remote stream whose place another one takes.
    func forget(_ ssrc: UInt32) { inbound.forget(ssrc) }

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
        change { outgoing in
            _ = outgoing.media.end()
            outgoing.segment = nil
        }
        network.async { [self] in
            inbound.end()
            (delivery, compounds, active) = ([], [], nil)
            settle()
        }
    }

    /// Call after the bin has reached NULL.
    func dismantle() {
        sendPad.setTarget(nil)
        receivePad.setTarget(nil)
    }
}
