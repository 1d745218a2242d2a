// rtpbin with an RTP session for video and, if negotiated, one for audio. Audio can thus be added while video runs, and
// rtpbin keeps both in sync by CNAME and sender reports. It knows sessions and their tuning; it must not know ICE, DTLS
// or SDP.
import GStreamerKit
internal import Synchronization

// @unchecked: `handlers` is written by init and, once, by `dismantle`; the rest is constant or locked.
final class RTPBin: @unchecked Sendable {
    let bin = Bin()
    private let rtpbin: Element
    let video: RTPSession
    private let audioSession = Mutex<RTPSession?>(nil)
    private var handlers: [SignalHandler] = []
    private let isOver = Mutex(false)
    private let isStopped = Atomic(false)
    /// The newest video jitter buffer and its `rtx-retry-timeout`, ms; −1: not set yet.
    private let jitterBuffer = Mutex<(element: GObject, retry: Int64)?>(nil)
    /// Limits the retransmissions that the remote peer requests. `paceRetransmission` is called before the first of
    /// them leaves.
    private let budget = Mutex(RetransmissionBudget())
    private let timeout = Mutex(TimeoutHandler())
    /// A closure directly in the Mutex would gain a thunk at each access.
    private struct TimeoutHandler: Sendable { var handle: (@Sendable (UInt32, MediaKind) -> Void)? }
    /// Remote streams in each session; rtpbin runs two threads for each. Three simulcast layers and their successors
    /// fit.
    static let maximumStreams = 8

    /// - Parameter cname: The same as in the descriptions.
    init(latency: Duration, cname: String) throws(GStreamerError) {
        rtpbin = try Element(factory: "rtpbin")
        // AVPF (RFC 4585) sends NACK and PLI at once; otherwise they would wait for the next regular report.
        rtpbin.set("rtp-profile", "avpf")
        rtpbin.set("do-retransmission", true)
        // rtpbin counts a stream for each sender report too, also for that of an RTX SSRC, which never has packets of
        // its own.
        rtpbin.set("max-streams", 2 * Self.maximumStreams)
        rtpbin.set("latency", String(latency.clockTime / 1_000_000))
        let names = Structure("application/x-rtp-source-sdes")
        names["cname"] = GValueBox(cname)
        rtpbin.set("sdes", structure: names)
        bin.add(rtpbin)
        video = RTPSession(number: 0, prefix: "", isShielded: false, rtpbin: rtpbin, bin: bin)
        bin.suppressSourceAndSinkFlags()
        connectSignals()
    }

    /// nil before `configureAudio`.
    var audio: RTPSession? { audioSession.withLock { $0 } }

    private func session(_ number: Int?) -> RTPSession? { number == 0 ? video : audio }

    /// Sets up the video session; see `RTPSession.configure`.
    func configureVideo(
        _ parameters: RTPSessionParameters, onRTP: @escaping RTPOutput,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        try video.configure(parameters, onRTP: onRTP, onRTCP: onRTCP)
        video.withInternals { session in
            // The RTCP share of the session bandwidth limits early feedback: with the default, the first PLI waited
            // 0.5 s.
            session.set("bandwidth", "2000000")
            session.set("rtcp-min-interval", Self.reportInterval(of: .video, isReduced: false))
            session.set("rtp-profile", "avpf")
            // By default rtpsession answers each frame with a transport-cc report, which takes a compound packet along:
            // 60 RTCP packets a second cost a fifth of the transport's CPU. Senders expect an interval of 50-250 ms.
            session.set("twcc-feedback-interval", "100000000")
        }
    }

    /// Sets up the audio session and its pads, `audio_rtp_sink` and `audio_rtp_src`, also while video runs.
    func configureAudio(
        _ parameters: RTPSessionParameters, onRTP: @escaping RTPOutput,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        let session = isOver.withLock { isOver -> RTPSession? in
            guard !isOver, audio == nil else { return nil }
            let made = RTPSession(number: 1, prefix: "audio_", isShielded: true, rtpbin: rtpbin, bin: bin)
            audioSession.withLock { $0 = made }
            return made
        }
        guard let session else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        try session.configure(parameters, onRTP: onRTP, onRTCP: onRTCP)
        session.withInternals { $0.set("rtcp-min-interval", Self.reportInterval(of: .audio, isReduced: false)) }
        if isStopped.load(ordering: .acquiring) { session.stop() }
    }

