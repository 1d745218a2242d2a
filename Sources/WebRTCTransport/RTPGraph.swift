// rtpbin and the four bare pads around it: the boundary between packets and the pipeline. It knows RTP sessions and
// payload types; it must not know ICE, DTLS or SDP. One RTP session serves the whole bundle (RFC 8843 7.1).
import GStreamerKit
internal import Synchronization

/// What the negotiation fixed for the RTP session.
struct RTPSessionParameters: Sendable {
    var codec: NegotiatedCodec
    var extensions: HeaderExtensionIDs
    var ssrc: UInt32
    var retransmissionSSRC: UInt32
    var latency: Duration
}

// @unchecked: set up on one thread before packets flow, taken apart on one thread after that, as `life` sees to;
// `announced` is the network thread's.
final class RTPGraph: @unchecked Sendable {
    let bin = Bin()
    private let rtpbin: Element
    /// Outward: rtpbin's packets leave through these sink pads.
    private let rtpOut = Pad(name: "rtp_out", direction: .sink)
    private let rtcpOut = Pad(name: "rtcp_out", direction: .sink)
    /// Inward: the network thread pushes into these.
    private let rtpIn = Pad(name: "rtp_in", direction: .source)
    private let rtcpIn = Pad(name: "rtcp_in", direction: .source)
    private let sendPad = GhostPad(name: "rtp_sink", direction: .sink)
    private let receivePad = GhostPad(name: "rtp_src", direction: .source)
    private var announced = false
    private var requested: [Pad] = []
    private var handlers: [SignalHandler] = []
    private let configured = Atomic(false)
    private enum Life { case new, configuring, configured, dismantled }
    private let life = Mutex(Life.new)
    private let stopped = Atomic(false)
    /// And the time after which it asks again, ms.
    private let jitterBuffer = Mutex<(element: GObject, retry: Int64)?>(nil)

    init() throws(GStreamerError) {
        rtpbin = try Element(factory: "rtpbin")
        // Feedback at once (RFC 4585): NACK and PLI would otherwise wait for the regular report.
        rtpbin.set("rtp-profile", "avpf")
        rtpbin.set("do-retransmission", true)
        rtpbin.set("autoremove", true)
        bin.add(rtpbin)
        bin.add(sendPad)
        bin.add(receivePad)
        bin.suppressSourceAndSinkFlags()
    }

    /// Makes the session. `onRTP`/`onRTCP` get plain packets on streaming threads.
    func configure(
        _ parameters: RTPSessionParameters, onRTP: @escaping (UnsafeRawBufferPointer) -> Void,
        onRTCP: @escaping (UnsafeRawBufferPointer) -> Void
    ) throws(GStreamerError) {
        let isFirst = life.withLock { life in
            guard life == .new else { return false }
            life = .configuring
            return true
        }
        guard isFirst else { throw GStreamerError(.stateChange, "the RTP session was set up or taken down before") }
        defer {
            // The end may have come from another thread meanwhile: then taking apart was left to this one.
            let isOver = life.withLock { life in
                guard life == .configuring else { return true }
                life = .configured
                return false
            }
            if isOver { takeApart() }
        }
        let milliseconds = parameters.latency.clockTime / 1_000_000
        rtpbin.set("latency", String(milliseconds))
        connectSignals(parameters)

        rtpOut.setChainFunction { buffer in
            _ = buffer.withBytes(onRTP)
            return .ok
        }
        rtcpOut.setChainFunction { buffer in
            _ = buffer.withBytes(onRTCP)
            return .ok
        }
        // Without a latency event no sender report is ever sent: a real sink would send one, bare pads must.
        rtpOut.setEventFunction { [own = rtpOut.unowned] event in
            if event.kind == .segment { own.push(Event.latency(0)) }
            return .handled(true)
        }
        rtcpOut.setEventFunction { _ in .handled(true) }
        for pad in [rtpOut, rtcpOut, rtpIn, rtcpIn] { pad.setActive(true) }

        let sendSink = try request("send_rtp_sink_0")
        guard let sendSource = rtpbin.staticPad("send_rtp_src_0") else {
            throw GStreamerError(.linkFailed, "rtpbin gave no pad to send from")
        }
        try sendSource.link(rtpOut)
        try request("send_rtcp_src_0").link(rtcpOut)
        try rtpIn.link(request("recv_rtp_sink_0"))
        try rtcpIn.link(request("recv_rtcp_sink_0"))
        sendPad.setTarget(sendSink)
        tuneSession()
        configured.store(true, ordering: .releasing)
        if stopped.load(ordering: .acquiring) { stop() }
    }

