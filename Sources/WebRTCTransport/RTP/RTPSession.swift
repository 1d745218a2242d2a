// One RTP session of rtpbin and the four bare pads (pads without an element) around it: the boundary between packets
// and the pipeline. It knows payload types and pads; it must not know ICE, DTLS or SDP.
import GStreamerKit
internal import Synchronization

/// Takes outgoing packets that may leave together.
/// - Parameter forEach: calls its argument with each packet. `isDelta` is the buffer's DELTA_UNIT flag; payloaders leave it
///   off the first packet of a keyframe.
typealias RTPOutput = (_ forEach: ((_ packet: UnsafeRawBufferPointer, _ isDelta: Bool) -> Void) -> Void) -> Void

/// Negotiated parameters of an RTP session.
struct RTPSessionParameters: Sendable {
    /// Caps of inbound packets, by payload type.
    var caps: [Int: Caps]
    /// Our SSRC, as in the local description.
    var ssrc: UInt32
    /// RTX (RFC 4588); nil if not negotiated.
    var retransmission: Retransmission?

    struct Retransmission: Sendable {
        var payloadType: Int
        var ofPayloadType: Int
        /// Further types to receive, by the type that they retransmit.
        var received: [Int: Int] = [:]
        /// RTX SSRCs, by the SSRC that they retransmit.
        var ssrcs: [UInt32: UInt32]
    }
}

extension RTPSessionParameters {
    /// Names only `nack pli`: with `ccm fir` in the caps, rtpsession would send FIR instead of PLI.
    init(_ video: NegotiatedVideo, _ identity: LocalIdentity) {
        caps = [:]
        ssrc = identity.ssrc
        for codec in [video.codec] + video.alternatives { add(codec, video.extensions) }
        let codec = video.codec
        guard let repeated = codec.retransmissionPayloadType else { return }
        var ssrcs = [identity.ssrc: identity.rtxSSRC]
        for stream in identity.streams(video.sentLayers) { ssrcs[stream.ssrc] = stream.rtxSSRC }
        let others = video.alternatives.compactMap { other in
            other.retransmissionPayloadType.map { (other.payloadType, $0) }
        }
        retransmission = Retransmission(
            payloadType: repeated, ofPayloadType: codec.payloadType,
            received: Dictionary(others) { first, _ in first }, ssrcs: ssrcs)
    }

    private mutating func add(_ codec: NegotiatedCodec, _ extensions: HeaderExtensionIDs) {
        let type = codec.payloadType
        var text = "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(type), "
        text +=
            "encoding-name=(string)\(codec.codec.encodingName), rtcp-fb-nack=(boolean)true, rtcp-fb-nack-pli=(boolean)true"
        if codec.usesTransportCC, let id = extensions.transportWideCC {
            text +=
                ", rtcp-fb-transport-cc=(boolean)true, extmap-\(id)=(string)\"\(HeaderExtensionIDs.transportWideCCURI)\""
        }
        if codec.codec == .h264 { text += ", packetization-mode=(string)1" }
        caps[type] = try? Caps(text)
        guard let repeated = codec.retransmissionPayloadType else { return }
        caps[repeated] = try? Caps(
            "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(repeated), "
                + "encoding-name=(string)RTX, apt=(string)\(type)")
    }

    init(_ audio: NegotiatedAudio, _ identity: LocalIdentity) {
        caps = [:]
        ssrc = identity.audioSSRC
        caps[audio.payloadType] = try? Caps(
            "application/x-rtp, media=(string)audio, clock-rate=(int)48000, payload=(int)\(audio.payloadType), "
                + "encoding-name=(string)OPUS, encoding-params=(string)2")
    }
}

// @unchecked: set up on one thread before packets flow and taken apart on one thread after that, which `life` ensures;
// `announced` and `waiting` belong to the network thread.
final class RTPSession: @unchecked Sendable {
    let number: Int
    private let rtpbin: Element
    private let bin: Bin
    /// Sink pads that take rtpbin's outgoing packets.
    private let rtpOut: Pad
    private let rtcpOut: Pad
    /// Source pads that the network thread pushes inbound packets into.
    private let rtpIn: Pad
    private let rtcpIn: Pad
    private let sendPad: GhostPad
    private let receivePad: GhostPad
    /// Discards flow errors of the receiver, also those of an unlinked pad: one that reached the jitter buffer would
    /// stop it for good. nil: `streams` does this for each stream.
    private let shield: ErrorIsolator?
    /// A session without a shield has an `ErrorIsolator` for each stream. Only `shown` is forwarded; the other isolators
    /// are not linked and discard their packets.
    private struct Streams {
        var isolators: [UInt32: ErrorIsolator] = [:]
        var shown: UInt32?
    }
    private let streams = Mutex(Streams())
    private var announced = false
    /// Packets that arrived together.
    private var waiting: [Buffer] = []
    private let gate = BatchGate()
    private var requested: [Pad] = []
    private let configured = Atomic(false)
    private enum Life { case new, configuring, configured, dismantled }
    private let life = Mutex(Life.new)
    private let stopped = Atomic(false)
    private let isSending = Atomic(true)
    private let parameters = Mutex<RTPSessionParameters?>(nil)

