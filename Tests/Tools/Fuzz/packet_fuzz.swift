// libFuzzer entry point for packets after SRTP: RTCP compounds with feedback, RTP header extensions in both directions,
// frame headers, trailers of frames, and Opus packets. The first byte selects the parser, so that one corpus serves all of them.
import DecartProtocol
import GStreamerKit
import MediaPipeline
import WebRTCTransport

private func packet(_ bytes: UnsafeRawBufferPointer, _ demuxer: inout BundleDemuxer) {
    var selector = SimulcastSelector(rids: ["f", "h", "q"], ridExtension: 1)
    if bytes.count >= 12 {
        _ = demuxer.kind(ofRTP: bytes)
        precondition(demuxer.knownSources <= BundleDemuxer.maximumSources)
        _ = selector.receive(rtp: bytes, now: .zero)
        _ = selector.packets
    }
    for id: UInt8 in 1...14 { _ = TransportSequence.number(in: bytes, id: id) }
    var ids = HeaderExtensionIDs()
    (ids.mid, ids.absoluteSendTime, ids.transportWideCC) = (1, 2, 3)
    let writer = HeaderExtensionWriter(ids: ids, mid: "0123456789abcdef")
    if let (buffer, length) = writer.write(bytes, sendTime: .max, reserve: 20) {
        // Padding between extensions may be removed, but not the payload.
        precondition(length >= 12 && length + 20 <= buffer.count)
    }
}

private func compound(_ bytes: UnsafeRawBufferPointer, _ demuxer: BundleDemuxer) {
    if let bitrate = RTCPFeedback.remoteBitrateEstimate(in: bytes) { precondition(bitrate >= 0) }
    _ = ReceptionReport.parse(compound: bytes)
    for kind in MediaKind.allCases { precondition(demuxer.rtcp(bytes, for: kind).count <= bytes.count) }
    var history = SentPacketHistory()
    for sequence: UInt16 in 0..<64 { history.record(sequence: sequence, size: 1200, now: Int64(sequence) * 1000) }
    var (resolver, controller) = (FeedbackAdapter(), CongestionController(range: 100_000...2_000_000, start: 1_000_000))
    var statuses = 0
    for feedback in TransportFeedback.parse(compound: bytes) {
        statuses += feedback.packets.count
        let resolved = resolver.resolve(feedback, with: &history)
        _ = controller.feedback(resolved, totalBytes: history.totalBytes, now: 1_000_000)
    }
    precondition(statuses <= TransportFeedback.maximumPackets)
    precondition((100_000...2_000_000).contains(controller.target.target))
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

private func opus(_ bytes: UnsafeRawBufferPointer) {
    guard let duration = OpusPacket.duration(bytes) else { return }
    GStreamerRuntime.initialise()
    // RFC 6716 3.2.5: 120 ms at most.
    precondition(duration >= 2_500_000 && duration <= 120_000_000)
    let silence = OpusPacket.silence(duration)
    precondition(silence.withBytes { OpusPacket.duration($0) } == duration)
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    let all = UnsafeRawBufferPointer(start: data, count: count)
    guard let first = all.first else { return 0 }
    // A copy in a separate allocation, so that AddressSanitizer sees its end.
    [UInt8](all.dropFirst()).withUnsafeBytes { bytes in
        switch first % 7 {
        case 0:
            var demuxer = BundleDemuxer()
            packet(bytes, &demuxer)
        case 1: compound(bytes, BundleDemuxer())
        case 5: trailer(bytes)
        case 6: opus(bytes)
        default:
            let codec = VideoCodec.allCases[Int(first % 7) - 2]
            var gate = FrameGate(codec: codec)
            if gate.judge(bytes) == .pass {
                precondition(codec.announcedSizes(in: bytes)?.allSatisfy(\.isAcceptable) == true)
            }
        }
    }
    return 0
}