    private func request(_ name: String) throws(GStreamerError) -> Pad {
        guard let pad = rtpbin.requestPad(name) else { throw GStreamerError(.linkFailed, "rtpbin refused pad \(name)") }
        requested.append(pad)
        return pad
    }

    /// Early feedback is limited by the RTCP share of the session's bandwidth: at the default the first PLI waited 0.5 s.
    private func tuneSession() {
        guard let session = rtpbin.emit("get-internal-session", [GValueBox(uint: 0)])?.object else { return }
        session.set("bandwidth", "2000000")
        session.set("rtcp-min-interval", "100000000")
        session.set("rtp-profile", "avpf")
        // By default each frame is answered with a report of its own, which takes a compound packet along: 60 RTCP
        // packets a second cost a fifth of the transport's CPU. Senders expect 50-250 ms.
        session.set("twcc-feedback-interval", "100000000")
    }

    private func connectSignals(_ parameters: RTPSessionParameters) {
        let codec = parameters.codec
        let caps = Self.caps(parameters)
        handlers.append(
            rtpbin.connect("request-pt-map") { arguments in
                guard arguments.count == 2, let type = arguments[1].int, let found = caps[type] else { return nil }
                return GValueBox(caps: found)
            })
        handlers.append(
            rtpbin.connect("new-jitterbuffer") { [weak self] arguments in
                guard let buffer = arguments.first?.object else { return nil }
                // Otherwise the first packets, a key frame, wait for the whole latency.
                buffer.set("faststart-min-packets", 1)
                // Ask again for what is missing, not for what has not been sent yet: frames come in bursts.
                buffer.set("rtx-next-seqnum", false)
                self?.jitterBuffer.withLock { $0 = (buffer, -1) }
                return nil
            })
        if let retransmission = codec.retransmissionPayloadType {
            let types = Structure("application/x-rtp-pt-map")
            types[String(codec.payloadType)] = GValueBox(uint: retransmission)
            let sources = Structure("application/x-rtp-ssrc-map")
            sources[String(parameters.ssrc)] = GValueBox(uint: Int(parameters.retransmissionSSRC))
            handlers.append(
                rtpbin.connect("request-aux-sender") { _ in
                    Self.auxiliary("rtprtxsend", types: types, sources: sources).map(GValueBox.init(object:))
                })
            handlers.append(
                rtpbin.connect("request-aux-receiver") { _ in
                    Self.auxiliary("rtprtxreceive", types: types, sources: nil).map(GValueBox.init(object:))
                })
        }
        handlers.append(
            rtpbin.connect("pad-added") { [weak receivePad] arguments in
                // A new SSRC, say after the far side restarted its encoder, replaces the old one.
                if let pad = arguments.first?.pad, pad.name.hasPrefix("recv_rtp_src_") { receivePad?.setTarget(pad) }
                return nil
            })
    }

    /// RFC 4588 packets are made and resolved by a bin that rtpbin puts around its session.
    private static func auxiliary(_ factory: String, types: Structure, sources: Structure?) -> Bin? {
        guard let element = try? Element(factory: factory), let sink = element.staticPad("sink"),
            let source = element.staticPad("src")
        else { return nil }
        element.set("payload-type-map", structure: types)
        if let sources { element.set("ssrc-map", structure: sources) }
        // One second is asked for again at most: a packet older than that comes too late for any jitter buffer.
        element.set("max-size-packets", 512)
        element.set("max-size-time", 1000)
        let bin = Bin()
        bin.add(element)
        guard let sinkGhost = try? GhostPad(name: "sink_0", target: sink),
            let sourceGhost = try? GhostPad(name: "src_0", target: source)
        else { return nil }
        bin.add(sinkGhost)
        bin.add(sourceGhost)
        return bin
    }