    /// - Parameters:
    ///   - bin: Gets the ghost pads `PREFIXrtp_sink` and `PREFIXrtp_src`.
    ///   - isShielded: True if the receiver may be added and removed while packets arrive.
    init(number: Int, prefix: String, isShielded: Bool, rtpbin: Element, bin: Bin) {
        (self.number, self.rtpbin, self.bin) = (number, rtpbin, bin)
        rtpOut = Pad(name: "\(prefix)rtp_out", direction: .sink)
        rtcpOut = Pad(name: "\(prefix)rtcp_out", direction: .sink)
        rtpIn = Pad(name: "\(prefix)rtp_in", direction: .source)
        rtcpIn = Pad(name: "\(prefix)rtcp_in", direction: .source)
        sendPad = GhostPad(name: "\(prefix)rtp_sink", direction: .sink)
        receivePad = GhostPad(name: "\(prefix)rtp_src", direction: .source)
        shield = isShielded ? ErrorIsolator(gate: gate) : nil
        bin.add(sendPad)
        bin.add(receivePad)
    }

    /// Called when rtpbin has a pad for a new remote stream. With a shield it replaces the previous stream; otherwise
    /// `show` selects the stream to forward.
    func receive(from pad: Pad, ssrc: UInt32?) {
        guard let shield else {
            if let ssrc { receive(from: pad, oneOf: ssrc) }
            return
        }
        shield.shut()
        try? shield.open(to: pad)
    }

    private func receive(from pad: Pad, oneOf ssrc: UInt32) {
        let isolator = ErrorIsolator(gate: gate)
        try? isolator.open(to: pad)
        let isolators = streams.withLock(\.isolators)
        // A predecessor with the same SSRC counts as ended too.
        let ended = isolators.filter { $0.key == ssrc || !$0.value.isOpen }.keys
        streams.withLock { streams in
            for old in ended { streams.isolators[old] = nil }
            streams.isolators[ssrc] = isolator
        }
        _ = linkShown()
    }

    /// Links without holding the lock. Two threads may do so at a time; each checks again afterwards, so the last link
    /// is right.
    private func linkShown() -> ErrorIsolator? {
        var linked: ErrorIsolator?
        while let isolator = streams.withLock({ streams in streams.shown.flatMap { streams.isolators[$0] } }),
            isolator !== linked
        {
            receivePad.setTarget(isolator.inside)
            linked = isolator
        }
        return linked
    }

    /// Forwards this remote stream from now on and requests a keyframe for it. Network thread.
    func select(_ ssrc: UInt32) {
        flush()
        let isKnown = streams.withLock { streams in
            streams.shown = ssrc
            return streams.isolators[ssrc] != nil
        }
        if isKnown { linkShown()?.push(upstream: Event.forceKeyUnitUpstream()) }
    }

    /// Sets up the session. `onRTP` and `onRTCP` get unprotected packets on streaming threads.
    func configure(
        _ parameters: RTPSessionParameters, onRTP: @escaping RTPOutput,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        let isFirst = life.withLock { life in
            guard life == .new else { return false }
            life = .configuring
            return true
        }
        guard isFirst else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        defer {
            // `dismantle` may have been called on another thread meanwhile; it then left the teardown to this one.
            let isOver = life.withLock { life in
                guard life == .configuring else { return true }
                life = .configured
                return false
            }
            if isOver { takeApart() }
        }
        self.parameters.withLock { $0 = parameters }
        let send = { (buffers: [Buffer]) in
            onRTP { send in
                for buffer in buffers { _ = buffer.withBytes { send($0, buffer.isDeltaUnit) } }
            }
            return FlowReturn.ok
        }
        rtpOut.setChainFunction { send([$0]) }
        rtpOut.setChainListFunction(send)
        rtcpOut.setChainFunction { buffer in
            _ = buffer.withBytes(onRTCP)
            return .ok
        }
        // rtpsession sends no sender report before it gets a latency event. A sink element would send one, so the bare
        // pad must.
        rtpOut.setEventFunction { [own = rtpOut.unowned] event in
            if event.kind == .segment { own.push(Event.latency(0)) }
            return .handled(true)
        }
        rtcpOut.setEventFunction { _ in .handled(true) }
        for pad in [rtpOut, rtcpOut, rtpIn, rtcpIn] { pad.setActive(true) }

        let sendSink = try request("send_rtp_sink_\(number)")
        guard let sendSource = rtpbin.staticPad("send_rtp_src_\(number)") else {
            throw GStreamerError(.linkFailed, "rtpbin gave no pad to send from")
        }
        // If the session sent a report before any media, it would choose an SSRC of its own and impose it on the
        // payloader.
        withMade { $0.set("internal-ssrc", Int(parameters.ssrc)) }
        sendSink.addGate { [weak self] in self?.isSending.load(ordering: .relaxed) ?? false }
        try sendSource.link(rtpOut)
        try request("send_rtcp_src_\(number)").link(rtcpOut)
        try rtpIn.link(request("recv_rtp_sink_\(number)"))
        try rtcpIn.link(request("recv_rtcp_sink_\(number)"))
        sendPad.setTarget(sendSink)
        if let shield { receivePad.setTarget(shield.inside) }
        configured.store(true, ordering: .releasing)
        if stopped.load(ordering: .acquiring) { stop() }
    }

