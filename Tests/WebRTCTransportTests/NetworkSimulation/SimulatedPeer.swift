import RTP
import TestSupport
import WebRTCTransport

/// One end of a call in the simulation: it drives the values of `RTPSession`, `PacedSender` and `RTPSender` on virtual time.
final class SimulatedPeer {
    private static let rtxType = 97
    /// SRTP's authentication tag.
    private static let protection = 16
    private let parameters: RTPSessionParameters
    private var inbound: InboundRTP
    private var outbound = OutboundRTP()
    private var pacer: SendPacer
    private let writer: HeaderExtensionWriter
    private let rateControl: SendRateControl
    /// nil: this peer only receives.
    private(set) var encoder: SimulatedEncoder?
    private(set) var decoder: SimulatedDecoder
    private var random: SeededGenerator
    private var ssrc: UInt32?
    private var nextTick = Duration.zero
    private var keyframes: [Duration] = []
    /// The pacer's next packet may leave then.
    private var nextPacket: Duration?
    /// What a depayloader gets when its frame is over.
    private var delivery: [(packet: any PacketStorage, time: Duration)] = []
    private(set) var targets: [Int] = []
    private(set) var bytesReceived = 0

    init(encoder: SimulatedEncoder?, range: ClosedRange<Int>, start: Int, seed: UInt64) {
        var parameters = RTPSessionParameters(
            clockRate: 90_000, ssrc: encoder == nil ? 0x5678_0001 : SimulatedEncoder.ssrc, cname: "simulation")
        parameters.caps = [Int(SimulatedEncoder.payloadType): ""]
        parameters.rtxTypes = [Self.rtxType: Int(SimulatedEncoder.payloadType)]
        parameters.retransmission = (Self.rtxType, [SimulatedEncoder.ssrc: SimulatedEncoder.ssrc + 1])
        parameters.transportWideCC = 3
        self.parameters = parameters
        inbound = InboundRTP(.video, storage: SimulatedPacket.self)
        inbound.configure(parameters)
        inbound.startReports(now: .zero)
        outbound.configure(parameters)
        pacer = SendPacer(bitrate: start)
        writer = HeaderExtensionWriter(
            ids: HeaderExtensionIDs(extmap: ["3 \(HeaderExtensionIDs.transportWideCCURI)"]), mid: "")
        rateControl = SendRateControl(range: range, start: start, ssrc: parameters.ssrc)
        self.encoder = encoder
        decoder = SimulatedDecoder()
        random = SeededGenerator(seed: seed)
    }

    var statistics: (received: RTPSessionStatistics, sent: RTPSessionStatistics) {
        (inbound.statistics, outbound.statistics)
    }

    var nextWake: Duration {
        var next = min(nextTick, encoder?.nextFrame ?? nextTick)
        if let wake = inbound.nextWake { next = min(next, wake) }
        if let keyframe = keyframes.first { next = min(next, keyframe) }
        if let nextPacket { next = min(next, nextPacket) }
        return next
    }

    /// Of the encoder, bit/s.
    var target: Int { rateControl.target.target }

    // MARK: Time

    func wake(at now: Duration, _ send: ([UInt8]) -> Void) {
        if nextTick <= now { tick(now) }
        if let first = keyframes.first, first <= now {
            keyframes.removeFirst()
            makeKeyframe(hasWaited: true, now)
        }
        encode(now, send)
        while let packet = pacer.next(now: now) { transmit(packet, now, send) }
        inbound.wake(
            at: now, senders: { outbound.reports(running: now.nanoseconds, ntp: now.ntp, clockRate: 90_000) },
            using: &random
        ) { perform($0, now, send) }
        flush(now, send)
    }

    private func tick(_ now: Duration) {
        nextTick = now + .milliseconds(250)
        follow(rateControl.tick(now: now), now)
        targets.append(rateControl.target.target)
        outbound.pace(roundTrip: rateControl.roundTrip, bitrate: rateControl.target.target)
        if let roundTrip = rateControl.roundTrip { inbound.pace(roundTrip: roundTrip) }
    }

    private func follow(_ target: BitrateTarget?, _ now: Duration) {
        if let target { pacer.pace(bitrate: target.target, now: now) }
    }

    // MARK: Sending