    /// Caps by payload type. Only `nack pli` is named: with `ccm fir` in them rtpsession would send FIR in place of PLI.
    private static func caps(_ parameters: RTPSessionParameters) -> [Int: Caps] {
        let codec = parameters.codec
        var text = "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(codec.payloadType), "
        text += "encoding-name=(string)\(codec.codec.encodingName), rtcp-fb-nack=(boolean)true, rtcp-fb-nack-pli=(boolean)true"
        if codec.usesTransportCC, let id = parameters.extensions.transportWideCC {
            text += ", rtcp-fb-transport-cc=(boolean)true, extmap-\(id)=(string)\"\(HeaderExtensionIDs.transportWideCCURI)\""
        }
        if codec.codec == .h264 { text += ", packetization-mode=(string)1" }
        var result: [Int: Caps] = [:]
        result[codec.payloadType] = try? Caps(text)
        if let retransmission = codec.retransmissionPayloadType {
            result[retransmission] = try? Caps(
                "application/x-rtp, media=(string)video, clock-rate=(int)90000, payload=(int)\(retransmission), "
                    + "encoding-name=(string)RTX, apt=(string)\(codec.payloadType)")
        }
        return result
    }

    // MARK: Network thread

    /// A decrypted packet from the far side.
    func received(rtp packet: UnsafeRawBufferPointer) { push(packet, into: rtpIn) }
    func received(rtcp packet: UnsafeRawBufferPointer) { push(packet, into: rtcpIn) }

    private func push(_ packet: UnsafeRawBufferPointer, into pad: Pad) {
        guard configured.load(ordering: .acquiring), let now = bin.currentRunningTime else { return }
        announce()
        let buffer = Buffer(copying: packet)
        buffer.pts = now
        buffer.dts = now
        _ = pad.push(buffer)
    }

    private func announce() {
        guard !announced else { return }
        announced = true
        for (pad, caps) in [(rtpIn, "application/x-rtp"), (rtcpIn, "application/x-rtcp")] {
            pad.push(Event.streamStart(id: "gst-decart/\(caps)", groupID: Event.nextGroupID()))
            if let caps = try? Caps(caps) { pad.push(Event.caps(caps)) }
            pad.push(Event.timeSegment())
        }
    }

    /// A packet is asked for again when its retransmission should have come. Left alone the jitter buffer adds twice the
    /// jitter, in which a far side that sends frames in bursts counts too: two requests were all that 1 s had room for.
    func paceRetransmission(roundTrip: Duration) {
        let milliseconds = Int64(clamping: roundTrip.clockTime / 1_000_000)
        let retry = min(max(milliseconds &+ max(milliseconds / 4, 10), 20), 2000)
        jitterBuffer.withLock { current in
            guard let (buffer, last) = current, abs(retry &- last) > max(last / 8, 0) else { return }
            buffer.set("rtx-retry-timeout", Int(retry))
            current?.retry = retry
        }
    }

    /// Asks our own encoder for a key frame.
    func requestKeyFrameFromEncoder() { rtpOut.push(Event.forceKeyUnitUpstream()) }

    /// The sessions' own structures, for statistics; nil before the session exists.
    func sessionStatistics() -> Structure? {
        guard configured.load(ordering: .acquiring) else { return nil }
        return rtpbin.emit("get-internal-session", [GValueBox(uint: 0)])?.object?.structure("stats")
    }

    /// Stops packets both ways; the owner then takes the bin to NULL.
    func stop() {
        stopped.store(true, ordering: .releasing)
        configured.store(false, ordering: .releasing)
        for pad in [rtpIn, rtcpIn, rtpOut, rtcpOut] { pad.setActive(false) }
    }

    /// After the bin reached NULL: breaks the references between rtpbin and the bare pads.
    func dismantle() {
        let isMine = life.withLock { life in
            defer { life = .dismantled }
            return life == .configured
        }
        if isMine { takeApart() }
    }

    private func takeApart() {
        for handler in handlers { rtpbin.disconnect(handler) }
        handlers.removeAll()
        jitterBuffer.withLock { $0 = nil }
        sendPad.setTarget(nil)
        receivePad.setTarget(nil)
        for pad in requested {
            if let peer = pad.peer { pad.name.contains("sink") ? peer.unlink(pad) : pad.unlink(peer) }
            rtpbin.releaseRequestPad(pad)
        }
        requested.removeAll()
    }
}
