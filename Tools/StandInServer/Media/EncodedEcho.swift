// Returns encoded frames as they came: nothing is decoded. For clients whose frames must come back bit by bit.
import GStreamerKit
import WebRTCTransport

/// Frames pass two pads that belong to no element, as those of `PaintingBin` do.
struct EncodedEcho {
    private let bin: Bin
    private let end: Pad
    /// Drops frames until `send`; passes keyframe requests to the client.
    let echoed: Pad

    /// The echo takes each profile, whatever is installed, because nothing is decoded.
    static func prepare(_ configuration: inout PeerConnectionConfiguration) {
        (configuration.usableCodecs, configuration.h264) = ([.h264, .vp8], .any)
    }

    init(_ codec: VideoCodec, painter: FramePainter, faults: MediaFaults) throws {
        bin = try EncodedVideoBin.makeReceiver(codec)
        let end = Pad(name: "echo", direction: .sink)
        let echoed = Pad(name: "echoed", direction: .source)
        // Used only by the one streaming thread that pushes into this pad.
        var caps: Caps?
        // Delta frames dropped since a pause ended; nil: a keyframe has come since then.
        var droppedDeltas: Int?
        end.setEventFunction { event in
            caps = event.caps ?? caps
            if [.streamStart, .caps, .segment].contains(event.kind) { echoed.push(event) }
            return .handled(true)
        }
        end.setChainFunction { [end = end.unowned] frame in
            if painter.isPaused {
                droppedDeltas = 0
                return .ok
            }
            // A keyframe that came before the message which ends the pause was dropped. LiveKit's server, too, forwards from
            // the next keyframe on.
            if let dropped = droppedDeltas, frame.isDeltaUnit {
                if dropped % 15 == 0 { end.push(Event.forceKeyUnitUpstream()) }
                droppedDeltas = dropped + 1
                return .ok
            }
            droppedDeltas = nil
            faults.frameArrived()
            painter.pass()
            if !faults.isOn(.silent) {
                painter.noteSent()
                if let caps {
                    painter.viewers.show(frame, caps)
                    painter.viewers.input?.show(frame, caps)
                }
                _ = echoed.pushIfLinked(frame)
            }
            return .ok
        }
        echoed.setEventFunction { [end = end.unowned] event in
            // A new event: that of the sending RTP session has its SSRC.
            .handled(event.isForceKeyUnit && end.push(Event.forceKeyUnitUpstream()))
        }
        (self.end, self.echoed) = (end, echoed)
        let source = Viewers.EncodedSource(codec: codec) { [weak end] in
            end?.push(Event.forceKeyUnitUpstream())
        }
        painter.viewers.encoded = source
        painter.viewers.input?.encoded = source
        painter.measure { $0.codec = codec.encodingName }
    }

    func receive(from connection: PeerConnection, _ media: PipelineMedia) throws {
        [end, echoed].forEach(media.own)
        media.pipeline.add([bin])
        try bin.pad("src").link(end)
        try connection.bin.link("rtp_src", to: bin, "sink")
        bin.syncStateWithParent()
    }
}
