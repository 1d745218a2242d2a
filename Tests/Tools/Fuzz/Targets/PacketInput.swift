// Packets after SRTP: RTCP compounds with feedback, RTP header extensions in both directions, frame headers, packets of VP9
// with layers, trailers of frames, Opus packets, and packets in any order. The first byte selects the parser, so that one
// corpus serves all of them.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import RTP
import WebRTCTransport

private func packet(_ bytes: UnsafeRawBufferPointer, _ demuxer: inout BundleDemuxer) {
    if bytes.count >= 12 {
        _ = demuxer.kind(ofRTP: bytes)
        precondition(demuxer.knownSources <= BundleDemuxer.maximumSources)
    }
    for id: UInt8 in 1...14 { _ = TransportSequence.number(in: bytes, id: id) }
    var ids = HeaderExtensionIDs()
    (ids.mid, ids.absoluteSendTime, ids.transportWideCC) = (1, 2, 3)
    let writer = HeaderExtensionWriter(ids: ids, mid: "0123456789abcdef")
    if let (buffer, length) = writer.write(bytes, sendTime: .seconds(Int64.max), reserve: 20) {
        // Padding between extensions may be removed, but not the payload.
        precondition(length >= 12 && length + 20 <= buffer.count)
    }
}

private func redundant(_ bytes: UnsafeRawBufferPointer) {
    let packets = RedundantAudio.packets(in: bytes, AudioRedundancy(payloadType: 63, mediaType: 111))
    precondition(packets.count <= 17 && packets.reduce(0) { $0 + $1.packet.count - 12 } <= bytes.count)
    var writer = RedundancyWriter(payloadType: 63)
    for _ in 0..<2 {
        if let written = writer.write(bytes) { precondition(written.count <= max(1150, bytes.count + 1)) }
    }
}

private func compound(_ bytes: UnsafeRawBufferPointer) {
    let compound = RTCPCompound(parsing: bytes)
    if let bitrate = compound.remoteBitrateEstimate { precondition(bitrate >= 0) }
    precondition(compound.nacks.reduce(0) { $0 + $1.sequences.count } < RTCPCompound.maximumRequested + 17)
    var history = SentPacketHistory()
    for sequence: UInt16 in 0..<64 { history.record(sequence: sequence, size: 1200, now: Int64(sequence) * 1000) }
    var (resolver, controller) = (FeedbackAdapter(), CongestionController(range: 100_000...2_000_000, start: 1_000_000))
    var statuses = 0
    for feedback in compound.transportFeedback {
        statuses += feedback.packets.count
        let resolved = resolver.resolve(feedback, with: &history)
        _ = controller.feedback(resolved, totalBytes: history.totalBytes, now: 1_000_000)
    }
    precondition(statuses <= TransportFeedback.maximumPackets)
    precondition((100_000...2_000_000).contains(controller.target.target))
}

