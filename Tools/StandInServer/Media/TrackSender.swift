// The sending of one video track: encoder and payloader, and their way into a connection, which several tracks may share.
import GStreamerKit
import RTP
import WebRTCTransport

/// Codec, payload type and SSRC with which a track is sent.
struct TrackParameters {
    var codec: OutputCodec
    var payloadType: Int
    var ssrc: UInt32

    var rtp: RTPSendParameters? {
        VideoCodec(rawValue: codec.name).map {
            RTPSendParameters(codec: $0, payloadType: payloadType, ssrc: ssrc, transportWideCCExtension: nil)
        }
    }
}

// @unchecked: used on the media's queue.
final class TrackSender: @unchecked Sendable {
    let parameters: TrackParameters
    /// Raw or encoded frames in ("sink"), RTP out ("src").
    let bin: Bin
    /// Nil: the frames are encoded already, or the bitrate is fixed.
    let encoder: VideoEncoderBin?
    /// The capsfilter that the packets leave through.
    let exit: Element
    private let funnel: Element
    private var way: Pad?
    private weak var source: Pad?

    /// - Parameter encoder: nil: `bin` takes encoded frames.
    init(
        _ parameters: TrackParameters, _ bin: Bin, encoder: VideoEncoderBin?, exit: Element, funnel: Element
    ) {
        (self.parameters, self.bin, self.encoder) = (parameters, bin, encoder)
        (self.exit, self.funnel) = (exit, funnel)
    }

    /// Calls `body` with the first frame that is sent, on its streaming thread.
    func onFirstFrame(_ body: @escaping @Sendable () -> Void) {
        // Used only by the one streaming thread that pushes into this pad.
        nonisolated(unsafe) var isFirst = true
        bin.payloader?.staticPad("sink")?.addProbe(.buffer) { _ in
            if isFirst { body() }
            isFirst = false
            return .pass
        }
    }

    /// Continues the numbers of a stream that was sent before.
    func follow(_ last: (sequence: UInt16, timestamp: UInt32)) {
        bin.payloader?.set("seqnum-offset", Int(last.sequence &+ 1))
    }

    func start(from source: Pad, in pipeline: Pipeline) throws {
        guard let way = funnel.requestPad("sink_%u") else {
            throw GStreamerError(.linkFailed, "the funnel has no pad")
        }
        self.way = way
        try exit.pad("src").link(way)
        exit.syncStateWithParent()
        bin.syncStateWithParent()
        try source.link(bin.pad("sink"))
        self.source = source
    }

    func stop(in pipeline: Pipeline) {
        if let source, let sink = bin.staticPad("sink") { source.unlink(sink) }
        pipeline.takeOut([bin, exit])
        if let way { funnel.releaseRequestPad(way) }
        (way, source) = (nil, nil)
    }
}

extension TrackParameters {
    /// Encoder and payloader of raw frames.
    func makeEncoder(bitrate: Int) throws -> (bin: Bin, encoder: VideoEncoderBin?) {
        guard codec.name != "h265", let rtp else { return (try makeH265(bitrate: bitrate), nil) }
        let made = try VideoEncoderBin(parameters: rtp, bitrate: bitrate)
        if codec.isSingleUnit {
            // Each slice fits into a packet.
            made.encoder.set("option-string", "scenecut=0:slice-max-size=\(rtp.mtu - 50)")
            made.bin.payloader?.set("aggregate-mode", "none")
        }
        return (made.bin, made)
    }

    private func makeH265(bitrate: Int) throws -> Bin {
        try Bin(
            description: """
                x265enc tune=zerolatency speed-preset=ultrafast key-int-max=2560 bitrate=\(bitrate / 1000) \
                ! rtph265pay config-interval=-1 aggregate-mode=zero-latency mtu=1150 pt=\(payloadType) ssrc=\(ssrc) \
                seqnum-offset=\(Int.random(in: 0..<32768))
                """, ghostUnlinkedPads: true)
    }
}

extension OutputCodec {
    var isEncodable: Bool {
        if name == "h265" {
            return ["x265enc", "rtph265pay"].allSatisfy(GStreamerRuntime.hasElement)
        }
        if isSingleUnit { return GStreamerRuntime.hasElement("x264enc") }
        return VideoCodec(rawValue: name).map {
            $0.installedEncoder != nil && GStreamerRuntime.hasElement($0.payloader)
        }
            ?? false
    }
}