    private func request(_ name: String) throws(GStreamerError) -> Pad {
        guard let pad = rtpbin.requestPad(name) else { throw GStreamerError(.linkFailed, "rtpbin refused pad \(name)") }
        requested.append(pad)
        return pad
    }

    var isConfigured: Bool { configured.load(ordering: .acquiring) }
    /// Lends rtpbin's internal session; nil before `configure` has finished.
    @discardableResult
    func withInternals<R>(_ body: (GObject) -> R) -> R? { isConfigured ? withMade(body) : nil }

    /// nil before the first of its pads exists. The element around the internal session is retained meanwhile: setting
    /// `rtcp-min-interval` calls it back, and the internal session holds no reference to it. Without that, a teardown on
    /// another thread frees the lock that the callback takes, and the setter never returns.
    @discardableResult
    private func withMade<R>(_ body: (GObject) -> R) -> R? {
        guard let owner = rtpbin.emit("get-session", [GValueBox(uint: number)])?.object,
            let internals = rtpbin.emit("get-internal-session", [GValueBox(uint: number)])?.object
        else { return nil }
        return withExtendedLifetime(owner) { body(internals) }
    }

    func caps(of payloadType: Int) -> Caps? { parameters.withLock { $0?.caps[payloadType] } }
    var retransmission: RTPSessionParameters.Retransmission? { parameters.withLock { $0?.retransmission } }

    /// Lets packets at `sendPad` pass, or drops them before the session counts them. Returns true if this is a change.
    func setSending(_ sends: Bool) -> Bool { isSending.exchange(sends, ordering: .relaxed) != sends }

    /// Requests a keyframe from the local encoder.
    func requestKeyFrameFromEncoder() { rtpOut.push(Event.forceKeyUnitUpstream()) }

    // MARK: Network thread

    /// Takes a decrypted packet of the remote peer; `flush` pushes it.
    func received(rtp packet: UnsafeRawBufferPointer) {
        if let buffer = makeBuffer(packet) { waiting.append(buffer) }
    }
    func received(rtcp packet: UnsafeRawBufferPointer) {
        flush()
        if let buffer = makeBuffer(packet) { _ = rtcpIn.push(buffer) }
    }

    func flush() {
        guard !waiting.isEmpty else { return }
        let push = { [self] in for buffer in waiting { _ = rtpIn.push(buffer) } }
        if waiting.count > 1 { gate.hold(push) } else { push() }
        waiting.removeAll(keepingCapacity: true)
    }

    private func makeBuffer(_ packet: UnsafeRawBufferPointer) -> Buffer? {
        guard configured.load(ordering: .acquiring), let now = bin.currentRunningTime else { return nil }
        announce()
        let buffer = Buffer(copying: packet)
        buffer.pts = now
        buffer.dts = now
        return buffer
    }

    private func announce() {
        guard !announced else { return }
        announced = true
        for (pad, caps) in [(rtpIn, "application/x-rtp"), (rtcpIn, "application/x-rtcp")] {
            pad.push(Event.streamStart(id: "gst-decart/\(caps)/\(number)", groupID: Event.nextGroupID()))
            if let caps = try? Caps(caps) { pad.push(Event.caps(caps)) }
            pad.push(Event.timeSegment())
        }
    }

    // MARK: End

    /// Stops packets in both directions. The owner then sets the bin to NULL.
    func stop() {
        stopped.store(true, ordering: .releasing)
        configured.store(false, ordering: .releasing)
        for pad in [rtpIn, rtcpIn, rtpOut, rtcpOut] { pad.setActive(false) }
        shield?.close()
        for isolator in streams.withLock({ Array($0.isolators.values) }) { isolator.close() }
    }

    /// Call after the bin has reached NULL. Breaks the references between rtpbin and the bare pads.
    func dismantle() {
        let isMine = life.withLock { life in
            defer { life = .dismantled }
            return life == .configured
        }
        if isMine { takeApart() }
    }

    private func takeApart() {
        sendPad.setTarget(nil)
        receivePad.setTarget(nil)
        shield?.shut()
        let isolators = streams.withLock { streams in
            defer { streams.isolators.removeAll() }
            return Array(streams.isolators.values)
        }
        for isolator in isolators { isolator.shut() }
        for pad in requested {
            if let peer = pad.peer { pad.name.contains("sink") ? peer.unlink(pad) : pad.unlink(peer) }
            rtpbin.releaseRequestPad(pad)
        }
        requested.removeAll()
    }
}
