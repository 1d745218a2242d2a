// rtpbin with one RTP session for the picture and, where there is sound, another for it: so sound can come while the
// picture runs, and rtpbin keeps both in step by CNAME and sender reports. It knows sessions and what each is tuned for;
// it must not know ICE, DTLS or SDP.
import GStreamerKit
internal import Synchronization

// @unchecked: `handlers` is written by init and, once, by `dismantle`; the rest is constant or locked.
final class RTPGraph: @unchecked Sendable {
    let bin = Bin()
    private let rtpbin: Element
    let video: RTPSession
    private let sound = Mutex<RTPSession?>(nil)
    private var handlers: [SignalHandler] = []
    private let isOver = Mutex(false)
    private let isStopped = Atomic(false)
    /// And the time after which it asks again, ms.
    private let jitterBuffer = Mutex<(element: GObject, retry: Int64)?>(nil)
    /// Of the packets that the remote peer asks for again. It is paced before the first of them is sent.
    private let budget = Mutex(RetransmissionBudget())
    /// In each session; rtpbin has two threads for each. A simulcast's three and their successors fit.
    static let maximumStreams = 8

    /// - Parameter cname: the same in descriptions.
    init(latency: Duration, cname: String) throws(GStreamerError) {
        rtpbin = try Element(factory: "rtpbin")
        // Feedback at once (RFC 4585): NACK and PLI would otherwise wait for the regular report.
        rtpbin.set("rtp-profile", "avpf")
        rtpbin.set("do-retransmission", true)
        rtpbin.set("autoremove", true)
        // A sender report makes a stream too, also that of an RTX source, which never has packets of its own.
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

    /// nil until `configureAudio`.
    var audio: RTPSession? { sound.withLock { $0 } }

    private func session(_ number: Int?) -> RTPSession? { number == 0 ? video : audio }

    /// Makes the picture's session; see `RTPSession.configure`.
    func configureVideo(
        _ parameters: RTPSessionParameters, onRTP: @escaping (UnsafeRawBufferPointer) -> Void,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        try video.configure(parameters, onRTP: onRTP, onRTCP: onRTCP)
        guard let session = video.internals else { return }
        // Early feedback is limited by the RTCP share of the session's bandwidth: at the default the first PLI waited 0.5 s.
        session.set("bandwidth", "2000000")
        session.set("rtcp-min-interval", "100000000")
        session.set("rtp-profile", "avpf")
        // By default each frame is answered with a report of its own, which takes a compound packet along: 60 RTCP
        // packets a second cost a fifth of the transport's CPU. Senders expect 50-250 ms.
        session.set("twcc-feedback-interval", "100000000")
    }

    /// Makes the sound's session and its pads, `audio_rtp_sink` and `audio_rtp_src`, also while the picture runs.
    func configureAudio(
        _ parameters: RTPSessionParameters, onRTP: @escaping (UnsafeRawBufferPointer) -> Void,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        let session = isOver.withLock { isOver -> RTPSession? in
            guard !isOver, audio == nil else { return nil }
            let made = RTPSession(number: 1, prefix: "audio_", isShielded: true, rtpbin: rtpbin, bin: bin)
            sound.withLock { $0 = made }
            return made
        }
        guard let session else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        try session.configure(parameters, onRTP: onRTP, onRTCP: onRTCP)
        // The far side needs a report soon to put lips in step; the default is 5 s.
        session.internals?.set("rtcp-min-interval", "500000000")
        if isStopped.load(ordering: .acquiring) { session.stop() }
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
                // Otherwise the first packets, a key frame, wait for the whole latency.
                buffer.set("faststart-min-packets", 1)
                if arguments[1].int == 0 {
                    // Ask again for what is missing, not for what has not been sent yet: frames come in bursts.
                    buffer.set("rtx-next-seqnum", false)
                    self?.jitterBuffer.withLock { $0 = (buffer, -1) }
                } else {
                    // Sound is not repeated: what is lost the decoder is told of, and it conceals it.
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
                        if case .event(let event) = item, self?.lets(event) == false { return .drop }
                        return .pass
                    }
                }.map(GValueBox.init(object:))
            })
        handlers.append(
            rtpbin.connect("request-aux-receiver") { [weak self] arguments in
                guard let wanted = self?.session(arguments.first?.int)?.retransmission else { return nil }
                return Self.auxiliary("rtprtxreceive", wanted, namesSources: false).map(GValueBox.init(object:))
            })
        handlers.append(
            rtpbin.connect("pad-added") { [weak self] arguments in
                // A new SSRC, say after the far side restarted its encoder, replaces the old one.
                // recv_rtp_src_SESSION_SSRC_TYPE
                guard let pad = arguments.first?.pad, pad.name.hasPrefix("recv_rtp_src_") else { return nil }
                let words = pad.name.split(separator: "_").suffix(3).map { UInt32($0) }
                if words.count == 3, let number = words[0] {
                    self?.session(Int(number))?.receive(from: pad, ssrc: words[1])
                }
                return nil
            })
    }

    /// RFC 4588 packets are made and resolved by a bin that rtpbin puts around its session.
    private static func auxiliary(
        _ factory: String, _ wanted: RTPSessionParameters.Retransmission, namesSources: Bool,
        watch: (Pad) -> Void = { _ in }
    ) -> Bin? {
        guard let element = try? Element(factory: factory), let sink = element.staticPad("sink"),
            let source = element.staticPad("src")
        else { return nil }
        let types = Structure("application/x-rtp-pt-map")
        types[String(wanted.ofPayloadType)] = GValueBox(uint: wanted.payloadType)
        element.set("payload-type-map", structure: types)
        if namesSources {
            let sources = Structure("application/x-rtp-ssrc-map")
            for (ssrc, repeated) in wanted.ssrcs { sources[String(ssrc)] = GValueBox(uint: Int(repeated)) }
            element.set("ssrc-map", structure: sources)
            // Of a simulcast the packets come without caps of their own.
            let rates = Structure("application/x-rtp-clock-rate-map")
            rates[String(wanted.ofPayloadType)] = GValueBox(uint: 90_000)
            element.set("clock-rate-map", structure: rates)
        }
        // One second is asked for again at most: a packet older than that comes too late for any jitter buffer.
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

    // MARK: Network thread

    /// Ends a stream of the remote peer's at once; rtpbin waits until its source times out, which may take long where there
    /// are many.
    func forget(_ ssrc: UInt32, _ kind: MediaKind) {
        rtpbin.emit("clear-ssrc", [GValueBox(uint: kind == .video ? 0 : 1), GValueBox(uint: Int(ssrc))])
    }

    /// A packet is asked for again when its retransmission should have come. Left alone the jitter buffer adds twice the
    /// jitter, in which a far side that sends frames in bursts counts too: two requests were all that 1 s had room for.
    /// - Parameters:
    ///   - roundTrip: nil: not known yet.
    ///   - bitrate: of what we send.
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

    /// Whether rtprtxsend hears of an event from downstream: all but requests beyond the budget.
    private func lets(_ event: Event) -> Bool {
        guard let request = event.structure, request.name == "GstRTPRetransmissionRequest" else { return true }
        guard let sequence = request.int("seqnum"), let ssrc = request.int("ssrc") else { return false }
        return budget.withLock {
            $0.allows(ssrc: UInt32(truncatingIfNeeded: ssrc), sequence: UInt16(truncatingIfNeeded: sequence), now: MonotonicTime.now)
        }
    }

    // MARK: End

    /// Stops packets both ways; the owner then takes the bin to NULL.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        video.stop()
        audio?.stop()
    }

    /// After the bin reached NULL.
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