/// The input as sequence numbers, timestamps and pauses: the receiving side of an RTP session.
private func arrivals(_ bytes: UnsafeRawBufferPointer) {
    if bytes.count >= 12, let (restored, _) = RTPHeader.restore(bytes, payloadType: 96, ssrc: 1) {
        precondition(restored.count <= bytes.count - 2)
    }
    var buffer = JitterBuffer<UInt16>(requests: true)
    var delay = PlayoutDelay(.video)
    var statistics = ReceptionStatistics(clockRate: 90_000)
    var clock = PlayoutClock(clockRate: 90_000, largestLead: .milliseconds(100))
    var recorder = TransportFeedbackRecorder()
    var (queue, monitor) = (StandingQueue(), RoundTripMonitor())
    var now = Duration.zero
    for at in stride(from: 0, to: bytes.count - 7, by: 8) {
        let sequence = UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1])
        let timestamp = bytes[(at + 2)..<(at + 6)].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        now += .milliseconds(Int(bytes[at + 6]) << Int(bytes[at + 7] % 8))
        statistics.received(sequence: sequence, timestamp: timestamp, now: now)
        let arrival = Int64(clamping: now.clockTime)
        precondition(clock.time(of: timestamp, arrival: arrival) >= 0)
        if let time = clock.time(ofRepetition: timestamp &* 3, arrival: arrival) {
            precondition((0...arrival + 1_000_000_000).contains(time))
        }
        recorder.received(sequence, now: now)
        let oneWay = Int64(truncatingIfNeeded: UInt64(timestamp) << 32 | UInt64(sequence))
        _ = queue.update(oneWay: oneWay, roundTrip: 100_000, now: arrival / 1000)
        _ = monitor.update(oneWay, now: arrival / 1000)
        precondition((0...60_000_000).contains(queue.length))
        let kind = bytes[at + 7]
        _ = buffer.insert(
            sequence, sequence: sequence, endsFrame: kind & 8 != 0, beginsKeyframe: kind & 64 != 0,
            isRetransmission: kind & 16 != 0, now: now)
        if kind & 32 != 0 { buffer.expectNext(within: .milliseconds(kind), now: now) }
        delay.ready(after: UInt64(timestamp) << 20, now: UInt64(sequence) << 24)
        precondition(delay.current <= 2_000_000_000)
        while buffer.next(now: now) != nil {}
        precondition(buffer.requests(now: now).count <= 256)
        if bytes[at] % 16 == 0 {
            _ = statistics.report(on: 1, now: now)
            while let body = recorder.takeFeedback() { precondition(body.count <= 700 && body.count % 4 == 0) }
        }
    }
}

private func trailer(_ bytes: UnsafeRawBufferPointer) {
    guard let length = FrameTrailer.length(end: bytes.suffix(FrameTrailer.envelope), frameSize: bytes.count) else {
        return
    }
    precondition(length >= FrameTrailer.envelope && length <= bytes.count)
    let found = FrameTrailer(reading: bytes.suffix(length))
    // What can be written reads as the same again.
    if let again = found.bytes { precondition(FrameTrailer(reading: again) == found) }
}

/// The input as a VP9 payload, as one packet, and as packets of 24 bytes.
private func layers(_ bytes: UnsafeRawBufferPointer) {
    if let found = VP9PayloadDescriptor(bytes) {
        precondition(found.length < bytes.count && found.layerIndices ?? 0 < found.length)
    }
    for size in [24, bytes.count + 1] {
        var joiner = VP9LayerJoiner()
        for start in stride(from: 0, to: bytes.count, by: size) {
            let packet = UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + size, bytes.count)])
            // Only a bit changes, and a trailer may be removed.
            if let corrected = joiner.correct(packet) {
                precondition(corrected.count > RTPHeader.length(packet) && corrected.count <= packet.count)
            }
            precondition((6...34).contains(joiner.index(frameSize: start).count))
        }
    }
}

private func opus(_ bytes: UnsafeRawBufferPointer) {
    guard let duration = OpusPacket.duration(bytes) else { return }
    GStreamerRuntime.initialise()
    // RFC 6716 3.2.5: 120 ms at most.
    precondition(duration >= 2_500_000 && duration <= 120_000_000)
    let silence = OpusPacket.silence(duration)
    precondition(silence.withBytes { OpusPacket.duration($0) } == duration)
}

func packetInput(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    // A copy in a separate allocation, so that AddressSanitizer sees its end.
    [UInt8](bytes.dropFirst()).withUnsafeBytes { bytes in
        switch first % 8 {
        case 0:
            var demuxer = BundleDemuxer()
            packet(bytes, &demuxer)
            redundant(bytes)
        case 1: compound(bytes)
        case 5: trailer(bytes)
        case 6: opus(bytes)
        case 7: arrivals(bytes)
        default:
            let codec = first >= 252 ? VideoCodec.h265 : VideoCodec.allCases[Int(first % 8) - 2]
            if codec == .vp9 { layers(bytes) }
            var gate = FrameGate(codec: codec)
            if gate.judge(bytes) == .pass {
                precondition(codec.announcedSizes(in: bytes)?.allSatisfy(\.isAcceptable) == true)
            }
        }
    }
}