    private func encode(_ now: Duration, _ send: ([UInt8]) -> Void) {
        guard let due = encoder?.nextFrame, due <= now else { return }
        encoder?.encode(at: now, bitrate: rateControl.target.target) { packet, isDelta in
            var retired: [any PacketStorage] = []
            packet.withUnsafeBytes { bytes in
                outbound.sent(
                    SimulatedPacket(copying: bytes), bytes, running: now.nanoseconds, now: now, using: &random,
                    retired: &retired)
            }
            offer(packet, isDelta ? .media : .keyframe, now, send)
        }
    }

    private func offer(_ packet: [UInt8], _ kind: SendPacer.Kind, _ now: Duration, _ send: ([UInt8]) -> Void) {
        if packet.withUnsafeBytes({ pacer.offer($0, kind, now: now) }) { transmit(packet, now, send) }
    }

    private func transmit(_ packet: [UInt8], _ now: Duration, _ send: ([UInt8]) -> Void) {
        packet.withUnsafeBytes { bytes in
            guard let (buffer, length) = writer.write(bytes, sendTime: now, reserve: Self.protection) else { return }
            rateControl.willSend(
                rtp: length, sequence: writer.transportSequence,
                Int(bytes[1] & 0x7f) == Self.rtxType ? .retransmission : .media, now: now)
            send(Array(buffer[..<length]))
        }
    }

    // MARK: Receiving

    func receive(_ datagram: [UInt8], at now: Duration, _ send: ([UInt8]) -> Void) {
        if (192...223).contains(datagram[1]) {
            receive(datagram.withUnsafeBytes { RTCPCompound(parsing: $0) }, now, send)
        } else {
            receive(rtp: datagram, now, send)
        }
        flush(now, send)
    }

    private func receive(_ compound: RTCPCompound, _ now: Duration, _ send: ([UInt8]) -> Void) {
        follow(rateControl.received(compound, now: now), now)
        _ = inbound.received(compound, now: now)
        for (ssrc, sequences) in compound.nacks where outbound.nacked(ssrc) {
            for sequence in sequences {
                guard let packet = outbound.retransmission(of: sequence, ssrc: ssrc, now: now) else { continue }
                offer(packet, .retransmission, now, send)
            }
        }
        for ssrc in compound.keyframeRequests where outbound.keyframeRequested(ssrc) {
            makeKeyframe(hasWaited: false, now)
        }
    }

    private func makeKeyframe(hasWaited: Bool, _ now: Duration) {
        switch outbound.paceKeyframe(SimulatedEncoder.ssrc, hasWaited: hasWaited, now: now) {
        case .now: encoder?.wantsKeyframe = true
        case .after(let wait): keyframes.append(now + wait)
        case .waits: break
        }
    }

    private func receive(rtp datagram: [UInt8], _ now: Duration, _ send: ([UInt8]) -> Void) {
        bytesReceived += datagram.count
        let isRetransmission = Int(datagram[1] & 0x7f) == Self.rtxType
        datagram.withUnsafeBytes { bytes in
            if ssrc == nil, !isRetransmission {
                ssrc = SimulatedEncoder.ssrc
                inbound.select(SimulatedEncoder.ssrc, now: now) { perform($0, now, send) }
            }
            inbound.received(
                rtp: bytes, activeType: Int(SimulatedEncoder.payloadType), now: now, running: { now.nanoseconds }
            ) { perform($0, now, send) }
        }
    }

    private func perform(_ action: InboundAction, _ now: Duration, _ send: ([UInt8]) -> Void) {
        switch action {
        case .packet(let packet, let time, _): delivery.append((packet, .nanoseconds(Int64(time))))
        case .source, .lost: break
        case .rtcp(let compound):
            compound.withUnsafeBytes { rateControl.willSend(rtcp: $0, now: now) }
            send(compound)
        }
    }

    private func flush(_ now: Duration, _ send: ([UInt8]) -> Void) {
        // A timer of the network thread has a resolution of 1 µs.
        nextPacket = pacer.wait(now: now).map { now + $0 + .microseconds(1) }
        guard inbound.flush() else { return }
        var needsKeyframe = false
        for (packet, time) in delivery {
            needsKeyframe = decoder.receive(packet, time: time, at: now) || needsKeyframe
        }
        delivery.removeAll(keepingCapacity: true)
        if needsKeyframe { inbound.requestKeyframe(now: now) { perform($0, now, send) } }
    }
}

extension Duration {
    /// Running time, ns.
    var nanoseconds: Int64 { Int64(self / .nanoseconds(1)) }
    /// As NTP time: virtual time begins in 1900.
    var ntp: UInt64 { UInt64(self / .seconds(1) * 4_294_967_296) }
}