    /// Sends fewer RTCP reports while no media of this kind are sent: ten a second cost more than 10 kbit/s.
    func setReports(of kind: MediaKind, areReduced: Bool) {
        let session = kind == .video ? video : audio
        session?.withInternals { $0.set("rtcp-min-interval", Self.reportInterval(of: kind, isReduced: areReduced)) }
    }

    /// Least interval between two regular RTCP reports, ns.
    private static func reportInterval(of kind: MediaKind, isReduced: Bool) -> String {
        if isReduced { return "15000000000" }
        // The remote peer needs an early report of audio for lip sync; the default interval is 5 s.
        return kind == .video ? "100000000" : "500000000"
    }

    private func connectSignals() {
        handlers.append(
            rtpbin.connect("request-pt-map") { [weak self] arguments in
                guard arguments.count == 2, let type = arguments[1].int else { return nil }
                return self?.session(arguments[0].int)?.caps(of: type).map(GValueBox.init(caps:))
            })
        handlers.append(
            rtpbin.connect("new-jitterbuffer") { [weak self] arguments in
                guard arguments.count >= 2, let buffer = arguments[0].object else { return nil }
                // Otherwise the first packets, a keyframe, would wait for the whole jitter buffer latency.
                buffer.set("faststart-min-packets", 1)
                if arguments[1].int == 0 {
                    // Send NACKs for missing packets, not for packets that are not sent yet: frames come in bursts.
                    buffer.set("rtx-next-seqnum", false)
                    // The automatic delay is twice the jitter, which a frame's burst of packets raises.
                    buffer.set("rtx-delay", 10)
                    self?.jitterBuffer.withLock { $0 = (buffer, -1) }
                } else {
                    // Audio is not retransmitted: the jitter buffer reports lost packets to the decoder, which conceals
                    // them.
                    buffer.set("do-retransmission", false)
                    buffer.set("do-lost", true)
                }
                return nil
            })
        handlers.append(
            rtpbin.connect("request-aux-sender") { [weak self] arguments in
                guard let wanted = self?.session(arguments.first?.int)?.retransmission else { return nil }
                return Self.auxiliary("rtprtxsend", wanted, namesSources: true) { source in
                    source.addProbe(.upstreamEvent) { [weak self] item in
                        if case .event(let event) = item, self?.forwards(event) == false { return .drop }
                        return .pass
                    }
                }.map(GValueBox.init(object:))
            })
        handlers.append(
            rtpbin.connect("request-aux-receiver") { [weak self] arguments in
                guard let wanted = self?.session(arguments.first?.int)?.retransmission else { return nil }
                return Self.auxiliary("rtprtxreceive", wanted, namesSources: false).map(GValueBox.init(object:))
            })
        // With `autoremove`, rtpbin would remove the stream on its RTCP thread. If a packet of the same SSRC arrives at
        // that moment, as after a pause of the process, rtpssrcdemux adds a second pad of that name, which fails, and
        // then uses it after it is freed.
        for name in ["on-timeout", "on-bye-timeout"] {
            handlers.append(
                rtpbin.connect(name) { [weak self] arguments in
                    guard arguments.count == 2, let number = arguments[0].int,
                        let ssrc = arguments[1].int.flatMap(UInt32.init(exactly:))
                    else { return nil }
                    self?.timeout.withLock { $0 }.handle?(ssrc, number == 0 ? .video : .audio)
                    return nil
                })
        }
        handlers.append(
            rtpbin.connect("pad-added") { [weak self] arguments in
                // The name is recv_rtp_src_SESSION_SSRC_TYPE. A new SSRC appears, for example, after the remote peer
                // restarts its encoder.
                guard let pad = arguments.first?.pad, pad.name.hasPrefix("recv_rtp_src_") else { return nil }
                let words = pad.name.split(separator: "_").suffix(3).map { UInt32($0) }
                if words.count == 3, let number = words[0] {
                    self?.session(Int(number))?.receive(from: pad, ssrc: words[1])
                }
                return nil
            })
    }

