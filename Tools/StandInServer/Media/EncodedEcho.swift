// Returns encoded frames as they came: nothing is decoded. For clients whose frames must come back bit by bit.
import GStreamerKit
import Synchronization
import WebRTCTransport

/// Frames pass two pads that belong to no element, as those of `PaintingBin` do.
struct EncodedEcho {
    private let bin: Bin
    private let end: Pad
    /// Drops frames until `send`; passes keyframe requests to the client.
    let echoed: Pad

    /// The echo takes each profile, whatever is installed, because nothing is decoded.
    static func prepare(_ configuration: inout PeerConnectionConfiguration) {
        (configuration.usableCodecs, configuration.h264) = ([.h264, .vp8, .vp9], .any)
    }

    init(_ codec: VideoCodec, painter: FramePainter, faults: MediaFaults) throws {
        bin = try EncodedVideoBin.makeReceiver(codec)
        let end = Pad(name: "echo", direction: .sink)
        let echoed = Pad(name: "echoed", direction: .source)
        // The caps of the frames, and the delta frames dropped since a pause ended; nil: a keyframe has come since then.
        let state = Mutex<(caps: Caps?, droppedDeltas: Int?)>((nil, nil))
        end.setEventFunction { event in
            if let caps = event.caps { state.withLock { $0.caps = caps } }
            if [.streamStart, .caps, .segment].contains(event.kind) { echoed.push(event) }
            return .handled(true)
        }
        end.setChainFunction { [end = end.unowned] frame in
            let isPaused = painter.isPaused
            let (caps, dropped) = state.withLock { state in
                let dropped = isPaused ? 0 : frame.isDeltaUnit ? state.droppedDeltas : nil
                state.droppedDeltas = isPaused ? 0 : dropped.map { $0 + 1 }
                return (state.caps, dropped)
            }
            // A keyframe that came before the message which ends the pause was dropped. LiveKit's server, too, forwards from
            // the next keyframe on.
            if let dropped {
                if !isPaused, dropped % 15 == 0 { end.push(Event.forceKeyUnitUpstream()) }
                return .ok
            }
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