    /// Returns the bin that rtpbin puts around its session to create or resolve RTX packets (RFC 4588).
    private static func auxiliary(
        _ factory: String, _ wanted: RTPSessionParameters.Retransmission, namesSources: Bool,
        watch: (Pad) -> Void = { _ in }
    ) -> Bin? {
        guard let element = try? Element(factory: factory), let sink = element.staticPad("sink"),
            let source = element.staticPad("src")
        else { return nil }
        let types = Structure("application/x-rtp-pt-map")
        types[String(wanted.ofPayloadType)] = GValueBox(uint: wanted.payloadType)
        for (type, repeated) in wanted.received where !namesSources { types[String(type)] = GValueBox(uint: repeated) }
        element.set("payload-type-map", structure: types)
        if namesSources {
            let sources = Structure("application/x-rtp-ssrc-map")
            for (ssrc, repeated) in wanted.ssrcs { sources[String(ssrc)] = GValueBox(uint: Int(repeated)) }
            element.set("ssrc-map", structure: sources)
            // Packets of a simulcast come without caps of their own, so rtprtxsend needs the clock rate here.
            let rates = Structure("application/x-rtp-clock-rate-map")
            rates[String(wanted.ofPayloadType)] = GValueBox(uint: 90_000)
            element.set("clock-rate-map", structure: rates)
        }
        // Keep one second: an older packet would be too late for any jitter buffer.
        element.set("max-size-packets", 512)
        element.set("max-size-time", 1000)
        watch(source)
        let bin = Bin()
        bin.add(element)
        guard let sinkGhost = try? GhostPad(name: "sink_0", target: sink),
            let sourceGhost = try? GhostPad(name: "src_0", target: source)
        else { return nil }
        bin.add(sinkGhost)
        bin.add(sourceGhost)
        return bin
    }

    /// Sets the handler for the timeout of a remote source, which calls `forget` unless packets arrive again. It is
    /// called on a thread of rtpbin.
    func onSourceTimeout(_ handler: @escaping @Sendable (UInt32, MediaKind) -> Void) {
        timeout.withLock { $0.handle = handler }
    }

    // MARK: Network thread

    /// Call after packets that arrived together.
    func flush() {
        video.flush()
        audio?.flush()
    }

    /// Removes a remote stream. Packets must not arrive on another thread meanwhile.
    func forget(_ ssrc: UInt32, _ kind: MediaKind) {
        flush()
        rtpbin.emit("clear-ssrc", [GValueBox(uint: kind == .video ? 0 : 1), GValueBox(uint: Int(ssrc))])
    }

    /// Sets the interval after which a NACK is repeated to the time in which the retransmission should have arrived. By
    /// default the jitter buffer adds twice the jitter, which includes a remote peer's bursts of frames: 1 s had room
    /// for two requests only.
    /// - Parameters:
    ///   - roundTrip: nil: not known yet.
    ///   - bitrate: Our send target, bit/s, of which retransmissions get a share.
    func paceRetransmission(roundTrip: Duration?, bitrate: Int) {
        budget.withLock { $0.pace(roundTrip: roundTrip, bitrate: bitrate) }
        guard let roundTrip else { return }
        let milliseconds = Int64(clamping: roundTrip.clockTime / 1_000_000)
        let retry = min(max(milliseconds &+ max(milliseconds / 4, 10), 20), 2000)
        let buffer = jitterBuffer.withLock { current -> GObject? in
            guard let (buffer, last) = current, abs(retry &- last) > max(last / 8, 0) else { return nil }
            current?.retry = retry
            return buffer
        }
        buffer?.set("rtx-retry-timeout", Int(retry))
    }

    /// Returns false for retransmission requests beyond the budget; rtprtxsend must not get these.
    private func forwards(_ event: Event) -> Bool {
        guard event.hasName("GstRTPRetransmissionRequest"), let request = event.structure else { return true }
        guard let sequence = request.int("seqnum"), let ssrc = request.int("ssrc") else { return false }
        return budget.withLock {
            $0.allows(
                ssrc: UInt32(truncatingIfNeeded: ssrc), sequence: UInt16(truncatingIfNeeded: sequence),
                now: MonotonicTime.now)
        }
    }

    // MARK: End

    /// Stops packets in both directions. The owner then sets the bin to NULL.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        video.stop()
        audio?.stop()
    }

    /// Call after the bin has reached NULL.
    func dismantle() {
        let isFirst = isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
        guard isFirst else { return }
        for handler in handlers { rtpbin.disconnect(handler) }
        handlers.removeAll()
        jitterBuffer.withLock { $0 = nil }
        video.dismantle()
        audio?.dismantle()
    }
}
